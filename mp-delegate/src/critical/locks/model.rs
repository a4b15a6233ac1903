//! The locks under a model checker: one at a time, and everybody comes in.

use loom::thread;

use super::{Lock, clh::Clh, hyb::Hyb, mcs::Mcs, tas::Tas};
use crate::critical::model::{Model, explore};

/// Each of the seats takes the lock `times` times. Each of the critical sections adds 1, by a
/// load and a store that nothing else orders.
fn takes_turns<L: Lock + 'static>(
    seats: usize,
    times: usize,
    preemptions: usize,
    words: usize,
    lock: fn(usize) -> L,
) {
    explore(preemptions, move || {
        let model = Model::new(words, seats);
        let run = move |me: usize, model: &Model| {
            let mut lock = lock(me);
            for _ in 0..times {
                lock.acquire(model).unwrap();
                model.count();
                lock.release(model).unwrap();
            }
        };
        let others: Vec<_> = (1..seats)
            .map(|me| {
                let model = model.clone();
                thread::spawn(move || run(me, &model))
            })
            .collect();
        run(0, &model);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(model.counted(), seats * times);
    });
}

#[test]
fn tas_takes_turns() {
    takes_turns(2, 3, 3, Tas::words(2), |me| Tas::new(0, me));
    takes_turns(3, 1, 3, Tas::words(3), |me| Tas::new(0, me));
}

#[test]
fn mcs_takes_turns() {
    takes_turns(2, 3, 3, Mcs::words(2), |me| Mcs::new(0, me));
    takes_turns(3, 1, 3, Mcs::words(3), |me| Mcs::new(0, me));
}

#[test]
fn clh_takes_turns() {
    takes_turns(2, 3, 3, Clh::words(2), |me| Clh::new(0, 2, me));
    takes_turns(3, 1, 3, Clh::words(3), |me| Clh::new(0, 3, me));
}

#[test]
fn hyblock_takes_turns() {
    takes_turns(2, 3, 3, Hyb::words(2), |me| Hyb::new(0, me));
    takes_turns(3, 1, 3, Hyb::words(3), |me| Hyb::new(0, me));
}
