//! What the memory alone costs: large messages between two pinned threads, without a library around them. A box that
//! goes through an rtrb ring is the flag. That costs one transfer of a cache line, and the compiler still proves that
//! only one side has the memory at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use mp_core::waits::look;
use onchip_benches::content::{fill, is_filled};
use onchip_benches::work::Work;
use onchip_benches::{collective, cpus};
use rtrb::RingBuffer;

use crate::plan::{Collective, Emitting, Large, Overlap, PingPong, timed};
use crate::rivals::Checked;
use crate::rivals::rtrb::{pop, push};
use crate::row::{Setup, Side, Trouble};
use crate::stats::median;

/// A word to and fro. The threads poll as the library does, and each read begins after the one before: two words in two
/// lines, or one word.
pub fn pingpong(plan: PingPong, lines: usize) -> Side {
    let name = if lines == 1 { "one line" } else { "two lines" };
    Side::new(name, "spin", move |setup| take_pingpong(setup, plan, lines).map(Into::into))
}

fn take_pingpong(setup: &Setup, plan: PingPong, lines: usize) -> Result<f64, Trouble> {
    let words: [CachePadded<AtomicU64>; 2] = Default::default();
    let [there, back] = [&words[0], &words[lines - 1]];
    let wait = |word: &AtomicU64, value| {
        let is_there = || (word.load(Ordering::Acquire) == value).then_some(());
        while look(1000, is_there).is_none() {}
    };
    let measure = || {
        let mut sent = 0;
        plan.timed(|| -> Result<(), Trouble> {
            there.store(sent + 1, Ordering::Release);
            wait(back, sent + 2);
            sent += 2;
            Ok(())
        })
    };
    let answer = || {
        for trip in 0..plan.all_trips() {
            wait(there, 2 * trip + 1);
            back.store(2 * trip + 2, Ordering::Release);
        }
    };
    Ok(median(&cpus::side_by_side(setup.cpus, measure, answer).0?))
}

type Memory = Box<[u64]>;

fn memory(plan: Large) -> Memory {
    vec![0; plan.words()].into_boxed_slice()
}

/// One buffer goes to and fro: it is written, handed over, read in place, rewritten there, and handed back.
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

/// Each side writes its own memory, and copies it to the slot of its direction. The other side reads it there. Slots go
/// back with the next message.
pub fn one_copy(plan: Large) -> Side {
    Side::new("raw copy", "spin", move |setup| take_one_copy(setup, plan).map(Into::into))
}

/// A full slot, and the empty slot of the other direction, which goes back.
struct Handed {
    full: Memory,
    empty: Option<Memory>,
}

/// One side of the exchange: its own memory, its slot, and the peer's slot after it was read.
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

/// A computation while the other core copies as much and as often as a communication thread would, without any
/// messages.
pub fn beside_copies(plan: Overlap) -> Side {
    Side::new("beside a copy", "spin", move |setup| Ok(take_beside_copies(setup, plan).into()))
}

fn take_beside_copies(setup: &Setup, plan: Overlap) -> f64 {
    const STOP: u64 = u64::MAX;
    let asked = CachePadded::new(AtomicU64::new(0));
    let done = CachePadded::new(AtomicU64::new(0));
    let compute = || {
        let mut work = Work::new();
        let lines = plan.lines(&mut work);
        let mut took = Vec::new();
        let mut copies = 0;
        for batch in 0..=plan.batches {
            let mut each = Vec::with_capacity(plan.sends);
            for _ in 0..plan.sends {
                copies += 1;
                asked.store(copies, Ordering::Release);
                let begin = Instant::now();
                work.run(lines);
                each.push(begin.elapsed().as_nanos() as f64);
                while done.load(Ordering::Acquire) != copies {
                    std::hint::spin_loop();
                }
            }
            if batch > 0 {
                took.push(median(&each));
            }
        }
        asked.store(STOP, Ordering::Release);
        median(&took)
    };
    let copy = || {
        let from = [vec![1u64; plan.words()], vec![2; plan.words()]];
        let mut to = from.clone();
        let mut copied = 0;
        loop {
            let wanted = asked.load(Ordering::Acquire);
            if wanted == STOP {
                return;
            }
            if wanted != copied {
                let which = wanted as usize % from.len();
                to[which].copy_from_slice(&from[which]);
                std::hint::black_box(&mut to);
                copied = wanted;
                done.store(copied, Ordering::Release);
            }
            std::hint::spin_loop();
        }
    };
    cpus::side_by_side(setup.cpus, compute, copy).0
}

/// Measures copies in a second by both cores together, each between its own memory: the limit of the machine for an
/// emitter and its helper.
pub fn copies_on_both(setup: &Setup, plan: Emitting) -> f64 {
    let copy = || {
        let from = vec![vec![1u64; plan.words()]; Emitting::DEGREE];
        let mut to = from.clone();
        let mut which = 0;
        let copied: Result<_, Trouble> = timed(plan.batches, plan.messages / 2, || {
            which = (which + 1) % Emitting::DEGREE;
            to[which].copy_from_slice(&from[which]);
            std::hint::black_box(&mut to);
            Ok(())
        });
        copied.map_or(0.0, |took| 1e9 / median(&took))
    };
    let (first, second) = cpus::side_by_side(setup.cpus, copy, copy);
    first + second
}

/// Two threads that meet again and again: each sets its own flag and waits for the flag of the other. No barrier can do
/// with less.
pub fn flags(plan: Collective) -> Side {
    Side::new("two flags", "spin", move |setup| take_flags(setup, plan).map(Into::into))
}

fn take_flags(setup: &Setup, plan: Collective) -> Result<f64, Trouble> {
    let flags = [0; 2].map(|set| CachePadded::new(AtomicU64::new(set)));
    let meet = |me: usize| {
        let (own, other) = (&flags[me], &flags[1 - me]);
        let mut met = 0;
        timed(plan.batches, plan.calls, || -> Result<(), Trouble> {
            met += 1;
            own.store(met, Ordering::Release);
            // The other thread may already be one meeting ahead.
            while other.load(Ordering::Acquire) < met {}
            Ok(())
        })
    };
    let (first, second) = cpus::side_by_side(setup.cpus, || meet(0), || meet(1));
    Ok(median(&collective::slowest(&[first?, second?])))
}
