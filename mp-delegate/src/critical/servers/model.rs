//! The slot server under a model checker: every operation is executed once, in mutual exclusion, and its result goes to
//! the seat that asked for it, whichever seat dies.

use mp_core::{Wait, memory::Word};

use super::{
    mp,
    slot::{Client, InOrder, Served, Slots},
};
use crate::critical::{
    fate::{Fate, Outcome},
    model::{Ended, Model, at_every_store, each, explore},
    section::Backoff,
    site::{Limit, Seat, Site},
    stop::Stop,
};

/// Returns a world with so many clients; the last bed is the server's.
fn world(clients: usize, slots: Slots) -> Model {
    // One more word counts the clients that have left.
    Model::new(slots.words() + 1, clients + 1)
}

fn gone(model: &Model, slots: Slots) -> &mp_core::memory::Word {
    model.word(slots.words()).unwrap()
}

/// Executes an operation; its result is its position among all operations.
fn run(model: &Model, seat: Seat, op: u64) -> Outcome<u64> {
    assert_eq!(op / 100, seat as u64, "another seat's operation");
    let before = model.counted() as u64;
    model.execute(seat, op);
    Outcome::done(op + before)
}

/// Answers until `clients` have left, looking at all seats in turn. Begins where another server ended.
fn serve(model: &Model, slots: Slots, clients: usize) -> Result<(), Stop> {
    let (mut served, unfinished) = Served::take_over(slots, model)?;
    let mut run = |seat: Seat, op: u64| run(model, seat, op);
    if let Some(unfinished) = unfinished {
        model.repair();
        // Odd ones can be executed again.
        let again = |&op: &u64| op % 2 != 0 && model.permit(op);
        served.finish(model, unfinished, again, &mut run)?;
    }
    loop {
        let more = model.wait(clients, None, model.word(0)?, || {
            match served.round(model, &InOrder, clients, &mut run) {
                Ok(false) if gone(model, slots).load() < clients as u64 => None,
                other => Some(other),
            }
        })??;
        if !more {
            return Ok(());
        }
    }
}

/// Asks for so many operations, some of them at once; then for their results, the last first.
fn ask(model: &Model, slots: Slots, me: Seat, times: u64, at_once: u64) {
    let mut client = Client::new(slots, model, me, Backoff::None).unwrap();
    for first in (0..times).step_by(at_once as usize) {
        let mut submit = |time| {
            let op = me as u64 * 100 + time;
            (time, op, client.submit(model, &op).unwrap())
        };
        let tickets: Vec<_> = (first..times.min(first + at_once)).map(&mut submit).collect();
        client.flush(model).unwrap();
        for (time, op, ticket) in tickets.into_iter().rev() {
            let outcome: Outcome<u64> = client.collect(model, ticket).unwrap().unwrap();
            match outcome.fate {
                Fate::Done => {
                    // It was executed after the operation before, which perhaps was not executed.
                    assert!(outcome.ret >= op + time.saturating_sub(2));
                    model.note(op, Ended::Done);
                }
                Fate::Unknown => {
                    assert!(op % 2 == 0, "{op} was to be executed again");
                    model.note(op, Ended::Unknown);
                }
                fate => panic!("{fate:?}"),
            }
        }
    }
}

fn leave(model: &Model, slots: Slots) {
    gone(model, slots).fetch_add(1);
    model.wake_server();
}

/// Lets clients ask so often, for some operations at once.
fn answers(clients: usize, times: u64, at_once: u64, lines: usize, preemptions: usize) {
    explore(preemptions, move || {
        let slots = Slots::new::<u64, u64>(0, clients, lines, false);
        let model = world(clients, slots);
        each(&model, clients + 1, move |me, model| {
            if me == clients {
                return serve(model, slots, clients).unwrap();
            }
            ask(model, slots, me, times, at_once);
            leave(model, slots);
        });
        model.check();
        assert_eq!(model.ended(Ended::Done), clients * times as usize);
    });
}

#[test]
fn a_server_answers_one_after_another() {
    answers(1, 3, 1, 1, 3);
}

#[test]
fn a_server_answers_two() {
    answers(2, 1, 1, 1, 2);
}

/// A streamed response arrives some time after it was written, and its client sleeps meanwhile.
#[test]
fn streamed_responses_wake_those_they_are_for() {
    explore(2, || {
        let slots = Slots::new::<u32, u32>(0, 1, 1, true);
        let model = world(1, slots);
        each(&model, 2, move |me, model| {
            if me == 0 {
                let mut client = Client::new(slots, model, me, Backoff::None).unwrap();
                for op in [1, 2] {
                    let ticket = client.submit(model, &op).unwrap();
                    client.flush(model).unwrap();
                    let outcome: Outcome<u32> = client.collect(model, ticket).unwrap().unwrap();
                    assert_eq!((outcome.fate, outcome.ret), (Fate::Done, op + 10));
                }
                return leave(model, slots);
            }
            let (mut served, _) = Served::take_over(slots, model).unwrap();
            let mut run = |_: Seat, op: u32| Outcome::done(op + 10);
            let mut more = || match served.round(model, &InOrder, 1, &mut run).unwrap() {
                false if gone(model, slots).load() == 0 => None,
                worked => Some(worked),
            };
            while model.wait(1, None, model.word(0).unwrap(), &mut more).unwrap() {}
        });
    });
}

/// More operations are in flight than there are lines, several in a line, and results are asked for in another order.
#[test]
fn several_are_in_flight() {
    answers(1, 4, 4, 2, 2);
}

