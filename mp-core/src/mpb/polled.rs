//! Waits for flags that leave the thread free for other work meanwhile. A thread with several pending operations polls
//! the flag of each operation. If no flag is set, the thread sleeps until one of them may be.
//!
//! Instead of a flag, an operation can wait for ends of channels.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    task::Poll,
    time::Duration,
};

use super::{Mpb, Tick, mark::Sleeper};
use crate::{
    context::Context,
    costs,
    error::{Error, Result},
    sync::{AtomicU32, AtomicU64, Ordering},
    wait::{Doing, Flag, NOBODY, Operation, UNDER_WAY, Wait, beside},
    world::Rank,
};

/// MPBs, and the flag of this rank's own MPB that an operation on them waits for, if it waits.
///
/// Only one operation at a time can use a `Polled`, in any thread. The operation waits for one flag after another.
///
/// ```
/// use std::task::Poll;
/// use onchip::World;
/// use onchip::mpb::{Line, Mpbs, Polled};
///
/// World::threads(2).run(|rank| {
///     let mpb = rank.mpb("pair", Mpbs::lines(1))?;
///     if rank.id() == 0 {
///         return mpb.set_flag(Line { rank: 1, line: 0 }, 7);
///     }
///     let polled = Polled::new(mpb);
///     while let Poll::Pending = polled.poll_flag(Some(0), 0, |value| value == 7)? {
///         // There may be something else to do, and others to poll.
///         std::thread::yield_now();
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Polled {
    mpb: Mpb,
    /// 1 + the line of the awaited flag; 0 if no flag is awaited.
    line: AtomicU64,
    /// The flag's value when it was polled.
    seen: AtomicU64,
    /// 1 + the only rank that sets the flag; 0 if any rank may set it. [`ENDS`] if ends are awaited and no flag is.
    setter: AtomicU64,
    /// The number of this wait. It distinguishes the rank's waits.
    number: AtomicU32,
    /// MPBs of the same members, which each member opened before these: see [`after`](Self::after).
    first: Option<Arc<Self>>,
    /// The ends that are awaited, or were last.
    ends: Mutex<Option<Weak<dyn Ends>>>,
}

/// Ends of channels for which an operation waits instead of a flag.
pub trait Ends: Send + Sync {
    /// Returns whether one of them has a message or room, or never will, or is closed.
    fn is_ready(&self) -> bool;

    /// Requests that the rank's doorbell is rung when one of them is ready.
    fn raise(&self);

    /// Withdraws the request of [`raise`](Self::raise).
    fn lower(&self);

    /// Returns what the operation waits for, as [`Polled::awaits`] returns it.
    fn awaits(&self) -> Option<u64>;
}

/// See [`Polled::await_ends`]. No rank has this number.
const ENDS: u64 = u64::MAX;

/// How long a call that begins an operation looks for its flag before it leaves the operation to another call, which
/// takes about as long.
const TO_LEAVE: Duration = Duration::from_nanos(300);

impl Polled {
    /// Makes a `Polled` of these MPBs, which awaits no flag yet.
    pub fn new(mpb: Mpb) -> Self {
        let (line, seen, setter) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (number, ends) = (AtomicU32::new(0), Mutex::default());
        Self { mpb, line, seen, setter, number, first: None, ends }
    }

    /// Works like [`new`](Self::new), for MPBs that each member opens after `first`, which has the same members, and
    /// before it leaves `first`. A wait for the flag of a member therefore also ends when that member has left `first`
    /// and has never opened `mpb`.
    pub fn after(first: Arc<Self>, mpb: Mpb) -> Self {
        Self { first: Some(first), ..Self::new(mpb) }
    }

    /// Returns the MPBs.
    #[inline]
    pub fn mpb(&self) -> &Mpb {
        &self.mpb
    }

