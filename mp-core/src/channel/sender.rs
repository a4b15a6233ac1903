//! The sending end of a channel.

use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    time::Duration,
};

use super::{
    agreement::{End, Means},
    opened::Opened,
    outlet::Outlet,
    ring::{CorruptHead, RingSender},
    selectable::Selectable,
    shared_ring::{Held, Look, SharedRing},
    signals::{Glance, Sticky},
    slots::{LINE, Place},
    spec::ChannelSpec,
};
use crate::{
    buffer::SharedBuffer,
    context::Context,
    copier::{Copier, LONG, Way},
    copy::{copy_bytes, copy_past_caches},
    error::{Error, ErrorKind, Result, SendError},
    plain::{Message, Plain},
    wait::{Call, Called, Doing, Flag, Operation, Wait},
};

/// The sending end of a channel: see [`Rank::sender`](crate::Rank::sender).
///
/// There are three ways to send, from most to least copying:
///
/// - [`send`](Self::send): exactly one copy, into the slot that the receiver reads;
/// - [`reserve`](Self::reserve), write in place, then [`publish`](Slot::publish): no copy;
/// - [`send_buffer`](Self::send_buffer): ownership moves, the data stay in place.
///
/// Dropping the sender closes this end: the receiver still gets what was published, and then
/// [`Disconnected`](crate::ErrorKind::Disconnected).
///
/// Source: Buono et al., section IV.A.
// There is no bound `M: Message`, so that the compiler reports a type that no channel carries only once, at the call
// that opens the end.
pub struct Sender<M: ?Sized> {
    /// The ring between two ranks. At degree 0 it has a free slot only during a call, and in a shared channel it never
    /// has one, so the fast path need not check the kind.
    ring: RingSender,
    glance: Glance,
    opened: Opened,
    kind: Kind,
    wait: Wait,
    copier: Copier,
    /// The claim of the current [`Slot`]. It is still here at the next call if the slot was leaked. [`Kind::Pair`] does
    /// not use this, because the claimed slot is always the next one of the ring.
    lent: Option<Claim>,
    message: PhantomData<fn(&M)>,
}

enum Kind {
    Pair,
    Rendezvous,
    Shared(SharedRing),
}

// SAFETY: only one thread at a time can use a sender, because it is not `Sync`. The rings' pointers lead into the
// segment that `opened` keeps mapped.
unsafe impl<M: ?Sized> Send for Sender<M> {}

/// The result of [`send_fast`](Sender::send_fast). It is not a `Result`, because this fits in one register.
enum Fast {
    Sent,
    /// The message was sent, and the sender must look at its signal.
    SentNotQuiet,
    NotSent,
}

/// A slot that this sender may write.
#[derive(Clone, Copy)]
enum Claim {
    Own(NonNull<u8>),
    Shared(Held),
}

impl<M: Message + ?Sized> Sender<M> {
    pub(crate) fn new(opened: Opened) -> Self {
        let (ring, kind) = match opened.means() {
            Means::SharedRing => {
                (RingSender::new(opened.no_ring()), Kind::Shared(opened.shared_ring()))
            }
            Means::Meeting | Means::Asking => {
                (RingSender::at_rendezvous(opened.ring()), Kind::Rendezvous)
            }
            Means::Ring => (RingSender::new(opened.ring()), Kind::Pair),
        };
        // SAFETY: the signal lies in the segment that `opened` keeps mapped.
        let glance = unsafe { opened.glance(End::Sender) };
        let wait = Wait::forever();
        let copier = Copier::new(opened.agreement.spec.degree);
        Self { ring, glance, opened, kind, wait, copier, lent: None, message: PhantomData }
    }

    /// Takes the end apart, so that several threads can send through it. Also returns how many messages have been sent.
    pub(crate) fn into_outlet(mut self) -> (Outlet<M>, u64) {
        // A slot that was leaked.
        if let Some(claim) = self.lent.take() {
            self.abandon(claim);
        }
        // In a shared channel this is 0.
        let sent = self.ring.sent();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used again and its destructor does not run, so `opened` is not dropped twice. The other
        // fields own nothing.
        let opened = unsafe { std::ptr::read(&this.opened) };
        (Outlet::new(opened, sent), sent)
    }

    /// Returns the number that the receiver has left with [`Receiver::set_notice`](crate::Receiver::set_notice), or 0.
    #[inline(always)]
    pub fn notice(&self) -> u64 {
        self.opened.signals().for_sender.notice()
    }

    /// Limits how many messages may be in flight in a channel between two ranks. Messages still use all slots in turn,
    /// so that a slot has left its reader's caches when it is written again. This does nothing once a message has been
    /// sent.
    ///
    /// The receiver does not know the limit. If it holds the guards of that many messages and waits for another one, it
    /// waits forever, and does not get [`GuardsHeld`](crate::ErrorKind::GuardsHeld).
    #[doc(hidden)]
    pub fn set_window(&mut self, messages: u32) {
        self.ring.set_window(messages.into());
    }

