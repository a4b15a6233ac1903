//! Interrupts between ranks: one call makes threads of many other ranks do something. Until then, these threads sleep
//! (thesis, sections 2.3 and 3.2).
//!
//! The SCC has an interrupt controller off its chip. Here, a [`Status`] for each rank, in the block of the MPBs, and a
//! way to wake threads take its place. A rank has one or two threads for its interrupts. Each takes a seat
//! ([`Mpb::attendant`]) and chooses how it is woken ([`Notifier`]):
//!
//! - **by a futex**: for each seat, there is one word for the whole world. Each rank has one of 32 bits, by which the
//!   kernel finds the sleepers to wake. A single system call wakes the threads in a seat of all interrupted ranks.
//!   Other ranks that share a bit wake for nothing, look, and sleep again.
//! - **by a signal**: one system call for each rank. The signal is sent to this thread alone, which has it blocked and
//!   fetches it (sigwaitinfo). So no code runs in a signal handler, and no other thread's mask is touched. Each sleep
//!   is ended by exactly one signal, so that no more than one is ever queued.

mod signal;
mod status;
mod wake;

#[cfg(all(test, loom))]
mod model;

use std::{marker::PhantomData, time::Instant};

use self::{signal::Thread, wake::wake_by_signals};
pub(super) use self::{
    status::{Seats, Status},
    wake::wake_everybody,
};
use super::{Line, Mpb};
use crate::{
    context::{Context, Delegations, SEATS},
    error::{Error, ErrorKind, Result},
    sync::{Futex, Ordering},
    wait::{Doing, Flag, Operation, SPIN, Wait, WaitPolicy},
};

/// How threads that wait for interrupts are woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notifier {
    /// By one futex that all ranks share: one system call wakes threads of many ranks.
    #[default]
    Futex,
    /// By a real-time signal (SIGRTMAX − 3) to the thread, which has it blocked and waits for it: one system call for
    /// each thread. Interrupting fails with [`Os`](crate::ErrorKind::Os) when the user has reached the limit of queued
    /// signals.
    Signal,
}

/// Returns the bit of a rank, by which the world's futex distinguishes its sleepers.
fn bit(rank: usize) -> u32 {
    1 << (rank % 32)
}

impl Mpb {
    /// Interrupts ranks: a thread of each rank that [attends](Self::attendant) will notice it. That thread sees
    /// everything that this rank had put before. One system call for each seat wakes all threads in this seat that must
    /// be woken by the futex. If no thread sleeps, there is no system call.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), and then no rank is interrupted; [`Os`](crate::ErrorKind::Os) when
    /// a signal could not be sent.
    pub fn interrupt(&self, ranks: impl Iterator<Item = usize> + Clone) -> Result<()> {
        for rank in ranks.clone() {
            self.opened.world_rank(rank)?;
        }
        let mut waking = Waking::default();
        for rank in ranks {
            let status = self.opened.status(rank);
            status.send(self.rank());
            waking.add(rank, status, status.ring());
        }
        waking.finish(&self.opened.context)
    }

    /// Works like [`set_flag`](Self::set_flag), and interrupts the flag's owner if it [expects](Self::expect_answer) an
    /// answer from this rank.
    ///
    /// # Errors
    /// As `set_flag`; [`Os`](crate::ErrorKind::Os) when a signal could not be sent.
    pub fn answer(&self, flag: Line, value: u64) -> Result<()> {
        self.set_flag(flag, value)?;
        let status = self.opened.status(flag.rank);
        let mut waking = Waking::default();
        waking.add(flag.rank, status, status.answered(self.rank()));
        waking.finish(&self.opened.context)
    }

    /// Makes the next [answer](Self::answer) of this rank wake an attendant, as an interrupt does. An answer that came
    /// earlier wakes no attendant, so look at the flag after this call. Only one rank's answer is expected at a time:
    /// that of the rank in the last call. Returns false if this rank's answer was expected already.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank).
    pub fn expect_answer(&self, rank: usize) -> Result<bool> {
        self.opened.world_rank(rank)?;
        Ok(self.opened.status(self.rank()).expect_answer(rank))
    }

    /// Takes the interrupts that have come, and adds the ranks that sent them to `sources`, each once and in ascending
    /// order. Must be called by the thread that attends.
    pub fn take_interrupts(&self, sources: &mut Vec<usize>) {
        self.opened.status(self.rank()).take(sources);
    }

