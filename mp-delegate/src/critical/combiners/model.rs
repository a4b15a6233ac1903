//! The combiners under a model checker: every operation is executed once, in mutual exclusion, its result goes to the
//! seat that asked for it, and no seat waits for a dead one. The lemmas of section 6.1.3 are assertions in `hyb_comb`.

use mp_core::Wait;

use super::{
    Combiner, Rescue, cc_synch::CcSynch, combine_again, combine_within, hyb_comb::HybComb,
};
use crate::critical::{
    fate::{Fate, Outcome},
    model::{Ended, Model, at_every_store, each, explore},
    site::{Limit, Seat, Site},
    stop::Stop,
};

/// A scheme, and how a seat takes part.
trait Kind: 'static {
    type Combiner: Combiner;

    fn words(seats: usize, max_ops: usize) -> usize;
    fn new(seats: usize, me: Seat, max_ops: usize) -> Self::Combiner;
}

impl Kind for CcSynch {
    type Combiner = Self;

    fn words(seats: usize, _: usize) -> usize {
        CcSynch::words::<u64, u64>(seats, 1)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> Self {
        CcSynch::new::<u64, u64>(0, seats, me, max_ops, (0, 1))
    }
}

struct HSynch;

impl Kind for HSynch {
    type Combiner = CcSynch;

    fn words(seats: usize, _: usize) -> usize {
        CcSynch::words::<u64, u64>(seats, 2)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> CcSynch {
        CcSynch::new::<u64, u64>(0, seats, me, max_ops, (me % 2, 2))
    }
}

impl Kind for HybComb {
    type Combiner = Self;

    fn words(seats: usize, max_ops: usize) -> usize {
        HybComb::words::<u64, u64>(seats, max_ops)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> Self {
        HybComb::new::<u64, u64>(0, seats, me, max_ops)
    }
}

/// HYBCOMB with a swap at once, so that several seats register one after the other.
struct Impatient;

impl Kind for Impatient {
    type Combiner = HybComb;

    fn words(seats: usize, max_ops: usize) -> usize {
        HybComb::words::<u64, u64>(seats, max_ops)
    }

    fn new(seats: usize, me: Seat, max_ops: usize) -> HybComb {
        <HybComb as Kind>::new(seats, me, max_ops).impatient()
    }
}

/// Handles operations that are interrupted: odd ones can be executed again.
struct Rescued<'a>(&'a Model);

impl Rescue<u64> for Rescued<'_> {
    fn repair(&mut self) -> bool {
        self.0.repair();
        true
    }

