//! The cost of a message that one thread copies into a buffer between the two threads, and the other copies out of it,
//! piece by piece. There are two pieces, so that both threads copy at the same time. Nothing of the library is used
//! except its copy function, which is the fastest here for memory that another core has used.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use mp_core::copy;
use onchip_benches::clock::{monotonic_ns, reading_ns};
use onchip_benches::content::{is_stamped, stamp};
use onchip_benches::{collective, cpus};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::party::Turns;
use crate::plan::{Collective, Tagged, Timing, timed};
use crate::rivals::Checked;
use crate::rivals::rtrb::{pop, push};
use crate::row::{Sample, Setup, Side, Trouble};
use crate::stats::median;

const PIECES: usize = 2;
/// Words of a piece. Small pieces stay in the nearest cache, and large pieces are handed over less often. The fastest
/// length counts.
const LENGTHS: [usize; 5] = [2 << 7, 8 << 7, 16 << 7, 32 << 7, 128 << 7];

pub fn copied(plan: Collective, timing: Timing) -> Side {
    Side::new("raw copies", "spin", move |setup| take(setup, plan, timing))
}

fn take(setup: &Setup, plan: Collective, timing: Timing) -> Result<Sample, Trouble> {
    fastest(|length| match timing {
        Timing::Loop => back_to_back(setup, plan, length),
        Timing::Separated | Timing::Last => Ok(timing.figure(&apart(setup, plan, length)?)),
    })
}

/// A message to the other thread and one back; half of the time of both.
pub fn bounced(plan: Tagged) -> Side {
    Side::new("raw copies", "spin", move |setup| fastest(|length| to_and_fro(setup, plan, length)))
}

/// Measures with the best length of pieces.
fn fastest(mut take: impl FnMut(usize) -> Result<f64, Trouble>) -> Result<Sample, Trouble> {
    let mut best: Option<(f64, usize)> = None;
    for length in LENGTHS {
        let took = take(length)?;
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, length));
        }
    }
    let (value, length) = best.ok_or_else(|| super::failed("no pieces to copy"))?;
    let remark = Some(format!("pieces of {} KB", length >> 7));
    Ok(Sample { value, probes: None, remark })
}

/// A piece of memory that is handed through one ring full and through another one empty.
type Piece = Box<[u64]>;

/// One end of a direction: full pieces go one way, and come back empty.
struct End {
    to: Producer<Piece>,
    from: Consumer<Piece>,
    length: usize,
}

fn ends(length: usize) -> (End, End) {
    let (full_in, full_out) = RingBuffer::<Piece>::new(PIECES);
    let (mut empty_in, empty_out) = RingBuffer::<Piece>::new(PIECES);
    for _ in 0..PIECES {
        push(&mut empty_in, vec![0; length].into_boxed_slice());
    }
    let sending = End { to: full_in, from: empty_out, length };
    (sending, End { to: empty_in, from: full_out, length })
}

impl End {
    fn send(&mut self, message: &[u64]) {
        for part in message.chunks(self.length) {
            let mut piece = pop(&mut self.from);
            copy(part, &mut piece[..part.len()]);
            push(&mut self.to, piece);
        }
    }

    fn receive(&mut self, message: &mut [u64]) {
        for part in message.chunks_mut(self.length) {
            let piece = pop(&mut self.from);
            copy(&piece[..part.len()], part);
            push(&mut self.to, piece);
        }
    }
}

fn back_to_back(setup: &Setup, plan: Collective, length: usize) -> Result<f64, Trouble> {
    let (mut sending, mut receiving) = ends(length);
    let mut sent = Turns::new(plan.words());
    let send = move || {
        timed(plan.batches, plan.calls, || -> Result<(), Trouble> {
            let (message, number) = sent.next();
            stamp(message, number);
            sending.send(message);
            Ok(())
        })
    };
    let mut got = Turns::new(plan.words());
    let receive = move || {
        let mut checked = Checked::default();
        let took = timed(plan.batches, plan.calls, || {
            let (message, number) = got.next();
            receiving.receive(message);
            checked.holds(is_stamped(message, number));
            Ok(())
        })?;
        checked.finish().map(|()| took)
    };
    let (sent, received) = cpus::side_by_side(setup.cpus, send, receive);
    Ok(median(&collective::slowest(&[sent?, received?])))
}

fn to_and_fro(setup: &Setup, plan: Tagged, length: usize) -> Result<f64, Trouble> {
    let ((to, at_other), (back, at_one)) = (ends(length), ends(length));
    let party = |mut sending: End, mut receiving: End, first: bool| {
        move || {
            let mut checked = Checked::default();
            let [mut out, mut got] = [0; 2].map(|_| Turns::new(plan.words()));
            let mut send = || {
                let (message, number) = out.next();
                stamp(message, number);
                sending.send(message);
            };
            let mut receive = || {
                let (message, number) = got.next();
                receiving.receive(message);
                checked.holds(is_stamped(message, number));
            };
            let took = timed(plan.batches, plan.trips, || -> Result<(), Trouble> {
                if first {
                    send();
                    receive();
                } else {
                    receive();
                    send();
                }
                Ok(())
            })?;
            checked.finish().map(|()| median(&took) / 2.0)
        }
    };
    let (one, other) =
        cpus::side_by_side(setup.cpus, party(to, at_one, true), party(back, at_other, false));
    other.and(one)
}

/// Returns when each call began and ended, as for our side.
fn apart(setup: &Setup, plan: Collective, length: usize) -> Result<[Vec<f64>; 2], Trouble> {
    let (mut sending, mut receiving) = ends(length);
    let start = Start::default();
    let mut sent = Turns::new(plan.words());
    let send = || {
        singles(plan, || {
            let (message, number) = sent.next();
            stamp(message, number);
            start.together(0, number);
            let begin = monotonic_ns();
            sending.send(message);
            (begin, monotonic_ns())
        })
    };
    let mut got = Turns::new(plan.words());
    let mut checked = Checked::default();
    let receive = || {
        singles(plan, || {
            let (message, number) = got.next();
            start.together(1, number);
            let begin = monotonic_ns();
            receiving.receive(message);
            let end = monotonic_ns();
            checked.holds(is_stamped(message, number));
            (begin, end)
        })
    };
    let stamps = cpus::side_by_side(setup.cpus, send, receive);
    checked.finish().map(|()| stamps.into())
}

fn singles(plan: Collective, mut call: impl FnMut() -> (u64, u64)) -> Vec<f64> {
    let reading = reading_ns();
    (0..plan.calls).for_each(|_| _ = call());
    let taken = (0..plan.singles()).flat_map(|_| {
        let (begin, end) = call();
        [begin as f64, end as f64 - reading]
    });
    taken.collect()
}

/// Two threads begin at a moment that they have agreed on, as in `ours::Start`.
#[derive(Default)]
struct Start {
    /// The proposals for even and odd numbers, of each thread.
    proposed: [[CachePadded<AtomicU64>; 2]; 2],
    agreed: [CachePadded<AtomicU64>; 2],
}

impl Start {
    fn together(&self, me: usize, number: u64) {
        let before = self.agreed[me].load(Ordering::Relaxed);
        let proposed = &self.proposed[number as usize % 2];
        let mine = monotonic_ns() + 1000;
        proposed[me].store(mine, Ordering::Release);
        let mut theirs = before;
        while theirs <= before {
            theirs = proposed[1 - me].load(Ordering::Acquire);
        }
        let at = mine.max(theirs);
        self.agreed[me].store(at, Ordering::Relaxed);
        while monotonic_ns() < at {}
    }
}