    /// Sets how calls without a limit of their own wait from now on: with which policy, and for how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.wait = wait.into();
    }

    /// Copies a message into the channel. Waits while all slots are taken.
    ///
    /// # Errors
    /// [`PeerLost`](crate::ErrorKind::PeerLost) or [`Disconnected`](crate::ErrorKind::Disconnected) when no rank can
    /// receive the message any more; [`TooLong`](crate::ErrorKind::TooLong); [`Mismatch`](crate::ErrorKind::Mismatch);
    /// [`Timeout`](crate::ErrorKind::Timeout) only after [`set_wait`](Self::set_wait) with a limit.
    #[inline]
    pub fn send(&mut self, message: &M) -> Result<()> {
        match self.send_fast(message) {
            Fast::Sent => Ok(()),
            Fast::SentNotQuiet => self.attend_or_fail(),
            Fast::NotSent => {
                let wait = self.wait;
                apart(message, |message| self.send_slowly(message, wait, None))
            }
        }
    }

    /// Sends as [`send`](Self::send) does. `call` returns the call that waits, in the program's words, for reports.
    ///
    /// # Errors
    /// Same as `send`.
    #[doc(hidden)]
    #[inline]
    pub fn send_called(&mut self, message: &M, call: &dyn Fn() -> Option<String>) -> Result<()> {
        match self.send_fast(message) {
            Fast::Sent => Ok(()),
            Fast::SentNotQuiet => self.attend_or_fail(),
            Fast::NotSent => {
                let wait = self.wait;
                apart(message, |message| self.send_slowly(message, wait, Some(call)))
            }
        }
    }

    /// Sends as [`send`](Self::send) does, but waits at most for `limit`.
    ///
    /// # Errors
    /// Same as `send`, and [`Timeout`](crate::ErrorKind::Timeout).
    pub fn send_timeout(&mut self, message: &M, limit: Duration) -> Result<()> {
        self.send_with(message, self.wait.limit(limit))
    }

    /// Sends as [`send`](Self::send) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `send`, and [`Timeout`](crate::ErrorKind::Timeout).
    #[inline]
    pub fn send_with(&mut self, message: &M, wait: impl Into<Wait>) -> Result<()> {
        match self.send_fast(message) {
            Fast::Sent => Ok(()),
            Fast::SentNotQuiet => self.attend_or_fail(),
            Fast::NotSent => apart(message, |message| self.send_slowly(message, wait.into(), None)),
        }
    }

    /// Sends through the ring between two ranks, if a slot is known to be free.
    ///
    /// This looks at the signal only once, afterwards. If the receiver is gone, the message then lies in its slot, and
    /// no rank reads it.
    #[inline(always)]
    fn send_fast(&mut self, message: &M) -> Fast {
        let elements = message.elements();
        if M::SLICE && elements.len() > self.opened.agreement.spec.max_len {
            return Fast::NotSent;
        }
        let Some(slot) = self.ring.reserve() else { return Fast::NotSent };
        if M::SLICE {
            self.ring.write_len(slot, elements.len() as u32);
        }
        if M::SLICE {
            // SAFETY: as in `copy_and_publish`.
            unsafe { copy_in(&mut self.copier, elements, self.ring.payload(slot)) };
            self.ring.publish(slot);
        } else {
            let place = const { Place::of_single::<M::Element>() };
            // SAFETY: as in `copy_and_publish`; the payload's distance is less than the stride.
            unsafe {
                let payload = slot.add(place.payload);
                // The branch is chosen at compile time, so a short message need not lie in memory for the other branch.
                match const { size_of::<M::Element>() } {
                    ..LONG => {
                        copy_bytes(NonNull::from(elements).cast(), payload, size_of::<M::Element>())
                    }
                    LONG.. => copy_in(&mut self.copier, elements, payload),
                }
            }
            self.ring.publish_in(slot, place);
        }
        if self.glance.quiet() { Fast::Sent } else { Fast::SentNotQuiet }
    }

    #[cold]
    fn attend_or_fail(&self) -> Result<()> {
        self.attend();
        // If the receiver took the message and left afterwards, the send has succeeded.
        if self.opened.signals().for_sender.ended() && !self.ring.all_received() {
            return Err(self.opened.why_ended(Operation::Send));
        }
        Ok(())
    }

    #[cold]
    fn send_slowly(&mut self, elements: &[M::Element], wait: Wait, call: Call<'_>) -> Result<()> {
        self.check_len(elements.len())?;
        let claim = self.claim(wait, call)?;
        self.copy_and_publish(claim, elements);
        Ok(())
    }

    /// Sends as [`send`](Self::send) does, but does not wait. At degree 0 it succeeds only while the receiver waits in
    /// a receive call (a waiting [`Select`](crate::Select) accepts only senders that wait themselves). In a shared
    /// channel whose slots are on another node, it waits for that node's answer.
    ///
    /// # Errors
    /// Same as `send`, and [`Full`](crate::ErrorKind::Full).
    #[inline]
    pub fn try_send(&mut self, message: &M) -> Result<()> {
        match self.send_fast(message) {
            Fast::Sent => Ok(()),
            Fast::SentNotQuiet => self.attend_or_fail(),
            Fast::NotSent => apart(message, |message| self.try_send_slowly(message)),
        }
    }

    #[cold]
    fn try_send_slowly(&mut self, elements: &[M::Element]) -> Result<()> {
        self.check_len(elements.len())?;
        let claim = self.claim_at_once()?;
        self.copy_and_publish(claim, elements);
        Ok(())
    }

    fn copy_and_publish(&mut self, claim: Claim, elements: &[M::Element]) {
        // SAFETY: the slot belongs to this sender until it is published. Its payload has room for `max_len` elements,
        // which was checked, and their alignment (`Geometry::of`). It does not overlap memory that the caller can
        // borrow.
        unsafe {
            let payload = self.payload(claim, elements.len());
            copy_in(&mut self.copier, elements, payload);
        }
        self.publish(claim);
    }

    #[inline(always)]
    fn check_len(&self, len: usize) -> Result<()> {
        if M::SLICE && len > self.opened.agreement.spec.max_len {
            return Err(self.too_long(len));
        }
        Ok(())
    }

    #[cold]
    fn too_long(&self, len: usize) -> Error {
        let max = self.opened.agreement.spec.max_len;
        Error::from(ErrorKind::TooLong { channel: self.opened.agreement.name.clone(), len, max })
    }

    #[cold]
    fn full(&self) -> Error {
        let agreement = &self.opened.agreement;
        Error::from(ErrorKind::Full {
            channel: agreement.name.clone(),
            degree: agreement.spec.degree,
        })
    }

    /// Claims a free slot, and waits for one if necessary.
    #[inline(always)]
    fn claim(&mut self, wait: Wait, call: Call<'_>) -> Result<Claim> {
        match self.claim_now(true)? {
            Some(claim) => Ok(claim),
            None => self.claim_waiting(wait, call),
        }
    }

    /// Claims a free slot, if there is one, or else returns an error. Does not wait, except for the answer of another
    /// node.
    #[inline(always)]
    fn claim_at_once(&mut self) -> Result<Claim> {
        match self.claim_now(false)? {
            Some(claim) => Ok(claim),
            None => self.ask(),
        }
    }

    #[cold]
    fn ask(&mut self) -> Result<Claim> {
        let claim = match self.opened.is_apart() {
            true => self.await_claim(Wait::forever(), None, true)?,
            false => None,
        };
        claim.ok_or_else(|| self.full())
    }

    /// Claims a free slot, if there is one (step 1, reserve).
    #[inline(always)]
    fn claim_now(&mut self, patient: bool) -> Result<Option<Claim>> {
        if !self.opened.signals().for_sender.quiet() {
            self.check_peer()?;
        }
        match self.ring.reserve() {
            Some(slot) => Ok(Some(Claim::Own(slot))),
            None => self.look(patient),
        }
    }

    #[cold]
    fn look(&mut self, patient: bool) -> Result<Option<Claim>> {
        if let Some(claim) = self.lent.take() {
            return Ok(Some(claim));
        }
        match &mut self.kind {
            Kind::Rendezvous if !self.opened.meeting().claim() => Ok(None),
            // A receiver gives the only slot back before it makes an offer.
            Kind::Pair | Kind::Rendezvous => match self.ring.look(patient) {
                Ok(slot) => Ok(slot.map(Claim::Own)),
                Err(corrupt) => Err(self.corrupt(corrupt)),
            },
            Kind::Shared(ring) => {
                let context = &self.opened.context;
                loop {
                    let receiver_gone = |rank| self.opened.released(End::Receiver, rank);
                    let sender_gone = |rank| self.opened.released(End::Sender, rank);
                    match ring.reserve(context.me, receiver_gone, sender_gone) {
                        Look::Got(held) => return Ok(Some(Claim::Shared(held))),
                        Look::Nothing => return Ok(None),
                        Look::Corrupt(position) => {
                            return Err(self.opened.corrupt_position(position));
                        }
                        Look::Orphan(held) => {
                            if let Some(key) = ring.buffer_in(held) {
                                context.free(key);
                            }
                            ring.release(held);
                        }
                    }
                }
            }
        }
    }

    #[cold]
    fn check_peer(&self) -> Result<()> {
        if self.opened.signals().for_sender.ended() {
            return Err(self.opened.why_ended(Operation::Send));
        }
        Ok(())
    }

    #[cold]
    fn corrupt(&self, CorruptHead { head, .. }: CorruptHead) -> Error {
        let offset = self.opened.descriptor_offset().bytes();
        let segment = &self.opened.context.segment;
        segment.corrupt("a channel's count of slots given back", offset, head).into()
    }

    #[cold]
    fn claim_waiting(&mut self, wait: Wait, call: Call<'_>) -> Result<Claim> {
        self.await_claim(wait, call, false)?.ok_or_else(|| {
            let Opened { context, agreement, .. } = &self.opened;
            context.gave_up(Operation::Send, &agreement.name, wait)
        })
    }

    /// Waits until it has claimed a slot, or with `asks`, until there is an answer that there is none.
    fn await_claim(&mut self, wait: Wait, call: Call<'_>, asks: bool) -> Result<Option<Claim>> {
        let channel = self.opened.descriptor_offset().bytes();
        let doing = Doing { operation: Operation::Send, channel };
        let line = match &self.kind {
            Kind::Pair => self.ring.watched(),
            Kind::Rendezvous => self.opened.meeting().watched(),
            Kind::Shared(ring) => ring.watched(true),
        };
        let rendezvous = matches!(self.kind, Kind::Rendezvous);
        if rendezvous {
            match asks {
                true => self.opened.meeting().ask(),
                false => self.opened.meeting().want(true),
            }
            self.attend();
        }
        let context = std::sync::Arc::clone(&self.opened.context);
        let signal: *const _ = &*self.opened.signals().for_receiver;
        // SAFETY: the signal lies in the segment that `context` keeps mapped, not in `self`.
        let signal = unsafe { &*signal };
        let sticky = Sticky(signal);
        let flag: &dyn Flag = if matches!(self.kind, Kind::Shared(_)) { &sticky } else { signal };
        // Ranks of other nodes may hold slots of a shared channel.
        let is_pair = !matches!(self.kind, Kind::Shared(_));
        let ends_here = is_pair && !self.opened.leads_elsewhere();
        let flag = Called { flag, call, ends_here };
        let until = wait.or_failure();
        let claim = context.wait(until, doing, line, &flag, || match self.claim_now(false) {
            Ok(None) => (asks && !self.opened.meeting().wanted()).then_some(Ok(None)),
            claim => Some(claim),
        });
        if rendezvous {
            self.opened.meeting().want(false);
            // A receiver that made its offer only because this sender wanted one may sleep until `wanted` changes.
            self.attend();
        }
        claim?.unwrap_or(Ok(None))
    }

    /// Returns where to write the message, after writing its length. If the length were written afterwards and this
    /// rank died before, a half-written message could be taken for the moved buffer that the slot held earlier.
    #[inline(always)]
    fn payload(&self, claim: Claim, len: usize) -> NonNull<u8> {
        match (&self.kind, claim) {
            (_, Claim::Own(slot)) => {
                if M::SLICE {
                    self.ring.write_len(slot, len as u32);
                }
                self.ring.payload(slot)
            }
            (Kind::Shared(ring), Claim::Shared(held)) => {
                ring.writing(held);
                ring.write_len(held, len as u32);
                ring.payload(held)
            }
            _ => unreachable!("a claim is of its sender's kind"),
        }
    }

    /// Publishes the message in a claimed slot (step 3).
    #[inline(always)]
    fn publish(&mut self, claim: Claim) {
        match (&mut self.kind, claim) {
            (_, Claim::Own(slot)) => {
                self.ring.publish(slot);
                self.end_meeting();
            }
            (Kind::Shared(ring), Claim::Shared(held)) => ring.publish(held),
            _ => unreachable!("a claim is of its sender's kind"),
        }
        self.attend();
    }

    /// Notes, at degree 0, that the only slot is not free any more.
    #[inline(always)]
    fn end_meeting(&mut self) {
        if matches!(self.kind, Kind::Rendezvous) {
            self.ring.close();
        }
    }

    fn slot(&mut self, claim: Claim, len: usize) -> Slot<'_, M> {
        let place = M::at(self.payload(claim, len).cast(), len);
        if !matches!(self.kind, Kind::Pair) {
            self.lent = Some(claim);
            self.end_meeting();
        }
        Slot { sender: self, place }
    }

    /// Takes back the claim of the [`Slot`] that was made last.
    fn take_back(&mut self) -> Claim {
        self.lent.take().unwrap_or_else(|| Claim::Own(self.ring.next_slot()))
    }
}

