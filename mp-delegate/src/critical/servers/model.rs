//! The slot server under a model checker: every operation once, in mutual exclusion, and its result
//! to whoever asked for it.

use std::cell::Cell;

use loom::thread;

use super::slot::{Client, Served, Slots};
use crate::critical::{
    model::{Model, explore},
    object::{Fate, Outcome},
    section::Backoff,
    site::{Seat, Site},
};

/// Answers `operations`, looking at all seats in turn.
fn serve(model: &Model, slots: Slots, operations: usize, seats: usize) {
    let (mut served, unfinished) = Served::take_over(slots, model).unwrap();
    assert_eq!(unfinished, None);
    let answered = Cell::new(0);
    let mut run = |seat: Seat, op: u64| {
        assert_eq!(op / 100, seat as u64, "another seat's operation");
        answered.set(answered.get() + 1);
        Outcome::done(op + model.count() as u64)
    };
    while answered.get() < operations {
        let look = || served.round(model, seats, &mut run).unwrap().then_some(());
        model.wait(seats, None, model.word(0).unwrap(), look).unwrap();
    }
}

fn ask(model: &Model, slots: Slots, me: Seat, times: u64) {
    let mut client = Client::new(slots, model, me, Backoff::None).unwrap();
    for time in 0..times {
        let op = me as u64 * 100 + time;
        let ticket = client.submit(model, &op).unwrap();
        let outcome: Outcome<u64> = client.collect(model, ticket).unwrap().unwrap();
        // Which of all it was, and so not before the one before.
        assert_eq!(outcome.fate, Fate::Done);
        assert!(outcome.ret >= op + time);
    }
}

#[test]
fn a_server_answers_one_after_another() {
    explore(3, || {
        let slots = Slots::new::<u64, u64>(0, 1, 1, false);
        let model = Model::new(slots.words(), 2);
        let server = model.clone();
        let server = thread::spawn(move || serve(&server, slots, 3, 1));
        ask(&model, slots, 0, 3);
        server.join().unwrap();
        assert_eq!(model.counted(), 3);
    });
}

#[test]
fn a_server_answers_two() {
    explore(2, || {
        let slots = Slots::new::<u64, u64>(0, 2, 1, false);
        let model = Model::new(slots.words(), 3);
        let clients = [0, 1].map(|me| {
            let model = model.clone();
            thread::spawn(move || ask(&model, slots, me, 1))
        });
        serve(&model, slots, 2, 2);
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(model.counted(), 2);
    });
}

/// More in flight than there are lines, several in a line, and results that are asked for in
/// another order.
#[test]
fn several_are_in_flight() {
    explore(2, || {
        let slots = Slots::new::<u64, u64>(0, 1, 2, false);
        let model = Model::new(slots.words(), 2);
        let server = model.clone();
        let server = thread::spawn(move || serve(&server, slots, 4, 1));
        let mut client = Client::new(slots, &model, 0, Backoff::None).unwrap();
        let tickets = [10, 20, 30, 40].map(|op: u64| client.submit(&model, &op).unwrap());
        client.flush(&model).unwrap();
        for at in [3, 0, 1, 2] {
            let outcome: Outcome<u64> = client.collect(&model, tickets[at]).unwrap().unwrap();
            assert_eq!(outcome.ret, 10 + 11 * at as u64);
        }
        server.join().unwrap();
    });
}