    /// Returns the value of a flag of the own MPB, if `reached` is true for it. Otherwise, this flag is awaited from
    /// now on. `reached` must depend on the value alone. `setter` is the only rank that sets the flag, if there is one.
    ///
    /// # Errors
    /// As [`Mpb::wait_flag_from`].
    #[inline]
    pub fn poll_flag(
        &self,
        setter: Option<usize>,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Poll<Result<u64>> {
        let value = match self.mpb.flag(line) {
            Ok(value) if !reached(value) => value,
            there => {
                self.line.store(0, Ordering::Relaxed);
                return Poll::Ready(there);
            }
        };
        self.expect(setter, line, value, &reached)
    }

    fn expect(
        &self,
        setter: Option<usize>,
        line: usize,
        seen: u64,
        reached: &dyn Fn(u64) -> bool,
    ) -> Poll<Result<u64>> {
        self.line.store(0, Ordering::Relaxed);
        if let Some(Err(error)) = setter.map(|setter| self.mpb.world_rank(setter)) {
            return Poll::Ready(Err(error));
        }
        if let Some(over) = self.over(setter) {
            // Look again, because a flag that was set before the setter's end is visible by now.
            return Poll::Ready(self.mpb.flag(line).and_then(|value| match reached(value) {
                true => Ok(value),
                false => Err(over),
            }));
        }
        self.seen.store(seen, Ordering::Relaxed);
        self.setter.store(setter.map_or(0, |rank| 1 + rank as u64), Ordering::Relaxed);
        self.number.store(self.mpb.waits.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.line.store(1 + line as u64, Ordering::Relaxed);
        Poll::Pending
    }

    /// Awaits ends of channels from now on, instead of a flag, until [`await_nothing`](Self::await_nothing). Ends that are
    /// dropped are no longer awaited.
    pub fn await_ends(&self, ends: Weak<dyn Ends>) {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = Some(ends);
        self.line.store(0, Ordering::Relaxed);
        self.setter.store(ENDS, Ordering::Relaxed);
    }

    /// Awaits nothing from now on.
    pub fn await_nothing(&self) {
        self.line.store(0, Ordering::Relaxed);
        self.setter.store(0, Ordering::Relaxed);
    }

    /// Returns the awaited ends, if any are awaited.
    fn ends(&self) -> Option<Arc<dyn Ends>> {
        let flag = self.line.load(Ordering::Relaxed) != 0;
        if flag || self.setter.load(Ordering::Relaxed) != ENDS {
            return None;
        }
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.upgrade()
    }

    /// Returns whether awaited ends are ready or gone, or nothing is awaited.
    fn ends_are_ready(&self) -> bool {
        self.ends().is_none_or(|ends| ends.is_ready())
    }

    /// Returns the line of the awaited flag, and the only rank that sets the flag, if there is one.
    fn awaited(&self) -> Option<(usize, Option<usize>)> {
        let line = self.line.load(Ordering::Relaxed).checked_sub(1)?;
        let setter = self.setter.load(Ordering::Relaxed).checked_sub(1);
        Some((line as usize, setter.map(|rank| rank as usize)))
    }

    /// Returns whether polling again makes sense: the awaited flag has changed or never will, awaited ends are ready, or
    /// nothing is awaited.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let Some((line, setter)) = self.awaited() else { return self.ends_are_ready() };
        let seen = self.seen.load(Ordering::Relaxed);
        self.mpb.flag(line).map_or(true, |value| value != seen) || self.over(setter).is_some()
    }

    /// Looks for a flag that is under way, as long as the first looks of a blocking wait do. Returns whether the awaited
    /// flag has changed, or none is awaited. This does not notice the end of the flag's setter.
    pub fn look_shortly(&self) -> bool {
        self.look_for(UNDER_WAY)
    }

    /// Does what [`look_shortly`](Self::look_shortly) does, for about as long as it takes to leave the operation to
    /// another call.
    pub fn look_briefly(&self) -> bool {
        self.look_for(TO_LEAVE)
    }

    fn look_for(&self, time: Duration) -> bool {
        // What comes through a channel from another node takes longer than this looks.
        let Some((line, _)) = self.awaited() else { return self.ends_are_ready() };
        let seen = self.seen.load(Ordering::Relaxed);
        let has_changed = || self.mpb.flag(line).map_or(true, |value| value != seen);
        has_changed()
            || !self.context().crowded() && costs::look_until(costs::looks(time), has_changed)
    }

    /// Returns why the awaited flag will not be set any more.
    fn over(&self, setter: Option<usize>) -> Option<Error> {
        if let Some(found) = self.mpb.watch.as_ref().and_then(|watch| watch.found()) {
            return Some(found);
        }
        let opened = &self.mpb.opened;
        let Some(first) = &self.first else { return opened.over(setter) };
        let first = &first.mpb.opened;
        // Check `first` for a loss before anything else. Other members may leave `mpb` because of the loss, and the
        // rank may have been lost before it opened `mpb`.
        first.failure().or_else(|| opened.over(setter)).or_else(|| {
            let left = first.over(Some(setter?))?;
            // Check this only after `left`, because a member opens `mpb` before it leaves `first`.
            (!opened.was_opened(setter?)).then_some(left)
        })
    }

    /// Makes this rank's waiting threads look again.
    pub fn ring(&self) {
        self.context().ring(self.context().me);
    }

    /// States that a thread is or will be at work for the rank, as long as the result lives. Reports then do not
    /// consider the rank stuck while it waits.
    pub fn delegate(&self) -> Delegation {
        Delegation::begin(self.context())
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.mpb.opened.context
    }

    fn sleeper(&self) -> Option<Sleeper<'_>> {
        let (line, _) = self.awaited()?;
        let mark = self.mpb.opened.mark(self.mpb.rank());
        Some(Sleeper::new(mark, line, self.number.load(Ordering::Relaxed), None))
    }

