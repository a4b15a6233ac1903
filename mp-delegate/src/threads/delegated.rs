//! A sender that communication threads serve.

use std::borrow::Borrow;

use mp_core::{
    Message, Plain, Result, SendError, Sender, SharedBuffer, Wait,
    delegate::{Outgoing, Submitted},
};

use super::{
    Choice, CommThreads, DelegatedSend, Request, Spare,
    pays::{BreakEven, Costs, delegates},
    record::Tape,
};
use crate::trace::{Detail, Recorder};

/// A [`Sender`] whose messages are sent by communication threads: see
/// [`CommThreads::delegate`].
///
/// While the threads are [switched off](CommThreads::switch), or when they have been stopped, the caller sends the
/// messages itself, in the same order.
///
/// Dropping it waits until everything delegated is sent, and closes the channel. In a thread that panics, dropping it
/// instead ends what was not sent yet with [`NotSent`](mp_core::ErrorKind::NotSent).
#[derive(Debug)]
pub struct Delegated<M: Message + ?Sized> {
    outgoing: Outgoing<M>,
    lanes: usize,
    choice: Choice,
    /// The position that the choice keeps between sends.
    turn: usize,
    /// The break-even for [`Choice::Auto`].
    break_even: Option<BreakEven>,
    /// Whether cores are counted, because the program did not set what the threads have to run on.
    counts: bool,
    wait: Wait,
    tape: Option<Box<Tape>>,
    /// The last field, so that the threads run until everything is sent.
    threads: CommThreads,
}

impl CommThreads {
    /// Delegates the messages of a sender to all of these threads, each in turn.
    pub fn delegate<M: Message + ?Sized>(&self, sender: Sender<M>) -> Delegated<M> {
        let all: Vec<usize> = (0..self.len()).collect();
        self.delegate_to(sender, &all, Choice::RoundRobin)
    }

    /// Delegates the messages of a sender to the threads with these numbers, of which one is chosen for each message.
    /// Numbers that no thread has are ignored. If no thread is left, the sender sends by itself.
    pub fn delegate_to<M: Message + ?Sized>(
        &self,
        sender: Sender<M>,
        set: &[usize],
        choice: Choice,
    ) -> Delegated<M> {
        Delegated::new(self, sender, set, choice)
    }
}

impl<M: Message + ?Sized> Delegated<M> {
    fn new(threads: &CommThreads, sender: Sender<M>, set: &[usize], choice: Choice) -> Self {
        let mut outgoing = Outgoing::new(sender);
        let (lanes, details) = threads.serve(&mut outgoing, set);
        if choice == Choice::LeastLoaded {
            threads.measure(set);
        }
        let spare = match (outgoing.cores_left(), threads.spare()) {
            (..0, _) | (0, None) => Spare::None,
            (_, said) => said.unwrap_or(Spare::Core),
        };
        let (break_even, counts) = (Costs::default().break_even(spare), threads.spare().is_none());
        let threads = threads.clone();
        let (wait, tape) = (Wait::forever(), Tape::new(details));
        Self { outgoing, lanes, choice, turn: 0, break_even, counts, wait, tape, threads }
    }

    /// Records delegations, and sends by the calling thread, through `recorder` from now on.
    ///
    /// `detail` holds what all messages have in common: the ranks that they are from and for ([`Detail::message`]; the
    /// bytes are set for each message), and the name of the channel. The threads' copies carry it too, if the threads
    /// [record](super::Builder::record).
    pub fn record(&mut self, recorder: Recorder, detail: Detail) {
        if recorder.is_on() || self.tape.is_some() {
            self.tape.get_or_insert_default().record(recorder, detail);
        }
    }

    /// Returns the threads that serve this sender.
    pub fn threads(&self) -> &CommThreads {
        &self.threads
    }

    /// Sets how threads are chosen from now on.
    pub fn set_choice(&mut self, choice: Choice) {
        if choice == Choice::LeastLoaded {
            self.threads.measure_all();
        }
        self.choice = choice;
    }

    /// Returns the sizes from which [`Choice::Auto`] delegates, or `None` if it never does.
    pub fn break_even(&self) -> Option<BreakEven> {
        self.break_even
    }

    /// Sets the sizes from which [`Choice::Auto`] delegates, and stops the counting of cores. Use this if this
    /// machine's [costs](Costs) are known.
    pub fn set_break_even(&mut self, break_even: Option<BreakEven>) {
        (self.break_even, self.counts) = (break_even, false);
    }

