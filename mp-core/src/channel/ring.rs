//! A channel between one sender and one receiver, degree 1 and up.
//!
//! ```text
//! sender                       slots                     receiver
//! 1 reserve ─▶ 2 write ─▶ 3 publish (Release) ─▶ 4 receive (Acquire)
//!    ▲                                               ▼
//!    └── 7 reuse (Acquire) ◀── 6 release on drop ◀── 5 read in place
//! ```
//!
//! Every slot has a sequence word beside the message. The receiver reads nothing else, so that a small message takes
//! one line transfer. In the other direction, a single word, `head`, counts the slots that were given back. The sender
//! keeps a copy of `head`, and reads the word itself only when all slots are taken according to the copy. Source: Buono
//! et al., section IV.A (a static set of k buffers used in a circle); Ramos & Hoefler, section 2.4 (payload and
//! notification in one line).

use std::{
    cell::{Cell, RefCell},
    ptr::NonNull,
    time::Duration,
};

use crossbeam_utils::CachePadded;

use super::slots::{Cursor, MOVED, Place, SlotHeader, Slots};
use crate::{
    costs,
    line::{prefetch_to_read, prefetch_to_write},
    segment::BlockKey,
    sync::{AtomicU64, Ordering, compiler_fence},
};

/// The word that the receiver writes for the sender.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RingControl {
    /// Number of slots given back since the channel was made.
    head: CachePadded<AtomicU64>,
}

impl RingControl {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self { head: CachePadded::new(AtomicU64::new(0)) }
    }

    /// Returns the number of slots given back, for reports.
    pub(super) fn given_back(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }
}

/// The two parts of a ring in memory.
#[derive(Debug)]
pub(crate) struct Ring {
    control: NonNull<RingControl>,
    pub(super) slots: Slots<SlotHeader>,
}

impl Ring {
    /// # Safety
    /// The control word and the slots are formatted, and stay valid as long as the ring and its ends are used.
    pub(crate) unsafe fn new(control: NonNull<RingControl>, slots: Slots<SlotHeader>) -> Self {
        Self { control, slots }
    }

    #[inline(always)]
    fn control(&self) -> &RingControl {
        // SAFETY: the caller of `new` guarantees that the control word is valid. It is an atomic, so it may be shared.
        unsafe { self.control.as_ref() }
    }

    /// Returns the number of slots given back: see [`RingControl`].
    pub(super) fn head(&self) -> &AtomicU64 {
        &self.control().head
    }

    pub(super) fn slot_of(&self, position: u64) -> NonNull<u8> {
        let count = self.slots.count();
        let index = if count.is_power_of_two() { position & (count - 1) } else { position % count };
        self.slots.slot(index)
    }

    /// Returns the first position that is not free yet (step 7, reuse). `known` is the result of an earlier call, or 0.
    pub(crate) fn room(&self, position: u64, known: u64) -> Result<u64, CorruptHead> {
        self.room_for(position, known, self.slots.count())
    }

    /// Returns what [`room`](Self::room) returns, where `count` messages may be in flight.
    #[inline(always)]
    fn room_for(&self, position: u64, known: u64, count: u64) -> Result<u64, CorruptHead> {
        // Acquire: pairs with the Release in `RingReceiver::advance_head`: the receiver's reads of the slots come
        // before the sender's writes.
        let head = self.head().load(Ordering::Acquire);
        // The receiver can't have received a message that is not before `position`, and `head` never decreases.
        if head > position || head.saturating_add(count) < known {
            return Err(CorruptHead { head, tail: position });
        }
        Ok(head + count)
    }

    /// Writes the length of the message in elements, which only messages of slices have. It must be written before the
    /// elements, because it overwrites the mark of a buffer that moved through the slot before.
    #[inline(always)]
    pub(super) fn write_len(&self, slot: NonNull<u8>, len: u32) {
        // SAFETY: callers pass one of the ring's slots.
        unsafe { self.slots.header(slot) }.len.store(len, Ordering::Relaxed);
        // The elements are written by plain stores, which the compiler could move before this one. A fence of the
        // processor is not needed: the order counts only when this rank is dead, and all its stores are visible then.
        compiler_fence(Ordering::Release);
    }

