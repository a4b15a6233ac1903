//! Waits for flags that leave the thread free for other things meanwhile: whoever has several
//! operations under way asks each time whether a flag is there, and sleeps when none is, until any
//! of them may be.

use std::{sync::Arc, task::Poll, time::Duration};

use super::{Mpb, Tick, mark::Sleeper};
use crate::{
    context::Context,
    error::{Error, Result},
    sync::{AtomicU32, AtomicU64, Futex, Ordering},
    wait::{Asymmetry, Doing, Flag, NOBODY, Operation, Wait, beside},
};

/// MPBs, and the flag of the own one that an operation on them waits for, if it does.
///
/// One operation at a time, in whichever thread: only flags that are polled one after the other
/// can be waited for.
///
/// ```
/// use std::task::Poll;
/// use mp_core::{Wait, World};
/// use mp_core::mpb::{Line, Mpbs, Polled};
///
/// World::threads(2).run(|rank| {
///     let mpb = rank.mpb("pair", Mpbs::lines(1))?;
///     if rank.id() == 0 {
///         return mpb.set_flag(Line { rank: 1, line: 0 }, 7);
///     }
///     let polled = Polled::new(mpb);
///     while let Poll::Pending = polled.poll_flag(Some(0), 0, |value| value == 7)? {
///         // There may be something else to do, and others to poll.
///         Polled::wait_any(&polled, &[&polled], Wait::forever(), || false)?;
///     }
///     Ok(())
/// })?;
/// # Ok::<(), mp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Polled {
    mpb: Mpb,
    /// 1 + the line of the flag that is waited for; 0 for none.
    line: AtomicU64,
    /// What the flag was when it was polled.
    seen: AtomicU64,
    /// 1 + the rank that alone sets it; 0 for any.
    setter: AtomicU64,
    /// Tells this wait from the others of the rank.
    number: AtomicU32,
    /// MPBs of the same members, which all of them opened before these.
    first: Option<Arc<Self>>,
}

impl Polled {
    /// Waits for nothing yet.
    pub fn new(mpb: Mpb) -> Self {
        let (line, seen, setter) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { mpb, line, seen, setter, number: AtomicU32::new(0), first: None }
    }

    /// The same for MPBs that each member opens after `first`, which has the same members, and before it
    /// leaves that. So a wait for the flag of a member also ends when this has left `first` and has never
    /// opened `mpb`.
    pub fn after(first: Arc<Self>, mpb: Mpb) -> Self {
        Self { first: Some(first), ..Self::new(mpb) }
    }

    /// The MPBs.
    #[inline]
    pub fn mpb(&self) -> &Mpb {
        &self.mpb
    }

    /// Whether a flag of the own MPB has a value that `reached` is true of, which depends on the
    /// value alone: the value. If not, that is what is waited for from now on. `setter` is the rank
    /// that alone sets the flag, if there is one.
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
            // What was set before the end is visible by now.
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

    /// The flag that is waited for, and who alone sets it.
    fn awaited(&self) -> Option<(usize, Option<usize>)> {
        let line = self.line.load(Ordering::Relaxed).checked_sub(1)?;
        let setter = self.setter.load(Ordering::Relaxed).checked_sub(1);
        Some((line as usize, setter.map(|rank| rank as usize)))
    }

