//! Message passing buffers: lines of shared memory that all ranks may read and write (Petrović's
//! thesis, sections 2.2 and 2.3).
//!
//! Every rank owns one buffer (MPB), as every core of the Intel SCC does. It consists of lines of 64 bytes. A *put*
//! copies from private memory or the rank's own MPB to any MPB, and a *get* copies from any MPB to private memory or
//! the rank's own MPB. A *flag* is a line that holds a number, and up to 56 bytes beside it. A rank may set a flag in
//! any MPB, and waits for flags in its own. Collective operations are built from these. [`Rank::mpb`](crate::Rank::mpb)
//! opens MPBs. [`MpbAccess`] is what algorithms see of them that also run on simulated cores.
//!
//! ```
//! use onchip::World;
//! use onchip::mpb::{Line, Mpbs};
//!
//! let got = World::threads(2).run(|rank| {
//!     let mpb = rank.mpb("pair", Mpbs::lines(4))?;
//!     if rank.id() == 0 {
//!         // Data into line 1 of the own MPB, and a flag to line 0 of the other's.
//!         mpb.put(b"shared memory", Line { rank: 0, line: 1 })?;
//!         mpb.set_flag(Line { rank: 1, line: 0 }, 7)?;
//!         // Until it was got.
//!         mpb.wait_flag_from(1, 0, |value| value == 7)?;
//!         return Ok(String::new());
//!     }
//!     mpb.wait_flag_from(0, 0, |value| value == 7)?;
//!     let mut text = [0; 13];
//!     mpb.get(Line { rank: 0, line: 1 }, &mut text)?;
//!     mpb.set_flag(Line { rank: 0, line: 0 }, 7)?;
//!     Ok(String::from_utf8_lossy(&text).into_owned())
//! })?;
//! assert_eq!(got[1], "shared memory");
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! # Order
//! A rank's puts and flags reach an MPB in the order of its calls, and have arrived when the call returns. A rank that
//! sees a flag also sees everything that the setter had put before. It may overwrite what the setter had got before. If
//! lines are put and got at the same time, the result is any mixture of old and new.
//!
//! # Members
//! [`Rank::mpb`](crate::Rank::mpb) opens buffers of all ranks of the world, and [`Rank::mpb_of`](crate::Rank::mpb_of)
//! those of some of them, in any order. In this module, a rank's number is its place in that order, in all calls.
//! [Errors](crate::ErrorKind::PeerLost) name the lost rank by its number in the world.
//!
//! # When ranks end
//! A wait for a flag that was set returns its value, whatever has happened to its setter. A wait for a flag that was
//! not set ends with [`PeerLost`](crate::ErrorKind::PeerLost) as soon as any rank is lost that had not closed its MPB
//! of these: the setter may itself have waited for that rank. Ranks that are not members have no effect. A rank that
//! has finished or closed its MPB affects only the ranks that wait for it. Two kinds of waits then end with
//! [`Disconnected`](crate::ErrorKind::Disconnected): a wait for a flag that this rank was named to set, and a wait of
//! the last rank that is left. When a member [revokes](crate::Rank::revoke_mpbs) the MPBs, all waits for flags that
//! were not set end with [`Revoked`](crate::ErrorKind::Revoked).

mod access;
mod as_mpb;
pub(crate) mod ballot;
pub(crate) mod consensus;
mod descriptor;
mod interrupt;
mod lines;
mod mark;
#[cfg(all(test, loom))]
mod model;
mod opened;
mod polled;
pub(crate) mod region;
mod sheet;
pub(crate) mod spec;
mod wanted;

