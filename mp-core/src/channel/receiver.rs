//! The receiving end of a channel.
//!
//! Each receive call returns a guard. A receiver can have several guards at once, because a stage of a pipeline holds a
//! message while it looks for the next, and they may be dropped in any order. An iterator that borrows the receiver
//! could not lend messages like that. A guard knows only its receiver and where its message is. If it is the only
//! guard, its message is the oldest; otherwise the place of the slot says which message it is. A receiver whose guards
//! hold all slots and that waits for another message gets `GuardsHeld`. The guard of a slice also has the length,
//! because a loop over the elements would otherwise read it from the slot each time.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, hash_map::Entry},
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull,
    time::Duration,
};

use super::{
    agreement::{End, Means},
    opened::Opened,
    rendezvous::Want,
    ring::{Received, RingReceiver},
    selectable::Selectable,
    shared_ring::{Held, Look, SharedRing},
    signals::{Glance, Sticky},
    slots::{MOVED, Place},
};
use crate::{
    buffer::{Berth, Parts, SharedBuffer},
    context::Context,
    costs,
    error::{Error, ErrorKind, Result},
    plain::{Message, Plain},
    segment::{BlockKey, SegmentError},
    wait::{Call, Called, Doing, Flag, Operation, Wait},
};

/// The receiving end of a channel: see [`Rank::receiver`](crate::Rank::receiver).
///
/// A message is read in place: [`receive`](Self::receive) returns a [`Guard`], which gives the slot back when it is
/// dropped. A program can hold several guards at once, up to the channel's degree, and drop them in any order.
///
/// Dropping the receiver closes this end: the sender then gets [`Disconnected`](crate::ErrorKind::Disconnected).
// There is no bound `M: Message`, for the same reason as in `Sender`.
pub struct Receiver<M: ?Sized> {
    /// The ring of `Kind::Pair`. For other kinds, a ring that never has a message, so that the fast path need not check
    /// the kind.
    ring: RingReceiver,
    glance: Glance,
    opened: Opened,
    kind: Kind,
    /// How often to look at an empty slot before the actual wait. It is 0 in a crowded world, where the sender may need
    /// the receiver's core.
    looks: Cell<u32>,
    wait: Cell<Wait>,
    /// A free place in the rank's table of buffers, for the next moved buffer.
    berth: Cell<Option<Berth>>,
    /// The moved buffers that guards read, by the address of their first element.
    adopted: RefCell<HashMap<NonNull<u8>, Parts>>,
    message: PhantomData<fn() -> *const M>,
}

// SAFETY: only one thread at a time can use a receiver, because it is not `Sync`. The rings' pointers lead into the
// segment that `opened` keeps mapped.
unsafe impl<M: ?Sized> Send for Receiver<M> {}

enum Kind {
    Pair,
    Rendezvous(RingReceiver),
    Shared(SharedRing),
}

/// Where a received message lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// In a slot of a ring between two ranks.
    Own(Received),
    /// In a slot of a shared ring.
    Shared(Held),
}

// SAFETY: the pointers lead to memory of the segment, which no thread owns. Those who read or write there argue why they
// may.
unsafe impl Send for At {}

impl<M: Message + ?Sized> Receiver<M> {
    pub(crate) fn new(opened: Opened) -> Self {
        let (ring, kind) = match opened.means() {
            Means::SharedRing => (opened.no_ring(), Kind::Shared(opened.shared_ring())),
            Means::Meeting | Means::Asking => {
                (opened.no_ring(), Kind::Rendezvous(RingReceiver::new(opened.ring())))
            }
            Means::Ring => (opened.ring(), Kind::Pair),
        };
        let ring = match opened.peers() {
            [sender] if *sender == opened.context.me => RingReceiver::of_itself(ring),
            _ => RingReceiver::new(ring),
        };
        // SAFETY: the signal lies in the segment that `opened` keeps mapped.
        let glance = unsafe { opened.glance(End::Receiver) };
        let looks = Cell::new(match kind {
            Kind::Pair => opened.looks(),
            _ => 0,
        });
        let wait = Cell::new(Wait::forever());
        Self {
            ring,
            glance,
            opened,
            kind,
            looks,
            wait,
            berth: Cell::new(None),
            adopted: RefCell::default(),
            message: PhantomData,
        }
    }

    /// Sets how calls without a limit of their own wait from now on: with which policy, and for how long.
    pub fn set_wait(&self, wait: impl Into<Wait>) {
        self.wait.set(wait.into());
    }

