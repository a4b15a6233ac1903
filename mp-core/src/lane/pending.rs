//! What the submitter of a send holds until the send is answered.

use std::{
    marker::PhantomData,
    mem::ManuallyDrop,
    sync::Arc,
    task::{Context as Task, Poll},
};

use super::{
    cargo::unload,
    node::{CANCEL, NodeAt, SENT, SUBMITTED, WAITING, WAKER},
    shared::Shared,
};
use crate::{
    context::Context,
    error::{Result, SendError},
    sync::Ordering,
    wait::{ARRIVED, Backoff, Doing, Flag, Operation, Wait, progress::take_failure},
};

/// A submitted send, without the types of its cargo. Dropping it lets go of the send. The send is carried out
/// nevertheless, and the last thread that uses the cargo drops it.
pub struct Untyped {
    shared: Arc<Shared>,
    node: NodeAt,
    index: u32,
}

// SAFETY: the state of a node says which thread may access its other fields, and the node holds only `Send` cargo.
unsafe impl Send for Untyped {}
// SAFETY: methods with a shared reference only use atomics of the node.
unsafe impl Sync for Untyped {}

/// The holder's wish to be woken. Only the holder writes it while the send is pending.
struct Wish(NodeAt);

impl Flag for Wish {
    fn raise(&self) {
        let wish = self.0.wish();
        wish.store(wish.load(Ordering::Relaxed) | WAITING, Ordering::Relaxed);
    }

    fn lower(&self) {
        let wish = self.0.wish();
        wish.store(wish.load(Ordering::Relaxed) & !WAITING, Ordering::Relaxed);
    }
}

impl Untyped {
    pub(super) fn new(shared: Arc<Shared>, node: NodeAt, index: u32) -> Self {
        Self { shared, node, index }
    }

