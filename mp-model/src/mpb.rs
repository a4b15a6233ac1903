//! What an algorithm sees of message passing buffers (thesis, sections 2.2 and 2.3).
//!
//! Every rank owns a message passing buffer (MPB): so many cache lines that all ranks may read and
//! write. A *put* copies from the own MPB or private memory to any MPB, a *get* from any MPB to the
//! own MPB or private memory. A *flag* is a line that holds a number and a few bytes beside it; it
//! may be set in any MPB and is waited for in the own one. Lines are the unit of place, so nothing can be misaligned.
//!
//! An algorithm is written once, generic over [`Mpb`], and runs on shared memory and on simulated
//! cores alike.
//!
//! # Why the methods are futures
//!
//! A simulator must stop a core in the middle of its algorithm until virtual time has come. Either
//! each core is a thread that is handed a baton, or the algorithm can be suspended, as `async`
//! functions can. Threads would leave the algorithms plain, but each of the millions of line
//! accesses in a simulation would be two switches of threads, microseconds each, against some tens
//! of nanoseconds for a suspended function; a thousand cores would be a thousand stacks; and the
//! order would hang on locks of the operating system, which a pure computation does not need.
//!
//! On the real machine nothing is lost: there an operation blocks (spins, parks) inside its first
//! `poll` and is then ready, so [`complete`] runs an algorithm from beginning to end in one poll.
//! There is no waker, no allocation and no dynamic dispatch; what the compiler makes of an `await`
//! of a ready future is a call and a branch that is never taken. The futures need not be `Send`:
//! a rank's algorithm stays in its thread.
//!
//! The methods take `&mut self` because a core has one transaction at a time.

use std::future::Future;
use std::hint;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytemuck::{AnyBitPattern, NoUninit};
use thiserror::Error;

/// A line of some rank's MPB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Whose MPB.
    pub rank: usize,
    /// Which line of it, from 0.
    pub line: usize,
}

impl Line {
    /// So many lines further on.
    pub fn offset(self, lines: usize) -> Line {
        Line { rank: self.rank, line: self.line.saturating_add(lines) }
    }
}

/// A place that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// No such rank.
    #[error("there is no MPB of rank {rank}: there are {ranks} ranks, numbered from 0")]
    Rank {
        /// The rank asked for.
        rank: usize,
        /// How many there are.
        ranks: usize,
    },
    /// Lines beyond the end of an MPB.
    #[error(
        "{count} lines from line {first} on are beyond the end of an MPB, which has {lines} lines"
    )]
    Lines {
        /// The first line asked for.
        first: usize,
        /// How many were asked for.
        count: usize,
        /// How many the MPB has.
        lines: usize,
    },
    /// More bytes than a flag's line holds beside the flag.
    #[error(
        "a payload of {bytes} bytes is too long to be beside a flag, where up to {most} fit: put it into lines of its own"
    )]
    Payload {
        /// How many bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
}

/// The bit of a flag beside which there is something new: see [`Mpb::announce_news`].
pub const NEWS: u64 = 1 << 63;

/// One rank's access to the MPBs of all.
///
/// Lengths in bytes that are no multiple of a line take the beginning of their last line. What a
/// put leaves in the rest of that line is not determined.
///
/// All operations but those on own flags are [`Misfit`] errors when they name a rank or lines that
/// do not exist; those on own flags when the line does not exist; those with a payload when it is
/// longer than a line less the 8 bytes of a flag. No memory is touched then.
///
/// # Order
/// A rank's puts and flags reach an MPB in the order of its calls, and a put or a flag has arrived
/// when the call returns. A flag that is seen shows everything that its setter had put or got before.
pub trait Mpb {
    /// What can go wrong: at least, a place that does not exist.
    type Error: std::error::Error + From<Misfit>;

    /// Who am I: 0 to [`ranks`](Mpb::ranks) − 1.
    fn rank(&self) -> usize;

    /// How many are we: at least 1.
    fn ranks(&self) -> usize;

    /// Cache lines in each MPB.
    fn lines(&self) -> usize;

    /// Bytes in a cache line: at least 8, the room of a flag.
    fn line_bytes(&self) -> usize;

    /// Copies private memory to an MPB.
    fn put(&mut self, source: &[u8], to: Line) -> impl Future<Output = Result<(), Self::Error>>;

