//! Message passing buffers as algorithms use them (thesis, sections 2.2 and 2.3).
//!
//! Every rank owns a message passing buffer (MPB), a number of cache lines that all ranks may read and write. A *put*
//! copies from the own MPB or private memory to any MPB, and a *get* from any MPB to the own MPB or private memory. A
//! *flag* is a line that holds a number and a few bytes beside it. It may be set in any MPB, and a rank waits for flags
//! in its own MPB. Places are given in lines, so nothing can be misaligned.
//!
//! An algorithm is written once, generic over [`Mpb`], and runs on shared memory and on simulated
//! cores alike.
//!
//! # Why the methods are futures
//!
//! A simulator must stop a core in the middle of its algorithm until its virtual time has come. Either each core is a
//! thread, and one thread runs at a time, or the algorithm can be suspended, as `async` functions can. With threads the
//! algorithms would be ordinary functions. But each of the millions of line accesses in a simulation would be two
//! switches of threads, which take microseconds, compared with some tens of nanoseconds for a suspended function. A
//! thousand cores would need a thousand stacks, and the order would depend on locks of the operating system, which a
//! pure computation does not need.
//!
//! On a real machine this costs nothing. There an operation blocks (spins, parks) inside its first `poll` and is then
//! ready, so [`complete`] runs an algorithm from beginning to end in one poll. There is no waker, no allocation and no
//! dynamic dispatch. The compiler turns an `await` of a ready future into a call and a branch that is never taken. The
//! futures need not be `Send`, because a rank's algorithm stays in its thread.
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
    /// The rank whose MPB it is.
    pub rank: usize,
    /// Its number in the MPB, from 0.
    pub line: usize,
}

impl Line {
    /// Returns the line that is `lines` further on.
    pub fn offset(self, lines: usize) -> Line {
        Line { rank: self.rank, line: self.line.saturating_add(lines) }
    }
}

/// A place that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// There is no such rank.
    #[error("rank {rank} of {ranks}")]
    Rank {
        /// The requested rank.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The lines are beyond the end of an MPB.
    #[error("{count} lines from line {first} on, in a buffer of {lines} lines")]
    Lines {
        /// The first requested line.
        first: usize,
        /// The requested number of lines.
        count: usize,
        /// The number of lines of the MPB.
        lines: usize,
    },
    /// There are more bytes than a flag's line holds beside the flag.
    #[error("{bytes} bytes beside a flag, which takes up to {most}")]
    Payload {
        /// The number of bytes.
        bytes: usize,
        /// The greatest number of bytes.
        most: usize,
    },
}

/// The bit of a flag that says that there is something new to compare: see [`Mpb::announce_news`].
pub const NEWS: u64 = 1 << 63;

/// One rank's access to the MPBs of all ranks.
///
/// If a length in bytes is no multiple of a line, the last line is used only at its beginning. After a put, the content
/// of the rest of that line is not determined.
///
/// Operations return a [`Misfit`] error if they name a rank or lines that do not exist. Operations on own flags do so
/// only if the line does not exist, and those with a payload if it is longer than a line less the 8 bytes of a flag. No
/// memory is touched then.
///
/// # Order
/// A rank's puts and flags reach an MPB in the order of its calls, and a put or a flag has arrived when the call
/// returns. A rank that sees a flag also sees everything that its setter had put or got before.
pub trait Mpb {
    /// The error of an operation: at least, that a place does not exist.
    type Error: std::error::Error + From<Misfit>;

    /// Returns this rank's number: 0 to [`ranks`](Mpb::ranks) − 1.
    fn rank(&self) -> usize;

    /// Returns the number of ranks: at least 1.
    fn ranks(&self) -> usize;

    /// Returns the number of cache lines in each MPB.
    fn lines(&self) -> usize;

    /// Returns the number of bytes in a cache line: at least 8, the room of a flag.
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

    /// Combines elements in an MPB with private ones: each element of `target` becomes `combine` of it and of the
    /// element in its place from line `from` on. A machine may do so while it gets them.
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

    /// Does what [`get_with`](Mpb::get_with) does, and [puts](Mpb::put) the target's new elements. A machine may do
    /// both as the elements come; the lines that are put may be those that are got.
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

    /// Returns a mark of the call that the rank is in, in the upper 31 bits, where ranks compare their calls. It goes
    /// into the value of flags whose numbers have 32 bits.
    fn mark(&self) -> u64 {
        0
    }

    /// Compares the mark in a flag that rank `from` has set as part of this call with this rank's own.
    fn compare_mark(&self, from: usize, seen: u64) -> Result<(), Self::Error> {
        let _ = (from, seen);
        Ok(())
    }

    /// Does what [`set_flag`](Mpb::set_flag) does, for a flag whose number also tells what the rank calls, where ranks
    /// compare their calls.
    fn announce(
        &mut self,
        flag: Line,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        self.set_flag(flag, value)
    }

    /// Does what [`announce`](Mpb::announce) does, with a value below [`NEWS`]. `NEWS` is added if the rank announces
    /// something that its last flags did not: then the rank that sees the flag compares.
    fn announce_news(
        &mut self,
        flag: Line,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        self.announce(flag, value)
    }

    /// Compares what rank `from` calls with this rank's call, after a flag was seen that `from`
    /// [announces](Mpb::announce) in this line of the own MPB.
    fn compare(&mut self, from: usize, line: usize) -> Result<(), Self::Error> {
        let _ = (from, line);
        Ok(())
    }

    /// Reads a flag of the own MPB.
    fn flag(&mut self, line: usize) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Waits until a flag of the own MPB has a value for which `reached` returns true, and returns that value. Values
    /// that are overwritten before they are looked at are not seen.
    fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Does what [`wait_flag`](Mpb::wait_flag) does, for a flag that only rank `setter` sets. So a machine whose ranks
    /// can leave knows when there is nothing more to wait for.
    fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>> {
        let _ = setter;
        self.wait_flag(line, reached)
    }

    /// Sets the flag in this line of every other MPB, for ranks that are released at the same time, where waking them
    /// is what costs.
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

    /// Does what [`wait_flag_from`](Mpb::wait_flag_from) does, for a flag that rank `setter` sets by
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

    /// Exchanges a line with another rank: [sets a flag](Mpb::set_flag_with) in that rank's MPB, waits until it has set
    /// a line of the own MPB to `awaited`, as far as the lower 32 bits go, and reads what is beside it. The marks are
    /// [compared](Mpb::compare_mark).
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

/// The number of bytes of a flag.
const FLAG: usize = size_of::<u64>();

/// Checks that `bytes` bytes have room beside a flag in a line of `line_bytes` bytes.
///
/// # Errors
/// [`Misfit::Payload`].
pub fn check_payload(bytes: usize, line_bytes: usize) -> Result<(), Misfit> {
    let most = line_bytes.saturating_sub(FLAG);
    if bytes <= most { Ok(()) } else { Err(Misfit::Payload { bytes, most }) }
}

/// Returns the number of lines that `bytes` bytes take.
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
/// A future that is not ready is polled again and again. The result is right, but that takes a core.
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
