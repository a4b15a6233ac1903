//! The locks under a model checker: one seat at a time has the lock, every seat gets it, and none waits for a dead one.

use std::ops::Range;

use loom::thread;
use mp_core::Wait;

use super::{Lock, clh::Clh, give, hyb::Hyb, lock::take_within, mcs::Mcs, take, tas::Tas};
use crate::critical::{
    model::{Ended, Model, at_every_store, each, explore},
    site::{Limit, Seat},
    stop::Stop,
};

/// Executes an operation with the lock.
fn locked<T>(
    lock: &impl Lock,
    model: &Model,
    me: Seat,
    run: impl FnOnce() -> T,
) -> Result<T, Stop> {
    take(lock, model, me, || model.repair())?;
    let result = run();
    give(lock, model, me);
    Ok(result)
}

/// How many seats take a lock how often, and how many preemptions are tried.
#[derive(Clone, Copy)]
struct Case {
    seats: usize,
    times: usize,
    preemptions: usize,
}

const CASES: [Case; 2] =
    [Case { seats: 2, times: 3, preemptions: 3 }, Case { seats: 3, times: 1, preemptions: 3 }];

/// Each of the critical sections adds 1, by a load and a store that nothing else orders. Returns how many of them came,
/// at most, between the beginning of a seat's wait and its turn.
fn takes_turns<L: Lock>(
    words: usize,
    case: Case,
    lock: impl Fn(usize) -> L + Copy + 'static,
) -> usize {
    let Case { seats, times, .. } = case;
    let model = Model::new(words, seats);
    each(&model, seats, move |me, model| {
        let lock = lock(me);
        for time in 0..times {
            let op = (100 * me + time) as u64;
            locked(&lock, model, me, || model.execute(me, op)).unwrap();
        }
    });
    assert_eq!((model.counted(), model.repairs()), (seats * times, 0));
    model.overtaken()
}

/// Lets seat `me` ask so often.
fn ask<L: Lock>(lock: L, model: &Model, me: Seat, times: usize) {
    for time in 0..times {
        let op = (100 * me + time) as u64;
        locked(&lock, model, me, || model.execute(me, op)).unwrap();
        model.note(op, Ended::Done);
    }
}

/// Each of the first seats dies instead of a store, after as many as `stores` tells. The others get everything that
/// they ask for, on a good value, which is repaired only if the lock holder was killed. Returns whether the last of the
/// first seats lived.
fn survives<L: Lock>(
    words: usize,
    case: Case,
    stores: &[u64],
    lock: impl Fn(usize) -> L + Copy + 'static,
) -> bool {
    let Case { seats, times, .. } = case;
    let model = Model::new(words, seats);
    let mut lives = [None; 3];
    lives.iter_mut().zip(stores).for_each(|(life, &stores)| *life = Some(stores));
    let lived = each(&model, seats, move |me, model| {
        model.live_for(me, lives[me], || ask(lock(me), model, me, times))
    });
    model.check();
    let living = lived.iter().filter(|&&lived| lived).count();
    assert!(model.ended(Ended::Done) >= living * times, "not all came in");
    // A seat that repairs may die as well.
    let had = (0..seats).filter(|&me| !lived[me] && model.has_begun(me)).count();
    assert!(model.repairs() <= had * stores.len(), "repaired, and nobody died that had the value");
    lived[stores.len() - 1]
}

/// Seat 1 has the lock; seat 0 has come behind it, and dies. Of two more that come, one may be behind the other in a
/// closed queue.
fn heals_as_others_come<L: Lock>(
    words: usize,
    stores: u64,
    lock: impl Fn(usize) -> L + Copy + 'static,
) {
    let model = Model::new(words, 4);
    let first = lock(1);
    take(&first, &model, 1, || model.repair()).unwrap();
    assert!(!model.live_for(0, stores, || ask(lock(0), &model, 0, 1)));
    let others = [2, 3].map(|me| {
        let model = model.clone();
        thread::spawn(move || ask(lock(me), &model, me, 1))
    });
    give(&first, &model, 1);
    others.into_iter().for_each(|other| other.join().unwrap());
    model.check();
    assert_eq!(model.ended(Ended::Done), 2);
}

/// Seat 1 has the lock, and comes again; seat 0 has come behind it, and dies. Seat 2 tries, so that it may begin to
/// heal and leave that to others. A seat that is alone comes in at once.
fn is_healed_by_tries<L: Lock>(
    words: usize,
    stores: u64,
    lock: impl Fn(usize) -> L + Copy + 'static,
) {
    let model = Model::new(words, 3);
    let first = lock(1);
    take(&first, &model, 1, || model.repair()).unwrap();
    assert!(!model.live_for(0, stores, || ask(lock(0), &model, 0, 1)));
    let tries = {
        let model = model.clone();
        thread::spawn(move || try_it(lock(2), &model, 2, 0..2))
    };
    give(&first, &model, 1);
    ask(first, &model, 1, 1);
    tries.join().unwrap();
    let last = lock(2);
    assert!(take_within(&last, &model, 2, None, || model.repair()).unwrap(), "nobody is there");
    give(&last, &model, 2);
    model.check();
}

/// Seat 0 has the lock, or is about to have it, when its rank goes, and gives it up all the same. No seat waits
/// forever, not even behind one that has given up its place.
fn outlives_a_rank<L: Lock>(words: usize, lock: impl Fn(usize) -> L + Copy + 'static) {
    let model = Model::new(words, 3);
    each(&model, 3, move |me, model| {
        if me == 1 {
            model.go(0);
        }
        let op = 100 * me as u64;
        match locked(&lock(me), model, me, || model.execute(me, op)) {
            Ok(()) => model.note(op, Ended::Done),
            Err(Stop::Lost(0)) => model.note(op, Ended::Lost),
            Err(other) => panic!("{other:?}"),
        }
    });
    model.check();
}