    /// Copies `count` lines from line `from` of the own MPB to an MPB.
    fn put_own(
        &mut self,
        from: usize,
        count: usize,
        to: Line,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Copies from an MPB to private memory.
    fn get(
        &mut self,
        from: Line,
        target: &mut [u8],
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Combines elements in an MPB with private ones: each of `target` becomes `combine` of it and of
    /// the one in its place from line `from` on. A machine may do so while it gets them.
    fn get_with<T: NoUninit + AnyBitPattern + Send + Sync>(
        &mut self,
        from: Line,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            let mut there = vec![T::zeroed(); target.len()];
            self.get(from, bytemuck::cast_slice_mut(&mut there)).await?;
            for (target, there) in target.iter_mut().zip(there) {
                *target = combine(*target, there);
            }
            Ok(())
        }
    }

    /// [`get_with`](Mpb::get_with), and a [`put`](Mpb::put) of what the target then is. A machine may
    /// do both as the elements come; the lines that are put may be those that are got.
    fn pass_with<T: NoUninit + AnyBitPattern + Send + Sync>(
        &mut self,
        from: Line,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
        to: Line,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            self.get_with(from, target, combine).await?;
            self.put(bytemuck::cast_slice(target), to).await
        }
    }

    /// Copies `count` lines from an MPB to line `to` of the own MPB.
    fn get_own(
        &mut self,
        from: Line,
        count: usize,
        to: usize,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets a flag in an MPB. Flags are 0 at first.
    fn set_flag(&mut self, flag: Line, value: u64)
    -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets a flag with some bytes beside it: a small message in one line. Until its receiver has
    /// read them ([`flag_payload`](Mpb::flag_payload)) the flag must not be set again.
    fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets flags one line after the other, from `first` on, as [`set_flag_with`](Mpb::set_flag_with)
    /// does: each beside as much of the payload as it can take, and to a value one greater than the one
    /// before. A machine may bring all the lines near at the same time.
    fn set_flags_with(
        &mut self,
        first: Line,
        value: u64,
        payload: &[u8],
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            let most = self.line_bytes().saturating_sub(FLAG).max(1);
            for (index, piece) in payload.chunks(most).enumerate() {
                let flag = first.offset(index);
                self.set_flag_with(flag, value.wrapping_add(index as u64), piece).await?;
            }
            Ok(())
        }
    }

    /// A mark of the call that the rank is in, in the upper 31 bits, where ranks compare their calls: to be
    /// in the value of flags whose numbers have 32 bits.
    fn mark(&self) -> u64 {
        0
    }

    /// Compares the mark in a flag that rank `from` has set as part of this call with the own one.
    fn compare_mark(&self, from: usize, seen: u64) -> Result<(), Self::Error> {
        let _ = (from, seen);
        Ok(())
    }

    /// [`set_flag`](Mpb::set_flag) of a flag that says with its number what the rank calls, where ranks
    /// compare their calls.
    fn announce(
        &mut self,
        flag: Line,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        self.set_flag(flag, value)
    }

    /// [`announce`](Mpb::announce) of a flag with a value below [`NEWS`], which is added when the rank says
    /// something that it had not said with its last flags: then the one who sees the flag compares.
    fn announce_news(
        &mut self,
        flag: Line,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        self.announce(flag, value)
    }

    /// Compares what rank `from` calls with the own call, after a flag was seen that `from`
    /// [announces](Mpb::announce) in this line of the own MPB.
    fn compare(&mut self, from: usize, line: usize) -> Result<(), Self::Error> {
        let _ = (from, line);
        Ok(())
    }

    /// Reads a flag of the own MPB.
    fn flag(&mut self, line: usize) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Waits until a flag of the own MPB has a value that `reached` is true of, and returns it.
    /// Values that are overwritten before they are looked at are not seen.
    fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>>;

    /// [`wait_flag`](Mpb::wait_flag) for a flag that only rank `setter` sets: a machine whose ranks
    /// can leave knows then when there is nothing more to wait for.
    fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>> {
        let _ = setter;
        self.wait_flag(line, reached)
    }