    /// Receives the next message, which is read in place. Waits until there is one.
    ///
    /// # Errors
    /// [`Disconnected`](crate::ErrorKind::Disconnected) or [`PeerLost`](crate::ErrorKind::PeerLost) when no sender is
    /// left and everything that was published has been received; [`Mismatch`](crate::ErrorKind::Mismatch);
    /// [`GuardsHeld`](crate::ErrorKind::GuardsHeld); [`Timeout`](crate::ErrorKind::Timeout) only after
    /// [`set_wait`](Self::set_wait) with a limit.
    #[inline(always)]
    pub fn receive(&self) -> Result<Guard<'_, M>> {
        self.receive_or(|| self.wait.get())
    }

    /// Receives as [`receive`](Self::receive) does, but waits at most for `limit`. At degree 0 the limit applies to
    /// meeting a sender. Once a sender has been met, this call waits while the sender writes its [`Slot`](crate::Slot).
    /// If the sender, or the slots of a shared channel, are on another node, a call that gives up waits for an answer of that
    /// node.
    ///
    /// # Errors
    /// Same as `receive`, and [`Timeout`](crate::ErrorKind::Timeout).
    pub fn receive_timeout(&self, limit: Duration) -> Result<Guard<'_, M>> {
        self.receive_with(self.wait.get().limit(limit))
    }

    /// Receives as [`receive`](Self::receive) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `receive`, and [`Timeout`](crate::ErrorKind::Timeout).
    #[inline(always)]
    pub fn receive_with(&self, wait: impl Into<Wait>) -> Result<Guard<'_, M>> {
        self.receive_or(|| wait.into())
    }

    /// Receives the next message, and waits for it if necessary. Only the path of a message that is already there is
    /// inlined into the caller. If this function were larger, the compiler would not inline it.
    #[inline(always)]
    fn receive_or(&self, wait: impl FnOnce() -> Wait) -> Result<Guard<'_, M>> {
        if let Some(guard) = self.receive_fast() {
            return Ok(guard);
        }
        if self.appears()
            && let Some(guard) = self.receive_fast()
        {
            return Ok(guard);
        }
        // The result of `receive_slowly` fits in registers, so that the guard of the fast path can stay in registers,
        // too.
        self.receive_slowly(wait()).map(|message| Guard { message, receiver: self })
    }

    /// Receives as [`receive`](Self::receive) does. `call` returns the call that waits, in the program's words, for
    /// reports.
    ///
    /// # Errors
    /// Same as `receive`.
    #[doc(hidden)]
    #[inline(always)]
    pub fn receive_called(&self, call: impl Fn() -> Option<String>) -> Result<Guard<'_, M>> {
        self.receive_called_or(|| self.wait.get(), call)
    }

    /// Receives as [`receive_called`](Self::receive_called) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `receive_called`, and [`Timeout`](crate::ErrorKind::Timeout).
    #[doc(hidden)]
    #[inline(always)]
    pub fn receive_called_with(
        &self,
        wait: impl Into<Wait>,
        call: impl Fn() -> Option<String>,
    ) -> Result<Guard<'_, M>> {
        self.receive_called_or(|| wait.into(), call)
    }

    #[inline(always)]
    fn receive_called_or(
        &self,
        wait: impl FnOnce() -> Wait,
        call: impl Fn() -> Option<String>,
    ) -> Result<Guard<'_, M>> {
        if let Some(guard) = self.receive_fast() {
            return Ok(guard);
        }
        if self.appears()
            && let Some(guard) = self.receive_fast()
        {
            return Ok(guard);
        }
        self.receive_called_slowly(wait(), call).map(|message| Guard { message, receiver: self })
    }

    /// `call` comes by value, so that only this path needs it in memory.
    #[cold]
    #[inline(never)]
    fn receive_called_slowly(
        &self,
        wait: Wait,
        call: impl Fn() -> Option<String>,
    ) -> Result<NonNull<M>> {
        let place = self.take_slowly(wait, Some(&call))?;
        self.message(place)
    }

    /// Looks several times at the slot and at nothing else, as fast as possible, so that a message that is just in
    /// flight is received without delay.
    #[inline(never)]
    fn appears(&self) -> bool {
        self.ring.appears(self.looks.get())
    }

    /// Receives the next message if it is there and lies in the ring between two ranks.
    #[inline(always)]
    fn receive_fast(&self) -> Option<Guard<'_, M>> {
        let ring = &self.ring;
        let place = match M::SLICE {
            true => ring.place(),
            false => const { Place::of_single::<M::Element>() },
        };
        let received = ring.peek_in(place)?;
        let len = if M::SLICE { ring.len(received.slot) as usize } else { 1 };
        if M::SLICE && len > self.opened.agreement.spec.max_len {
            return None;
        }
        ring.take(received, place.stride);
        // SAFETY: the payload's distance from the start of the slot is less than the stride, so it lies in the slot.
        let payload = unsafe { received.slot.add(place.payload) };
        Some(Guard { message: M::at(payload.cast(), len), receiver: self })
    }

    #[cold]
    #[inline(never)]
    fn receive_slowly(&self, wait: Wait) -> Result<NonNull<M>> {
        let place = self.take_slowly(wait, None)?;
        self.message(place)
    }

    /// Receives the next message if it is already there. At degree 0 that is the message of a sender that waits; this
    /// call then waits while the sender writes its [`Slot`](crate::Slot). In a shared channel whose slots are on another
    /// node, it waits for that node's answer.
    ///
    /// # Errors
    /// Same as [`receive`](Self::receive).
    #[inline]
    pub fn try_receive(&self) -> Result<Option<Guard<'_, M>>> {
        if let Some(guard) = self.receive_fast() {
            return Ok(Some(guard));
        }
        let message = self.try_receive_slowly()?;
        Ok(message.map(|message| Guard { message, receiver: self }))
    }

    #[inline(never)]
    fn try_receive_slowly(&self) -> Result<Option<NonNull<M>>> {
        match self.take_now()? {
            Some(place) => self.message(place).map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether a message seems to be there. This looks at the place of the next message, which takes less time
    /// than a [`try_receive`](Receiver::try_receive) that finds nothing. With several ranks at this end, another rank
    /// may take the message. If the slots of a shared channel are on another node, this looks whether that node has told of a
    /// message, and asks it to tell. The result does not show whether the sender is gone.
    ///
    /// ```
    /// # use onchip::{Channel, World};
    /// let rank = World::solo()?;
    /// let mut ask = rank.sender::<u64>("ask", 0, Channel::degree(4))?;
    /// let asked = rank.receiver::<u64>("ask", 0, Channel::degree(4))?;
    /// assert!(!asked.has_message());
    /// ask.send(&7)?;
    /// assert!(asked.has_message());
    /// assert_eq!(asked.try_receive()?.as_deref(), Some(&7));
    /// # Ok::<(), onchip::Error>(())
    /// ```
    #[inline(always)]
    pub fn has_message(&self) -> bool {
        self.ring.ready() || self.has_message_behind()
    }

    /// Looks for a short time whether the next messages, of this number, are there. Only for a sender with one thread.
    /// A look takes a line away from the core that is writing it. So this looks only at the last of the messages.
    #[doc(hidden)]
    pub fn appear(&self, messages: u64) -> bool {
        let looks = self.opened.looks().max(1);
        costs::look_until(looks, || self.ring.ready_all(messages))
    }

    /// Asks the processor to fetch the next messages, of this number, because the caller will receive them at once.
    /// Messages that are not there yet are sent later than without this.
    #[doc(hidden)]
    #[inline(always)]
    pub fn prefetch(&self, messages: u64) {
        self.ring.prefetch(messages);
    }

    /// Leaves a number for the sender, which can read it with [`Sender::notice`](crate::Sender::notice) at any time.
    /// The number lies in a line that every send looks at. It replaces the number before it. With several receivers
    /// there is still only one number.
    ///
    /// A sender that waited for a slot sees the number if the slot was given back after this call.
    ///
    /// ```
    /// # use onchip::{Channel, World};
    /// let rank = World::solo()?;
    /// let ask = rank.sender::<u64>("ask", 0, Channel::degree(4))?;
    /// let asked = rank.receiver::<u64>("ask", 0, Channel::degree(4))?;
    /// assert_eq!(ask.notice(), 0);
    /// asked.set_notice(7);
    /// assert_eq!(ask.notice(), 7);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    pub fn set_notice(&self, notice: u64) {
        self.opened.signals().for_sender.set_notice(notice);
    }

    #[inline]
    fn has_message_behind(&self) -> bool {
        match &self.kind {
            Kind::Pair => self.ready_in_ring(),
            Kind::Rendezvous(ring) if self.opened.is_apart() => ring.ready() || self.hears(),
            Kind::Rendezvous(ring) => self.opened.meeting().wanted() || ring.ready(),
            Kind::Shared(ring) => ring.ready(|rank| self.opened.released(End::Sender, rank)),
        }
    }

    /// Returns whether the node of the slots has told of a message, and asks it to tell.
    fn hears(&self) -> bool {
        self.opened.meeting().looks().unwrap_or_else(|| {
            self.attend();
            false
        })
    }

    /// Returns where the channel's descriptor lies.
    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> u64 {
        self.opened.descriptor_offset().bytes()
    }

    /// Returns an iterator over the messages, until the sender has closed its end. See [`Messages`].
    pub fn iter(&self) -> Messages<'_, M> {
        Messages { receiver: self, failed: false }
    }

    #[inline]
    fn take(&self, wait: Wait, call: Call<'_>) -> Result<At> {
        if self.appears()
            && let Some(received) = self.ring.receive()
        {
            return Ok(At::Own(received));
        }
        self.take_slowly(wait, call)
    }

    /// Takes the next message if it is there (step 4, receive).
    fn take_now(&self) -> Result<Option<At>> {
        if let Some(received) = self.ring.receive() {
            return Ok(Some(At::Own(received)));
        }
        self.take_now_slowly()
    }

    /// Looks for a message after the ring seemed empty.
    fn take_now_slowly(&self) -> Result<Option<At>> {
        match &self.kind {
            Kind::Pair => self.look(),
            Kind::Rendezvous(_) if self.opened.is_apart() => self.ask(),
            Kind::Rendezvous(_) => self.meet_if_wanted(),
            Kind::Shared(ring) => self.look_shared(ring),
        }
    }

    /// Returns the ring between two ranks, at any degree.
    #[inline(always)]
    fn pair_ring(&self) -> &RingReceiver {
        match &self.kind {
            Kind::Rendezvous(ring) => ring,
            _ => &self.ring,
        }
    }

    fn check_guards(&self) -> Result<()> {
        if self.pair_ring().all_held() {
            let agreement = &self.opened.agreement;
            let held = agreement.spec.degree.max(1);
            return Err(ErrorKind::GuardsHeld { channel: agreement.name.clone(), held }.into());
        }
        Ok(())
    }

    /// Returns the next message, or the reason why there will be none.
    fn look(&self) -> Result<Option<At>> {
        let ring = self.pair_ring();
        if let Some(received) = ring.receive() {
            return Ok(Some(At::Own(received)));
        }
        if let Some(received) = self.look_past_tombstones(ring) {
            return Ok(Some(At::Own(received)));
        }
        ring.ran_dry();
        self.check_guards()?;
        if self.opened.signals().for_receiver.ended() {
            // All messages that were published before the end was raised are visible now.
            loop {
                if let Some(received) = ring.receive() {
                    return Ok(Some(At::Own(received)));
                }
                // If a dead rank left a gap, the channel ends there. The messages behind it must not be received
                // without the missing one.
                if !ring.pass_tombstone() {
                    return Err(self.opened.why_ended(Operation::Receive));
                }
            }
        }
        Ok(None)
    }

    /// Passes positions that were given up (see `outlet`), and returns the next message behind them.
    fn look_past_tombstones(&self, ring: &RingReceiver) -> Option<Received> {
        while ring.pass_tombstone() {
            // A sender may wait for the slot.
            self.attend();
            if let Some(received) = ring.receive() {
                return Some(received);
            }
        }
        None
    }

    /// Returns whether the next message is there, possibly behind positions that were given up.
    fn ready_in_ring(&self) -> bool {
        while !self.ring.ready() {
            if !self.ring.pass_tombstone() {
                return false;
            }
            self.attend();
        }
        true
    }

    fn look_shared(&self, ring: &SharedRing) -> Result<Option<At>> {
        let context = &self.opened.context;
        let attempt = || loop {
            match ring.receive(context.me, |rank| self.opened.released(End::Sender, rank)) {
                Look::Got(held) => return Ok(Some(At::Shared(held))),
                Look::Nothing => return Ok(None),
                Look::Corrupt(position) => return Err(self.opened.corrupt_position(position)),
                Look::Orphan(held) => {
                    if let Some(key) = ring.buffer_in(held) {
                        context.free(key);
                    }
                    ring.release(held);
                    // A sender may wait for the slot.
                    self.attend();
                }
            }
        };
        if let Some(place) = attempt()? {
            return Ok(Some(place));
        }
        if self.opened.signals().for_receiver.ended() {
            if let Some(place) = attempt()? {
                return Ok(Some(place));
            }
            return Err(self.opened.why_ended(Operation::Receive));
        }
        Ok(None)
    }

    #[cold]
    fn take_slowly(&self, wait: Wait, call: Call<'_>) -> Result<At> {
        let line = match &self.kind {
            Kind::Pair => {
                // The fast looks were in vain. Their number is adapted now, for the next call.
                self.looks.set(self.opened.looks());
                self.ring.watched()
            }
            Kind::Rendezvous(_) => return self.meet(wait, call),
            Kind::Shared(ring) => ring.watched(false),
        };
        self.block(wait, line, call, || self.take_now_slowly().transpose())?
            .unwrap_or_else(|| Err(self.timed_out(wait)))
    }

    fn block<T>(
        &self,
        wait: Wait,
        line: *const (),
        call: Call<'_>,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, SegmentError> {
        let channel = self.opened.descriptor_offset().bytes();
        let doing = Doing { operation: Operation::Receive, channel };
        let wait = wait.or_failure();
        self.with_flag(|flag| {
            let flag = Called { flag, call, ends_here: !self.opened.leads_elsewhere() };
            self.opened.context.wait(wait, doing, line, &flag, poll)
        })
    }

    /// Calls `body` with the flag that this receiver raises before it sleeps.
    fn with_flag<T>(&self, body: impl FnOnce(&dyn Flag) -> T) -> T {
        let signal = &*self.opened.signals().for_sender;
        match &self.kind {
            Kind::Shared(_) => body(&Sticky(signal)),
            _ => body(signal),
        }
    }

    fn timed_out(&self, wait: Wait) -> Error {
        self.opened.context.gave_up(Operation::Receive, &self.opened.agreement.name, wait)
    }

    /// Makes an offer at degree 0, and waits for a sender to meet it.
    fn meet(&self, wait: Wait, call: Call<'_>) -> Result<At> {
        self.check_guards()?;
        self.offer();
        let met = self.block(wait, self.pair_ring().watched(), call, || self.look().transpose());
        let met = match met {
            // The time is over. This withdraws the offer, unless a sender has just claimed it.
            Ok(None) => self.end_offer(true),
            Ok(Some(met)) => met.map(Some),
            Err(error) => Err(error.into()),
        };
        self.after_meeting(met)?.ok_or_else(|| self.timed_out(wait))
    }

    /// Meets a sender that waits, at degree 0, without waiting for one.
    fn meet_if_wanted(&self) -> Result<Option<At>> {
        self.check_guards()?;
        let mut met = self.look();
        if let Ok(None) = met {
            if !self.opened.meeting().wanted() {
                return Ok(None);
            }
            self.offer();
            met = self.end_offer(false);
        }
        self.after_meeting(met)
    }

    /// Asks the node of the slots for the next message.
    fn ask(&self) -> Result<Option<At>> {
        if self.pair_ring().all_held() {
            return Ok(None);
        }
        self.offer();
        let met = self.recall();
        self.after_meeting(met)
    }

    /// Waits until the offer to the node of the slots is met or given back.
    fn recall(&self) -> Result<Option<At>> {
        let (meeting, line) = (self.opened.meeting(), self.pair_ring().watched());
        // A message that this receiver does not wait for would be kept from the others.
        let wait = Wait::forever().despite_failure();
        let met = self.block(wait, line, None, || match self.look() {
            Ok(None) => meeting.recall().then_some(Ok(None)),
            met => Some(met),
        });
        met?.unwrap_or(Ok(None))
    }

    /// Waits until the offer is met or withdrawn. With `withdraw`, the offer is withdrawn at once, otherwise as soon as
    /// no sender waits for it any more. Does not wait long for a sender that has claimed the offer and does not
    /// publish, but for the answer of another node.
    fn end_offer(&self, withdraw: bool) -> Result<Option<At>> {
        /// Longer than a sender needs from its claim to its message, unless it has reserved a slot and writes it in
        /// place.
        const PROMPT: Duration = Duration::from_millis(10);
        if self.opened.is_apart() {
            return self.recall();
        }
        let meeting = self.opened.meeting();
        let met =
            self.block(PROMPT.into(), self.pair_ring().watched(), None, || match self.look() {
                Ok(None) => {
                    ((withdraw || !meeting.wanted()) && meeting.withdraw()).then_some(Ok(None))
                }
                other => Some(other),
            });
        if let Some(met) = met? {
            return met;
        }
        if meeting.withdraw() {
            return Ok(None);
        }
        if !self.opened.leads_elsewhere() {
            return self.look();
        }
        // The other node has the offer, and gives it back when it is asked for, if the sender has not claimed it.
        let ended = || meeting.withdraw() || meeting.is_kept();
        let met = self.block(Wait::forever(), self.pair_ring().watched(), None, || {
            let met = self.look();
            (!matches!(met, Ok(None)) || ended()).then_some(met)
        });
        met?.unwrap_or(Ok(None))
    }

    /// Sets the offer back if there is a message or an error.
    fn after_meeting<T>(&self, met: Result<Option<T>>) -> Result<Option<T>> {
        if !matches!(met, Ok(None)) {
            self.opened.meeting().met();
        }
        met
    }

    /// Checks the header of a taken message, and returns where the message lies.
    fn message(&self, place: At) -> Result<NonNull<M>> {
        let len = if M::SLICE { self.stated_len(&place) } else { 1 };
        if !M::SLICE || len as usize <= self.opened.agreement.spec.max_len {
            return Ok(M::at(self.payload(&place).cast(), len as usize));
        }
        let berth = self.berth();
        let (parts, first) = self.adopt(place, len, |key, len| match berth {
            Ok(berth) => berth.take_parts(key, len),
            Err(error) => {
                // The message is lost, because this rank can't keep it. Its block must be freed here, because no other
                // rank knows it any more.
                self.opened.context.free(key);
                Err(error)
            }
        })?;
        match self.adopted.borrow_mut().entry(first.cast()) {
            Entry::Vacant(entry) => entry.insert(parts),
            Entry::Occupied(_) => {
                let offset = self.opened.descriptor_offset().bytes();
                let segment = &self.opened.context.segment;
                return Err(segment
                    .corrupt("a moved buffer that is here", offset, len.into())
                    .into());
            }
        };
        Ok(M::at(first, parts.len()))
    }

    /// Removes the moved buffer that begins at `first` from the buffers that guards read, if it is one of them.
    fn let_go<T>(&self, first: NonNull<T>) -> Option<Parts> {
        self.adopted.borrow_mut().remove(&first.cast())
    }

    #[inline]
    fn berth(&self) -> Result<Berth> {
        self.berth.take().map_or_else(|| Berth::new(&self.opened.context), Ok)
    }

    /// Takes the buffer out of a taken slot, and gives the slot back.
    #[inline]
    fn adopt<T>(
        &self,
        place: At,
        len: u32,
        take: impl FnOnce(BlockKey, u64) -> Result<T>,
    ) -> Result<T> {
        let moved = if len == MOVED { self.moved(&place) } else { None };
        let context = &self.opened.context;
        let adopted = match moved {
            Some((key, len)) => take(key, len),
            None => {
                let offset = self.opened.descriptor_offset().bytes();
                Err(context.segment.corrupt("a message's length", offset, len.into()).into())
            }
        };
        self.release(place);
        adopted
    }

    #[inline(always)]
    fn payload(&self, place: &At) -> NonNull<u8> {
        match (&self.kind, place) {
            (_, At::Own(m)) => self.pair_ring().payload(m.slot),
            (Kind::Shared(ring), At::Shared(held)) => ring.payload(*held),
            _ => unreachable!("a message is of its receiver's kind"),
        }
    }

    #[inline(always)]
    fn stated_len(&self, place: &At) -> u32 {
        match (&self.kind, place) {
            (_, At::Own(m)) => self.pair_ring().len(m.slot),
            (Kind::Shared(ring), At::Shared(held)) => ring.len(*held),
            _ => unreachable!("a message is of its receiver's kind"),
        }
    }

    /// Returns the buffer whose move is the message.
    #[inline(always)]
    fn moved(&self, place: &At) -> Option<(BlockKey, u64)> {
        match (&self.kind, place) {
            (_, At::Own(m)) => self.pair_ring().moved(m.slot),
            (Kind::Shared(ring), At::Shared(held)) => ring.moved(*held),
            _ => None,
        }
    }

    /// Gives back a message wherever it lies: in a slot of any ring, or in a moved buffer.
    ///
    /// # Safety
    /// `first` is where the message of a guard begins, and that message has not been given back yet.
    #[cold]
    #[inline(never)]
    unsafe fn release_slowly(&self, first: NonNull<M::Element>) {
        if M::SLICE
            && let Some(parts) = self.let_go(first)
        {
            return parts.free(&self.opened.context);
        }
        let payload = first.cast();
        self.release(match &self.kind {
            // SAFETY: the caller guarantees that this is a received message that was not given back. It lies in a slot,
            // because it is not one of the moved buffers.
            Kind::Shared(ring) => At::Shared(unsafe { ring.taken_at(payload) }),
            // SAFETY: the caller guarantees that this is a received message that was not given back. It lies in a slot of the only ring.
            _ => At::Own(unsafe { self.pair_ring().received_at(payload) }),
        });
    }

    /// Gives the slot of a message back (step 6, release on drop).
    #[inline(always)]
    fn release(&self, place: At) {
        match (&self.kind, place) {
            (_, At::Own(message)) => self.pair_ring().release(message),
            (Kind::Shared(ring), At::Shared(held)) => ring.release(held),
            _ => return,
        }
        self.attend();
    }

    /// Makes an offer, where the ends meet and nothing is taken.
    pub(crate) fn offer(&self) {
        if self.opened.is_apart() {
            self.opened.meeting().unheard();
        }
        self.opened.meeting().offer();
        self.attend();
    }

    /// Wakes the sender if it sleeps.
    #[inline(always)]
    fn attend(&self) {
        if !self.glance.quiet() {
            self.opened.attend(End::Receiver);
        }
    }
}

