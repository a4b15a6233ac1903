//! The end of a lane that carries out submissions.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    sync::Arc,
    task::Waker,
};

use super::{
    Bell, Gauge,
    discard::discard,
    node::{CANCEL, FAR, FREE, NodeAt, SENT, SUBMITTED, UNSENT, WAITING, WAKER, WEIGHT, WITHDRAWN},
    shared::{CANCELLED, GONE, OFF, PARKED, Shared},
};
use crate::{
    ErrorKind,
    channel::{Filled, Outlet, Position},
    context::Context,
    error::{Error, Recipient},
    plain::Message,
    sync::{Futex, Ordering},
    wait::{ARRIVED, Asymmetry, Backoff},
};

/// The result of a look at a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There was nothing to do.
    Idle,
    /// Something was done, and there may be more.
    Worked,
    /// The next message can't be sent now, because its channel is full or because it is not its turn.
    Blocked,
    /// The lane has ended: no more messages will come.
    Ended,
}

/// The result of an attempt to carry out a send, for a [`Watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The message can't be sent now.
    NotYet,
    /// The message is in the channel.
    Sent,
    /// The message will never be sent.
    Failed,
}

/// An observer that sees the sends of a lane carried out, in the order of their submission.
pub trait Watch: Send {
    /// Calls `carry` once, which attempts the lane's next send.
    fn attempt(&mut self, carry: &mut dyn FnMut() -> Attempt);
}

/// Number of sends carried out in one look, so that no lane keeps the others waiting.
const AT_ONCE: u32 = 16;

/// The operations of an outlet that a server needs apart from filling slots.
pub(super) trait AnyOutlet: Send + Sync {
    fn give_up(&self, position: Position);
    fn raise(&self);
    fn name(&self) -> Arc<str>;
}

impl<M: Message + ?Sized> AnyOutlet for Outlet<M> {
    fn give_up(&self, position: Position) {
        Outlet::give_up(self, position);
    }

    fn raise(&self) {
        Outlet::raise(self);
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(Outlet::name(self))
    }
}

/// The serving end of one lane. It belongs to the thread that serves it, and can be handed to another thread. If it is
/// dropped before it has [`Ended`](Progress::Ended), it ends the requests in it with
/// [`NotSent`](crate::ErrorKind::NotSent).
pub struct ServedLane {
    shared: Arc<Shared>,
    outlet: Arc<dyn AnyOutlet>,
    /// The address of the outlet, for the cargo's verbs, which know the outlet's type.
    at: NonNull<()>,
    gauge: Arc<Gauge>,
    /// The first submitted node that is not carried out yet; or the node that the submitter will submit next.
    current: NodeAt,
    index: u32,
    /// A position that is not after that of any node to come.
    before: u64,
    /// The slots of positions below this are known to be free.
    room: u64,
    blocked: bool,
    ended: bool,
    /// While the thread is noted as asleep: whether the lane was blocked when the thread went to sleep.
    resting: Cell<Option<bool>>,
    watch: Option<Box<dyn Watch>>,
}

// SAFETY: `at` leads to the outlet that `outlet` keeps alive and that is `Sync`. The state of a node says which thread
// may access its other fields, and nodes hold only `Send` cargo.
unsafe impl Send for ServedLane {}

impl ServedLane {
    pub(super) fn new<M: Message + ?Sized>(
        shared: Arc<Shared>,
        outlet: Arc<Outlet<M>>,
        gauge: Arc<Gauge>,
        before: u64,
    ) -> Self {
        let at = NonNull::from(&*outlet).cast();
        if let Ok(rank) = shared.context.rank(shared.context.me) {
            rank.delegations.begin();
        }
        let current = shared.pool.node(0);
        Self {
            shared,
            outlet,
            at,
            gauge,
            current,
            index: 0,
            before,
            room: 0,
            blocked: false,
            ended: false,
            resting: Cell::new(None),
            watch: None,
        }
    }