    /// Takes a seat for this rank's interrupts for the calling thread. There are two seats, so that one thread may do
    /// something that takes long while the other attends.
    ///
    /// With [`Notifier::Signal`], this blocks the signal in the calling thread permanently. It should be a thread made
    /// for this purpose.
    ///
    /// # Errors
    /// [`BadMpbs`](crate::ErrorKind::BadMpbs) when both seats are taken; [`Os`](crate::ErrorKind::Os).
    pub fn attendant(&self, notifier: Notifier) -> Result<Attendant<'_>> {
        let Some(seat) = self.seats.change(true, |_| true) else {
            let reason = "two threads attend to interrupts already: end one before another begins";
            return Err(ErrorKind::BadMpbs {
                mpbs: self.opened.name.clone(),
                reason: reason.into(),
            }
            .into());
        };
        let thread = match notifier {
            Notifier::Futex => Ok(Thread(0)),
            Notifier::Signal => Thread::current(),
        };
        let thread = thread.inspect_err(|_| {
            self.seats.change(false, |free| free == seat);
        })?;
        let mut attendant =
            Attendant { mpb: self, seat, notifier, attending: false, here: PhantomData };
        attendant.status().threads[seat].store(thread.0, Ordering::Relaxed);
        attendant.attending = attendant.status().begin();
        attendant.tell(Delegations::begin);
        Ok(attendant)
    }

    /// Waits until `done` is true at some time after a call of [`look_again`](Self::look_again). This is for conditions
    /// that attendants bring about. A report shows it as a wait for flag `line`, by any other rank.
    ///
    /// # Errors
    /// As [`Attendant::wait`]; [`NoSuchLines`](crate::ErrorKind::NoSuchLines).
    pub fn wait_until(&self, line: usize, done: impl Fn() -> bool) -> Result<()> {
        let (opened, context) = (&self.opened, &self.opened.context);
        let watched = std::ptr::from_ref(opened.line(self.rank(), line)?).cast();
        let doing = Doing { operation: Operation::Flag, channel: opened.place() };
        let look = || done().then_some(Ok(()));
        let poll = || {
            look().or_else(|| {
                let over = opened.over_for_interrupts()?;
                look().or(Some(Err(over)))
            })
        };
        let waited = context.wait(Wait::forever(), doing, watched, &Unmarked { line }, poll)?;
        waited.unwrap_or(Ok(()))
    }

    /// States that no rank waits for an interrupt from this rank any more. When this rank closes its MPB, other ranks
    /// then continue to wait for interrupts.
    pub fn say_farewell(&self) {
        self.opened.say_farewell();
    }

    /// Leaves the MPBs as if this rank had died: all waiting ranks get [`PeerLost`](crate::ErrorKind::PeerLost),
    /// whatever they wait for.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn abandon(&self) -> Result<()> {
        Ok(self.opened.abandon()?)
    }

    /// Leaves the MPBs as if this rank had closed its MPB: ranks that wait for a flag that only this rank sets get
    /// [`Disconnected`](crate::ErrorKind::Disconnected).
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken.
    pub fn leave(&self) -> Result<()> {
        Ok(self.opened.depart()?)
    }

    /// Makes an attendant of this rank look, as if an interrupt had come.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) when a signal could not be sent.
    pub fn call_attendant(&self) -> Result<()> {
        let status = self.opened.status(self.rank());
        let mut waking = Waking::default();
        waking.add(self.rank(), status, status.ring());
        waking.finish(&self.opened.context)
    }

    /// Makes this rank's waiting threads look again. Threads that wait for flags check their conditions; attendants
    /// that sleep check whether they must stop.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment).
    pub fn look_again(&self) -> Result<()> {
        let context = &self.opened.context;
        context.ring(context.me);
        for word in &context.world()?.interrupts {
            word.advance_and_wake_bits(bit(self.rank()));
        }
        let _leaving = context.lock_heap()?;
        wake_by_signals(self.opened.status(self.rank()));
        Ok(())
    }
}

/// A wait that sets no mark, so that setters of flags do not end it.
struct Unmarked {
    line: usize,
}

impl Flag for Unmarked {
    fn raise(&self) {}

    fn lower(&self) {}

    /// Returns the line, and 0 because any rank may set the flag.
    fn further(&self) -> Vec<u64> {
        vec![self.line as u64, 0]
    }
}

/// Threads that must be woken.
#[derive(Default)]
struct Waking {
    bits: [u32; SEATS],
    failed: Option<Error>,
}

impl Waking {
    fn add(&mut self, rank: usize, status: &Status, seat: Option<usize>) {
        let Some(seat) = seat else { return };
        match status.threads[seat].load(Ordering::Relaxed) {
            0 => self.bits[seat] |= bit(rank),
            thread => {
                if let Err(error) = Thread(thread).signal() {
                    self.failed = Some(error);
                }
            }
        }
    }

    fn finish(self, context: &Context) -> Result<()> {
        for (seat, bits) in self.bits.into_iter().enumerate().filter(|&(_, bits)| bits != 0) {
            context.world()?.interrupts[seat].advance_and_wake_bits(bits);
        }
        self.failed.map_or(Ok(()), Err)
    }
}