impl<T: Plain> Receiver<[T]> {
    /// Receives the next message as a buffer that this rank owns. Waits until there is one. A moved buffer arrives
    /// without a copy. A message that was copied into the channel is copied once more, into a new buffer.
    ///
    /// # Errors
    /// Same as [`receive`](Self::receive), and [`Segment`](crate::ErrorKind::Segment) when there is no memory for a
    /// copy.
    #[inline]
    pub fn receive_buffer(&self) -> Result<SharedBuffer<T>> {
        self.receive_buffer_with(self.wait.get())
    }

    /// Receives as [`receive_buffer`](Self::receive_buffer) does. `call` returns the call that waits, in the program's
    /// words, for reports.
    ///
    /// # Errors
    /// Same as `receive_buffer`.
    #[doc(hidden)]
    pub fn receive_buffer_called(
        &self,
        call: &dyn Fn() -> Option<String>,
    ) -> Result<SharedBuffer<T>> {
        self.receive_buffer_waiting(self.wait.get(), Some(call))
    }

    /// Receives as [`receive_buffer`](Self::receive_buffer) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `receive_buffer`, and [`Timeout`](crate::ErrorKind::Timeout).
    #[inline]
    pub fn receive_buffer_with(&self, wait: impl Into<Wait>) -> Result<SharedBuffer<T>> {
        self.receive_buffer_waiting(wait.into(), None)
    }