    /// Records a moved buffer as message number `position`. The sender must call this while it still owns the buffer.
    #[inline]
    pub(super) fn write_moved(&self, slot: NonNull<u8>, position: u64, key: BlockKey, len: u64) {
        // SAFETY: callers pass one of the ring's slots, and only channels of slices carry buffers.
        let (header, moved) = unsafe { (self.slots.header(slot), self.slots.moved(slot)) };
        header.race.writing();
        moved.write(key, len, (position as u32).wrapping_add(1));
        // Release: pairs with the Acquire in `Ring::stranded`: a slot that is marked as `MOVED` has a whole
        // `MovedBuffer`, even if this rank dies here.
        header.len.store(MOVED, Ordering::Release);
    }

    /// Returns the buffers that were sent and not received, and those in slots whose sender died before it published
    /// them. Must be called only when no end is in use any more.
    pub(crate) fn stranded(&self) -> Vec<BlockKey> {
        let head = self.control().head.load(Ordering::Acquire);
        let mut keys = Vec::new();
        for index in 0..self.slots.count() {
            let slot = self.slots.slot(index);
            // SAFETY: the slot is one of the ring's, which are formatted. `moved` is used only if the slot says
            // `MOVED`, which only slots of slices do.
            let (header, moved) = unsafe { (self.slots.header(slot), self.slots.moved(slot)) };
            // Acquire: pairs with the Release in `Ring::write_moved`.
            if header.len.load(Ordering::Acquire) != MOVED {
                continue;
            }
            let seq = header.seq.load(Ordering::Acquire);
            let Some((key, _, written_for)) = moved.read() else { continue };
            let received = (seq.wrapping_sub(1).wrapping_sub(head as u32) as i32) < 0;
            if written_for != seq || !received {
                keys.push(key);
            }
        }
        keys
    }
}

/// An impossible value of a control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptHead {
    pub(crate) head: u64,
    pub(crate) tail: u64,
}

/// The sending end.
///
/// In both ends, the fields that change with every message share a line, because a processor can put two stores per
/// cycle into its first-level cache only if they go to the same line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingSender {
    /// Number of messages published.
    tail: u64,
    /// The value up to which `tail` may grow before the sender must look at `head`.
    limit: u64,
    /// How many messages may be in flight: the number of slots, unless [`set_window`](Self::set_window) has lowered it.
    window: u64,
    /// The slot of message `tail`.
    cursor: Cursor,
    ring: Ring,
}

impl RingSender {
    pub(crate) fn new(ring: Ring) -> Self {
        let (limit, cursor) = (ring.slots.count(), ring.slots.cursor());
        let mut sender = Self { tail: 0, limit, window: limit, cursor, ring };
        sender.look_ahead();
        sender
    }

    /// Makes the sending end of a channel of degree 0. The only slot is not free until the receiver offers it.
    pub(crate) fn at_rendezvous(ring: Ring) -> Self {
        Self { limit: 0, ..Self::new(ring) }
    }

    /// Limits how many messages may be in flight. Does nothing once a message has been sent.
    pub(crate) fn set_window(&mut self, window: u64) {
        if self.tail != 0 {
            return;
        }
        self.window = window.clamp(1, self.ring.slots.count().max(1));
        self.limit = self.limit.min(self.window);
        self.look_ahead();
    }

    /// Forgets which slots are free, so that [`reserve`](Self::reserve) finds none until the next look.
    pub(crate) fn close(&mut self) {
        self.limit = self.tail;
    }

    /// Returns the number of slots that are known to be free.
    #[inline(always)]
    pub(crate) fn known_room(&self) -> u64 {
        self.limit - self.tail
    }

    /// Returns the next slot, if it is known to be free (step 1, reserve).
    #[inline(always)]
    pub(crate) fn reserve(&self) -> Option<NonNull<u8>> {
        (self.tail != self.limit).then_some(self.cursor.slot())
    }

    /// Returns the slot that [`reserve`](Self::reserve) returned, if it returned one.
    pub(crate) fn next_slot(&self) -> NonNull<u8> {
        self.cursor.slot()
    }