/// A thread that waits for a rank's interrupts: see [`Mpb::attendant`].
///
/// At any time, at most one of a rank's attendants *attends*: from the time when [`wait`](Self::wait) has returned true
/// until its next call of `wait` or [`hand_over`](Self::hand_over). This attendant takes the interrupts.
///
/// An attendant stays in the thread that took the seat, because signals are sent to that thread.
///
/// ```compile_fail,E0277
/// fn can_move<T: Send>() {}
/// can_move::<onchip::mpb::Attendant<'static>>();
/// ```
#[derive(Debug)]
pub struct Attendant<'a> {
    mpb: &'a Mpb,
    seat: usize,
    notifier: Notifier,
    attending: bool,
    /// Makes the type neither `Send` nor `Sync`.
    here: PhantomData<*const ()>,
}

impl Attendant<'_> {
    fn status(&self) -> &Status {
        self.mpb.opened.status(self.mpb.rank())
    }

    /// Changes the record of the rank's threads at work. A waiting rank with a thread at work is not stuck.
    fn tell(&self, change: impl Fn(&Delegations)) {
        let context = &self.mpb.opened.context;
        if let Ok(rank) = context.rank(context.me) {
            change(&rank.delegations);
        }
    }

    /// Returns whether this thread attends.
    pub fn is_attending(&self) -> bool {
        self.attending
    }

    /// Waits until this thread has to look at something: interrupts, or an expected answer. Returns false when `stop`
    /// is true at some time after a call of [`Mpb::look_again`].
    ///
    /// # Errors
    /// [`PeerLost`](crate::ErrorKind::PeerLost) when a rank was lost,
    /// [`Disconnected`](crate::ErrorKind::Disconnected) when one is gone without a [farewell](Mpb::say_farewell);
    /// [`MpbMismatch`](crate::ErrorKind::MpbMismatch); [`Segment`](crate::ErrorKind::Segment).
    pub fn wait(&mut self, stop: impl Fn() -> bool) -> Result<bool> {
        if self.attending {
            self.look();
        }
        if !self.status().rest(self.seat, self.attending) {
            self.attending = true;
            return Ok(true);
        }
        self.attending = false;
        let opened = &self.mpb.opened;
        let word: &Futex = &opened.context.world()?.interrupts[self.seat];
        let over = || match stop() {
            true => Some(Ok(false)),
            false => opened.over_for_interrupts().map(Err),
        };
        self.tell(|all| all.rest(None));
        let woken = self.status().sleep(self.seat, word, over, |heard| match self.notifier {
            Notifier::Futex => word.sleep_bits(heard, bit(self.mpb.rank())),
            Notifier::Signal => Thread::sleep(),
        });
        self.tell(|all| all.wake(None));
        woken.unwrap_or_else(|| {
            self.attending = true;
            Ok(true)
        })
    }

    /// Polls for about as long as a wake-up takes, before the thread sleeps. Does nothing unless there are spare cores
    /// for such threads of all ranks.
    fn look(&self) {
        let waiting = self.mpb.opened.context.waiting;
        let idle_cores = waiting.spare >= self.mpb.ranks() as i64;
        if !idle_cores || waiting.policy == WaitPolicy::Park || cfg!(any(loom, miri)) {
            return;
        }
        let began = Instant::now();
        while !self.status().is_rung() && began.elapsed() < SPIN {
            std::hint::spin_loop();
        }
    }

    /// Returns whether something has come meanwhile. The thread must look at it before it does anything else.
    pub fn look_again(&mut self) -> bool {
        self.attending && self.status().is_rung() && {
            self.status().take_ring();
            true
        }
    }

    /// Lets another thread attend from now on, because this thread will do something that takes long.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) when the other could not be sent a signal; [`Segment`](crate::ErrorKind::Segment).
    pub fn hand_over(&mut self) -> Result<()> {
        if !self.attending {
            return Ok(());
        }
        self.attending = false;
        let mut waking = Waking::default();
        let seat = self.status().hand_over();
        waking.add(self.mpb.rank(), self.status(), seat);
        waking.finish(&self.mpb.opened.context)
    }
}

impl Drop for Attendant<'_> {
    fn drop(&mut self) {
        // After an error, the rank's other attendant sleeps on. This is acceptable because it must stop as well.
        let _ = self.hand_over();
        self.tell(Delegations::end);
        {
            // `wake_by_signals` holds this lock while it signals threads. All other callers signal only a thread that
            // sleeps, which this one does not.
            let _leaving = self.mpb.opened.context.lock_heap();
            self.status().threads[self.seat].store(0, Ordering::Relaxed);
        }
        self.mpb.seats.change(false, |seat| seat == self.seat);
    }
}