    #[inline]
    fn receive_buffer_waiting(&self, wait: Wait, call: Call<'_>) -> Result<SharedBuffer<T>> {
        let berth = self.berth()?;
        let place = match self.take(wait, call) {
            Ok(place) => place,
            Err(error) => {
                self.berth.set(Some(berth));
                return Err(error);
            }
        };
        let len = self.stated_len(&place);
        if len == MOVED {
            return self.adopt(place, len, |key, len| berth.take(key, len));
        }
        self.berth.set(Some(berth));
        let message = self.message(place)?;
        Guard { message, receiver: self }.into_buffer()
    }

    /// Receives as [`receive_buffer`](Self::receive_buffer) does, but does not wait.
    ///
    /// # Errors
    /// Same as `receive_buffer`.
    pub fn try_receive_buffer(&self) -> Result<Option<SharedBuffer<T>>> {
        self.try_receive()?.map(Guard::into_buffer).transpose()
    }
}

/// The bytes of a message of any type.
#[derive(Debug)]
pub(crate) enum TakenBytes {
    /// They are in the slot, which is not written again before it is given back. They were published before it was taken.
    InSlot(NonNull<[u8]>),
    /// The message is a buffer that moves.
    Moved(SharedBuffer<u8>),
}

// SAFETY: a buffer can be sent to another thread, and the pointer leads to memory of the segment, which no thread owns.
// Those who read there argue why they may.
unsafe impl Send for TakenBytes {}