    /// Returns whether the send was answered.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.node.answered().is_some()
    }

    /// Waits until the send is answered. Returns false if the limit of `wait` was over before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken; the
    /// [failure](crate::progress::Part::failure) of another pending operation of the rank, where that ends the wait.
    pub fn wait(&mut self, wait: Wait) -> Result<bool> {
        if self.is_done() {
            return Ok(true);
        }
        let doing = Doing { operation: Operation::Send, channel: self.shared.channel };
        let line = std::ptr::from_ref(self.node.state()).cast();
        let poll = || self.is_done().then_some(());
        match self.shared.context.wait(wait, doing, line, &Wish(self.node), poll)? {
            Some(()) => Ok(true),
            None => take_failure().map_or(Ok(false), Err),
        }
    }

    /// Waits until the send is answered, whatever happens.
    pub fn wait_done(&mut self) {
        let mut backoff = Backoff::new();
        // Even if the world is too broken to sleep in, the server answers.
        while !self.wait(Wait::forever()).is_ok_and(|done| done) && !self.is_done() {
            backoff.pause();
        }
    }

    /// Returns the context of the rank that has submitted the send and that is rung when the send is answered.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    /// Returns where the descriptor of the send's channel lies.
    pub(crate) fn channel(&self) -> u64 {
        self.shared.channel
    }

    /// Asks the server to ring the rank's doorbell when the send is answered.
    pub(crate) fn raise(&self) {
        Wish(self.node).raise();
    }

    /// Withdraws the request of [`raise`](Self::raise).
    pub(crate) fn lower(&self) {
        Wish(self.node).lower();
    }

    /// Returns whether the send was answered. If not, the task will be woken when the send is answered.
    pub fn poll_done(&mut self, task: &mut Task<'_>) -> Poll<()> {
        if self.is_done() {
            return Poll::Ready(());
        }
        self.shared.lock_wakers().insert(self.index, task.waker().clone());
        let wish = self.node.wish();
        wish.store(wish.load(Ordering::Relaxed) | WAKER, Ordering::Relaxed);
        if !self.shared.context.waiting.asymmetry.heavy_here() {
            std::thread::sleep(ARRIVED);
        }
        if self.is_done() {
            self.shared.lock_wakers().remove(&self.index);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Takes the node with its cargo away from the server. Returns false if the send is already answered. If the server
    /// is just sending the message, this waits for the end of that.
    fn withdraw(&mut self) -> bool {
        let wish = self.node.wish();
        wish.store(wish.load(Ordering::Relaxed) | CANCEL, Ordering::Relaxed);
        // After this fence the server does not begin to send the message: see `Shared::serving`.
        if !self.shared.asymmetry.heavy_here() {
            std::thread::sleep(ARRIVED);
        }
        let mut backoff = Backoff::new();
        loop {
            // Acquire: pairs with the Release in `ServedLane::leave_current`: the answer is visible, and the server
            // does not use the cargo any more.
            if self.shared.serving.load(Ordering::Acquire) != self.index + 1 {
                if self.is_done() {
                    return false;
                }
                // If this fails, a server that is ending has taken the node, and will answer.
                if self.node.take(SUBMITTED) {
                    return true;
                }
            }
            backoff.pause();
        }
    }

    /// Restores the types of the cargo.
    ///
    /// # Safety
    /// This send came from a `Pending<S, U>`.
    pub unsafe fn typed<S, U>(self) -> Pending<S, U> {
        Pending { untyped: self, types: PhantomData }
    }
}

impl Drop for Untyped {
    fn drop(&mut self) {
        match self.node.answered() {
            Some(state) => self.node.drop_answered(state),
            None => self.node.detach(),
        }
    }
}

impl std::fmt::Debug for Untyped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Untyped").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// A submitted send that returns an `S` if it was sent, and a `U` if it was not. See [`Untyped`].
#[derive(Debug)]
pub struct Pending<S, U = S> {
    untyped: Untyped,
    types: PhantomData<(S, U)>,
}

impl<S, U> Pending<S, U> {
    pub(super) fn new(untyped: Untyped) -> Self {
        Self { untyped, types: PhantomData }
    }

    /// Returns the send without the types.
    pub fn untyped(&mut self) -> &mut Untyped {
        &mut self.untyped
    }

    /// Returns whether the send was answered.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.untyped.is_done()
    }

    /// Takes back the submitted value.
    ///
    /// # Errors
    /// The pending send itself, when it was already answered.
    pub fn cancel(mut self) -> Result<U, Self> {
        if self.is_done() || !self.untyped.withdraw() {
            return Err(self);
        }
        let untyped = ManuallyDrop::new(self.untyped);
        // SAFETY: `withdraw` has given this thread exclusive access to the node, and the server did not send the cargo.
        // So the cargo is still what `submit_cargo` loaded, which has the layout of a `U`.
        let cargo = unsafe { unload::<U>(untyped.node.cargo()) };
        untyped.node.withdraw();
        let shared = &untyped.shared;
        shared.asymmetry.light();
        shared.wake_server();
        // SAFETY: `untyped` is not used again and its destructor does not run, so `shared` is dropped only here.
        drop(unsafe { std::ptr::read(shared) });
        Ok(cargo)
    }

    /// Forgets the types, for a while.
    pub fn into_untyped(self) -> Untyped {
        self.untyped
    }

    /// Returns the result of the send, if it was answered.
    ///
    /// # Errors
    /// The pending send itself, when it was not answered; in the answer, the reason why the message was not sent.
    #[inline]
    pub fn take(self) -> Result<Result<S, SendError<U>>, Self> {
        let Some(state) = self.untyped.node.answered() else { return Err(self) };
        let untyped = ManuallyDrop::new(self.untyped);
        let cargo = untyped.node.cargo();
        // SAFETY: the send is answered, so the node belongs to its holder, this call, which takes the cargo for the
        // only time. The state says whether an `S` is left of it, or a `U` with a `Failure`.
        let answer = unsafe {
            if state == SENT {
                Ok(unload::<S>(cargo))
            } else {
                let error = untyped.node.failure().error;
                Err(SendError { error, message: unload::<U>(cargo) })
            }
        };
        untyped.node.free();
        // SAFETY: `untyped` is not used again and its destructor does not run, so `shared` is dropped only here.
        drop(unsafe { std::ptr::read(&untyped.shared) });
        Ok(answer)
    }
}