/// Calls a slow path with a message, or with a copy of it if the message is short. Because of the copy, the program's
/// own message needs no address, so that the compiler can keep it in registers and store it only once, into its slot. A
/// message that was first stored elsewhere would have to wait for that store.
#[inline(always)]
fn apart<M: Message + ?Sized, R>(message: &M, slowly: impl FnOnce(&[M::Element]) -> R) -> R {
    match message.elements() {
        [element] if !M::SLICE && size_of::<M::Element>() <= LINE => slowly(&[*element]),
        elements => slowly(elements),
    }
}

/// Makes the only copy of a message.
///
/// # Safety
/// `to` has room and alignment for the elements, and does not overlap them.
#[inline(always)]
unsafe fn copy_in<T: Plain>(copier: &mut Copier, elements: &[T], to: NonNull<u8>) {
    let (from, bytes) = (NonNull::from(elements).cast(), size_of_val(elements));
    // SAFETY: the caller guarantees room and alignment for the elements, and no overlap.
    unsafe {
        match bytes {
            ..LONG => copy_bytes(from, to, bytes),
            LONG.. => copy_in_long(copier, from, to, bytes),
        }
    }
}

/// Copies a long message in the way that the copier chooses.
///
/// # Safety
/// Both ranges are valid for `bytes` bytes, and do not overlap.
#[inline(never)]
unsafe fn copy_in_long(copier: &mut Copier, from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    copier.copy(bytes, |way| match way {
        // SAFETY: the caller guarantees that both ranges are valid and do not overlap.
        Way::Through => unsafe { copy_bytes(from, to, bytes) },
        // SAFETY: the caller guarantees that both ranges are valid and do not overlap.
        Way::Past => unsafe { copy_past_caches(from, to, bytes) },
    });
}