    /// Returns the next slot, after a look at what the receiver has given back (step 7, reuse).
    ///
    /// If a sender whose ring is full took each slot as soon as it is free, it would look again for every message, and
    /// each look takes the line of `head` away from the receiver. So a `patient` look in a large ring waits until
    /// several slots are free. Meanwhile the receiver still has enough messages. In a small ring, whose messages may be
    /// long, a look that is not patient does not wait at all, because its caller has something else to do: two ranks that
    /// send each other 512 KiB at the same time took twice as long when it did.
    pub(crate) fn look(&mut self, patient: bool) -> Result<Option<NonNull<u8>>, CorruptHead> {
        const LOOKS: u32 = if cfg!(loom) { 1 } else { 32 };
        self.limit = self.room()?;
        if !patient {
            return Ok(self.reserve());
        }
        let pauses = costs::pauses(STEP);
        let enough = if self.window >= LARGE { self.window / 4 } else { 1 };
        for _ in 1..LOOKS {
            if self.limit - self.tail >= enough {
                break;
            }
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            self.limit = self.room()?;
        }
        Ok(self.reserve())
    }

    /// Returns the first position that may not be written yet, because its slot is not free or because of the window.
    fn room(&self) -> Result<u64, CorruptHead> {
        self.ring.room_for(self.tail, self.limit, self.window)
    }

    /// Returns whether [`look`](Self::look) would find a free slot, or an impossible count.
    pub(crate) fn has_room(&self) -> bool {
        self.tail != self.limit || self.room() != Ok(self.tail)
    }

    /// Returns the number of messages that the receiver has given back.
    pub(super) fn given_back(&self) -> u64 {
        // Acquire: pairs with the Release in `RingReceiver::advance_head`: a notice that the receiver left before is
        // seen after this.
        self.ring.head().load(Ordering::Acquire)
    }

    /// Returns whether the receiver has given back everything that was published.
    pub(crate) fn all_received(&self) -> bool {
        // Acquire: pairs with the Release in `RingReceiver::release`.
        self.ring.control().head.load(Ordering::Acquire) == self.tail
    }

    /// Returns the address that a wait for a free slot should watch.
    pub(crate) fn watched(&self) -> *const () {
        std::ptr::from_ref(&*self.ring.control().head).cast()
    }

    /// Returns the payload of the reserved slot, to be written (step 2).
    #[inline(always)]
    pub(crate) fn payload(&self, slot: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: callers pass a slot that `reserve` or `look` returned, which is one of the ring's.
        let (header, payload) =
            unsafe { (self.ring.slots.header(slot), self.ring.slots.payload(slot)) };
        header.race.writing();
        payload
    }

    /// Records a moved buffer as the message: see [`Ring::write_moved`].
    pub(crate) fn write_moved(&self, slot: NonNull<u8>, key: BlockKey, len: u64) {
        self.ring.write_moved(slot, self.tail, key, len);
    }

    /// Writes the length of the message: see [`Ring::write_len`].
    #[inline(always)]
    pub(crate) fn write_len(&self, slot: NonNull<u8>, len: u32) {
        self.ring.write_len(slot, len);
    }

    /// Returns the number of messages published.
    pub(super) fn sent(&self) -> u64 {
        self.tail
    }

    /// Publishes the message in the slot that was reserved last (step 3).
    #[inline(always)]
    pub(crate) fn publish(&mut self, slot: NonNull<u8>) {
        self.publish_in(slot, self.ring.slots.place());
    }

    /// Publishes as [`publish`](Self::publish) does, in a ring whose slots have this layout.
    #[inline(always)]
    pub(crate) fn publish_in(&mut self, slot: NonNull<u8>, place: Place) {
        let sent = self.tail + 1;
        // SAFETY: callers pass a slot that `reserve` or `look` returned, and the layout of the ring's slots.
        let header = unsafe { self.ring.slots.header_at(slot, place.header) };
        // Release: pairs with the Acquire in `RingReceiver::peek`: a receiver that sees the number sees the whole
        // message. This store directly follows those of the message. With stores to this end's own words in between,
        // the processor would change lines twice as often, and each store waits for the stores before it.
        header.seq.store(sent as u32, Ordering::Release);
        self.tail = sent;
        let stops = self.cursor.advance(slot, place.stride);
        if let Some(ahead) = self.cursor.ahead() {
            prefetch_to_write(ahead);
        }
        if stops {
            self.look_ahead();
        }
    }