    fn is_idempotent(&mut self, &op: &u64) -> bool {
        op % 2 != 0 && self.0.permit(op)
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

/// Has an operation executed, and checks its result. Returns how it ended.
fn ask(combiner: &impl Combiner, model: &Model, me: Seat, op: u64) -> Ended {
    let run = &mut |seat: Seat, op: u64| {
        assert_eq!(op / 100, seat as u64, "another seat's operation");
        model.execute(seat, op);
        Outcome::done(op + 1)
    };
    model.approach(me);
    let ended = match combiner.attempt(model, &op, run) {
        Err(stop) => combine_again(combiner, (model, me), &op, stop, run, &mut Rescued(model)),
        done => done,
    };
    if ended.is_ok() {
        model.leave(me);
    }
    match ended {
        Ok(Outcome { fate: Fate::Done, ret }) => {
            assert_eq!(ret, op + 1);
            Ended::Done
        }
        Ok(Outcome { fate: Fate::Unknown, .. }) => {
            assert!(op % 2 == 0, "{op} was to be executed again");
            Ended::Unknown
        }
        Err(Stop::Lost(0)) => Ended::Lost,
        Err(Stop::Unsure(0)) => Ended::Gone,
        other => panic!("{other:?}"),
    }
}

/// Has an operation executed if no other seat is at the object, once or until a limit is over. Returns how it ended.
fn try_it(combiner: &impl Combiner, model: &Model, me: Seat, op: u64) -> Ended {
    let run = &mut |seat: Seat, op: u64| {
        assert_eq!(op / 100, seat as u64, "another seat's operation");
        model.execute(seat, op);
        Outcome::done(op + 1)
    };
    let limit = (op % 4 > 1).then(|| Limit::new(Wait::forever()));
    let rescue = &mut Rescued(model);
    match combine_within(combiner, (model, me), &op, limit.as_ref(), run, rescue).unwrap() {
        None => Ended::Lost,
        Some(Outcome { fate, ret }) => {
            assert_eq!((fate, ret), (Fate::Done, op + 1));
            Ended::Done
        }
    }
}

/// The first seat waits, and the others try. Operations that they have not executed are never executed.
fn is_tried<C: Kind>(case: Case) {
    let Case { seats, times, max_ops, preemptions } = case;
    explore(preemptions, move || {
        let model = Model::new(C::words(seats, max_ops), seats);
        each(&model, seats, move |me, model| {
            let combiner = C::new(seats, me, max_ops);
            for time in 0..times {
                let op = 100 * me as u64 + 2 * time;
                let ended = match me {
                    0 => ask(&combiner, model, me, op),
                    _ => try_it(&combiner, model, me, op),
                };
                model.note(op, ended);
            }
            assert!(me > 0 || model.ended(Ended::Done) as u64 >= times, "who waits comes in");
        });
        model.check();
        assert_eq!((model.counted(), model.repairs()), (model.ended(Ended::Done), 0));
        let last = C::new(seats, 1, max_ops);
        assert_eq!(try_it(&last, &model, 1, 190), Ended::Done, "nobody is there");
    });
}

/// A seat that tries dies instead of each of its stores in turn. The other gets what it asks for.
fn outlives_a_try<C: Kind>(preemptions: usize) {
    at_every_store(preemptions, move |stores| {
        let model = Model::new(C::words(2, 1), 2);
        let lived = each(&model, 2, move |me, model| {
            let act = || {
                let combiner = C::new(2, me, 1);
                for time in 0..2 {
                    let op = 100 * me as u64 + 2 * time;
                    let ended = match (me, time) {
                        (1, 0) => ask(&combiner, model, me, op),
                        _ => try_it(&combiner, model, me, op),
                    };
                    model.note(op, ended);
                }
            };
            model.live_for(me, (me == 0).then_some(stores), act)
        });
        model.check();
        lived[0]
    });
}

/// The first seat dies instead of each of its stores in turn. The second asks, and the third tries until a limit is
/// over, so that it may begin to heal and leave that to others. A seat that is alone comes in at once.
fn is_healed_by_a_try<C: Kind>() {
    at_every_store(1, move |stores| {
        let model = Model::new(C::words(3, 1), 3);
        let lived = each(&model, 3, move |me, model| {
            let act = || {
                let (combiner, op) = (C::new(3, me, 1), 100 * me as u64 + 2);
                let ended = match me {
                    2 => try_it(&combiner, model, me, op),
                    _ => ask(&combiner, model, me, op),
                };
                model.note(op, ended);
            };
            model.live_for(me, (me == 0).then_some(stores), act)
        });
        assert_eq!(try_it(&C::new(3, 1, 1), &model, 1, 190), Ended::Done, "nobody is there");
        model.check();
        lived[0]
    });
}

/// Each seat asks.
fn combines<C: Kind>(case: Case) {
    let Case { seats, times, max_ops, preemptions } = case;
    explore(preemptions, move || {
        let model = Model::new(C::words(seats, max_ops), seats);
        each(&model, seats, move |me, model| {
            let combiner = C::new(seats, me, max_ops);
            for time in 0..times {
                let op = 100 * me as u64 + time;
                assert_eq!(ask(&combiner, model, me, op), Ended::Done);
                model.note(op, Ended::Done);
            }
        });
        model.check();
        assert_eq!((model.counted(), model.repairs()), (seats * times as usize, 0));
        // A waiting seat has a place in a queue of combiners. Each of the other seats combines once before it, and
        // executes its own operation and `max_ops` others.
        let most = (seats - 1) * (1 + max_ops);
        assert!(model.overtaken() <= most, "{} came before one that waited", model.overtaken());
    });
}

/// Each of the first seats dies instead of a store, after as many as `stores` tells. The others get everything that
/// they ask for, on a good value, except for operations that were pending, and know of each operation whether it was
/// executed, with the same exception. Returns whether the last of those that were to die lived.
fn survives<C: Kind>(case: Case, stores: &[u64], odd: u64) -> bool {
    let Case { seats, times, max_ops, .. } = case;
    let model = Model::new(C::words(seats, max_ops), seats);
    let mut lives = [None; 3];
    lives.iter_mut().zip(stores).for_each(|(life, &stores)| *life = Some(stores));
    let lived = each(&model, seats, move |me, model| {
        let act = || {
            let combiner = C::new(seats, me, max_ops);
            for time in 0..times {
                let op = 100 * me as u64 + 2 * time + odd;
                let ended = ask(&combiner, model, me, op);
                model.note(op, ended);
            }
        };
        model.live_for(me, lives[me], act)
    });
    model.check();
    let living = lived.iter().filter(|&&lived| lived).count() as u64;
    let [done, unknown] = [Ended::Done, Ended::Unknown].map(|how| model.ended(how) as u64);
    let dead = seats as u64 - living;
    assert!(unknown <= dead, "more than what they were in the middle of");
    assert!(done + unknown >= living * times, "not all were answered");
    lived[stores.len() - 1]
}

/// One seat dies instead of each of its stores in turn.
fn outlives<C: Kind>(case: Case) {
    for odd in 0..2 {
        at_every_store(case.preemptions, move |stores| survives::<C>(case, &[stores], odd));
    }
}

/// Two seats die, and the second may be healing.
fn outlives_two<C: Kind>(case: Case, stores: u64) {
    for (first, odd) in (0..stores).flat_map(|first| [(first, 0), (first, 1)]) {
        at_every_store(case.preemptions, move |second| survives::<C>(case, &[first, second], odd));
    }
}

/// Seat 0 combines, or is about to, when its rank goes, and finishes all the same. No seat waits forever.
fn outlives_a_rank<C: Kind>() {
    explore(2, move || {
        let model = Model::new(C::words(3, 2), 3);
        each(&model, 3, move |me, model| {
            if me == 1 {
                model.go(0);
            }
            let op = 100 * me as u64;
            let ended = ask(&C::new(3, me, 2), model, me, op);
            model.note(op, ended);
        });
        model.check();
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

/// No seat starves that can't win the compare-and-swap.
#[test]
fn hybcomb_swaps() {
    combines::<Impatient>(TWO);
    combines::<Impatient>(THREE);
}

macro_rules! deaths {
    ($($kind:ty: $one:ident with $preemptions:expr, $two:ident after $stores:expr, $rank:ident, $tried:ident, $dies:ident, $heals:ident;)+) => { $(
        #[test]
        fn $one() {
            outlives::<$kind>(Case { times: 2, preemptions: $preemptions, ..TWO });
            outlives::<$kind>(Case { preemptions: 1, ..THREE });
        }

        #[test]
        fn $two() {
            outlives_two::<$kind>(Case { preemptions: $preemptions - 1, ..THREE }, $stores);
        }

        #[test]
        fn $tried() {
            is_tried::<$kind>(Case { times: 2, ..TWO });
            is_tried::<$kind>(THREE);
        }

        #[test]
        fn $dies() {
            outlives_a_try::<$kind>(1);
        }

        #[test]
        fn $heals() {
            is_healed_by_a_try::<$kind>();
        }

        #[test]
        fn $rank() {
            outlives_a_rank::<$kind>();
        }
    )+ };
}

deaths! {
    CcSynch: cc_synch_outlives_a_seat with 2, cc_synch_outlives_two after 20, cc_synch_outlives_a_rank,
        cc_synch_is_tried, cc_synch_outlives_one_who_tries, cc_synch_is_healed_by_a_try;
    HSynch: h_synch_outlives_a_seat with 2, h_synch_outlives_two after 24, h_synch_outlives_a_rank,
        h_synch_is_tried, h_synch_outlives_one_who_tries, h_synch_is_healed_by_a_try;
    HybComb: hybcomb_outlives_a_seat with 1, hybcomb_outlives_two after 20, hybcomb_outlives_a_rank,
        hybcomb_is_tried, hybcomb_outlives_one_who_tries, hybcomb_is_healed_by_a_try;
    Impatient: impatient_hybcomb_outlives_a_seat with 1, impatient_hybcomb_outlives_two after 20,
        impatient_hybcomb_outlives_a_rank, impatient_hybcomb_is_tried,
        impatient_hybcomb_outlives_one_who_tries, impatient_hybcomb_is_healed_by_a_try;
}