impl<T: Plain> Sender<T> {
    /// Sends a message that `write` writes directly into its slot, where the receiver will read it. Waits while all
    /// slots are taken. `write` finds the contents of an earlier message there. If it panics, nothing is sent.
    ///
    /// This does [`reserve`](Self::reserve) and [`publish`](Slot::publish) in one call, and is as fast as
    /// [`send`](Self::send) of a message that need not be assembled first.
    ///
    /// ```
    /// use onchip::{Channel, World};
    ///
    /// World::threads(2).run(|rank| {
    ///     if rank.id() == 0 {
    ///         let mut pairs = rank.sender::<[u64; 2]>("pairs", 1, Channel::degree(4))?;
    ///         return pairs.send_in_place(|pair| *pair = [1, 2]);
    ///     }
    ///     let pairs = rank.receiver::<[u64; 2]>("pairs", 0, Channel::degree(4))?;
    ///     assert_eq!(*pairs.receive()?, [1, 2]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as `send`.
    #[inline(always)]
    pub fn send_in_place(&mut self, write: impl FnOnce(&mut T)) -> Result<()> {
        match self.ring.reserve() {
            Some(slot) => self.write_and_publish(slot, write),
            None => self.write_slowly(true, write),
        }
    }

    /// Sends as [`send_in_place`](Self::send_in_place) does. `call` returns the call that waits, in the program's
    /// words, for reports.
    ///
    /// # Errors
    /// Same as `send_in_place`.
    #[doc(hidden)]
    #[inline(always)]
    pub fn send_in_place_called(
        &mut self,
        write: impl FnOnce(&mut T),
        call: impl Fn() -> Option<String>,
    ) -> Result<()> {
        match self.ring.reserve() {
            Some(slot) => self.write_and_publish(slot, write),
            None => self.write_called_slowly(write, call),
        }
    }

