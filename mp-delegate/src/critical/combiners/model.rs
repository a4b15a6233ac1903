//! The combiners under a model checker: every operation once, in mutual exclusion, and its result
//! to whoever asked for it. The lemmas of section 6.1.3 are assertions in `hyb_comb`.

use loom::thread;

use super::{cc_synch::CcSynch, hyb_comb::HybComb};
use crate::critical::{
    error::Stop,
    model::{Model, explore},
    object::{Fate, Outcome},
    site::Seat,
};

/// One seat's way to have an operation executed.
type Apply<C> = fn(
    &mut C,
    &Model,
    u64,
    &mut dyn FnMut(Seat, u64) -> Outcome<u64>,
) -> Result<Outcome<u64>, Stop>;

/// Each seat asks `times` times.
fn combines<C: 'static>(
    seats: usize,
    times: usize,
    preemptions: usize,
    words: usize,
    combiner: fn(Seat) -> C,
    apply: Apply<C>,
) {
    explore(preemptions, move || {
        let model = Model::new(words, seats);
        let ask = move |me: Seat, model: &Model| {
            let mut combiner = combiner(me);
            for time in 0..times {
                let op = (100 * me + time) as u64;
                let run = &mut |seat: Seat, op: u64| {
                    assert_eq!(op / 100, seat as u64, "another seat's operation");
                    model.count();
                    Outcome::done(op + 1)
                };
                let outcome = apply(&mut combiner, model, op, run).unwrap();
                assert_eq!((outcome.fate, outcome.ret), (Fate::Done, op + 1));
            }
        };
        let others: Vec<_> = (1..seats)
            .map(|me| {
                let model = model.clone();
                thread::spawn(move || ask(me, &model))
            })
            .collect();
        ask(0, &model);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(model.counted(), seats * times);
    });
}

fn cc_synch(combiner: &mut CcSynch, model: &Model, op: u64, run: Run<'_>) -> Answer {
    combiner.apply(model, &op, &mut |seat, op| run(seat, op))
}

fn hyb_comb(combiner: &mut HybComb, model: &Model, op: u64, run: Run<'_>) -> Answer {
    combiner.apply(model, &op, &mut |seat, op| run(seat, op))
}

type Run<'a> = &'a mut dyn FnMut(Seat, u64) -> Outcome<u64>;
type Answer = Result<Outcome<u64>, Stop>;

#[test]
fn cc_synch_combines() {
    let words = |seats| CcSynch::words::<u64, u64>(seats, 1);
    let two = |me| CcSynch::new::<u64, u64>(0, 2, me, 1, None);
    combines(2, 3, 2, words(2), two, cc_synch);
    let three = |me| CcSynch::new::<u64, u64>(0, 3, me, 1, None);
    combines(3, 1, 2, words(3), three, cc_synch);
}

#[test]
fn h_synch_combines() {
    let words = |seats| CcSynch::words::<u64, u64>(seats, 2);
    let two = |me| CcSynch::new::<u64, u64>(0, 2, me, 1, Some(me % 2));
    combines(2, 3, 2, words(2), two, cc_synch);
    let three = |me| CcSynch::new::<u64, u64>(0, 3, me, 1, Some(me % 2));
    combines(3, 1, 2, words(3), three, cc_synch);
}

#[test]
fn hybcomb_combines() {
    let words = |seats, max_ops| HybComb::words::<u64, u64>(seats, max_ops);
    let two = |me| HybComb::new::<u64, u64>(0, 2, me, 2);
    combines(2, 3, 2, words(2, 2), two, hyb_comb);
    let three = |me| HybComb::new::<u64, u64>(0, 3, me, 2);
    combines(3, 1, 2, words(3, 2), three, hyb_comb);
}

/// There is room for one request with each combiner, so that the next one must become one.
#[test]
fn hybcomb_hands_over() {
    let words = |seats, max_ops| HybComb::words::<u64, u64>(seats, max_ops);
    let three = |me| HybComb::new::<u64, u64>(0, 3, me, 1);
    combines(3, 1, 2, words(3, 1), three, hyb_comb);
}
