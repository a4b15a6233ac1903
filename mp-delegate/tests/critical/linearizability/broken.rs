//! Objects that are wrong, each in its own way. Recordings must show it.

use std::time::Duration;

use mp_core::{Rank, Result, memory::Region, names::Namespace};
use mp_delegate::critical::{Protected, Scheme, Section, objects};

use super::{
    recorder::{Plan, Subject, wrong},
    specs::{Counter, Do, Got, Through},
};
use crate::support::Random;

const PLAN: Plan = Plan { ranks: 3, threads: 1, rounds: 60, most: 5 };

const ALONE: Plan = Plan { ranks: 1, ..PLAN };

/// The number of recordings, each of [`Plan::rounds`] histories. At least one must show the fault, because on a busy
/// machine few clients run at the same time.
const RECORDINGS: u64 = 10;

#[track_caller]
fn is_seen<S: Subject>(plan: Plan, setups: &[S::Setup]) {
    let mut unseen = Vec::new();
    for seed in 1..=RECORDINGS {
        let wrong = wrong::<S>(plan, setups, seed);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        let in_order = wrong.into_iter().filter(|(_, count)| *count == 0).map(|(kind, _)| kind);
        let in_order: Vec<_> = in_order.collect();
        if seed == 1 {
            unseen = in_order;
        } else {
            unseen.retain(|kind| in_order.contains(kind));
        }
        if unseen.is_empty() {
            return;
        }
    }
    panic!("all of {RECORDINGS} times {} histories are in order: {unseen:?}", plan.rounds);
}

/// Sometimes lets another thread run, however many cores there are.
fn a_moment(random: &mut Random) {
    if random.below(2) == 0 {
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Adds by a read and a write, without mutual exclusion.
struct Unprotected {
    count: Region,
    random: Random,
}

impl Subject for Unprotected {
    type Setup = ();
    type Op = u64;
    type Ret = u64;
    type Spec = Counter;

    fn spec((): (), _: &Plan) -> Counter {
        Counter
    }

    fn state(start: u64) -> u64 {
        start
    }

    fn is_served((): ()) -> bool {
        false
    }

    fn open(rank: &Rank, (): ()) -> Result<Option<Self>> {
        let count = Region::open(rank, Namespace::new("tests"), "count", 1, 0)?;
        Ok(Some(Self { count, random: Random::new(rank.id() as u64) }))
    }

    fn another(&self) -> Result<Self> {
        Ok(Self { count: self.count.clone(), random: self.random.clone() })
    }

    fn random(random: &mut Random) -> u64 {
        random.below(3)
    }

    fn call(&mut self, by: u64) -> Result<u64> {
        let count = &self.count.words()[0];
        let before = count.load();
        a_moment(&mut self.random);
        count.store(before + by);
        Ok(before)
    }

    fn restart(&mut self) -> Result<u64> {
        Ok(self.count.words()[0].load())
    }
}

/// Counts correctly, but returns an old value to clients that only read. No sum is wrong.
struct Late {
    count: Protected<objects::Counter>,
    known: u64,
}

impl Subject for Late {
    type Setup = ();
    type Op = u64;
    type Ret = u64;
    type Spec = Counter;

    fn spec((): (), _: &Plan) -> Counter {
        Counter
    }

    fn state(start: u64) -> u64 {
        start
    }

    fn is_served((): ()) -> bool {
        false
    }

    fn open(rank: &Rank, (): ()) -> Result<Option<Self>> {
        let count = objects::Counter::open(rank, "count", Scheme::Mcs)?;
        Ok(Some(Self { count, known: 0 }))
    }

    fn another(&self) -> Result<Self> {
        Ok(Self { count: self.count.another()?, known: self.known })
    }

    fn random(random: &mut Random) -> u64 {
        random.below(3)
    }

    fn call(&mut self, by: u64) -> Result<u64> {
        if by == 0 {
            return Ok(self.known);
        }
        let before = self.count.fetch_add(by)?;
        self.known = before + by;
        Ok(before)
    }

    fn restart(&mut self) -> Result<u64> {
        self.count.fetch_add(0)
    }
}

/// A queue with room for one value, with a separate count of its values. It checks for room in one critical section,
/// and puts the value in in the next.
struct InSteps {
    count: Protected<objects::Counter>,
    queue: Protected<objects::Queue>,
    random: Random,
}

impl Subject for InSteps {
    type Setup = ();
    type Op = Do;
    type Ret = Got;
    type Spec = Through;

    fn spec((): (), _: &Plan) -> Through {
        Through::queue(1, 1)
    }

    fn state(_: u64) -> Vec<u64> {
        Vec::new()
    }

    fn is_served((): ()) -> bool {
        false
    }

    fn open(rank: &Rank, (): ()) -> Result<Option<Self>> {
        let count = objects::Counter::open(rank, "count", Scheme::HybComb)?;
        let section = Section::new(Scheme::HybComb).len(100);
        let queue = objects::Queue::open(rank, "queue", section)?;
        Ok(Some(Self { count, queue, random: Random::new(rank.id() as u64) }))
    }

    fn another(&self) -> Result<Self> {
        let (count, queue) = (self.count.another()?, self.queue.another()?);
        Ok(Self { count, queue, random: self.random.clone() })
    }

    fn random(random: &mut Random) -> Do {
        if random.below(2) == 0 { Do::Take } else { Do::Put(random.below(1000)) }
    }

    fn call(&mut self, op: Do) -> Result<Got> {
        match op {
            Do::Put(value) => {
                if self.count.fetch_add(0)? > 0 {
                    return Ok(Got::Full);
                }
                a_moment(&mut self.random);
                self.queue.enqueue(value)??;
                self.count.fetch_add(1)?;
                Ok(Got::Done)
            }
            Do::Take => {
                let Some(value) = self.queue.dequeue()? else { return Ok(Got::Empty) };
                self.count.fetch_add(u64::MAX)?;
                Ok(Got::Value(value))
            }
        }
    }

    fn restart(&mut self) -> Result<u64> {
        while self.call(Do::Take)? != Got::Empty {}
        Ok(0)
    }
}

/// With a single client they are right. Only other clients in between make them wrong.
#[test]
fn one_client_does_not_find_out() {
    for (kind, count) in [
        wrong::<Unprotected>(ALONE, &[()], 1),
        wrong::<Late>(ALONE, &[()], 1),
        wrong::<InSteps>(ALONE, &[()], 1),
    ]
    .concat()
    {
        assert_eq!(count, 0, "{kind}");
    }
}

#[test]
fn a_counter_that_nothing_protects_is_found_out() {
    is_seen::<Unprotected>(PLAN, &[()]);
    is_seen::<Unprotected>(Plan { ranks: 1, threads: 3, ..PLAN }, &[()]);
}

#[test]
fn a_counter_that_is_right_in_sum_is_found_out() {
    is_seen::<Late>(PLAN, &[()]);
}

#[test]
fn a_queue_that_puts_in_steps_is_found_out() {
    is_seen::<InSteps>(PLAN, &[()]);
}