    /// Looks for free slots before none are left, because there is time for this just after a message and not just
    /// before the next one. In a small ring this looks no sooner than it must, because a look takes the line of `head`
    /// away from the receiver, and an answer has to wait until the line is back
    /// (`cargo bench --bench ratios -- pingpong`). In a large ring it looks soon enough that the sender does not catch
    /// up with the receiver (`-- stream`).
    #[cold]
    fn look_ahead(&mut self) {
        const LEAST: u64 = 8;
        let count = self.window;
        let few = if count >= LARGE { count / 2 } else { count / 8 };
        let mut room = self.limit.saturating_sub(self.tail);
        if (1..=few).contains(&room)
            && count >= LEAST
            // If the count is impossible, `look` will report that.
            && let Ok(limit) = self.room()
        {
            self.limit = limit;
            room = limit - self.tail;
        }
        self.cursor.stop_after(if room > few { room - few } else { room });
    }
}
/// The receiving end. Its user may hold messages, and give them back in any order.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingReceiver {
    /// Number of messages received.
    next: Cell<u64>,
    /// Number of slots given back. This is also the number of the message that advances `head` when it is given back.
    /// It is [`NEVER`] while messages are in `early`.
    oldest: Cell<u64>,
    /// The slot of message `next`.
    cursor: Cursor,
    ring: Ring,
    early: RefCell<Early>,
    /// The number of messages by which the receiver stays behind the sender; 0 if it does not wait for that.
    distance: u64,
    /// Whether the receiver has met an empty slot since [`keep_distance`](RingReceiver::keep_distance) last looked.
    ran_dry: Cell<bool>,
}

/// Messages that were given back before older ones.
#[derive(Debug, Default)]
struct Early {
    /// Number of slots given back in order, while `positions` is not empty.
    head: u64,
    positions: Vec<u64>,
}

/// A position that no message has.
const NEVER: u64 = u64::MAX;

/// A message that was received and is not given back yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) slot: NonNull<u8>,
    pub(crate) position: u64,
}

// SAFETY: the pointer leads to memory of the segment, which no thread owns. Those who read or write there argue why they
// may.
unsafe impl Send for Received {}

/// Number of slots from which on a ring counts as large: see [`RingSender::look`].
const LARGE: u64 = 64;

/// How long a sender waits for more free slots before it looks again: about two line transfers.
const STEP: Duration = Duration::from_nanos(140);

/// How long a receiver lets its sender get ahead: about two line transfers between far cores.
const HEAD_START: Duration = Duration::from_nanos(400);

/// The number of bytes, and the least number of messages, by which a receiver stays behind its sender in a large ring:
/// see [`RingReceiver::keep_distance`].
const DISTANCE: u64 = 4096;
const LEAST: u64 = 64;

impl RingReceiver {
    pub(crate) fn new(ring: Ring) -> Self {
        let distance = (DISTANCE / ring.slots.place().stride as u64).max(LEAST);
        let large = ring.slots.count() >= 4 * distance;
        // In a ring without slots, `release_only` must never find a message.
        let oldest = if ring.slots.count() == 0 { NEVER - 1 } else { 0 };
        Self {
            cursor: ring.slots.cursor(),
            distance: if large { distance } else { 0 },
            next: Cell::new(0),
            oldest: Cell::new(oldest),
            ring,
            early: RefCell::default(),
            ran_dry: Cell::new(false),
        }
    }

    /// Makes a receiver whose sender is the same rank. It never waits for the sender to get ahead, because the sender
    /// can't while its rank waits.
    pub(crate) fn of_itself(ring: Ring) -> Self {
        Self { distance: 0, ..Self::new(ring) }
    }

    /// Receives the next message, if it is there (step 4).
    #[inline(always)]
    pub(crate) fn receive(&self) -> Option<Received> {
        let received = self.peek()?;
        self.take(received, self.place().stride);
        Some(received)
    }

