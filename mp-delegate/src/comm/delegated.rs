//! A sending end that communication threads serve.

use std::borrow::Borrow;

use mp_core::{
    Message, Plain, Result, SendError, Sender, SharedBuffer, Wait,
    delegate::{Outgoing, Submitted},
};

use super::{
    Choice, CommThreads, Request, Spare,
    pays::{BreakEven, Costs, delegates},
};

/// A [`Sender`] whose messages are sent by communication threads: see
/// [`CommThreads::delegate`].
///
/// While the threads are [switched off](CommThreads::switch), or when they have been stopped, the
/// caller sends by itself, in the same order.
///
/// Dropping it waits until everything delegated is sent, and closes the channel; in a thread that
/// panics it ends what was not sent yet with [`Error::NotSent`](mp_core::Error::NotSent).
#[derive(Debug)]
pub struct Delegated<M: Message + ?Sized> {
    outgoing: Outgoing<M>,
    lanes: usize,
    choice: Choice,
    /// The choice's memory.
    turn: usize,
    /// For [`Choice::Auto`].
    break_even: Option<BreakEven>,
    wait: Wait,
    /// Last, so that they run until everything is sent.
    threads: CommThreads,
}

impl<M: Message + ?Sized> Delegated<M> {
    pub(super) fn new(
        threads: &CommThreads,
        sender: Sender<M>,
        set: &[usize],
        choice: Choice,
    ) -> Self {
        let mut outgoing = Outgoing::new(sender);
        let lanes = threads.serve(&mut outgoing, set);
        if choice == Choice::LeastLoaded {
            threads.measure(set);
        }
        let spare = if outgoing.crowded() { Spare::None } else { threads.spare() };
        let break_even = Costs::default().break_even(spare);
        let threads = threads.clone();
        Self { outgoing, lanes, choice, turn: 0, break_even, wait: Wait::forever(), threads }
    }

    /// The threads that serve it.
    pub fn threads(&self) -> &CommThreads {
        &self.threads
    }

    /// Chooses otherwise from now on.
    pub fn set_choice(&mut self, choice: Choice) {
        if choice == Choice::LeastLoaded {
            self.threads.measure_all();
        }
        self.choice = choice;
    }

    /// The sizes from which on [`Choice::Auto`] delegates; `None` if it never does.
    pub fn break_even(&self) -> Option<BreakEven> {
        self.break_even
    }

    /// Says from which sizes on [`Choice::Auto`] delegates: where this machine's
    /// [costs](Costs) are known.
    pub fn set_break_even(&mut self, break_even: Option<BreakEven>) {
        self.break_even = break_even;
    }

    /// How calls wait that the caller carries out itself.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.wait = wait.into();
    }

    #[inline]
    fn choose(&mut self, bytes: impl FnOnce() -> usize) -> Option<usize> {
        if self.choice == Choice::Auto && !self.pays(bytes()) {
            return None;
        }
        let outgoing = &self.outgoing;
        let (open, load) = (|lane| outgoing.is_open(lane), |lane| outgoing.load(lane));
        self.choice.choose(self.lanes, &mut self.turn, open, load)
    }

    fn pays(&mut self, bytes: usize) -> bool {
        let (break_even, next) = (self.break_even, self.turn);
        let asleep = self.outgoing.sleeps(next);
        delegates(break_even, bytes, || asleep, || self.outgoing.has_room())
    }

    /// Delegates a message: a thread of the set copies what `message` lends into the channel, as
    /// soon as there is room. Returns at once.
    ///
    /// A message is a plain value, or anything that can be borrowed as the channel's message: a
    /// `Vec`, a `Box` or an `Arc` of a slice, a shared buffer (which is copied, not moved), a type
    /// of the program's own. It is lent (`borrow()` is called) here and in the thread; what panics
    /// there ends the request with an error.
    #[inline]
    pub fn send<B: Borrow<M> + Send + 'static>(&mut self, message: B) -> Request<B> {
        let bytes = || size_of_val::<M>(message.borrow());
        Request::new(match self.choose(bytes) {
            Some(lane) => self.outgoing.submit(lane, message),
            None => Submitted::Here(self.outgoing.send_here(message, self.wait)),
        })
    }

    /// # Safety
    /// What the message borrows lives until the request is done.
    #[allow(unsafe_code, reason = "for `scope`, which keeps the promise")]
    pub(super) unsafe fn send_borrowed<B: Borrow<M> + Send>(&mut self, message: B) -> Submitted<B> {
        let bytes = || size_of_val::<M>(message.borrow());
        match self.choose(bytes) {
            // SAFETY: the caller's.
            Some(lane) => unsafe { self.outgoing.submit_borrowed(lane, message) },
            None => Submitted::Here(self.outgoing.send_here(message, self.wait)),
        }
    }

    /// Sends a message from this thread, after those delegated before: waits while the channel is
    /// full.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn send_here<B: Borrow<M>>(&mut self, message: B) -> Result<B, SendError<B>> {
        self.outgoing.send_here(message, self.wait)
    }

    /// Ends everything that was delegated and is not sent yet with
    /// [`Error::NotSent`](mp_core::Error::NotSent), and sends without help from now on.
    pub fn cancel(&mut self) {
        self.outgoing.cancel();
        self.lanes = 0;
    }
}

impl<T: Plain> Delegated<[T]> {
    /// Delegates a buffer that moves: nothing is copied, and nothing is left of it here. Returns
    /// at once, also when the channel is full.
    #[inline]
    pub fn send_buffer(&mut self, buffer: SharedBuffer<T>) -> Request<(), SharedBuffer<T>> {
        // Nothing is copied.
        Request::new(match self.choose(|| 0) {
            Some(lane) => self.outgoing.submit_buffer(lane, buffer),
            None => Submitted::Here(self.outgoing.send_buffer_here(buffer, self.wait)),
        })
    }
}