    /// Sends as [`send_in_place`](Self::send_in_place) does, but does not wait.
    ///
    /// # Errors
    /// Same as `send_in_place`, and [`Full`](crate::ErrorKind::Full).
    #[inline(always)]
    pub fn try_send_in_place(&mut self, write: impl FnOnce(&mut T)) -> Result<()> {
        match self.ring.reserve() {
            Some(slot) => self.write_and_publish(slot, write),
            None => self.write_slowly(false, write),
        }
    }

    /// Sends as [`send_in_place`](Self::send_in_place) does, if a slot is known to be free. Returns whether the message
    /// was sent. If not, `write` was not called, or no rank is left that could receive the message. The values that
    /// `write` captures can stay in registers, because there is no slow path that needs them.
    #[doc(hidden)]
    #[inline(always)]
    pub fn send_in_place_at_once(&mut self, write: impl FnOnce(&mut T)) -> bool {
        self.ring.reserve().is_some_and(|slot| self.write_and_publish(slot, write).is_ok())
    }

    /// Returns how many messages [`send_in_place_at_once`](Self::send_in_place_at_once) can send now.
    #[doc(hidden)]
    #[inline(always)]
    pub fn known_room(&self) -> u64 {
        self.ring.known_room()
    }

    /// Writes and publishes a message in the same way as [`send_fast`](Self::send_fast).
    #[inline(always)]
    fn write_and_publish(&mut self, slot: NonNull<u8>, write: impl FnOnce(&mut T)) -> Result<()> {
        let place = const { Place::of_single::<T>() };
        // SAFETY: the slot belongs to this sender until it is published. Its payload lies within the slot, and has room
        // and alignment for a `T` (`Geometry::of`). Any bits are a valid `T`.
        write(unsafe { slot.add(place.payload).cast::<T>().as_mut() });
        self.ring.publish_in(slot, place);
        if self.glance.quiet() { Ok(()) } else { self.attend_or_fail() }
    }