/// Messages of any type as bytes, for a [`Bridge`](crate::bridge::Bridge). The channel's specification has the type.
impl Receiver<[u8]> {
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Takes the next message. The slot stays taken until it is [given back](Self::give_back). Returns the slot, the number
    /// of elements, and the bytes.
    pub(crate) fn take_bytes(&self) -> Result<Option<(At, u64, TakenBytes)>> {
        if matches!(self.kind, Kind::Pair) && !self.ready() {
            return Ok(None);
        }
        // This may need memory, and nothing is taken without it.
        let berth = self.berth()?;
        let found = match self.kind {
            // It makes an offer only when its owner says so.
            Kind::Rendezvous(_) => self.after_meeting(self.look()),
            _ => self.take_now(),
        };
        let Some(taken) = found? else { return Ok(None) };
        let spec = &self.opened.agreement.spec;
        let stated = if spec.slice { self.stated_len(&taken) } else { 1 };
        if stated == MOVED {
            let Some((key, len)) = self.moved(&taken) else {
                return Err(self.wrong_length(stated));
            };
            let bytes = len.saturating_mul(spec.element_size as u64);
            let buffer = berth.take::<u8>(key, bytes)?;
            return Ok(Some((taken, len, TakenBytes::Moved(buffer))));
        }
        if spec.slice && stated as usize > spec.max_len {
            return Err(self.wrong_length(stated));
        }
        let bytes = stated as usize * spec.element_size;
        let bytes = NonNull::slice_from_raw_parts(self.payload(&taken), bytes);
        Ok(Some((taken, stated.into(), TakenBytes::InSlot(bytes))))
    }