    /// Sets the flag in this line of every other MPB: for those who are let go at the same time, where to
    /// wake them is what costs.
    fn set_flags(
        &mut self,
        line: usize,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            let me = self.rank();
            for rank in (0..self.ranks()).filter(|&rank| rank != me) {
                self.set_flag(Line { rank, line }, value).await?;
            }
            Ok(())
        }
    }

    /// [`wait_flag_from`](Mpb::wait_flag_from) for a flag that rank `setter` sets by
    /// [`set_flags`](Mpb::set_flags).
    fn wait_flag_together(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>> {
        self.wait_flag_from(setter, line, reached)
    }

    /// Reads what was set beside a flag of the own MPB, after the flag was seen.
    fn flag_payload(
        &mut self,
        line: usize,
        target: &mut [u8],
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// What two ranks do that give each other a line: [sets a flag](Mpb::set_flag_with) in the other
    /// one's MPB, waits until that one has set a line of the own MPB to `awaited`, as far as the lower 32
    /// bits go, and reads what is beside it. The marks are [compared](Mpb::compare_mark).
    fn exchange_flags(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
        line: usize,
        awaited: u64,
        target: &mut [u8],
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            self.set_flag_with(flag, value, payload).await?;
            let reached = |seen| seen as u32 == awaited as u32;
            let seen = self.wait_flag_from(flag.rank, line, reached).await?;
            self.compare_mark(flag.rank, seen)?;
            self.flag_payload(line, target).await
        }
    }

    /// Reads what was set beside flags of the own MPB one line after the other, from `first` on, as
    /// [`set_flags_with`](Mpb::set_flags_with) has set them, after the last flag was seen.
    fn flag_payloads(
        &mut self,
        first: usize,
        target: &mut [u8],
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            let most = self.line_bytes().saturating_sub(FLAG).max(1);
            for (index, piece) in target.chunks_mut(most).enumerate() {
                self.flag_payload(first.saturating_add(index), piece).await?;
            }
            Ok(())
        }
    }
}

/// Bytes of a flag.
const FLAG: usize = size_of::<u64>();

/// Checks that so many bytes have room beside a flag in a line of so many.
///
/// # Errors
/// [`Misfit::Payload`].
pub fn check_payload(bytes: usize, line_bytes: usize) -> Result<(), Misfit> {
    let most = line_bytes.saturating_sub(FLAG);
    if bytes <= most { Ok(()) } else { Err(Misfit::Payload { bytes, most }) }
}

/// How many lines so many bytes take.
pub fn lines_of(bytes: usize, line_bytes: usize) -> usize {
    bytes.div_ceil(line_bytes)
}

/// Checks that a range of lines exists.
///
/// # Errors
/// [`Misfit::Lines`].
pub fn check_lines(first: usize, count: usize, lines: usize) -> Result<(), Misfit> {
    match first.checked_add(count) {
        Some(end) if end <= lines => Ok(()),
        _ => Err(Misfit::Lines { first, count, lines }),
    }
}

/// Runs an algorithm whose operations block inside `poll`, in the calling thread.
///
/// A future that is not ready after all is polled again and again; that is right, but burns the
/// core.
#[inline(always)]
pub fn complete<F: Future>(algorithm: F) -> F::Output {
    let mut algorithm = pin!(algorithm);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = algorithm.as_mut().poll(&mut context) {
            return output;
        }
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(check_lines(0, 0, 0), Ok(()));
        assert_eq!(check_lines(3, 1, 4), Ok(()));
        assert_eq!(check_lines(4, 0, 4), Ok(()));
        for (first, count) in [(4, 1), (5, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert_eq!(check_lines(first, count, 4), Err(Misfit::Lines { first, count, lines: 4 }));
        }
        assert_eq!((check_payload(24, 32), check_payload(0, 8)), (Ok(()), Ok(())));
        assert_eq!(check_payload(25, 32), Err(Misfit::Payload { bytes: 25, most: 24 }));
        assert_eq!([0, 1, 32, 33].map(|bytes| lines_of(bytes, 32)), [0, 1, 1, 2]);
    }

    #[test]
    fn completes_what_is_ready_late() {
        let mut looks = 0;
        let late = std::future::poll_fn(|_| {
            looks += 1;
            if looks == 3 { Poll::Ready(7) } else { Poll::Pending }
        });
        assert_eq!(complete(async { late.await + 1 }), 8);
    }
}