    #[cold]
    fn write_slowly(&mut self, patient: bool, write: impl FnOnce(&mut T)) -> Result<()> {
        let mut slot = if patient { self.reserve()? } else { self.try_reserve()? };
        write(&mut slot);
        slot.publish()
    }

    #[cold]
    fn write_called_slowly(
        &mut self,
        write: impl FnOnce(&mut T),
        call: impl Fn() -> Option<String>,
    ) -> Result<()> {
        let claim = self.claim(self.wait, Some(&call))?;
        let mut slot = self.slot(claim, 1);
        write(&mut slot);
        slot.publish()
    }

    /// Reserves a slot of the channel, to be written in place. Waits while all slots are taken. The slot holds whatever
    /// an earlier message left.
    ///
    /// # Errors
    /// Same as [`send`](Self::send).
    pub fn reserve(&mut self) -> Result<Slot<'_, T>> {
        let claim = self.claim(self.wait, None)?;
        Ok(self.slot(claim, 1))
    }

    /// Reserves as [`reserve`](Self::reserve) does, but does not wait.
    ///
    /// # Errors
    /// Same as `reserve`, and [`Full`](crate::ErrorKind::Full).
    pub fn try_reserve(&mut self) -> Result<Slot<'_, T>> {
        let claim = self.claim_at_once()?;
        Ok(self.slot(claim, 1))
    }

    /// Reserves as [`reserve`](Self::reserve) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `reserve`, and [`Timeout`](crate::ErrorKind::Timeout).
    pub fn reserve_with(&mut self, wait: impl Into<Wait>) -> Result<Slot<'_, T>> {
        let claim = self.claim(wait.into(), None)?;
        Ok(self.slot(claim, 1))
    }
}