    /// Gives back a slot that [`take_bytes`](Self::take_bytes) has taken.
    pub(crate) fn give_back(&self, taken: At) {
        self.release(taken);
    }

    /// Returns whether there may be a message, or an end.
    pub(crate) fn is_ready(&self) -> bool {
        Selectable::ready(self)
    }

    /// Returns the reason why there will be no message, if there is none.
    pub(crate) fn check_end(&self) -> Result<()> {
        match self.opened.signals().for_receiver.ended() && !self.has_message() {
            true => Err(self.opened.why_ended(Operation::Receive)),
            false => Ok(()),
        }
    }

    /// Takes the offer back at degree 0. Returns false if a sender has claimed it.
    pub(crate) fn withdraw_offer(&self) -> bool {
        self.opened.meeting().withdraw()
    }

    /// Returns whether a sender wants an offer.
    pub(crate) fn want(&self) -> Want {
        self.opened.meeting().want_of_sender()
    }

    /// Answers a sender that has asked for an offer: there is none.
    pub(crate) fn refuse(&self) {
        self.opened.meeting().refuse();
        self.attend();
    }

    fn wrong_length(&self, len: u32) -> Error {
        let offset = self.opened.descriptor_offset().bytes();
        self.opened.context.segment.corrupt("a message's length", offset, len.into()).into()
    }
}

