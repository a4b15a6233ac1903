//! The locks under a model checker: one at a time, everybody comes in, and nobody waits for the
//! dead.

use super::{Lock, clh::Clh, hyb::Hyb, locked, mcs::Mcs, tas::Tas};
use crate::critical::{
    error::Stop,
    model::{Ended, Model, at_every_store, each, explore},
    site::within,
};

/// How many seats take a lock how often, and how many preemptions are tried.
#[derive(Clone, Copy)]
struct Case {
    seats: usize,
    times: usize,
    preemptions: usize,
}

const CASES: [Case; 2] =
    [Case { seats: 2, times: 3, preemptions: 3 }, Case { seats: 3, times: 1, preemptions: 3 }];

/// Each of the critical sections adds 1, by a load and a store that nothing else orders. Returns how
/// many of them came, at most, between the beginning of a seat's wait and its turn.
fn takes_turns<L: Lock>(
    words: usize,
    case: Case,
    lock: impl Fn(usize) -> L + Copy + 'static,
) -> usize {
    let Case { seats, times, .. } = case;
    let model = Model::new(words, seats);
    each(&model, seats, move |me, model| {
        let mut lock = lock(me);
        for time in 0..times {
            let op = (100 * me + time) as u64;
            within(model, me, || locked(&mut lock, model, || model.execute(me, op))).unwrap();
        }
    });
    assert_eq!(model.counted(), seats * times);
    model.overtaken()
}

/// One dies instead of a store. The others end, and know of each operation whether it was executed.
/// Whether it lived.
fn survives<L: Lock>(
    words: usize,
    case: Case,
    stores: u64,
    lock: impl Fn(usize) -> L + Copy + 'static,
) -> bool {
    let Case { seats, times, .. } = case;
    let model = Model::new(words, seats);
    let lived = each(&model, seats, move |me, model| {
        let act = || {
            let mut lock = lock(me);
            for time in 0..times {
                let op = (100 * me + time) as u64;
                let executed =
                    within(model, me, || locked(&mut lock, model, || model.execute(me, op)));
                let ended = match executed {
                    Ok(()) => Ended::Done,
                    Err(Stop::Lost(0)) => Ended::Lost,
                    Err(other) => panic!("{other:?}"),
                };
                model.note(op, ended);
                if ended == Ended::Lost {
                    return;
                }
            }
        };
        if me == 0 {
            return model.live_for(me, stores, act);
        }
        act();
        true
    });
    model.check();
    lived[0]
}

const DEATHS: [Case; 2] =
    [Case { seats: 2, times: 2, preemptions: 2 }, Case { seats: 3, times: 1, preemptions: 1 }];

macro_rules! models {
    (
        $($fair:ident, $mortal:ident, |$seats:ident, $me:ident| $new:expr, $words:expr, $most:expr;)+
    ) => { $(
        #[test]
        fn $fair() {
            for case in CASES {
                let $seats = case.seats;
                explore(case.preemptions, move || {
                    let overtaken = takes_turns($words, case, move |$me| $new);
                    assert!(overtaken <= $most(case), "{overtaken} came before one that waited");
                });
            }
        }

        #[test]
        fn $mortal() {
            for case in DEATHS {
                let $seats = case.seats;
                at_every_store(case.preemptions, move |stores| {
                    survives($words, case, stores, move |$me| $new)
                });
            }
        }
    )+ };
}

/// Who waits is in a queue, in which everybody is once.
fn queued(case: Case) -> usize {
    case.seats - 1
}

/// Everything that the others do.
fn unfair(case: Case) -> usize {
    (case.seats - 1) * case.times
}

models! {
    tas_takes_turns, tas_outlives_a_seat, |seats, me| Tas::new(0, me), Tas::words(seats), unfair;
    mcs_takes_turns, mcs_outlives_a_seat, |seats, me| Mcs::new(0, me), Mcs::words(seats), queued;
    clh_takes_turns, clh_outlives_a_seat,
        |seats, me| Clh::new(0, seats, me), Clh::words(seats), queued;
    hyblock_takes_turns, hyblock_outlives_a_seat,
        |seats, me| Hyb::new(0, me), Hyb::words(seats), queued;
}