    /// Sets how the calls wait that the caller carries out itself.
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
        let (break_even, counts, next) = (self.break_even, self.counts, self.turn);
        let asleep = self.outgoing.sleeps(next);
        let left = if counts && break_even.is_some_and(|from| bytes >= from.awake) {
            self.outgoing.cores_left() - self.outgoing.helpers()
        } else {
            i64::MAX
        };
        // A thread that is awake is already counted among those at work.
        let spared = |asleep| i64::from(asleep) <= left;
        delegates(break_even, bytes, || asleep, spared, || self.outgoing.has_room())
    }

    /// Delegates a message: a thread of the set copies what `message` lends into the channel, as
    /// soon as there is room. Returns at once, unless the set [chooses](crate::threads::Choice) to send inline, or no
    /// thread of it is on: then this call sends, and waits while there is no room.
    ///
    /// A message is a plain value, or anything that can be borrowed as the channel's message: a `Vec`, a `Box` or an
    /// `Arc` of a slice, a shared buffer (which is copied, not moved), or a type of the program's own. It is lent
    /// (`borrow()` is called) here and in the thread. A panic there ends the request with an error.
    #[inline]
    pub fn send<B: Borrow<M> + Send + 'static>(&mut self, message: B) -> Request<B> {
        let Some(lane) = self.choose(|| bytes(message.borrow())) else {
            return DelegatedSend::request(Submitted::Here(self.send_here(message)));
        };
        DelegatedSend::request(match &self.tape {
            None => self.outgoing.submit(lane, message),
            Some(tape) => {
                let bytes = bytes(message.borrow());
                tape.submit(lane, bytes, || self.outgoing.submit(lane, message))
            }
        })
    }

    /// # Safety
    /// What the message borrows must live until the request is done.
    #[allow(unsafe_code, reason = "for `scope`, which keeps the promise")]
    pub(super) unsafe fn send_borrowed<B: Borrow<M> + Send>(&mut self, message: B) -> Submitted<B> {
        let lane = self.choose(|| bytes(message.borrow()));
        let Some(lane) = lane else { return Submitted::Here(self.send_here(message)) };
        match &self.tape {
            // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
            None => unsafe { self.outgoing.submit_borrowed(lane, message) },
            Some(tape) => {
                let bytes = bytes(message.borrow());
                // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
                let submit = || unsafe { self.outgoing.submit_borrowed(lane, message) };
                tape.submit(lane, bytes, submit)
            }
        }
    }

    /// Sends a message from this thread, after all messages delegated before. Waits while the channel is full.
    ///
    /// # Errors
    /// The same as those of [`Sender::send`].
    pub fn send_here<B: Borrow<M>>(&mut self, message: B) -> Result<B, SendError<B>> {
        match &self.tape {
            None => self.outgoing.send_here(message, self.wait),
            Some(tape) => {
                let bytes = bytes(message.borrow());
                tape.send(bytes, || self.outgoing.send_here(message, self.wait))
            }
        }
    }

    /// Ends everything that was delegated and is not sent yet with [`NotSent`](mp_core::ErrorKind::NotSent). From now
    /// on, the caller sends without help.
    pub fn cancel(&mut self) {
        self.outgoing.cancel();
        self.lanes = 0;
    }
}

impl<T: Plain> Delegated<[T]> {
    /// Delegates a buffer that moves. It is not copied, and the caller no longer has it. Returns at once, also when the
    /// channel is full.
    #[inline]
    pub fn send_buffer(&mut self, buffer: SharedBuffer<T>) -> Request<(), SharedBuffer<T>> {
        // The thread copies no bytes, so the choice counts none.
        let (lane, bytes) = (self.choose(|| 0), size_of_val(&*buffer));
        let Self { outgoing, wait, .. } = self;
        DelegatedSend::request(match (lane, &self.tape) {
            (Some(lane), None) => outgoing.submit_buffer(lane, buffer),
            (Some(lane), Some(tape)) => {
                tape.submit(lane, bytes, || outgoing.submit_buffer(lane, buffer))
            }
            (None, None) => Submitted::Here(outgoing.send_buffer_here(buffer, *wait)),
            (None, Some(tape)) => {
                Submitted::Here(tape.send(bytes, || outgoing.send_buffer_here(buffer, *wait)))
            }
        })
    }
}

fn bytes<M: Message + ?Sized>(message: &M) -> usize {
    size_of_val(message.elements())
}