impl<T: Plain> Sender<[T]> {
    /// Reserves a slot of the channel for `len` elements, to be written in place. Waits while all slots are taken. The
    /// slot holds whatever an earlier message left.
    ///
    /// # Errors
    /// Same as [`send`](Self::send).
    pub fn reserve(&mut self, len: usize) -> Result<Slot<'_, [T]>> {
        self.reserve_with(len, self.wait)
    }

    /// Reserves as [`reserve`](Self::reserve) does, but does not wait.
    ///
    /// # Errors
    /// Same as `reserve`, and [`Full`](crate::ErrorKind::Full).
    pub fn try_reserve(&mut self, len: usize) -> Result<Slot<'_, [T]>> {
        self.check_len(len)?;
        let claim = self.claim_at_once()?;
        Ok(self.slot(claim, len))
    }

    /// Reserves as [`reserve`](Self::reserve) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `reserve`, and [`Timeout`](crate::ErrorKind::Timeout).
    pub fn reserve_with(&mut self, len: usize, wait: impl Into<Wait>) -> Result<Slot<'_, [T]>> {
        self.check_len(len)?;
        let claim = self.claim(wait.into(), None)?;
        Ok(self.slot(claim, len))
    }

    /// Moves a buffer to the receiver. Waits while all slots are taken. No element is copied, and the buffer may be
    /// longer than the channel's slots.
    ///
    /// # Errors
    /// Same as [`send`](Self::send), with the buffer given back.
    #[inline]
    pub fn send_buffer(
        &mut self,
        buffer: SharedBuffer<T>,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        self.send_buffer_with(buffer, self.wait)
    }

    /// Moves a buffer as [`send_buffer`](Self::send_buffer) does, but does not wait.
    ///
    /// # Errors
    /// Same as `send_buffer`, and [`Full`](crate::ErrorKind::Full).
    pub fn try_send_buffer(
        &mut self,
        buffer: SharedBuffer<T>,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        let claim = self.claim_at_once();
        self.move_and_publish(claim, buffer)
    }

    /// Moves a buffer as [`send_buffer`](Self::send_buffer) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `send_buffer`, and [`Timeout`](crate::ErrorKind::Timeout).
    #[inline]
    pub fn send_buffer_with(
        &mut self,
        buffer: SharedBuffer<T>,
        wait: impl Into<Wait>,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        self.send_buffer_waiting(buffer, wait.into(), None)
    }

    /// Moves a buffer as [`send_buffer`](Self::send_buffer) does. `call` returns the call that waits, in the program's
    /// words, for reports.
    ///
    /// # Errors
    /// Same as `send_buffer`.
    #[doc(hidden)]
    pub fn send_buffer_called(
        &mut self,
        buffer: SharedBuffer<T>,
        call: &dyn Fn() -> Option<String>,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        self.send_buffer_waiting(buffer, self.wait, Some(call))
    }

    #[inline]
    fn send_buffer_waiting(
        &mut self,
        buffer: SharedBuffer<T>,
        wait: Wait,
        call: Call<'_>,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        if self.opened.signals().for_sender.quiet()
            && buffer.belongs_to(&self.opened.context)
            && let Some(slot) = self.ring.reserve()
        {
            self.ring.write_moved(slot, buffer.key(), buffer.len() as u64);
            let let_go = buffer.let_go();
            self.ring.publish(slot);
            self.attend();
            drop(let_go);
            return Ok(());
        }
        let claim = self.claim(wait, call);
        self.move_and_publish(claim, buffer)
    }

    fn move_and_publish(
        &mut self,
        claim: Result<Claim>,
        buffer: SharedBuffer<T>,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        let claim = match claim {
            Ok(claim) if buffer.belongs_to(&self.opened.context) => claim,
            Ok(claim) => {
                self.abandon(claim);
                let channel = self.opened.agreement.name.clone();
                let reason =
                    "the buffer belongs to another world: allocate it by a rank of this one"
                        .to_owned();
                let error = Error::from(ErrorKind::BadChannel { channel, reason });
                return Err(SendError { error, message: buffer });
            }
            Err(error) => return Err(SendError { error, message: buffer }),
        };
        let len = buffer.len() as u64;
        self.move_in(claim, buffer, len);
        Ok(())
    }

    /// Publishes a buffer of `len` elements of the channel's type in a claimed slot.
    fn move_in(&mut self, claim: Claim, buffer: SharedBuffer<T>, len: u64) {
        let key = buffer.key();
        match (&mut self.kind, claim) {
            (_, Claim::Own(slot)) => self.ring.write_moved(slot, key, len),
            (Kind::Shared(ring), Claim::Shared(held)) => ring.write_moved(held, key, len),
            _ => unreachable!("a claim is of its sender's kind"),
        }
        let let_go = buffer.let_go();
        self.publish(claim);
        drop(let_go);
    }
}

/// Messages of any type as bytes, for a [`Bridge`](crate::bridge::Bridge). The channel's specification has the type.
impl Sender<[u8]> {
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Returns the number of messages that the receiver has given back.
    pub(crate) fn given_back(&self) -> u64 {
        self.ring.given_back()
    }

    /// Claims the receiver's offer at degree 0, or a slot of a shared channel, for the next message. Returns whether there
    /// was one.
    pub(crate) fn claim_offer(&mut self) -> Result<bool> {
        let claim = self.look(false)?;
        if let Some(Claim::Shared(_)) = claim {
            self.lent = claim;
        }
        Ok(claim.is_some())
    }

    /// Gives the claim of [`claim_offer`](Self::claim_offer) back without a message.
    pub(crate) fn unclaim_offer(&mut self) {
        let claim = self.take_back();
        self.abandon(claim);
    }

    /// Returns whether the receiver has given up since its offer was claimed.
    pub(crate) fn is_left(&self) -> bool {
        self.opened.meeting().is_left()
    }

    /// Returns whether the receiver of a shared channel wants to hear of a message.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.opened.meeting().is_looked_at()
    }

    /// Tells a receiver that has given up that the message may still come.
    pub(crate) fn keep_offer(&self) {
        self.opened.meeting().keep();
        self.attend();
    }

    /// Tells the receiver whether a sender waits for an offer at degree 0; or that a shared channel may have a message.
    pub(crate) fn want_offer(&self, waits: bool) {
        self.opened.meeting().want(waits);
        self.attend();
    }

    /// Sends `elements` elements of `len` bytes together, which `write` writes, as a moved buffer or through a slot. Sends
    /// nothing if that fails. Returns false, without a call of `write`, if no slot is free.
    pub(crate) fn try_send_bytes<E: From<Error>>(
        &mut self,
        len: usize,
        elements: u64,
        moved: bool,
        write: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let ChannelSpec { element_size, slice, max_len, .. } = self.opened.agreement.spec;
        let fits = elements.checked_mul(element_size as u64) == Some(len as u64);
        let allowed =
            if slice { moved || elements <= max_len as u64 } else { elements == 1 && !moved };
        if !fits || !allowed {
            return Err(self.too_long(elements as usize).into());
        }
        let Some(claim) = self.claim_now(false)? else { return Ok(false) };
        // Between two ranks, a slot that is not published is claimed again. In a shared channel, it is taken back when the
        // bridge closes its part, which it does after every failure here.
        if moved {
            let mut written = Ok(());
            let buffer = SharedBuffer::<u8>::allocate(&self.opened.context, len)?;
            let buffer = buffer.fill_with(|to| written = write(to));
            written?;
            self.move_in(claim, buffer, elements);
        } else {
            // SAFETY: the slot belongs to this sender until it is published. It has room for that many elements, which
            // was checked, and all memory of a segment is initialized. It does not overlap memory that the caller can
            // borrow.
            let slot = unsafe {
                let payload = self.payload(claim, elements as usize);
                NonNull::slice_from_raw_parts(payload, len).as_mut()
            };
            write(slot)?;
            self.publish(claim);
        }
        Ok(true)
    }
}