use std::{
    cell::Cell,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

pub(crate) use descriptor::{Descriptor, Outline, find_ballot, find_or_make_ballot, layout};
pub(crate) use region::lines_of;
pub(crate) use sheet::Sheet;

pub use self::{
    access::{Interrupts, MpbAccess, NEWS, complete},
    as_mpb::AsMpb,
    interrupt::{Attendant, Notifier},
    polled::{Delegation, Ends, Polled},
    spec::Mpbs,
};
use self::{interrupt::Seats, mark::Sleeper, opened::Opened};
use crate::{
    context::Context,
    copier::{Copier, LONG, Way},
    costs, direct,
    error::{Error, ErrorKind, Result},
    line::{self, LINE_BYTES, PAYLOAD, prefetch_to_write},
    plain::Plain,
    sync::{AtomicU32, Futex, Ordering},
    wait::{Asymmetry, Caller, Doing, Operation, Wait},
};

/// The largest number of bytes that a line holds beside a flag: 56.
pub const PAYLOAD_BYTES: usize = PAYLOAD;

/// A rank does not time its first long puts: one put for each 32 KiB of an MPB. The first write to memory takes longer
/// than later ones, because the system has to provide the memory.
const UNTIMED: usize = 32 << 10;

/// A line of some rank's MPB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The rank that owns the MPB.
    pub rank: usize,
    /// The number of the line, from 0.
    pub line: usize,
}

impl Line {
    /// Returns the line that is this many lines further on.
    pub fn offset(self, lines: usize) -> Line {
        Line { rank: self.rank, line: self.line.saturating_add(lines) }
    }
}

/// One rank's access to the MPBs of all ranks: see [`Rank::mpb`](crate::Rank::mpb) and the [module](self).
///
/// All operations return an error if they name a rank that does not exist
/// ([`NoSuchRank`](crate::ErrorKind::NoSuchRank)) or lines that do not exist
/// ([`NoSuchLines`](crate::ErrorKind::NoSuchLines)). No memory is touched then. If a length in bytes is not a multiple
/// of a line, only the beginning of the last line is used. What a put leaves in the rest of that line is unspecified.
///
/// Several threads of the rank may use an `Mpb` at the same time. Dropping it closes it: the rank will set no flag any
/// more.
pub struct Mpb {
    opened: Opened,
    asymmetry: Asymmetry,
    wait: Wait,
    watch: Option<Arc<dyn Watch>>,
    caller: Option<Arc<dyn Caller>>,
    /// How many times a call looks at a flag before the actual wait. The number is 0 in a crowded world, where the
    /// setter may need this core.
    looks: AtomicU32,
    /// The number of the next wait. It distinguishes the rank's waits.
    waits: AtomicU32,
    seats: Seats,
    /// Chooses the method of long puts, for all target ranks.
    copier: Mutex<Copier>,
}

/// Checks from time to time, during long waits for flags, whether there is still something to wait for: see
/// [`Mpb::set_watch`].
pub trait Watch: Send + Sync {
    /// Returns how long a wait lasts before the first look, and from each look to the next.
    fn interval(&self) -> Duration;

    /// Checks whether the wait is in vain, and returns the reason if it is.
    fn look(&self) -> Option<Error>;

    /// Returns what a look in any thread has found. Takes a few nanoseconds.
    fn found(&self) -> Option<Error>;
}

/// The time at which a long wait next checks whether it is in vain.
#[derive(Debug, Default)]
pub struct Tick(Cell<Option<Instant>>);

impl Tick {
    /// Returns whether the time has come, once for each interval. The first call begins the first interval. Without an
    /// interval, the time never comes.
    pub fn is_due(&self, interval: Option<Duration>) -> bool {
        let Some(interval) = interval else { return false };
        let now = Instant::now();
        if self.0.get().is_some_and(|next| now < next) {
            return false;
        }
        self.0.replace(Some(now + interval)).is_some()
    }
}

impl Mpb {
    /// See [`Rank::decline_mpb`](crate::Rank::decline_mpb).
    pub(crate) fn decline(context: &Context, name: &str, mpbs: Mpbs) -> Result<()> {
        descriptor::decline(context, name, mpbs.namespace)
    }

    /// See [`Rank::revoke_mpbs`](crate::Rank::revoke_mpbs).
    pub(crate) fn revoke(context: &Context, prefix: &str) -> Result<()> {
        Ok(descriptor::revoke(context, prefix)?)
    }

    pub(crate) fn open(
        context: Arc<Context>,
        name: &str,
        members: &[usize],
        mpbs: Mpbs,
    ) -> Result<Self> {
        let opened = Opened::open(context, name, members, mpbs)?;
        let asymmetry = opened.context.waiting.asymmetry;
        let looks = AtomicU32::new(opened.context.looks());
        let waits = AtomicU32::new(0);
        let seats = Seats::default();
        let wait = Wait::forever();
        let copier =
            Mutex::new(Copier::new((opened.lines_of_each() * LINE_BYTES).div_ceil(UNTIMED) as u64));
        Ok(Self { opened, asymmetry, wait, watch: None, caller: None, looks, waits, seats, copier })
    }