impl<M: Message + ?Sized> Selectable for Receiver<M> {
    fn ready(&self) -> bool {
        self.has_message_behind() || self.opened.signals().for_receiver.ended()
    }

    fn raise(&self) {
        self.with_flag(|flag| flag.raise());
    }

    fn lower(&self) {
        self.with_flag(|flag| flag.lower());
    }

    fn context(&self) -> &Context {
        &self.opened.context
    }

    fn channel(&self) -> u64 {
        self.opened.descriptor_offset().bytes()
    }
}

impl<M: ?Sized> Drop for Receiver<M> {
    fn drop(&mut self) {
        if let Some(berth) = self.berth.take() {
            berth.leave();
        }
        // These are the buffers of leaked guards.
        for parts in self.adopted.take().into_values() {
            parts.free(&self.opened.context);
        }
    }
}

impl<M: ?Sized> std::fmt::Debug for Receiver<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let agreement = &self.opened.agreement;
        f.debug_struct("Receiver")
            .field("channel", &agreement.name)
            .field("from", &agreement.senders)
            .field("carries", &format_args!("{}", agreement.spec))
            .finish_non_exhaustive()
    }
}

/// A received message, which is read in place. Dropping it gives the slot back to the sender. Slots are used in a
/// circle, so a guard that is kept holds up the slots after it. Leaking a guard stops the channel: this end gets
/// [`GuardsHeld`](crate::ErrorKind::GuardsHeld), and the sender finds the channel full. It does nothing worse.
pub struct Guard<'a, M: Message + ?Sized> {
    message: NonNull<M>,
    receiver: &'a Receiver<M>,
}

