//! The interface through which an algorithm uses MPBs: those of a world, or those of a simulator.

use std::{
    future::{Future, ready},
    hint,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::Line;
use crate::plain::Plain;

/// The bit of a flag which says that there is something new beside the flag: see [`MpbAccess::announce_news`].
pub const NEWS: u64 = 1 << 63;

/// The number of bytes of a flag.
const FLAG: usize = size_of::<u64>();

/// One rank's access to the MPBs of all ranks, for algorithms that also run on simulated cores.
///
/// An algorithm is written once, generic over this trait. On the MPBs of a world ([`Mpb`](super::Mpb)), [`complete`]
/// runs it from beginning to end. A program that only calls methods of [`Mpb`](super::Mpb) does not need this trait.
///
/// ```
/// use onchip::World;
/// use onchip::mpb::{Line, MpbAccess, Mpbs, complete};
///
/// /// Gives each rank's number to the next rank.
/// async fn shift<M: MpbAccess>(mpb: &mut M) -> Result<u64, M::Error> {
///     let (me, ranks) = (mpb.rank(), mpb.ranks());
///     mpb.set_flag(Line { rank: (me + 1) % ranks, line: 0 }, 1 + me as u64).await?;
///     Ok(mpb.wait_flag(0, |value| value > 0).await? - 1)
/// }
///
/// let got = World::threads(3).run(|rank| {
///     let mut mpb = rank.mpb("ring", Mpbs::lines(1))?;
///     complete(shift(&mut mpb))
/// })?;
/// assert_eq!(got, [2, 0, 1]);
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// If a length in bytes is not a multiple of a line, only the beginning of the last line is used. What a put leaves in
/// the rest of that line is unspecified.
///
/// All operations return an error if they name a rank or lines that do not exist, or a payload that is longer than a
/// line less the 8 bytes of a flag. No memory is touched then.
///
/// # Order
/// A rank's puts and flags reach an MPB in the order of its calls, and have arrived when the call returns. A rank that
/// sees a flag also sees everything that its setter had put or got before.
///
/// # Why the methods are futures
/// A simulator must stop a core in the middle of its algorithm until virtual time has come, and `async` functions can
/// be suspended. Threads would cost two switches of threads for each of millions of line accesses, and a stack for each
/// of a thousand cores. In a world, nothing is lost: an operation is done when it is called, so its future is ready at
/// once. The futures need not be `Send`, because a rank's algorithm stays in its thread.
///
/// The methods take `&mut self`, because a core has one transaction at a time.
pub trait MpbAccess {
    /// What can go wrong: at least, that a place does not exist.
    type Error: std::error::Error;

    /// Whether [`lend`](Self::lend) may return true. It is the same for all ranks.
    const LENDS: bool = false;

    /// Returns this rank's number, from 0 to [`ranks`](Self::ranks) − 1.
    fn rank(&self) -> usize;

    /// Returns the number of ranks, which is at least 1.
    fn ranks(&self) -> usize;

    /// Returns the number of lines in each MPB.
    fn lines(&self) -> usize;

    /// Returns the number of bytes in a line: at least 8, the room of a flag.
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

    /// Puts the place of a slice into a line of an MPB, if the ranks can copy the slice from where it is. Returns whether
    /// they can. The slice must stay as it is until its readers have [borrowed](Self::borrow) it.
    fn lend(&mut self, slice: &[u8], to: Line) -> impl Future<Output = Result<bool, Self::Error>> {
        let _ = (slice, to);
        ready(Ok(false))
    }

    /// Copies the slice that a rank has [lent](Self::lend) by this line to private memory. Returns whether that was slow.
    fn borrow(
        &mut self,
        from: Line,
        target: &mut [u8],
    ) -> impl Future<Output = Result<bool, Self::Error>> {
        async move { self.get(from, target).await.map(|()| false) }
    }

    /// Combines elements in an MPB with private ones. Each element of `target` is replaced by `combine` of the element of
    /// `own`, which is as long, or else of itself, and of the corresponding element from line `from` on. A machine may do
    /// so while it gets them.
    fn get_with<T: Plain>(
        &mut self,
        from: Line,
        own: Option<&[T]>,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            if let Some(own) = own {
                target.copy_from_slice(own);
            }
            let mut there = vec![T::zeroed(); target.len()];
            self.get(from, bytemuck::cast_slice_mut(&mut there)).await?;
            for (target, there) in target.iter_mut().zip(there) {
                *target = combine(*target, there);
            }
            Ok(())
        }
    }

    /// Works like [`get_with`](Self::get_with), followed by a [`put`](Self::put) of the result to the lines from `to`
    /// on. A machine may do both as the elements come; the target lines may be the source lines.
    fn pass_with<T: Plain>(
        &mut self,
        from: Line,
        own: Option<&[T]>,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
        to: Line,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        async move {
            self.get_with(from, own, target, combine).await?;
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

    /// Sets a flag with some bytes beside it: a small message in one line. The flag must not be set again until its
    /// receiver has [read](Self::flag_payload) them.
    fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets flags in consecutive lines, from `first` on, as [`set_flag_with`](Self::set_flag_with) does. Each flag
    /// holds as much of the payload as fits beside it, and each value is one greater than the one before. A machine may
    /// bring all lines near at the same time.
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

    /// Returns a mark, in the upper 31 bits, of the call that the rank is in. The mark is 0 where ranks don't compare
    /// their calls. Algorithms add it to the values of flags that need only the lower 32 bits.
    fn mark(&self) -> u64 {
        0
    }

    /// Compares the mark in a flag that rank `from` has set as part of this call with the own mark.
    fn compare_mark(&self, from: usize, seen: u64) -> Result<(), Self::Error> {
        let _ = (from, seen);
        Ok(())
    }

    /// Returns whether the blocks of the call may differ in length, so that only its sender and its receiver know that of
    /// a block, and compare what they know.
    fn blocks_differ(&self) -> bool {
        false
    }

    /// Returns the [mark](Self::mark), with the length of a block if [blocks differ](Self::blocks_differ).
    fn mark_of(&self, bytes: usize) -> u64 {
        let _ = bytes;
        self.mark()
    }

    /// Does what [`compare_mark`](Self::compare_mark) does, for a mark that has the [length](Self::mark_of) of a block. It
    /// is an error if the block is longer than the room for it.
    fn compare_block(&self, from: usize, seen: u64, room: usize) -> Result<(), Self::Error> {
        let _ = room;
        self.compare_mark(from, seen)
    }

    /// Does what [`announce`](Self::announce) does, for a chunk of a block of this length.
    fn announce_block(
        &mut self,
        flag: Line,
        value: u64,
        bytes: usize,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        let _ = bytes;
        self.announce(flag, value)
    }

    /// Does what [`compare`](Self::compare) does, for a flag that `from` [announces](Self::announce_block) with the length
    /// of a block. It is an error if the block is longer than the room for it.
    fn compare_announced(
        &mut self,
        from: usize,
        line: usize,
        room: usize,
    ) -> Result<(), Self::Error> {
        let _ = room;
        self.compare(from, line)
    }

    /// Does what [`set_flag`](Self::set_flag) does. Where ranks compare their calls, the flag also shows what this rank
    /// calls.
    fn announce(
        &mut self,
        flag: Line,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        self.set_flag(flag, value)
    }

    /// Does what [`announce`](Self::announce) does, with a value below [`NEWS`]. The `NEWS` bit is added if the rank
    /// shows something that its last flags did not show. The rank that sees the bit then compares the calls.
    fn announce_news(
        &mut self,
        flag: Line,
        value: u64,
    ) -> impl Future<Output = Result<(), Self::Error>> {
        self.announce(flag, value)
    }

    /// Compares what rank `from` calls with the own call, after a flag was seen that `from`
    /// [announces](Self::announce) in this line of the own MPB.
    fn compare(&mut self, from: usize, line: usize) -> Result<(), Self::Error> {
        let _ = (from, line);
        Ok(())
    }

    /// Reads a flag of the own MPB.
    fn flag(&mut self, line: usize) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Waits until a flag of the own MPB has a value for which `reached` is true, and returns that value. The call does
    /// not see values that are overwritten before it looks at them.
    fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Works like [`wait_flag`](Self::wait_flag), for a flag that only rank `setter` sets: a machine whose ranks can
    /// leave then knows when there is nothing more to wait for.
    fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>> {
        let _ = setter;
        self.wait_flag(line, reached)
    }

    /// Sets the flag in this line of every other MPB. Use this for ranks that are released at the same time, because
    /// waking them one by one would be the main cost.
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

    /// Works like [`wait_flag_from`](Self::wait_flag_from), for a flag that rank `setter` sets by
    /// [`set_flags`](Self::set_flags).
    fn wait_flag_together(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, Self::Error>> {
        self.wait_flag_from(setter, line, reached)
    }

    /// Reads the bytes that were set beside a flag of the own MPB, after the flag was seen.
    fn flag_payload(
        &mut self,
        line: usize,
        target: &mut [u8],
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Gives another rank a line and takes one from it: [sets a flag](Self::set_flag_with) in that rank's MPB, waits
    /// until that rank has set a line of the own MPB to `awaited`, as far as the lower 32 bits go, and reads what is
    /// beside it. The marks are [compared](Self::compare_mark).
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

    /// Reads the bytes that were set beside flags of the own MPB in consecutive lines, from `first` on, as
    /// [`set_flags_with`](Self::set_flags_with) sets them, after the last flag was seen.
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

/// Interrupting other ranks, and seeing which ranks have interrupted this one, as the SCC's global interrupt controller
/// does (thesis, sections 2.3 and 3.2.1). No method waits.
///
/// Waiting for interrupts is not part of this trait, because an algorithm must not decide how its rank waits: a
/// simulated core waits in its only thread, and a rank of a world has an [`Attendant`](super::Attendant) for it.
pub trait Interrupts: MpbAccess {
    /// Interrupts ranks, all at once where the machine can. A rank that takes the interrupt sees everything that this
    /// rank had put before. A rank may interrupt itself.
    ///
    /// # Errors
    /// If one of the ranks does not exist. Then no rank is interrupted.
    fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Takes the interrupts that have come, and adds the ranks that sent them to `sources`. Several interrupts from one
    /// rank that were not taken yet count as one, as in the controller's status register.
    fn take_interrupts(
        &mut self,
        sources: &mut Vec<usize>,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets a flag whose owner may be waiting for both this flag and interrupts. If owners poll, this is the same as
    /// [`set_flag`](MpbAccess::set_flag).
    fn answer(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<(), Self::Error>> {
        self.set_flag(flag, value)
    }
}

/// Runs an algorithm whose operations block inside `poll`, in the calling thread. On an [`Mpb`](super::Mpb) a single
/// `poll` runs it from beginning to end, without a waker, an allocation or dynamic dispatch.
///
/// If the future is not ready, it is polled again and again. This is correct, but keeps the core busy.
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
    fn completes_what_is_ready_late() {
        let mut looks = 0;
        let late = std::future::poll_fn(|_| {
            looks += 1;
            if looks == 3 { Poll::Ready(7) } else { Poll::Pending }
        });
        assert_eq!(complete(async { late.await + 1 }), 8);
    }
}
