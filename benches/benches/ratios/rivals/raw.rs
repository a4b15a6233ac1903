//! What the memory alone costs: large messages between two pinned threads with nothing around
//! them. A box handed through an rtrb ring is the flag; that costs one cache line transfer, and
//! the compiler still proves that only one side has the memory.

use onchip_benches::content::{fill, is_filled};
use onchip_benches::cpus;
use rtrb::RingBuffer;

use crate::plan::Large;
use crate::rivals::Checked;
use crate::rivals::rtrb::{pop, push};
use crate::row::{Setup, Side, Trouble};
use crate::stats::median;

type Memory = Box<[u64]>;

fn memory(plan: Large) -> Memory {
    vec![0; plan.words()].into_boxed_slice()
}

/// One buffer bounces: written, handed over, read where it is, rewritten there, handed back.
pub fn without_copy(plan: Large) -> Side {
    Side::new("raw hand-off", "spin", move |setup| take_without_copy(setup, plan).map(Into::into))
}

fn take_without_copy(setup: &Setup, plan: Large) -> Result<f64, Trouble> {
    let (mut there_in, mut there_out) = RingBuffer::<Memory>::new(1);
    let (mut back_in, mut back_out) = RingBuffer::<Memory>::new(1);
    let measure = move || {
        let mut checked = Checked::default();
        let mut seed = 0;
        let mut held = Some(memory(plan));
        let took = plan.timed(|| {
            if let Some(mut buffer) = held.take() {
                fill(&mut buffer, seed);
                push(&mut there_in, buffer);
            }
            let buffer = pop(&mut back_out);
            checked.holds(is_filled(&buffer, !seed));
            held = Some(buffer);
            seed += 1;
            Ok(())
        })?;
        checked.finish().map(|()| median(&took))
    };
    let answer = move || {
        let mut checked = Checked::default();
        for seed in 0..plan.all_trips() {
            let mut buffer = pop(&mut there_out);
            checked.holds(is_filled(&buffer, seed));
            fill(&mut buffer, !seed);
            push(&mut back_in, buffer);
        }
        checked.finish()
    };
    let (measured, answered) = cpus::side_by_side(setup.cpus, measure, answer);
    answered.and(measured)
}

/// Each side writes memory of its own, copies it to the slot of its direction, and the other reads
/// it there; slots go back with the next message.
pub fn one_copy(plan: Large) -> Side {
    Side::new("raw copy", "spin", move |setup| take_one_copy(setup, plan).map(Into::into))
}

/// A full slot, and the other direction's slot going back empty.
struct Handed {
    full: Memory,
    empty: Option<Memory>,
}

/// One side of the exchange: its own memory, its slot, and the peer's slot once read.
struct Party {
    own: Memory,
    slot: Option<Memory>,
    peers: Option<Memory>,
}

impl Party {
    fn new(plan: Large) -> Party {
        Party { own: memory(plan), slot: Some(memory(plan)), peers: None }
    }

    fn write(&mut self, seed: u64) -> Option<Handed> {
        fill(&mut self.own, seed);
        let mut full = self.slot.take()?;
        full.copy_from_slice(&self.own);
        Some(Handed { full, empty: self.peers.take() })
    }

    fn read(&mut self, handed: Handed, seed: u64) -> bool {
        let right = is_filled(&handed.full, seed);
        self.peers = Some(handed.full);
        if handed.empty.is_some() {
            self.slot = handed.empty;
        }
        right
    }
}

fn take_one_copy(setup: &Setup, plan: Large) -> Result<f64, Trouble> {
    let (mut there_in, mut there_out) = RingBuffer::<Handed>::new(1);
    let (mut back_in, mut back_out) = RingBuffer::<Handed>::new(1);
    let measure = move || {
        let mut checked = Checked::default();
        let mut seed = 0;
        let mut party = Party::new(plan);
        let took = plan.timed(|| {
            match party.write(seed) {
                Some(handed) => push(&mut there_in, handed),
                None => checked.holds(false),
            }
            checked.holds(party.read(pop(&mut back_out), !seed));
            seed += 1;
            Ok(())
        })?;
        checked.finish().map(|()| median(&took))
    };
    let answer = move || {
        let mut checked = Checked::default();
        let mut party = Party::new(plan);
        for seed in 0..plan.all_trips() {
            checked.holds(party.read(pop(&mut there_out), seed));
            match party.write(!seed) {
                Some(handed) => push(&mut back_in, handed),
                None => checked.holds(false),
            }
        }
        checked.finish()
    };
    let (measured, answered) = cpus::side_by_side(setup.cpus, measure, answer);
    answered.and(measured)
}