/// The server dies instead of each of its stores in turn, and another one follows.
#[test]
fn a_server_that_dies_is_followed() {
    for (clients, times, preemptions) in [(1, 3, 2), (2, 1, 1)] {
        at_every_store(preemptions, move |stores| {
            let slots = Slots::new::<u64, u64>(0, clients, 2, false);
            let model = world(clients, slots);
            let lived = each(&model, clients + 1, move |me, model| {
                if me < clients {
                    ask(model, slots, me, times, times);
                    leave(model, slots);
                    return true;
                }
                let lived = model.live_for(me, stores, || serve(model, slots, clients).unwrap());
                if !lived {
                    serve(model, slots, clients).unwrap();
                }
                lived
            });
            model.check();
            assert!(model.ended(Ended::Unknown) <= 1, "more than what it was in the middle of");
            lived[clients]
        });
    }
}

/// The successor dies, too, while it takes over or later.
#[test]
fn servers_die_one_after_another() {
    for first in 0..12 {
        at_every_store(1, move |stores| {
            let slots = Slots::new::<u64, u64>(0, 1, 1, false);
            let model = world(1, slots);
            let lived = each(&model, 2, move |me, model| {
                if me == 0 {
                    ask(model, slots, me, 2, 1);
                    leave(model, slots);
                    return true;
                }
                let serve = || serve(model, slots, 1).unwrap();
                model.live_for(me, first, serve) || model.live_for(me, stores, serve) || {
                    serve();
                    false
                }
            });
            model.check();
            assert!(model.ended(Ended::Unknown) <= 2, "more than two were in the middle of");
            lived[1]
        });
    }
}

/// A client dies instead of each of its stores in turn. Each operation that it had asked for is executed or not.
#[test]
fn a_client_that_dies_disturbs_nobody() {
    at_every_store(1, move |stores| {
        let slots = Slots::new::<u64, u64>(0, 2, 2, false);
        let model = world(2, slots);
        let lived = each(&model, 3, move |me, model| {
            if me == 2 {
                serve(model, slots, 2).unwrap();
                return true;
            }
            let lived = if me == 0 {
                model.live_for(me, stores, || ask(model, slots, me, 2, 2))
            } else {
                ask(model, slots, me, 1, 1);
                true
            };
            leave(model, slots);
            lived
        });
        model.check();
        assert_eq!(model.ended(Ended::Done), if lived[0] { 3 } else { 1 });
        lived[0]
    });
}

/// Offers so many operations, each until a limit is over, and then has one executed without a limit.
fn offer(model: &Model, slots: Slots, me: Seat, times: u64) {
    let mut client = Client::new(slots, model, me, Backoff::None).unwrap();
    let limit = Limit::new(Wait::forever());
    for time in 0..times {
        let op = me as u64 * 100 + 2 * time;
        let Some(ticket) = client.offer(model, &op, &limit).unwrap() else {
            model.note(op, Ended::Lost);
            continue;
        };
        let is_answered = client.is_answered(model, ticket, &limit).unwrap();
        if !is_answered && client.take_back(model, ticket).unwrap() {
            model.note(op, Ended::Lost);
            continue;
        }
        let outcome: Outcome<u64> = client.collect(model, ticket).unwrap().unwrap();
        model.note(op, if outcome.fate == Fate::Done { Ended::Done } else { Ended::Unknown });
    }
    let op = me as u64 * 100 + 99;
    let ticket = client.submit(model, &op).unwrap();
    let outcome: Outcome<u64> = client.collect(model, ticket).unwrap().unwrap();
    assert_eq!(outcome.fate, Fate::Done);
    model.note(op, Ended::Done);
}

/// An operation that is taken back is never executed; one that is not finishes.
#[test]
fn what_is_taken_back_from_a_server_is_not_executed() {
    for (clients, times, lines, preemptions) in [(1, 1, 1, 3), (1, 2, 1, 2), (2, 1, 1, 1)] {
        explore(preemptions, move || {
            let slots = Slots::new::<u64, u64>(0, clients, lines, false);
            let model = world(clients, slots);
            each(&model, clients + 1, move |me, model| {
                if me == clients {
                    return serve(model, slots, clients).unwrap();
                }
                offer(model, slots, me, times);
                leave(model, slots);
            });
            model.check();
            assert_eq!(model.counted(), model.ended(Ended::Done));
        });
    }
}

/// The server dies instead of each of its stores in turn, and another one follows.
#[test]
fn what_is_taken_back_is_not_executed_by_the_one_who_follows() {
    at_every_store(1, move |stores| {
        let slots = Slots::new::<u64, u64>(0, 1, 2, false);
        let model = world(1, slots);
        let lived = each(&model, 2, move |me, model| {
            if me == 0 {
                offer(model, slots, me, 2);
                leave(model, slots);
                return true;
            }
            let lived = model.live_for(me, stores, || serve(model, slots, 1).unwrap());
            if !lived {
                serve(model, slots, 1).unwrap();
            }
            lived
        });
        model.check();
        assert!(model.ended(Ended::Unknown) <= 1, "more than what it was in the middle of");
        lived[1]
    });
}

/// A server behind channels begins with an offer, or its client takes it back.
#[test]
fn an_offer_is_begun_or_taken_back() {
    explore(3, || {
        let model = Model::new(1, 2);
        // The client makes its wish before it sends the message.
        mp::make_wish(model.word(0).unwrap(), 1);
        let made = each(&model, 2, |me, model| {
            let wish: &Word = model.word(0).unwrap();
            if me == 0 { mp::take_wish_back(wish, 1) } else { mp::may_begin(wish, 1) }
        });
        assert!(made[0] != made[1], "neither, or both");
        assert!(mp::may_begin(model.word(0).unwrap(), 2), "the next one is not offered");
    });
}
