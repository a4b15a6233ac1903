//! The combiners under a model checker: every operation once, in mutual exclusion, its result to
//! whoever asked for it, and nobody waits for the dead. The lemmas of section 6.1.3 are assertions
//! in `hyb_comb`.

use super::{cc_synch::CcSynch, hyb_comb::HybComb};
use crate::critical::{
    error::Stop,
    model::{Ended, Model, at_every_store, each, explore},
    object::{Fate, Outcome},
    site::{Seat, within},
};

type Run<'a> = &'a mut dyn FnMut(Seat, u64) -> Outcome<u64>;
type Answer = Result<Outcome<u64>, Stop>;

/// One seat's way to have an operation executed.
trait Combiner: Sized {
    fn words(seats: usize, max_ops: usize) -> usize;
    fn new(seats: usize, me: Seat, max_ops: usize) -> Self;
    fn apply(&mut self, model: &Model, op: u64, run: Run<'_>) -> Answer;
}

impl Combiner for CcSynch {
    fn words(seats: usize, _: usize) -> usize {
        CcSynch::words::<u64, u64>(seats, 1)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> Self {
        CcSynch::new::<u64, u64>(0, seats, me, max_ops, None)
    }

    fn apply(&mut self, model: &Model, op: u64, run: Run<'_>) -> Answer {
        CcSynch::apply(self, model, &op, &mut |seat, op| run(seat, op))
    }
}

struct HSynch(CcSynch);

impl Combiner for HSynch {
    fn words(seats: usize, _: usize) -> usize {
        CcSynch::words::<u64, u64>(seats, 2)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> Self {
        Self(CcSynch::new::<u64, u64>(0, seats, me, max_ops, Some(me % 2)))
    }

    fn apply(&mut self, model: &Model, op: u64, run: Run<'_>) -> Answer {
        Combiner::apply(&mut self.0, model, op, run)
    }
}

impl Combiner for HybComb {
    fn words(seats: usize, max_ops: usize) -> usize {
        HybComb::words::<u64, u64>(seats, max_ops)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> Self {
        HybComb::new::<u64, u64>(0, seats, me, max_ops)
    }

    fn apply(&mut self, model: &Model, op: u64, run: Run<'_>) -> Answer {
        HybComb::apply(self, model, &op, &mut |seat, op| run(seat, op))
    }
}

/// With a swap at once, so that several register one after the other.
struct Impatient(HybComb);

impl Combiner for Impatient {
    fn words(seats: usize, max_ops: usize) -> usize {
        HybComb::words::<u64, u64>(seats, max_ops)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> Self {
        Self(<HybComb as Combiner>::new(seats, me, max_ops).impatient())
    }

    fn apply(&mut self, model: &Model, op: u64, run: Run<'_>) -> Answer {
        Combiner::apply(&mut self.0, model, op, run)
    }
}

/// How many seats ask how often, and how many preemptions are tried.
#[derive(Clone, Copy)]
struct Case {
    seats: usize,
    times: u64,
    max_ops: usize,
    preemptions: usize,
}

/// Has an operation executed, and looks at its result.
fn ask<C: Combiner>(combiner: &mut C, model: &Model, me: Seat, op: u64) -> Result<(), Stop> {
    let run = &mut |seat: Seat, op: u64| {
        assert_eq!(op / 100, seat as u64, "another seat's operation");
        model.execute(seat, op);
        Outcome::done(op + 1)
    };
    let outcome = within(model, me, || combiner.apply(model, op, run))?;
    assert_eq!((outcome.fate, outcome.ret), (Fate::Done, op + 1));
    Ok(())
}

/// Each seat asks.
fn combines<C: Combiner>(case: Case) {
    let Case { seats, times, max_ops, preemptions } = case;
    explore(preemptions, move || {
        let model = Model::new(C::words(seats, max_ops), seats);
        each(&model, seats, move |me, model| {
            let mut combiner = C::new(seats, me, max_ops);
            for time in 0..times {
                let op = 100 * me as u64 + time;
                ask(&mut combiner, model, me, op).unwrap();
                model.note(op, Ended::Done);
            }
        });
        model.check();
        assert_eq!(model.counted(), seats * times as usize);
        // Who waits has a place in a queue of combiners. Each of the others combines once before it,
        // and executes its own operation and so many others.
        let most = (seats - 1) * (1 + max_ops);
        assert!(model.overtaken() <= most, "{} came before one that waited", model.overtaken());
    });
}

/// One dies instead of a store, each of them. The others end, and know of each operation whether it
/// was executed, or that nobody knows.
fn outlives<C: Combiner>(case: Case) {
    let Case { seats, times, max_ops, preemptions } = case;
    at_every_store(preemptions, move |stores| {
        let model = Model::new(C::words(seats, max_ops), seats);
        let lived = each(&model, seats, move |me, model| {
            let act = || {
                let mut combiner = C::new(seats, me, max_ops);
                for time in 0..times {
                    let op = 100 * me as u64 + time;
                    let ended = match ask(&mut combiner, model, me, op) {
                        Ok(()) => Ended::Done,
                        Err(Stop::Lost(0)) => Ended::Lost,
                        Err(Stop::Unsure(0)) => Ended::Unknown,
                        Err(other) => panic!("{other:?}"),
                    };
                    model.note(op, ended);
                    if ended != Ended::Done {
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
    });
}

const TWO: Case = Case { seats: 2, times: 3, max_ops: 1, preemptions: 2 };
const THREE: Case = Case { seats: 3, times: 1, max_ops: 1, preemptions: 2 };

#[test]
fn cc_synch_combines() {
    combines::<CcSynch>(TWO);
    combines::<CcSynch>(THREE);
}

#[test]
fn h_synch_combines() {
    combines::<HSynch>(TWO);
    combines::<HSynch>(THREE);
}

#[test]
fn hybcomb_combines() {
    combines::<HybComb>(Case { max_ops: 2, ..TWO });
    combines::<HybComb>(Case { max_ops: 2, ..THREE });
}

/// There is room for one request with each combiner, so that the next one must become one.
#[test]
fn hybcomb_hands_over() {
    combines::<HybComb>(THREE);
}

/// Nobody starves that can't have the compare-and-swap.
#[test]
fn hybcomb_swaps() {
    combines::<Impatient>(TWO);
    combines::<Impatient>(THREE);
}

#[test]
fn cc_synch_outlives_a_seat() {
    outlives::<CcSynch>(Case { times: 2, ..TWO });
    outlives::<CcSynch>(Case { preemptions: 1, ..THREE });
}

#[test]
fn h_synch_outlives_a_seat() {
    outlives::<HSynch>(Case { times: 2, ..TWO });
    outlives::<HSynch>(Case { preemptions: 1, ..THREE });
}

#[test]
fn hybcomb_outlives_a_seat() {
    outlives::<HybComb>(Case { times: 2, ..TWO });
    outlives::<HybComb>(Case { preemptions: 1, ..THREE });
    outlives::<Impatient>(Case { preemptions: 1, ..THREE });
}