impl<T: Plain> Guard<'_, [T]> {
    /// Returns the message as a buffer that this rank owns. This makes no copy if the message came as a buffer.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when there is no memory for a copy.
    pub fn into_buffer(self) -> Result<SharedBuffer<T>> {
        let context = &self.receiver.opened.context;
        if let Some(parts) = self.receiver.let_go(self.message.cast::<T>()) {
            let this = std::mem::ManuallyDrop::new(self);
            return Ok(SharedBuffer::from_parts(context, parts, this.message.cast()));
        }
        let copy = SharedBuffer::allocate(context, self.len())?;
        Ok(copy.fill_with(|elements| elements.copy_from_slice(&self)))
    }
}

impl<M: Message + ?Sized> Deref for Guard<'_, M> {
    type Target = M;

    #[inline(always)]
    fn deref(&self) -> &M {
        // SAFETY: step 5, read in place: the message was published before it was received, its place and length were
        // checked, any bits are a valid message, and the slot is not written again before the guard is dropped.
        unsafe { self.message.as_ref() }
    }
}

impl<M: Message + ?Sized> Drop for Guard<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        let receiver = self.receiver;
        let lies_in_a_slot = !M::SLICE || receiver.adopted.borrow().is_empty();
        if lies_in_a_slot && receiver.ring.release_only() {
            receiver.attend();
        } else {
            // SAFETY: this guard has held its message until now, so the message was not given back.
            unsafe { receiver.release_slowly(self.message.cast()) };
        }
    }
}

impl<M: Message + ?Sized + std::fmt::Debug> std::fmt::Debug for Guard<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// An iterator over the messages of a channel. It ends when every sender has closed its end. Any other error of
/// [`receive`](Receiver::receive) is the last item: [`PeerLost`](crate::ErrorKind::PeerLost) when a sender was lost
/// because it panicked or died, [`GuardsHeld`](crate::ErrorKind::GuardsHeld) when the program kept the messages.
pub struct Messages<'a, M: Message + ?Sized> {
    receiver: &'a Receiver<M>,
    failed: bool,
}

impl<'a, M: Message + ?Sized> Iterator for Messages<'a, M> {
    type Item = Result<Guard<'a, M>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Result<Guard<'a, M>>> {
        if self.failed {
            return None;
        }
        match self.receiver.receive() {
            Ok(guard) => Some(Ok(guard)),
            Err(error) => self.end(error).map(Err),
        }
    }
}

impl<M: Message + ?Sized> Messages<'_, M> {
    #[cold]
    fn end(&mut self, error: Error) -> Option<Error> {
        self.failed = true;
        (!matches!(error.kind(), ErrorKind::Disconnected { .. })).then_some(error)
    }
}

impl<'a, M: Message + ?Sized> IntoIterator for &'a Receiver<M> {
    type Item = Result<Guard<'a, M>>;
    type IntoIter = Messages<'a, M>;

    fn into_iter(self) -> Messages<'a, M> {
        self.iter()
    }
}

impl<'a, M: Message + ?Sized> IntoIterator for &'a mut Receiver<M> {
    type Item = Result<Guard<'a, M>>;
    type IntoIter = Messages<'a, M>;

    fn into_iter(self) -> Messages<'a, M> {
        self.iter()
    }
}