impl<M: Message + ?Sized> Selectable for Sender<M> {
    fn ready(&self) -> bool {
        let room = match &self.kind {
            Kind::Pair => self.ring.has_room(),
            Kind::Rendezvous => self.opened.meeting().offered(),
            Kind::Shared(ring) => ring.has_room(
                |rank| self.opened.released(End::Receiver, rank),
                |rank| self.opened.released(End::Sender, rank),
            ),
        };
        room || self.opened.signals().for_sender.ended()
    }

    fn want(&self, waits: bool) {
        if self.opened.is_apart() {
            self.opened.meeting().want(waits);
            self.attend();
        }
    }

    fn raise(&self) {
        self.opened.signals().for_receiver.raise();
    }

    fn lower(&self) {
        // In a shared channel, other senders may still wait behind this flag, so it stays raised.
        if !matches!(self.kind, Kind::Shared(_)) {
            self.opened.signals().for_receiver.lower();
        }
    }

    fn context(&self) -> &Context {
        &self.opened.context
    }

    fn channel(&self) -> u64 {
        self.opened.descriptor_offset().bytes()
    }
}

impl<M: ?Sized> Sender<M> {
    /// Wakes the receiver if it sleeps.
    #[inline(always)]
    fn attend(&self) {
        if !self.glance.quiet() {
            self.opened.attend(End::Sender);
        }
    }

    fn abandon(&mut self, claim: Claim) {
        match (&self.kind, claim) {
            (Kind::Rendezvous, _) => {
                self.ring.close();
                self.opened.meeting().unclaim();
                self.attend();
            }
            (Kind::Shared(ring), Claim::Shared(held)) => {
                ring.abandon(held);
                // A receiver may have to clear the slot.
                self.attend();
            }
            _ => {}
        }
    }
}

impl<M: ?Sized> Drop for Sender<M> {
    fn drop(&mut self) {
        // A leaked slot must not hold up the messages of other senders.
        if let Some(claim) = self.lent.take() {
            self.abandon(claim);
        }
    }
}

impl<M: ?Sized> std::fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let agreement = &self.opened.agreement;
        f.debug_struct("Sender")
            .field("channel", &agreement.name)
            .field("to", &agreement.receivers)
            .field("carries", &format_args!("{}", agreement.spec))
            .finish_non_exhaustive()
    }
}

/// A message that is being written where the receiver will read it. If it is dropped without
/// [`publish`](Self::publish), nothing is sent.
#[must_use = "a slot that is not published is not sent"]
pub struct Slot<'a, M: Message + ?Sized> {
    sender: &'a mut Sender<M>,
    place: NonNull<M>,
}

impl<M: Message + ?Sized> Slot<'_, M> {
    /// Sends the message.
    ///
    /// # Errors
    /// None at present. If the receiver has gone in the meantime, the next call returns the error.
    pub fn publish(self) -> Result<()> {
        let mut this = std::mem::ManuallyDrop::new(self);
        let claim = this.sender.take_back();
        this.sender.publish(claim);
        Ok(())
    }
}

impl<M: Message + ?Sized> Deref for Slot<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        // SAFETY: the slot belongs to this sender until it is published. `place` lies in it and is aligned, and any
        // bits are a valid message.
        unsafe { self.place.as_ref() }
    }
}

impl<M: Message + ?Sized> DerefMut for Slot<'_, M> {
    fn deref_mut(&mut self) -> &mut M {
        // SAFETY: as in `deref`. Nobody else has a reference, because `self` is borrowed mutably.
        unsafe { self.place.as_mut() }
    }
}

impl<M: Message + ?Sized> Drop for Slot<'_, M> {
    fn drop(&mut self) {
        let claim = self.sender.take_back();
        self.sender.abandon(claim);
    }
}