    /// Returns this rank's number, from 0 to [`ranks`](Self::ranks) − 1.
    #[inline]
    pub fn rank(&self) -> usize {
        self.opened.me
    }

    /// Returns the number of ranks: those of the world, or [those named](crate::Rank::mpb_of).
    #[inline]
    pub fn ranks(&self) -> usize {
        self.opened.ranks
    }

    /// Returns whether this member has opened its MPB, even if it has closed it since.
    pub fn has_opened(&self, rank: usize) -> bool {
        self.opened.was_opened(rank)
    }

    /// Returns the error of a member that was lost, if one was. After that, the actions of the other members need not
    /// be consistent with each other any more.
    pub fn loss(&self) -> Option<Error> {
        self.opened.loss()
    }

    /// Returns a number that distinguishes these MPBs from all others that the world has or had. The number is the same
    /// in all ranks. Programs can use it to form names that belong to these MPBs.
    pub fn serial(&self) -> u64 {
        self.opened.serial()
    }

    /// Returns the number in the world of one of the ranks.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank).
    pub fn world_rank(&self, rank: usize) -> Result<usize> {
        Ok(self.opened.world_rank(rank)? as usize)
    }

    /// Returns the number of lines in each MPB.
    #[inline]
    pub fn lines(&self) -> usize {
        self.opened.lines_of_each()
    }

    /// Returns the word that was [proposed](Mpbs::proposing) by the rank that opened these MPBs first. All ranks get
    /// the same word.
    #[inline]
    pub fn agreed(&self) -> u64 {
        self.opened.agreed
    }

    /// Returns the number of bytes in a line: 64.
    #[inline]
    pub const fn line_bytes(&self) -> usize {
        LINE_BYTES
    }