/// Seat `me` tries those times, once at a time or until a limit is over. If it succeeds it has the lock alone, and if
/// it does not it leaves nothing behind.
fn try_it<L: Lock>(lock: L, model: &Model, me: Seat, times: Range<usize>) {
    for time in times {
        let op = (100 * me + time) as u64;
        let limit = (time % 2 == 1).then(|| Limit::new(Wait::forever()));
        let took = take_within(&lock, model, me, limit.as_ref(), || model.repair()).unwrap();
        if took {
            model.execute(me, op);
            give(&lock, model, me);
        }
        model.note(op, if took { Ended::Done } else { Ended::Lost });
    }
}

/// The first seat waits in the queue, the others try. The waiting seat comes in, and so does a seat that is alone.
fn is_tried<L: Lock>(words: usize, case: Case, lock: impl Fn(usize) -> L + Copy + 'static) {
    let Case { seats, times, .. } = case;
    let model = Model::new(words, seats);
    each(&model, seats, move |me, model| match me {
        0 => ask(lock(me), model, me, times),
        _ => try_it(lock(me), model, me, 0..times),
    });
    model.check();
    assert_eq!((model.counted(), model.repairs()), (model.ended(Ended::Done), 0));
    let lock = lock(0);
    assert!(take_within(&lock, &model, 0, None, || model.repair()).unwrap(), "nobody is there");
    give(&lock, &model, 0);
}

/// A seat that tries dies instead of each of its stores in turn. The other waits, and tries.
fn outlives_a_try<L: Lock>(
    words: usize,
    stores: u64,
    lock: impl Fn(usize) -> L + Copy + 'static,
) -> bool {
    let model = Model::new(words, 2);
    let lived = each(&model, 2, move |me, model| {
        if me == 0 {
            return model.live_for(me, stores, || try_it(lock(me), model, me, 0..2));
        }
        ask(lock(me), model, me, 1);
        // Seat 0 may have died with the lock.
        try_it(lock(me), model, me, 2..3);
        true
    });
    model.check();
    assert!(model.ended(Ended::Done) >= 1, "who waited did not come in");
    lived[0]
}

const DEATHS: [Case; 2] =
    [Case { seats: 2, times: 2, preemptions: 2 }, Case { seats: 3, times: 1, preemptions: 1 }];
/// The stores of the first seat that dies, in a model of two deaths: more than any operation has.
const STORES: u64 = 12;

macro_rules! models {
    (
        $($fair:ident, $mortal:ident, $healers:ident, $late:ident after $stores:expr, $gone:ident, $tried:ident, $dies:ident, $tries:ident, |$seats:ident, $me:ident| $new:expr, $words:expr, $most:expr;)+
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
                    survives($words, case, &[stores], move |$me| $new)
                });
            }
        }

        #[test]
        fn $late() {
            let $seats = 4;
            explore(2, move || heals_as_others_come($words, $stores, move |$me| $new));
        }

        #[test]
        fn $tries() {
            let $seats = 3;
            explore(2, move || is_healed_by_tries($words, $stores, move |$me| $new));
        }

        #[test]
        fn $gone() {
            let $seats = 3;
            explore(2, move || outlives_a_rank($words, move |$me| $new));
        }

        #[test]
        fn $tried() {
            for (seats, times) in [(2, 2), (3, 1)] {
                let case = Case { seats, times, preemptions: 2 };
                let $seats = seats;
                explore(case.preemptions, move || is_tried($words, case, move |$me| $new));
            }
        }

        #[test]
        fn $dies() {
            let $seats = 2;
            at_every_store(2, move |stores| outlives_a_try($words, stores, move |$me| $new));
        }

        /// Two seats die, and the second may be healing.
        #[test]
        fn $healers() {
            let case = Case { seats: 3, times: 1, preemptions: 1 };
            let $seats = case.seats;
            for first in 0..STORES {
                at_every_store(case.preemptions, move |stores| {
                    survives($words, case, &[first, stores], move |$me| $new)
                });
            }
        }
    )+ };
}

/// Returns the bound for a seat that waits in a queue in which each other seat is once.
fn queued(case: Case) -> usize {
    case.seats - 1
}

/// Returns the bound without fairness: everything that the others do.
fn unfair(case: Case) -> usize {
    (case.seats - 1) * case.times
}

models! {
    tas_takes_turns, tas_outlives_a_seat, tas_outlives_two, tas_is_healed_as_others_come after 2, tas_outlives_its_rank,
        tas_is_tried, tas_outlives_one_who_tries, tas_is_healed_by_tries,
        |seats, me| Tas::new(0, me), Tas::words(seats), unfair;
    mcs_takes_turns, mcs_outlives_a_seat, mcs_outlives_two, mcs_is_healed_as_others_come after 4, mcs_outlives_its_rank,
        mcs_is_tried, mcs_outlives_one_who_tries, mcs_is_healed_by_tries,
        |seats, me| Mcs::new(0, me), Mcs::words(seats), queued;
    clh_takes_turns, clh_outlives_a_seat, clh_outlives_two, clh_is_healed_as_others_come after 5, clh_outlives_its_rank,
        clh_is_tried, clh_outlives_one_who_tries, clh_is_healed_by_tries,
        |seats, me| Clh::new(0, seats, me), Clh::words(seats), queued;
    hyblock_takes_turns, hyblock_outlives_a_seat, hyblock_outlives_two, hyblock_is_healed_as_others_come after 2, hyblock_outlives_its_rank,
        hyblock_is_tried, hyblock_outlives_one_who_tries, hyblock_is_healed_by_tries,
        |seats, me| Hyb::new(0, me), Hyb::words(seats), queued;
}