    /// Returns the next message, if it is there. The message stays the next one until it is taken.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<Received> {
        self.peek_in(self.place())
    }

    /// Returns what [`peek`](Self::peek) returns, in a ring whose slots have this layout or that has no slots.
    #[inline(always)]
    pub(crate) fn peek_in(&self, place: Place) -> Option<Received> {
        let position = self.next.get();
        let slot = self.cursor.slot();
        // SAFETY: the cursor is at one of the ring's slots, and callers pass their layout. If the ring has no slots,
        // the cursor is at the blank line, in which any such distance is allowed.
        let header = unsafe { self.ring.slots.header_at(slot, place.header) };
        // Acquire: pairs with the Release in `RingSender::publish`.
        if header.seq.load(Ordering::Acquire) != (position as u32).wrapping_add(1) {
            return None;
        }
        header.race.reading();
        Some(Received { slot, position })
    }

    /// Returns the layout of the slots.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        self.ring.slots.place()
    }

    /// Takes the message that `peek` returned, in a ring whose slots have this distance from each other.
    #[inline(always)]
    pub(crate) fn take(&self, peeked: Received, stride: usize) {
        let next = peeked.position + 1;
        self.next.set(next);
        if self.cursor.advance(peeked.slot, stride) {
            self.keep_distance(next);
        }
    }

    /// Waits a moment, if the sender is less than `distance` messages ahead, so that it gets further ahead.
    ///
    /// A receiver as fast as its sender looks into slots that are just being written. Its processor even loads the next
    /// slots speculatively, and takes their lines away from the sender before they are written. Each message then costs
    /// several line transfers one after another, but only a part of one at a distance. Only a receiver that has not had
    /// to wait lately does this, so messages that come one by one are never delayed.
    #[cold]
    fn keep_distance(&self, next: u64) {
        if self.distance == 0 {
            return;
        }
        if !self.ran_dry.replace(false) && !self.published(next + self.distance - 1) {
            for _ in 0..costs::pauses(HEAD_START) {
                std::hint::spin_loop();
            }
        }
        self.cursor.stop_after(self.distance);
    }

    /// Returns the place of the next message, even if the message is not there yet.
    pub(super) fn upcoming(&self) -> Received {
        Received { slot: self.cursor.slot(), position: self.next.get() }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns whether the next messages, of this number, are there.
    #[inline]
    pub(crate) fn ready_all(&self, messages: u64) -> bool {
        messages == 0 || self.published(self.next.get() + messages - 1)
    }

    #[inline]
    fn published(&self, position: u64) -> bool {
        // SAFETY: this is one of the ring's slots.
        let header = unsafe { self.ring.slots.header(self.ring.slot_of(position)) };
        // Relaxed: no memory is read because of the result.
        header.seq.load(Ordering::Relaxed) == (position as u32).wrapping_add(1)
    }

    /// Notes that the receiver has met an empty slot.
    pub(crate) fn ran_dry(&self) {
        self.ran_dry.set(true);
    }

    /// Returns whether the next message is there.
    #[inline(always)]
    pub(crate) fn ready(&self) -> bool {
        self.next_message()()
    }

    /// Looks `looks` times whether the next message is there, and returns whether it is.
    #[inline(always)]
    pub(crate) fn appears(&self, looks: u32) -> bool {
        costs::look_until(looks, self.next_message())
    }

    /// Finds the next message's slot once, and returns a closure that looks whether the message is there.
    #[inline(always)]
    fn next_message(&self) -> impl Fn() -> bool {
        // SAFETY: this is one of the ring's slots.
        let header = unsafe { self.ring.slots.header(self.cursor.slot()) };
        let number = (self.next.get() as u32).wrapping_add(1);
        // Relaxed: only `receive` reads the message.
        move || header.seq.load(Ordering::Relaxed) == number
    }

    /// Asks the processor to fetch the first lines of the slots of the next messages, of this number.
    #[inline(always)]
    pub(crate) fn prefetch(&self, messages: u64) {
        let next = self.next.get();
        for position in next..next + messages {
            prefetch_to_read(self.ring.slot_of(position).as_ptr());
        }
    }

    /// Returns the address that a wait for a message should watch.
    pub(crate) fn watched(&self) -> *const () {
        self.cursor.slot().as_ptr().cast()
    }

    /// Returns whether guards hold every slot, so that no message can come.
    pub(crate) fn all_held(&self) -> bool {
        let oldest = self.oldest.get();
        let head = if oldest == NEVER { self.early.borrow().head } else { oldest };
        self.next.get() - head >= self.ring.slots.count()
    }

    /// Returns the payload of a received message, to be read in place (step 5). [`len`](Self::len) returns the length
    /// that the header states.
    #[inline(always)]
    pub(crate) fn payload(&self, slot: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: callers pass the slot of a received message, which is one of the ring's.
        unsafe { self.ring.slots.payload(slot) }
    }

    #[inline(always)]
    pub(crate) fn len(&self, slot: NonNull<u8>) -> u32 {
        // SAFETY: callers pass the slot of a received message. Relaxed: the Acquire in `peek_in` orders this load.
        unsafe { self.ring.slots.header(slot) }.len.load(Ordering::Relaxed)
    }

    /// Returns the moved buffer that is the message.
    pub(crate) fn moved(&self, slot: NonNull<u8>) -> Option<(BlockKey, u64)> {
        // SAFETY: callers pass the slot of a received message, in a channel of slices.
        unsafe { self.ring.slots.moved(slot) }.read().map(|(key, len, _)| (key, len))
    }

    /// Gives the slot of a message back (step 6, release on drop).
    #[inline(always)]
    pub(crate) fn release(&self, message: Received) {
        // SAFETY: callers pass a received message, which lies in one of the ring's slots.
        unsafe { self.ring.slots.header(message.slot) }.race.reading();
        if !self.release_oldest(message.position) {
            self.release_early(message);
        }
    }

    /// Gives back the only message that is held. Returns false if the number of held messages is not one.
    #[inline(always)]
    pub(crate) fn release_only(&self) -> bool {
        let oldest = self.oldest.get();
        // If `oldest` is `NEVER`, the right side is 0, and `next` is greater because a message was received.
        self.next.get() == oldest.wrapping_add(1) && self.release_oldest(oldest)
    }

    /// Finds, by its payload, a message that was received and not given back.
    ///
    /// # Safety
    /// `payload` is the payload of such a message.
    pub(crate) unsafe fn received_at(&self, payload: NonNull<u8>) -> Received {
        let slots = &self.ring.slots;
        // SAFETY: the caller guarantees that this is the payload of one of the slots.
        let slot = unsafe { slots.of_payload(payload) };
        // The message is one of the last `count` messages.
        let (count, last) = (slots.count(), self.next.get() - 1);
        let back = (last % count + count - slots.index_of(slot)) % count;
        Received { slot, position: last - back }
    }

    /// Gives back the message with this number, if it is the oldest that is held. Returns whether it is.
    #[inline(always)]
    fn release_oldest(&self, position: u64) -> bool {
        if position != self.oldest.get() {
            return false;
        }
        self.oldest.set(position + 1);
        self.advance_head(position + 1);
        true
    }

    #[inline(always)]
    fn advance_head(&self, head: u64) {
        // Release: pairs with the Acquire in `RingSender::look`.
        self.ring.control().head.store(head, Ordering::Release);
    }

    #[cold]
    fn release_early(&self, message: Received) {
        // SAFETY: callers pass a received message, which lies in one of the ring's slots.
        let header = unsafe { self.ring.slots.header(message.slot) };
        // `head` passes this message only after the older ones. If an older one is leaked or its holder dies, `head`
        // never passes it. So the mark of a moved buffer is removed now, because otherwise the buffer would seem
        // stranded.
        // Release: a rank that sees this length also sees that the buffer is in this rank's table.
        header.len.store(0, Ordering::Release);
        let mut early = self.early.borrow_mut();
        let oldest = self.oldest.replace(NEVER);
        let before = if oldest == NEVER { early.head } else { oldest };
        early.head = before;
        early.positions.push(message.position);
        while let Some(at) = early.positions.iter().position(|&position| position == early.head) {
            early.positions.swap_remove(at);
            early.head += 1;
        }
        if early.positions.is_empty() {
            self.oldest.set(early.head);
        }
        if early.head != before {
            self.advance_head(early.head);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::channel::{slots::Geometry, test_memory::TestMemory};

    /// Makes both ends of a ring whose first message has this number.
    fn ring_at(position: u64, degree: u64) -> (RingSender, RingReceiver, TestMemory<RingControl>) {
        let geometry = Geometry { stride: 16, payload: 0, header: 8, count: degree };
        let control = RingControl { head: CachePadded::new(AtomicU64::new(position)) };
        let memory = TestMemory::new(control, degree as usize);
        // SAFETY: the memory is large enough, is aligned for these headers, and is kept by the caller.
        let slots = unsafe { Slots::new(memory.slots(), geometry) };
        // SAFETY: nobody else uses the memory.
        unsafe { slots.format(|_| SlotHeader::new()) };
        // SAFETY: the control word and the slots are formatted, and the caller keeps them.
        let ring = || unsafe { Ring::new(memory.control, slots) };
        let mut sender = RingSender::new(ring());
        (sender.tail, sender.limit) = (position, position + degree);
        let receiver = RingReceiver::new(ring());
        receiver.next.set(position);
        receiver.oldest.set(position);
        (sender, receiver, memory)
    }

    /// At most as many messages as the window allows are in flight, and they use all slots in turn.
    #[test]
    fn a_window_is_smaller_than_the_ring() {
        let (mut sender, receiver, _memory) = ring_at(0, 8);
        sender.set_window(3);
        let mut places = std::collections::HashSet::new();
        let mut received = 0;
        for sent in 0..30u64 {
            while sent - received == 3 {
                assert_eq!(reserve(&mut sender), Ok(None));
                assert!(!sender.has_room());
                let message = receiver.receive().unwrap();
                assert_eq!(message.position, received);
                receiver.release(message);
                received += 1;
            }
            assert!(sender.has_room());
            let slot = reserve(&mut sender).unwrap().unwrap();
            places.insert(slot);
            sender.publish(slot);
        }
        assert_eq!(places.len(), 8);
    }

    fn reserve(sender: &mut RingSender) -> Result<Option<NonNull<u8>>, CorruptHead> {
        sender.reserve().map_or_else(|| sender.look(false), |slot| Ok(Some(slot)))
    }

    /// The slots hold only 32 bits of a message's number.
    #[test]
    fn numbers_go_on_past_four_billion() {
        const TURN: u64 = 1 << 32;
        for degree in [1, 2, 3, 5] {
            // This message lies in the first slot.
            let begin = (TURN - 7) / degree * degree;
            let (mut sender, receiver, _memory) = ring_at(begin, degree);
            for _ in 0..20 {
                for _ in 0..degree {
                    assert!(!receiver.ready() && receiver.receive().is_none());
                    let slot = reserve(&mut sender).unwrap().expect("a free slot");
                    sender.publish(slot);
                    assert!(receiver.ready());
                    receiver.receive().unwrap();
                    assert!(receiver.release_only() && !receiver.release_only());
                }
                for _ in 0..degree {
                    let slot = reserve(&mut sender).unwrap().expect("a free slot");
                    sender.publish(slot);
                }
                assert!(reserve(&mut sender).unwrap().is_none());
                let mut held: Vec<_> = (0..degree).map(|_| receiver.receive().unwrap()).collect();
                assert!(receiver.all_held() && receiver.receive().is_none());
                held.reverse();
                for received in held {
                    // SAFETY: the message was received and not given back.
                    let found = unsafe { receiver.received_at(receiver.payload(received.slot)) };
                    assert_eq!((found.slot, found.position), (received.slot, received.position));
                    receiver.release(found);
                }
                assert!(!receiver.all_held());
            }
        }
    }

    #[test]
    fn a_count_that_can_not_be_is_an_error() {
        for head in [u64::MAX, 101 + 3, 99, 0] {
            let (mut sender, _receiver, _memory) = ring_at(100, 3);
            for _ in 0..3 {
                let slot = reserve(&mut sender).unwrap().unwrap();
                sender.publish(slot);
            }
            sender.ring.control().head.store(head, Ordering::Relaxed);
            assert_eq!(reserve(&mut sender), Err(CorruptHead { head, tail: 103 }));
        }
    }
}
