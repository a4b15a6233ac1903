//! The slot server under a model checker: every operation once, in mutual exclusion, and its result
//! to whoever asked for it.

use loom::thread;

use super::slot::{Client, Served, Slots};
use crate::critical::{
    model::{Model, explore},
    object::{Fate, Outcome},
    section::Backoff,
    site::Seat,
};

/// Answers `lines` lines, looking at all seats in turn.
fn serve(model: &Model, slots: Slots, lines: usize, seats: usize) {
    let (mut served, unfinished) = Served::take_over(slots, model).unwrap();
    assert_eq!(unfinished, None);
    let mut run = |seat: Seat, op: u64| {
        assert_eq!(op / 100, seat as u64, "another seat's operation");
        model.count();
        Outcome::done(op + 1)
    };
    let mut worked = 0;
    while worked < lines {
        if served.round::<_, u64, u64>(model, seats, &mut run).unwrap() {
            worked += 1;
        } else {
            thread::yield_now();
        }
    }
}

fn ask(model: &Model, slots: Slots, me: Seat, times: u64) {
    let mut client = Client::new(slots, model, me, Backoff::None).unwrap();
    for time in 0..times {
        let op = me as u64 * 100 + time;
        let ticket = client.submit(model, &op).unwrap();
        let outcome: Outcome<u64> = client.collect(model, ticket).unwrap().unwrap();
        assert_eq!((outcome.fate, outcome.ret), (Fate::Done, op + 1));
    }
}

#[test]
fn a_server_answers_one_after_another() {
    explore(3, || {
        let slots = Slots::new::<u64, u64>(0, 1, 1, false);
        let model = Model::new(slots.words());
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
        let model = Model::new(slots.words());
        let other = model.clone();
        let other = thread::spawn(move || ask(&other, slots, 1, 1));
        let first = model.clone();
        let first = thread::spawn(move || ask(&first, slots, 0, 1));
        let (mut served, _) = Served::take_over(slots, &model).unwrap();
        let mut answered = 0;
        while answered < 2 {
            served
                .round(&model, 2, &mut |_, op: u64| {
                    model.count();
                    answered += 1;
                    Outcome::done(op + 1)
                })
                .unwrap();
            thread::yield_now();
        }
        other.join().unwrap();
        first.join().unwrap();
    });
}

/// More in flight than there are lines, several in a line, and results that are asked for in
/// another order.
#[test]
fn several_are_in_flight() {
    explore(2, || {
        let slots = Slots::new::<u64, u64>(0, 1, 2, false);
        let model = Model::new(slots.words());
        let server = model.clone();
        let server = thread::spawn(move || {
            let (mut served, _) = Served::take_over(slots, &server).unwrap();
            let answered = std::cell::Cell::new(0);
            while answered.get() < 4 {
                served
                    .round(&server, 1, &mut |_, op: u64| {
                        answered.set(answered.get() + 1);
                        Outcome::done(op + server.count() as u64)
                    })
                    .unwrap();
                thread::yield_now();
            }
        });
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