    /// Requests that the rank's doorbell is rung when the awaited flag changes or awaited ends are ready, for a
    /// [`Part`](crate::progress::Part).
    pub fn raise(&self) {
        self.sleeper().iter().for_each(Flag::raise);
        self.ends().iter().for_each(|ends| ends.raise());
    }

    /// Withdraws the request of [`raise`](Self::raise).
    pub fn lower(&self) {
        self.sleeper().iter().for_each(Flag::lower);
        self.ends().iter().for_each(|ends| ends.lower());
    }

    /// Returns what the operation waits for, as [`Part::awaits`](crate::progress::Part::awaits) returns it.
    pub fn awaits(&self) -> u64 {
        if let Some(channel) = self.ends().and_then(|ends| ends.awaits()) {
            return channel;
        }
        let setter = self.awaited().and_then(|(_, setter)| self.mpb.world_rank(setter?).ok());
        beside(self.mpb.opened.place(), setter)
    }

    /// Returns what a report shows of a wait for the completion of this operation. `here` is true if the
    /// [parts](crate::progress) of the rank complete the operation. The parts themselves report what they wait for.
    pub fn waited(&self, here: bool) -> (Operation, Vec<u64>) {
        let line = self.awaited().map_or(0, |(line, _)| line as u64);
        (Operation::Flag, vec![self.mpb.opened.place(), line, by(here)])
    }

    /// Returns the program's name for the call that waits here, if the MPBs have a [caller](Mpb::set_caller).
    /// `operation` is the name of the call's operation.
    #[doc(hidden)]
    pub fn call(&self, operation: Option<&str>) -> Option<String> {
        self.mpb.caller.as_ref()?.call(operation)
    }

    /// Returns the interval at which [`look`](Self::look) must be called during a long wait, if there is a watch.
    pub fn interval(&self) -> Option<Duration> {
        self.mpb.watch.as_ref().map(|watch| watch.interval())
    }

    /// Asks the [watch](super::Watch) whether the operation is in vain. If it is, rings the rank's doorbell, because
    /// the operation may run in another thread of the rank.
    pub fn look(&self) {
        if self.mpb.watch.as_ref().is_some_and(|watch| watch.look().is_some()) {
            self.ring();
        }
    }

    /// Waits until `done` is true at some time after a call of [`ring`](Self::ring). If `here` is true, the
    /// [parts](crate::progress) of the rank make `done` true, otherwise another thread of the rank does. Returns false
    /// if the limit of `wait` passed before. A report shows this as a wait of the named `operation` for the awaited
    /// flag.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn wait_until(
        &self,
        wait: Wait,
        here: bool,
        operation: &str,
        done: impl Fn() -> bool,
    ) -> Result<bool> {
        let doing = Doing { operation: Operation::Flag, channel: self.mpb.opened.place() };
        let line = self.awaited().map_or(0, |(line, _)| line as u64);
        let (interval, tick) = (self.interval(), Tick::default());
        let poll = || {
            let done = done();
            if !done && tick.is_due(interval) {
                self.look();
            }
            done.then_some(())
        };
        let rung = Rung { line, by: by(here), tick: interval, polled: self, operation };
        self.context().wait_unless(wait, doing, &rung, poll)
    }
}

/// See [`Polled::delegate`].
#[derive(Debug)]
pub struct Delegation {
    context: Arc<Context>,
}

impl Delegation {
    fn begin(context: &Arc<Context>) -> Self {
        if let Ok(rank) = context.rank(context.me) {
            rank.delegations.begin();
        }
        Self { context: Arc::clone(context) }
    }

    /// Works like [`Polled::delegate`], for a thread to which a rank has lent something.
    pub fn of(rank: &Rank) -> Self {
        Self::begin(rank.context())
    }
}

impl Drop for Delegation {
    fn drop(&mut self) {
        if let Ok(rank) = self.context.rank(self.context.me) {
            rank.delegations.end();
        }
    }
}

/// Returns what the record of a wait says about the setter of the flag: [`NOBODY`] if the rank itself completes the
/// operation, and 0 if any rank may set the flag. The setter itself can't be recorded, because the operation may go on to other flags meanwhile.
fn by(here: bool) -> u64 {
    if here { NOBODY } else { 0 }
}

/// A wait that ends with a ring of the doorbell, so that it needs no mark.
struct Rung<'a> {
    line: u64,
    by: u64,
    tick: Option<Duration>,
    polled: &'a Polled,
    operation: &'a str,
}

impl Flag for Rung<'_> {
    fn raise(&self) {}

    fn lower(&self) {}

    fn tick(&self) -> Option<Duration> {
        self.tick
    }

    fn further(&self) -> Vec<u64> {
        vec![self.line, self.by]
    }

    fn call(&self) -> Option<String> {
        self.polled.call(Some(self.operation))
    }
}
