//! What a message costs that one thread copies into a buffer between the two and another copies out
//! of it, piece by piece: with two pieces, so that both copy at the same time. No library.

use onchip_benches::content::{is_stamped, stamp};
use onchip_benches::{collective, cpus};
use rtrb::RingBuffer;

use crate::party::Turns;
use crate::plan::{Collective, timed};
use crate::rivals::Checked;
use crate::rivals::rtrb::{pop, push};
use crate::row::{Sample, Setup, Side, Trouble};
use crate::stats::median;

const PIECES: usize = 2;
/// Words of a piece: small ones stay in the nearest cache, large ones are handed over less often.
/// The fastest counts.
const LENGTHS: [usize; 3] = [8 << 7, 32 << 7, 128 << 7];

pub fn copied(plan: Collective) -> Side {
    Side::new("raw copies", "spin", move |setup| take(setup, plan))
}

fn take(setup: &Setup, plan: Collective) -> Result<Sample, Trouble> {
    let mut best: Option<(f64, usize)> = None;
    for length in LENGTHS {
        let took = copy(setup, plan, length)?;
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

fn copy(setup: &Setup, plan: Collective, length: usize) -> Result<f64, Trouble> {
    let (mut full_in, mut full_out) = RingBuffer::<Piece>::new(PIECES);
    let (mut empty_in, mut empty_out) = RingBuffer::<Piece>::new(PIECES);
    for _ in 0..PIECES {
        push(&mut empty_in, vec![0; length].into_boxed_slice());
    }
    let mut sent = Turns::new(plan.words());
    let send = move || {
        timed(plan.batches, plan.calls, || -> Result<(), Trouble> {
            let (message, number) = sent.next();
            stamp(message, number);
            for part in message.chunks(length) {
                let mut piece = pop(&mut empty_out);
                piece[..part.len()].copy_from_slice(part);
                push(&mut full_in, piece);
            }
            Ok(())
        })
    };
    let mut got = Turns::new(plan.words());
    let receive = move || {
        let mut checked = Checked::default();
        let took = timed(plan.batches, plan.calls, || {
            let (message, number) = got.next();
            for part in message.chunks_mut(length) {
                let piece = pop(&mut full_out);
                part.copy_from_slice(&piece[..part.len()]);
                push(&mut empty_in, piece);
            }
            checked.holds(is_stamped(message, number));
            Ok(())
        })?;
        checked.finish().map(|()| took)
    };
    let (sent, received) = cpus::side_by_side(setup.cpus, send, receive);
    Ok(median(&collective::slowest(&[sent?, received?])))
}