    /// Lets `watch` observe the sends that are carried out from now on.
    pub fn watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.watch = watch;
    }

    /// Sends the messages that can be sent now, up to a fixed number.
    #[inline]
    pub fn serve(&mut self) -> Progress {
        if !self.current.is_submitted() {
            return self.look_further();
        }
        self.serve_submitted()
    }

    #[inline(never)]
    fn serve_submitted(&mut self) -> Progress {
        let mut done = 0;
        loop {
            if !self.send_current() {
                self.blocked = true;
                return if done > 0 { Progress::Worked } else { Progress::Blocked };
            }
            done += 1;
            self.blocked = false;
            if done == AT_ONCE || !self.current.is_submitted() {
                return Progress::Worked;
            }
        }
    }

    #[inline]
    fn look_further(&mut self) -> Progress {
        self.blocked = false;
        if self.current.is_withdrawn() {
            self.pass_withdrawn();
            return Progress::Worked;
        }
        // Acquire: pairs with the Release in `Feed::close`: all submissions were made before it, so a node that is free
        // now stays free.
        if self.shared.for_server.load(Ordering::Acquire) == 0 {
            return Progress::Idle;
        }
        match self.current.state().load(Ordering::Acquire) {
            SUBMITTED => self.serve_submitted(),
            FREE => {
                self.end();
                Progress::Ended
            }
            // The holder of the request is just withdrawing the node. It wakes this thread afterwards.
            _ => Progress::Idle,
        }
    }

    /// Returns whether the first submission in the lane could not be carried out at the last look.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns the position in the current node, and the index of the node after it.
    #[inline]
    fn read_current(&self) -> (u64, u32) {
        // SAFETY: the current node is submitted, withdrawn or taken by this end, so it belongs to this end, and it has
        // not failed.
        let (low, next, _) = unsafe { self.current.read() };
        if next & FAR != 0 {
            return (self.shared.far.load(Ordering::Relaxed), next & !FAR);
        }
        // Positions in a lane only grow.
        (self.before + u64::from(low.wrapping_sub(self.before as u32)), next)
    }

    /// Skips a node whose cargo the holder has taken back.
    #[cold]
    fn pass_withdrawn(&mut self) {
        let node = self.current;
        let (number, next) = self.read_current();
        self.gauge.remove(node.wish().load(Ordering::Relaxed) >> WEIGHT);
        self.advance(number, next);
        node.free();
        // SAFETY: the number comes from a submitted node that belongs to this end, so nobody else has it.
        self.outlet.give_up(unsafe { Position::from_number(number) });
    }

    /// Carries out the send in the current node and goes to the next node. Returns false if that is not possible now.
    fn send_current(&mut self) -> bool {
        let node = self.current;
        self.shared.serving.store(self.index + 1, Ordering::Relaxed);
        self.shared.asymmetry.light();
        if node.wish().load(Ordering::Relaxed) & CANCEL != 0 {
            self.leave_current();
            return false;
        }
        // SAFETY: the node is submitted, so it belongs to this end, and it has not failed.
        let (.., verbs) = unsafe { node.read() };
        let (number, next) = self.read_current();
        // SAFETY: the number comes from a submitted node that belongs to this end, so nobody else has it.
        let position = || unsafe { Position::from_number(number) };
        if self.shared.for_server.load(Ordering::Relaxed) & CANCELLED != 0 {
            self.fail_current(position(), None);
            return true;
        }
        let (at, room) = (self.at, &mut self.room);
        // Only the user's code that lends the message can panic, before the position is used. If the panic leaves
        // something broken, it is the user's.
        let mut fill = || {
            catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the node is submitted, so its cargo is as `load` left it, and `at` leads to the outlet of the
                // cargo's lane.
                unsafe { (verbs.fill)(node.cargo(), at, position(), room) }
            }))
        };
        let filled = match &mut self.watch {
            None => fill(),
            Some(watch) => watched(&mut **watch, fill),
        };
        match filled {
            Ok(Filled::Yes) => {
                self.advance(number, next);
                self.answer(node, SENT);
            }
            Ok(Filled::NotYet) => {
                self.leave_current();
                return false;
            }
            Ok(Filled::No(error)) => self.fail_current(position(), Some(error)),
            Err(panic) => {
                let reason = message_of(&*panic);
                discard(panic);
                let error = Error::from(ErrorKind::NotSent { to: self.recipient(), reason });
                self.fail_current(position(), Some(error));
            }
        }
        true
    }

    /// Notes that the server does not use the current node's cargo any more.
    #[inline(always)]
    fn leave_current(&self) {
        // Release: pairs with the Acquire in `Untyped::withdraw`.
        self.shared.serving.store(0, Ordering::Release);
    }

    fn advance(&mut self, number: u64, next: u32) {
        self.before = number;
        self.index = next;
        self.current = self.shared.pool.node(next);
    }

    fn recipient(&self) -> Recipient {
        Recipient::Channel(self.outlet.name())
    }

    /// Ends the current node's request with an error.
    #[cold]
    fn fail_current(&mut self, position: Position, error: Option<Error>) {
        let (number, next) = self.read_current();
        self.outlet.give_up(position);
        let error = error.unwrap_or_else(|| {
            Error::from(ErrorKind::NotSent {
                to: self.recipient(),
                reason: "the communication thread was stopped".to_owned(),
            })
        });
        let node = self.current;
        // SAFETY: the node is submitted and belongs to this end, and `answer` changes its state to `UNSENT`.
        unsafe { node.fail(error) };
        self.advance(number, next);
        self.answer(node, UNSENT);
    }

    /// Gives a node back to the holder of its request, and wakes the holder.
    fn answer(&self, node: NodeAt, state: u32) {
        self.gauge.remove(node.wish().load(Ordering::Relaxed) >> WEIGHT);
        let wish = node.answer(state, self.shared.context.waiting.asymmetry);
        // Only after the answer is visible, because a holder that cancels then looks for it. Before the wakers run,
        // because they may panic.
        self.leave_current();
        if wish != 0 {
            self.attend_holder(wish);
        }
    }

    #[cold]
    fn attend_holder(&self, wish: u32) {
        if wish & WAITING != 0 {
            self.shared.context.ring(self.shared.context.me);
        }
        if wish & WAKER != 0 {
            // This wakes the tasks of all requests. A task that is woken in vain polls again.
            let wakers = std::mem::take(&mut *self.shared.lock_wakers());
            let panics = |waker: Waker| catch_unwind(AssertUnwindSafe(|| waker.wake())).err();
            // Each waker is called even if another one panics, because its task would otherwise never be polled again.
            let mut panics: Vec<_> = wakers.into_values().filter_map(panics).collect();
            if let Some(panic) = panics.pop() {
                panics.into_iter().for_each(discard);
                resume_unwind(panic);
            }
        }
    }

    /// Returns the doorbell of the sending end's rank if this lane waits for the channel's other end, which rings that
    /// doorbell.
    pub(super) fn doorbell(&self) -> Option<&Futex> {
        let context = &self.shared.context;
        let rank = self.blocked.then(|| context.rank(context.me).ok()).flatten()?;
        Some(&rank.doorbell)
    }

    /// Returns the doorbell's value, whether the lane is blocked or not.
    pub(super) fn heard(&self) -> Option<u32> {
        let context = &self.shared.context;
        Some(context.rank(context.me).ok()?.doorbell.value())
    }

    /// Notes that the server is going to sleep. Returns whether the channel's flag was raised, too.
    pub(super) fn raise(&self) -> bool {
        self.shared.for_feeder.fetch_or(PARKED, Ordering::Relaxed);
        if self.blocked {
            self.outlet.raise();
        }
        self.wake();
        if let Ok(rank) = self.shared.context.rank(self.shared.context.me) {
            rank.delegations.rest(self.blocked.then_some(self.shared.channel));
            self.resting.set(Some(self.blocked));
        }
        self.blocked
    }

    pub(super) fn lower(&self) {
        self.shared.for_feeder.fetch_and(!PARKED, Ordering::Relaxed);
        self.wake();
    }

    /// Notes that the server is awake, if it was noted as asleep.
    fn wake(&self) {
        if let Some(blocked) = self.resting.take()
            && let Ok(rank) = self.shared.context.rank(self.shared.context.me)
        {
            rank.delegations.wake(blocked.then_some(self.shared.channel));
        }
    }

    /// Returns the kinds of fences that the channel's other end and the submitter use before they look whether the
    /// server sleeps.
    pub(super) fn asymmetries(&self) -> [Asymmetry; 2] {
        [self.shared.context.waiting.asymmetry, self.shared.asymmetry]
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    /// Returns whether more threads of the world are at work than there are cores for them.
    pub(super) fn crowded(&self) -> bool {
        self.shared.context.crowded()
    }

    /// Tells the submitter whether more submissions are welcome. Submissions are served in any case.
    pub fn switch(&self, on: bool) {
        let word = &self.shared.for_feeder;
        if on {
            word.fetch_and(!OFF, Ordering::Relaxed);
        } else {
            word.fetch_or(OFF, Ordering::Relaxed);
        }
    }

    /// Moves the lane to another thread: submissions ring `bell` from now on.
    pub fn move_to(&mut self, bell: &Arc<Bell>) {
        self.wake();
        *self.shared.lock_bell() = Arc::clone(bell);
        // A submitter that has just seen `PARKED` may ring the bell of the previous thread, so the new thread must look
        // once.
        bell.ring();
    }

    /// Ends all submitted requests with an error.
    fn fail_submitted(&mut self) {
        let mut backoff = Backoff::new();
        loop {
            match self.current.state().load(Ordering::Acquire) {
                // The submitter or the holder may take the node back at the same time.
                SUBMITTED if self.current.take(SUBMITTED) => {
                    let (number, _) = self.read_current();
                    // SAFETY: the number comes from a submitted node that this end has just taken, so nobody else has
                    // it.
                    let position = unsafe { Position::from_number(number) };
                    self.fail_current(position, None);
                }
                WITHDRAWN => self.pass_withdrawn(),
                FREE => return,
                _ => backoff.pause(),
            }
        }
    }

    /// Ends all submitted requests, and tells the submitter that no thread serves the lane any more.
    fn end(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.shared.for_feeder.fetch_or(GONE, Ordering::Relaxed);
        // After this fence, either the submitter sees `GONE`, or this thread sees the submission.
        if !self.shared.asymmetry.heavy_here() && !cfg!(loom) {
            std::thread::sleep(ARRIVED);
        }
        // A task's waker may panic. Every request must be answered nevertheless.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.fail_submitted())) {
            discard(panic);
        }
        self.wake();
        if let Ok(rank) = self.shared.context.rank(self.shared.context.me) {
            rank.delegations.end();
        }
        // Release: pairs with the Acquire in `Outgoing::wait_for_end`.
        self.shared.ended.store(1, Ordering::Release);
        self.shared.context.ring(self.shared.context.me);
    }
}

impl Drop for ServedLane {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for ServedLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedLane").field("blocked", &self.blocked).finish_non_exhaustive()
    }
}

/// Fills while a watch observes it.
#[cold]
fn watched(
    watch: &mut dyn Watch,
    fill: impl FnOnce() -> std::thread::Result<Filled>,
) -> std::thread::Result<Filled> {
    let mut fill = Some(fill);
    let mut filled = Ok(Filled::NotYet);
    let mut carry = || {
        // A second call finds nothing to do.
        let Some(fill) = fill.take() else { return Attempt::NotYet };
        filled = fill();
        match filled {
            Ok(Filled::Yes) => Attempt::Sent,
            Ok(Filled::NotYet) => Attempt::NotYet,
            Ok(Filled::No(_)) | Err(_) => Attempt::Failed,
        }
    };
    // A panic of the watch is ignored: the result is that of `fill`.
    let _ = catch_unwind(AssertUnwindSafe(|| watch.attempt(&mut carry)));
    filled
}

/// Returns the message of a panic, as the reason of an error.
fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("its cargo panicked: {}", text.unwrap_or_else(|| "(no message)".to_owned()))
}