    /// Sets how calls wait from now on: with which policy, and how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.wait = wait.into();
    }

    /// Makes calls that wait for a flag also check `watch`, and end with the error that it finds. Only waits that last
    /// longer than its [interval](Watch::interval) do so, so other waits cost nothing more.
    pub fn set_watch(&mut self, watch: Arc<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// Makes reports tell which call waits for flags here, as `caller` knows it.
    #[doc(hidden)]
    pub fn set_caller(&mut self, caller: Arc<dyn Caller>) {
        self.caller = Some(caller);
    }

    /// Copies private memory to an MPB.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn put(&self, source: &[u8], to: Line) -> Result<()> {
        let lines = self.opened.lines(to.rank, to.line, source.len().div_ceil(LINE_BYTES))?;
        match source.len() {
            ..LONG => line::put(source, lines),
            LONG.. => self.put_long(source, lines),
        }
        Ok(())
    }

    #[inline(never)]
    fn put_long(&self, source: &[u8], to: &[line::Line]) {
        // While another thread of the rank uses the copier, this thread does not wait for it, but copies through the
        // caches.
        let Ok(mut copier) = self.copier.try_lock() else { return line::put(source, to) };
        copier.copy(source.len(), |way| match way {
            Way::Through => line::put(source, to),
            Way::Past => line::put_past_caches(source, to),
        });
    }

    /// Copies `count` lines from line `from` of the own MPB to an MPB. Within the own MPB, the ranges may overlap: the
    /// lines are copied in ascending order.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn put_own(&self, from: usize, count: usize, to: Line) -> Result<()> {
        let from = Line { rank: self.rank(), line: from };
        self.copy(from, count, to)
    }

    /// Copies from an MPB to private memory.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn get(&self, from: Line, target: &mut [u8]) -> Result<()> {
        let count = target.len().div_ceil(LINE_BYTES);
        line::get(self.opened.lines(from.rank, from.line, count)?, target);
        Ok(())
    }

    /// Puts the place of a slice into a line of an MPB, if the slice lies in the world's memory. Returns whether it does.
    /// The other ranks can then [borrow](Self::borrow) the slice. It must stay as it is until they have said that they
    /// did, or until a rank is lost.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    pub fn lend(&self, slice: &[u8], to: Line) -> Result<bool> {
        match direct::place_of(&self.opened.context, slice) {
            Some(place) => self.put(&place.to_ne_bytes(), to).map(|()| true),
            None => Ok(false),
        }
    }

    /// Copies the slice that a rank has [lent](Self::lend) by this line, and that is as long as `target`, from the world's
    /// memory to private memory. Returns whether that was slow, so that the next such slice should be [put](Self::put).
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines);
    /// [`Segment`](crate::ErrorKind::Segment) when no slice of this length lies there;
    /// [`PeerLost`](crate::ErrorKind::PeerLost) when a rank of the MPBs is lost, because the slice then may have changed.
    pub fn borrow(&self, from: Line, target: &mut [u8]) -> Result<bool> {
        let mut place = [0; size_of::<u64>()];
        self.get(from, &mut place)?;
        let slow = direct::copy_from(&self.opened.context, u64::from_ne_bytes(place), target)?;
        self.loss().map_or(Ok(slow), Err)
    }

    /// Combines elements in an MPB with private ones. Each element of `target` is replaced by `combine` of the element of
    /// `own`, or else of itself, and of the corresponding element from line `from` on. Reads like [`get`](Self::get),
    /// without an intermediate copy.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    ///
    /// # Panics
    /// When `own` and `target` have different lengths.
    #[inline]
    pub fn get_with<T: Plain>(
        &self,
        from: Line,
        own: Option<&[T]>,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<()> {
        let count = size_of_val(target).div_ceil(LINE_BYTES);
        line::fold(self.opened.lines(from.rank, from.line, count)?, own, target, combine, None);
        Ok(())
    }

    /// Works like [`get_with`](Self::get_with), followed by a [`put`](Self::put) of the result to the lines from `to`
    /// on. Both are done in one pass. The target lines may be the source lines. If the target lines overlap only some
    /// of the source lines, the result is unspecified.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    ///
    /// # Panics
    /// When `own` and `target` have different lengths.
    #[inline]
    pub fn pass_with<T: Plain>(
        &self,
        from: Line,
        own: Option<&[T]>,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
        to: Line,
    ) -> Result<()> {
        let count = size_of_val(target).div_ceil(LINE_BYTES);
        let from = self.opened.lines(from.rank, from.line, count)?;
        let to = self.opened.lines(to.rank, to.line, count)?;
        line::fold(from, own, target, combine, Some(to));
        Ok(())
    }

    /// Copies `count` lines from an MPB to line `to` of the own MPB. Within the own MPB, the ranges may overlap: the
    /// lines are copied in ascending order.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn get_own(&self, from: Line, count: usize, to: usize) -> Result<()> {
        let to = Line { rank: self.rank(), line: to };
        self.copy(from, count, to)
    }

    #[inline]
    fn copy(&self, from: Line, count: usize, to: Line) -> Result<()> {
        let from = self.opened.lines(from.rank, from.line, count)?;
        line::copy(from, self.opened.lines(to.rank, to.line, count)?);
        Ok(())
    }

    /// Sets a flag in an MPB, and wakes the owner of the MPB if the owner sleeps until this flag is set. Flags are 0 at
    /// first. Writing to a flag's line in any other way wakes no rank.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn set_flag(&self, flag: Line, value: u64) -> Result<()> {
        self.opened.line(flag.rank, flag.line)?.set_flag(value);
        self.attend(flag);
        Ok(())
    }

    /// Works like [`set_flag`](Self::set_flag), with up to 56 bytes beside the flag: a small message in one line. The
    /// flag must not be set again until its receiver has [read](Self::flag_payload) them.
    ///
    /// # Errors
    /// As `set_flag`; [`PayloadTooLong`](crate::ErrorKind::PayloadTooLong).
    #[inline]
    pub fn set_flag_with(&self, flag: Line, value: u64, payload: &[u8]) -> Result<()> {
        let line = self.opened.line(flag.rank, flag.line)?;
        self.check_payload(payload.len())?;
        line.set_payload(payload);
        line.set_flag(value);
        self.attend(flag);
        Ok(())
    }

    /// Sets flags in consecutive lines, from `first` on, as [`set_flag_with`](Self::set_flag_with) does. Each flag
    /// holds up to 56 bytes of the payload, and each value is one greater than the one before. If there is no payload,
    /// sets no flag. All lines but the first are brought near at the same time.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn set_flags_with(&self, first: Line, value: u64, payload: &[u8]) -> Result<()> {
        let count = payload.len().div_ceil(PAYLOAD);
        let lines = self.opened.lines(first.rank, first.line, count)?;
        // The first line is not prefetched: its owner may be polling it, and would take it back at once.
        for line in lines.iter().skip(1) {
            prefetch_to_write(std::ptr::from_ref(line).cast());
        }
        for (index, (line, piece)) in lines.iter().zip(payload.chunks(PAYLOAD)).enumerate() {
            line.set_payload(piece);
            line.set_flag(value.wrapping_add(index as u64));
            self.attend(Line { rank: first.rank, line: first.line + index });
        }
        Ok(())
    }

    /// Sets the flag in this line of every other MPB, and wakes the owners that sleep until this flag is set. One
    /// system call wakes all owners that wait by [`wait_flag_together`](Self::wait_flag_together). Use this for ranks
    /// that are released at the same time, because waking them one by one would be the main cost.
    ///
    /// # Errors
    /// [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    pub fn set_flags(&self, line: usize, value: u64) -> Result<()> {
        let others = || (0..self.ranks()).filter(|&rank| rank != self.rank());
        for rank in others() {
            self.opened.line(rank, line)?.set_flag(value);
        }
        self.asymmetry.light();
        let mut together = false;
        for rank in others() {
            let ring = || self.opened.ring(rank);
            together |= self.opened.mark(rank).attend_together(line, ring);
        }
        if together {
            self.opened.bell().advance_and_wake();
        }
        Ok(())
    }

    #[inline(always)]
    fn attend(&self, flag: Line) {
        let mark = self.opened.mark(flag.rank);
        mark.attend(self.asymmetry, flag.line, || self.opened.ring(flag.rank));
    }

    #[inline(always)]
    fn check_payload(&self, bytes: usize) -> Result<()> {
        if bytes > PAYLOAD {
            let mpbs = self.opened.name.clone();
            return Err(ErrorKind::PayloadTooLong { mpbs, bytes, most: PAYLOAD }.into());
        }
        Ok(())
    }

    /// Reads a flag of the own MPB.
    ///
    /// # Errors
    /// [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn flag(&self, line: usize) -> Result<u64> {
        Ok(self.opened.line(self.rank(), line)?.flag())
    }

    /// Reads the bytes that were set beside a flag of the own MPB, after the flag was seen.
    ///
    /// # Errors
    /// [`NoSuchLines`](crate::ErrorKind::NoSuchLines), [`PayloadTooLong`](crate::ErrorKind::PayloadTooLong).
    #[inline]
    pub fn flag_payload(&self, line: usize, target: &mut [u8]) -> Result<()> {
        let line = self.opened.line(self.rank(), line)?;
        self.check_payload(target.len())?;
        line.payload(target);
        Ok(())
    }

    /// Reads the bytes that were set beside flags of the own MPB in consecutive lines, from `first` on, after the last
    /// flag was seen.
    ///
    /// # Errors
    /// [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    #[inline]
    pub fn flag_payloads(&self, first: usize, target: &mut [u8]) -> Result<()> {
        let lines = self.opened.lines(self.rank(), first, target.len().div_ceil(PAYLOAD))?;
        for (line, piece) in lines.iter().zip(target.chunks_mut(PAYLOAD)) {
            line.payload(piece);
        }
        Ok(())
    }

    /// Waits until a flag of the own MPB has a value for which `reached` is true, and returns that value. The call does
    /// not see values that are overwritten before it looks at them.
    ///
    /// # Errors
    /// [`PeerLost`](crate::ErrorKind::PeerLost) when a rank was lost, and
    /// [`Disconnected`](crate::ErrorKind::Disconnected) when no other rank is left, before the flag was set;
    /// [`MpbMismatch`](crate::ErrorKind::MpbMismatch), [`NoSuchLines`](crate::ErrorKind::NoSuchLines);
    /// [`Timeout`](crate::ErrorKind::Timeout) only after [`set_wait`](Self::set_wait) with a limit.
    #[inline]
    pub fn wait_flag(&self, line: usize, reached: impl Fn(u64) -> bool) -> Result<u64> {
        self.wait_with(None, None, line, reached)
    }

    /// Works like [`wait_flag`](Self::wait_flag), for a flag that only rank `setter` sets.
    ///
    /// # Errors
    /// As `wait_flag`, and [`Disconnected`](crate::ErrorKind::Disconnected) when the setter is gone;
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank).
    #[inline]
    pub fn wait_flag_from(
        &self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        self.wait_with(None, Some(setter), line, reached)
    }

    /// Works like [`wait_flag`](Self::wait_flag), but waits as `wait` says, for a flag that only rank `setter` sets, if
    /// there is one.
    ///
    /// # Errors
    /// As `wait_flag_from`, and [`Timeout`](crate::ErrorKind::Timeout).
    #[inline]
    pub fn wait_flag_with(
        &self,
        wait: impl Into<Wait>,
        setter: Option<usize>,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        self.wait_with(Some(wait.into()), setter, line, reached)
    }

    /// Works like [`wait_flag_from`](Self::wait_flag_from), for a flag that rank `setter` sets by
    /// [`set_flags`](Self::set_flags), together with those of all other ranks.
    ///
    /// # Errors
    /// As `wait_flag_from`.
    #[inline]
    pub fn wait_flag_together(
        &self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        self.wait_in(None, Some(setter), line, reached, true)
    }

    #[inline(always)]
    fn wait_with(
        &self,
        wait: Option<Wait>,
        setter: Option<usize>,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        self.wait_in(wait, setter, line, reached, false)
    }

    #[inline(always)]
    fn wait_in(
        &self,
        wait: Option<Wait>,
        setter: Option<usize>,
        line: usize,
        reached: impl Fn(u64) -> bool,
        together: bool,
    ) -> Result<u64> {
        let flag = self.opened.line(self.rank(), line)?;
        let poll = || Some(flag.flag()).filter(|&value| reached(value));
        match costs::look(1 + self.looks.load(Ordering::Relaxed), poll) {
            Some(value) => Ok(value),
            None => {
                let wait = wait.unwrap_or(self.wait);
                self.wait_slowly(wait, setter, line, &reached, together)
            }
        }
    }

    #[cold]
    fn wait_slowly(
        &self,
        wait: Wait,
        setter: Option<usize>,
        line: usize,
        reached: &dyn Fn(u64) -> bool,
        together: bool,
    ) -> Result<u64> {
        let (opened, context) = (&self.opened, &self.opened.context);
        let by = setter.map(|setter| self.world_rank(setter)).transpose()?;
        let flag = opened.line(self.rank(), line)?;
        // The fast looks have found nothing. This is the time to update their number, for the next call.
        self.looks.store(context.looks(), Ordering::Relaxed);
        let number = self.waits.fetch_add(1, Ordering::Relaxed);
        let interval = self.watch.as_ref().map(|watch| watch.interval());
        let sleeper = Sleeper::new(opened.mark(self.rank()), line, number, by);
        let mut sleeper = sleeper.ticking(interval).called_by(self.caller.as_deref());
        if together && Futex::can_sleep_on_any() {
            sleeper = sleeper.together(opened.bell());
        }
        let doing = Doing { operation: Operation::Flag, channel: opened.place() };
        let watched = std::ptr::from_ref(flag).cast();
        let look = || Some(flag.flag()).filter(|&value| reached(value)).map(Ok);
        let tick = Tick::default();
        let in_vain = || {
            let watch = self.watch.as_ref()?;
            if tick.is_due(interval) { watch.look() } else { None }
        };
        let waited = context.wait(wait.or_failure(), doing, watched, &sleeper, || {
            look().or_else(|| {
                let over = opened.over(setter).or_else(&in_vain)?;
                // Look again, because a flag that was set before the setter's end is visible by now.
                look().or(Some(Err(over)))
            })
        })?;
        waited.unwrap_or_else(|| Err(context.gave_up(Operation::Flag, &opened.name, wait)))
    }
}

impl fmt::Debug for Mpb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpb")
            .field("name", &self.opened.name)
            .field("rank", &self.rank())
            .field("ranks", &self.ranks())
            .field("lines", &self.lines())
            .finish_non_exhaustive()
    }
}