    /// Whether it is worth polling again: the flag has changed or will never, or none is waited for.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let Some((line, setter)) = self.awaited() else { return true };
        let seen = self.seen.load(Ordering::Relaxed);
        self.mpb.flag(line).map_or(true, |value| value != seen) || self.over(setter).is_some()
    }

    /// Why the flag that is waited for will not be set any more.
    fn over(&self, setter: Option<usize>) -> Option<Error> {
        if let Some(found) = self.mpb.watch.as_ref().and_then(|watch| watch.found()) {
            return Some(found);
        }
        let opened = &self.mpb.opened;
        let Some(first) = &self.first else { return opened.over(setter) };
        let first = &first.mpb.opened;
        // A loss comes first: others leave these MPBs because of it, and it can have come before the lost
        // rank opened them.
        first.failure().or_else(|| opened.over(setter)).or_else(|| {
            let left = first.over(Some(setter?))?;
            // Looked at after that: a member opens these before it leaves.
            (!opened.was_opened(setter?)).then_some(left)
        })
    }

    /// Waits until one of `several`, all of one rank, is [ready](Self::is_ready), or `also` is true
    /// of a moment after [`ring`](Self::ring) was called; false when the limit of `wait` was over
    /// before. A report shows it as a wait for the flag of `what`.
    ///
    /// # Errors
    /// [`Error::BadWorld`] when they are of different ranks or worlds; [`Error::Segment`].
    pub fn wait_any(
        what: &Self,
        several: &[&Self],
        wait: Wait,
        also: impl Fn() -> bool,
    ) -> Result<bool> {
        let context = what.context();
        let same = |other: &&Self| {
            let other = other.context();
            other.me == context.me && std::ptr::eq(&*other.segment, &*context.segment)
        };
        if !several.iter().all(same) {
            // Each would be rung at the doorbell of its own rank only.
            let reason = "operations of different ranks or worlds can't be waited for together";
            return Err(Error::BadWorld(reason.to_owned()));
        }
        let doing = Doing { operation: Operation::Flag, channel: what.mpb.opened.place() };
        let watches =
            || several.iter().chain([&what]).filter_map(|polled| polled.mpb.watch.as_ref());
        let tick = watches().map(|watch| watch.interval()).min();
        let mut look = Tick::every(tick);
        let poll = || {
            let ready = also() || several.iter().any(|polled| polled.is_ready());
            if !ready && look.is_due() && watches().any(|watch| watch.look().is_some()) {
                // Another thread may carry on what has failed.
                what.ring();
            }
            ready.then_some(())
        };
        let flags = Several { what, several, tick };
        Ok(context.wait(wait, doing, std::ptr::null(), &flags, poll)?.is_some())
    }

    /// Has this rank's threads that wait look again.
    pub fn ring(&self) {
        self.context().ring(self.context().me);
    }

    /// As long as this lives, a thread is at work for the rank, or will be: that the rank waits does
    /// not mean that it is stuck.
    pub fn delegate(&self) -> Delegation {
        if let Ok(rank) = self.context().rank(self.context().me) {
            rank.delegations.begin();
        }
        Delegation { context: Arc::clone(self.context()) }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.mpb.opened.context
    }

    pub(crate) fn asymmetry(&self) -> Asymmetry {
        self.context().waiting.asymmetry
    }

    /// Where the rank is rung.
    pub(crate) fn doorbell(&self) -> Option<&Futex> {
        Some(&self.context().rank(self.context().me).ok()?.doorbell)
    }

    fn sleeper(&self) -> Option<Sleeper<'_>> {
        let (line, _) = self.awaited()?;
        let mark = self.mpb.opened.mark(self.mpb.rank());
        Some(Sleeper::new(mark, line, self.number.load(Ordering::Relaxed), None))
    }

    /// Asks to have the rank's doorbell rung when the flag that is waited for changes, for a
    /// [`Part`](crate::progress::Part).
    pub fn raise(&self) {
        self.sleeper().iter().for_each(Flag::raise);
    }

    /// Takes that back.
    pub fn lower(&self) {
        self.sleeper().iter().for_each(Flag::lower);
    }

    /// Returns what is waited for, for [`Part::awaits`](crate::progress::Part::awaits).
    pub fn awaits(&self) -> u64 {
        let setter = self.awaited().and_then(|(_, setter)| self.mpb.world_rank(setter?).ok());
        beside(self.mpb.opened.place(), setter)
    }

    /// Returns what a report shows of a wait for something that others bring about: a flag of these MPBs.
    pub fn waited(&self) -> (Operation, Vec<u64>) {
        let line = self.awaited().map_or(0, |(line, _)| line as u64);
        (Operation::Flag, vec![self.mpb.opened.place(), line, NOBODY])
    }

    /// Returns how often [`look`](Self::look) is to be called during a long wait, if it is.
    pub fn interval(&self) -> Option<Duration> {
        self.mpb.watch.as_ref().map(|watch| watch.interval())
    }

    /// Looks whether the operation is in vain, as its [watch](super::Watch) says. What finds that rings
    /// the rank's doorbell: another thread may carry the operation on.
    pub fn look(&self) {
        if self.mpb.watch.as_ref().is_some_and(|watch| watch.look().is_some()) {
            self.ring();
        }
    }

    /// Waits until `done` is true of a moment after [`ring`](Self::ring) was called, which comes of the
    /// [parts](crate::progress) of the rank or of another thread of it; false when the limit of `wait` was
    /// over before. A report shows it as a wait for the flag that is waited for here.
    ///
    /// # Errors
    /// [`Error::Segment`].
    pub fn wait_until(&self, wait: Wait, done: impl Fn() -> bool) -> Result<bool> {
        let doing = Doing { operation: Operation::Flag, channel: self.mpb.opened.place() };
        let line = self.awaited().map_or(0, |(line, _)| line as u64);
        let tick = self.interval();
        let mut look = Tick::every(tick);
        let poll = || {
            let done = done();
            if !done && look.is_due() {
                self.look();
            }
            done.then_some(())
        };
        let rung = Rung { line, tick };
        Ok(self.context().wait(wait, doing, std::ptr::null(), &rung, poll)?.is_some())
    }

    /// The thread that is at work here for the rank goes to sleep.
    pub(crate) fn rest(&self) {
        if let Ok(rank) = self.context().rank(self.context().me) {
            rank.delegations.rest(None);
        }
    }

    /// It wakes again.
    pub(crate) fn wake(&self) {
        if let Ok(rank) = self.context().rank(self.context().me) {
            rank.delegations.wake(None);
        }
    }
}

/// See [`Polled::delegate`].
#[derive(Debug)]
pub struct Delegation {
    context: Arc<Context>,
}

impl Drop for Delegation {
    fn drop(&mut self) {
        if let Ok(rank) = self.context.rank(self.context.me) {
            rank.delegations.end();
        }
    }
}

/// A wait that ends with a ring of the doorbell.
struct Rung {
    line: u64,
    tick: Option<Duration>,
}

impl Flag for Rung {
    fn raise(&self) {}

    fn lower(&self) {}

    fn tick(&self) -> Option<Duration> {
        self.tick
    }

    fn further(&self) -> Vec<u64> {
        vec![self.line, NOBODY]
    }
}

struct Several<'a> {
    what: &'a Polled,
    several: &'a [&'a Polled],
    tick: Option<Duration>,
}

impl Flag for Several<'_> {
    fn raise(&self) {
        self.several.iter().for_each(|polled| polled.raise());
    }

    fn lower(&self) {
        self.several.iter().for_each(|polled| polled.lower());
    }

    fn tick(&self) -> Option<Duration> {
        self.tick
    }

    /// The line, and who sets it if nothing else can help.
    fn further(&self) -> Vec<u64> {
        let (line, setter) = self.what.awaited().unwrap_or_default();
        let alone = matches!(self.several, [only] if std::ptr::eq(*only, self.what));
        let setter = setter.filter(|_| alone).and_then(|rank| self.what.mpb.world_rank(rank).ok());
        vec![line as u64, setter.map_or(0, |rank| 1 + rank as u64)]
    }
}
