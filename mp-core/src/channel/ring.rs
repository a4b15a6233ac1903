//! A channel between one sender and one receiver, degree 1 and up.
//!
//! ```text
//! sender                       slots                     receiver
//! 1 reserve ─▶ 2 write ─▶ 3 publish (Release) ─▶ 4 receive (Acquire)
//!    ▲                                               ▼
//!    └── 7 reuse (Acquire) ◀── 6 release on drop ◀── 5 read in place
//! ```
//!
//! Every slot has a sequence word beside the message. The receiver looks at nothing else, so that a small message takes
//! one line transfer. In the other direction, a single word, `head`, counts the slots given back. The sender keeps a
//! copy of it, and looks at the word only when the copy says that all slots are taken. Source: Buono et al., section
//! IV.A (a static set of k buffers used in a circle); Ramos & Hoefler, section 2.4 (payload and notification in one
//! line).

use std::{
    cell::{Cell, RefCell},
    ptr::NonNull,
    time::Duration,
};

use crossbeam_utils::CachePadded;

use super::slots::{Cursor, MOVED, Place, SlotHeader, Slots};
use crate::{
    costs,
    line::prefetch_to_write,
    segment::BlockKey,
    sync::{AtomicU64, Ordering, compiler_fence},
};

/// What the receiver writes for the sender, apart from the slots.
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
}

/// The two parts of a ring in memory.
#[derive(Debug)]
pub(crate) struct Ring {
    control: NonNull<RingControl>,
    pub(super) slots: Slots<SlotHeader>,
}

impl Ring {
    /// # Safety
    /// Both places are formatted and stay valid as long as the ring and its ends are used.
    pub(crate) unsafe fn new(control: NonNull<RingControl>, slots: Slots<SlotHeader>) -> Self {
        Self { control, slots }
    }

    #[inline(always)]
    fn control(&self) -> &RingControl {
        // SAFETY: valid by the promise of `new`; atomics only.
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

    /// Returns the first position that is not free yet (step 7, reuse). `known` is what an earlier look returned.
    pub(crate) fn room(&self, position: u64, known: u64) -> Result<u64, CorruptHead> {
        self.room_for(position, known, self.slots.count())
    }

    /// Returns what [`room`](Self::room) returns, where `count` messages may be in flight.
    #[inline(always)]
    fn room_for(&self, position: u64, known: u64, count: u64) -> Result<u64, CorruptHead> {
        // Acquire: pairs with the Release in `RingReceiver::advance_head`; the receiver's reads of
        // the slots come before our writes.
        let head = self.head().load(Ordering::Acquire);
        // Positions up to this one have been taken, and no more messages received.
        if head > position || head.saturating_add(count) < known {
            return Err(CorruptHead { head, tail: position });
        }
        Ok(head + count)
    }

    /// Writes the length of the message in elements; only slices have one. It must be written before the elements,
    /// because it removes the mark of a buffer that moved through the slot before.
    #[inline(always)]
    pub(super) fn write_len(&self, slot: NonNull<u8>, len: u32) {
        // SAFETY: one of the ring's slots, by the caller.
        unsafe { self.slots.header(slot) }.len.store(len, Ordering::Relaxed);
        // The elements are plain stores, which the compiler could move up. The order in memory
        // counts only when this rank is dead, and then all its stores are done.
        compiler_fence(Ordering::Release);
    }

    /// Records a moved buffer as message number `position`, before the buffer stops being the sender's.
    #[inline]
    pub(super) fn write_moved(&self, slot: NonNull<u8>, position: u64, key: BlockKey, len: u64) {
        // SAFETY: one of the ring's slots, by the caller, in a channel of slices.
        let (header, moved) = unsafe { (self.slots.header(slot), self.slots.moved(slot)) };
        header.race.writing();
        moved.write(key, len, (position as u32).wrapping_add(1));
        // Release: `MOVED` never stands before anything else than a whole `MovedBuffer`, also if
        // this rank dies here. Pairs with the Acquire in `Ring::stranded`.
        header.len.store(MOVED, Ordering::Release);
    }

    /// Returns the buffers that were sent and not received, or that were written into a slot whose sender died before
    /// it published. This must be called only when no end is in use any more.
    pub(crate) fn stranded(&self) -> Vec<BlockKey> {
        let head = self.control().head.load(Ordering::Acquire);
        let mut keys = Vec::new();
        for index in 0..self.slots.count() {
            let slot = self.slots.slot(index);
            // SAFETY: a formatted slot; `MOVED` stands only in slots of slices.
            let (header, moved) = unsafe { (self.slots.header(slot), self.slots.moved(slot)) };
            // Acquire: pairs with the Release in `RingSender::write_moved`.
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
/// In both ends, the fields that change with every message share a line. A processor puts two stores per cycle into its
/// first-level cache if they go to the same line, and otherwise one.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingSender {
    /// Number of messages published.
    tail: u64,
    /// The value that `tail` may reach before the sender must look at `head`.
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

    /// Makes the sending end of a channel of degree 0. Its slot is not free before the receiver offers it.
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

    /// Forgets the free slots, so that none is known until the next look.
    pub(crate) fn close(&mut self) {
        self.limit = self.tail;
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
    /// A sender that finds its ring full and takes one slot as soon as it is free comes back for every slot, and each
    /// look takes the line of `head` away from the receiver. So a `patient` look in a large ring lets some slots
    /// accumulate. The receiver still has enough messages.
    pub(crate) fn look(&mut self, patient: bool) -> Result<Option<NonNull<u8>>, CorruptHead> {
        const LOOKS: u32 = if cfg!(loom) { 1 } else { 32 };
        let pauses = costs::pauses(STEP);
        let enough = if patient && self.window >= LARGE { self.window / 4 } else { 1 };
        for _ in 0..LOOKS {
            self.limit = self.room()?;
            if self.limit - self.tail >= enough {
                break;
            }
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
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
        // SAFETY: `slot` comes from `reserve`.
        let (header, payload) =
            unsafe { (self.ring.slots.header(slot), self.ring.slots.payload(slot)) };
        header.race.writing();
        payload
    }

    /// Records a moved buffer as the message, before the buffer stops being the sender's.
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

    /// Publishes the slot that was reserved last (step 3).
    #[inline(always)]
    pub(crate) fn publish(&mut self, slot: NonNull<u8>) {
        self.publish_in(slot, self.ring.slots.place());
    }

    /// Publishes as [`publish`](Self::publish) does, in a ring whose slots have this layout.
    #[inline(always)]
    pub(crate) fn publish_in(&mut self, slot: NonNull<u8>, place: Place) {
        let sent = self.tail + 1;
        // SAFETY: `slot` comes from `reserve`, and `place` is that of the ring's slots.
        let header = unsafe { self.ring.slots.header_at(slot, place.header) };
        // Release: pairs with the Acquire in `RingReceiver::peek`: the message is whole before its
        // number shows. This store comes right after those of the message. With stores to this end's own words between
        // them, the processor would change lines twice as often, and stores wait for the ones before them.
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

    /// Learns of free slots before none are left. Just after a message there is time for it, just before one there is
    /// not. In a small ring this looks no sooner than it must, because a look takes the line of `head` away from the
    /// receiver, and an answer has to wait until it is back (`cargo bench --bench ratios -- pingpong`). In a large ring
    /// it looks soon enough that the sender does not catch up with the receiver (`-- stream`).
    #[cold]
    fn look_ahead(&mut self) {
        const LEAST: u64 = 8;
        let count = self.window;
        let few = if count >= LARGE { count / 2 } else { count / 8 };
        let mut room = self.limit.saturating_sub(self.tail);
        if (1..=few).contains(&room)
            && count >= LEAST
            // A count that can't be is for `look` to tell.
            && let Ok(limit) = self.room()
        {
            self.limit = limit;
            room = limit - self.tail;
        }
        self.cursor.stop_after(if room > few { room - few } else { room });
    }
}
/// The receiving end. Messages may be held, and given back in any order.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingReceiver {
    /// Number of messages received.
    next: Cell<u64>,
    /// Number of slots given back. This is also the number of the message that advances `head` when it is given back.
    /// It is [`NEVER`] while there are `early` ones.
    oldest: Cell<u64>,
    /// The slot of message `next`.
    cursor: Cursor,
    ring: Ring,
    early: RefCell<Early>,
    /// Number of messages by which to stay behind the sender; 0 in a small ring.
    distance: u64,
    /// Whether the receiver met an empty slot since the last look at the distance.
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

/// A message that was received and not given back yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) slot: NonNull<u8>,
    pub(crate) position: u64,
}

/// Number of slots from which on a ring counts as large: see [`RingSender::look`].
const LARGE: u64 = 64;

/// How long a sender lets slots accumulate, and a receiver messages, before it looks again: about two line transfers.
const STEP: Duration = Duration::from_nanos(140);

/// The number of bytes, and the least number of messages, by which a receiver stays behind its sender in a large ring:
/// see [`RingReceiver::keep_distance`].
const DISTANCE: u64 = 4096;
const LEAST: u64 = 64;

impl RingReceiver {
    pub(crate) fn new(ring: Ring) -> Self {
        let distance = (DISTANCE / ring.slots.place().stride as u64).max(LEAST);
        let large = ring.slots.count() >= 4 * distance;
        // Without slots, no message is ever out.
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

    /// Receives the next message, if it is there (step 4).
    #[inline(always)]
    pub(crate) fn receive(&self) -> Option<Received> {
        let received = self.peek()?;
        self.take(received, self.place().stride);
        Some(received)
    }

    /// Returns the next message, if it is there. It stays the next one until it is taken.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<Received> {
        self.peek_in(self.place())
    }

    /// Returns what [`peek`](Self::peek) returns, in a ring whose slots have this layout or that has no slots.
    #[inline(always)]
    pub(crate) fn peek_in(&self, place: Place) -> Option<Received> {
        let position = self.next.get();
        let slot = self.cursor.slot();
        // SAFETY: one of the ring's slots, in which headers lie there; or those that there are not.
        let header = unsafe { self.ring.slots.header_at(slot, place.header) };
        // Acquire: pairs with the Release in `RingSender::publish`.
        if header.seq.load(Ordering::Acquire) != (position as u32).wrapping_add(1) {
            return None;
        }
        header.race.reading();
        Some(Received { slot, position })
    }

    /// Returns where things are in a slot.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        self.ring.slots.place()
    }

    /// Takes the message that `peek` saw, in a ring of this stride.
    #[inline(always)]
    pub(crate) fn take(&self, peeked: Received, stride: usize) {
        let next = peeked.position + 1;
        self.next.set(next);
        if self.cursor.advance(peeked.slot, stride) {
            self.keep_distance(next);
        }
    }

    /// Lets a sender that is just ahead get further ahead.
    ///
    /// A receiver as fast as its sender looks into slots that are just being written. Its processor even loads the
    /// slots after them speculatively, and takes their lines away from the sender before anything is in them. Each
    /// message then costs several line transfers one after another; at a distance it costs a part of one. Only a
    /// receiver that has not had to wait lately does this, so messages that come one by one are never delayed.
    #[cold]
    fn keep_distance(&self, next: u64) {
        if self.distance == 0 {
            return;
        }
        if !self.ran_dry.replace(false) && !self.published(next + self.distance - 1) {
            for _ in 0..costs::pauses(STEP) {
                std::hint::spin_loop();
            }
        }
        self.cursor.stop_after(self.distance);
    }

    /// Returns the place of the next message, whether the message is there or not.
    pub(super) fn upcoming(&self) -> Received {
        Received { slot: self.cursor.slot(), position: self.next.get() }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    fn published(&self, position: u64) -> bool {
        // SAFETY: one of the ring's slots.
        let header = unsafe { self.ring.slots.header(self.ring.slot_of(position)) };
        // Relaxed: nothing is read because of it.
        header.seq.load(Ordering::Relaxed) == (position as u32).wrapping_add(1)
    }

    /// Notes that the receiver came to an empty slot.
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

    /// Finds the next message's slot, once, and returns the look at it.
    #[inline(always)]
    fn next_message(&self) -> impl Fn() -> bool {
        // SAFETY: one of the ring's slots.
        let header = unsafe { self.ring.slots.header(self.cursor.slot()) };
        let number = (self.next.get() as u32).wrapping_add(1);
        // Relaxed: only `receive` reads the message.
        move || header.seq.load(Ordering::Relaxed) == number
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

    /// Returns where the message lies, to be read in place (step 5). `len` returns the length that its header states.
    #[inline(always)]
    pub(crate) fn payload(&self, slot: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: `slot` comes from `receive`.
        unsafe { self.ring.slots.payload(slot) }
    }

    #[inline(always)]
    pub(crate) fn len(&self, slot: NonNull<u8>) -> u32 {
        // SAFETY: `slot` comes from `receive`. Relaxed: ordered by `receive`.
        unsafe { self.ring.slots.header(slot) }.len.load(Ordering::Relaxed)
    }

    /// Returns the moved buffer that is the message.
    pub(crate) fn moved(&self, slot: NonNull<u8>) -> Option<(BlockKey, u64)> {
        // SAFETY: `slot` comes from `receive` in a channel of slices.
        unsafe { self.ring.slots.moved(slot) }.read().map(|(key, len, _)| (key, len))
    }

    /// Gives the slot of a message back (step 6, release on drop).
    #[inline(always)]
    pub(crate) fn release(&self, message: Received) {
        // SAFETY: `message` comes from `receive`.
        unsafe { self.ring.slots.header(message.slot) }.race.reading();
        if !self.release_oldest(message.position) {
            self.release_early(message);
        }
    }

    /// Gives back the message that is held, if exactly one is. Returns whether it did.
    #[inline(always)]
    pub(crate) fn release_only(&self) -> bool {
        let oldest = self.oldest.get();
        // `NEVER` comes before 0, which is before the first message.
        self.next.get() == oldest.wrapping_add(1) && self.release_oldest(oldest)
    }

    /// Returns the message that was received and not given back, found by its payload.
    ///
    /// # Safety
    /// `payload` is the payload of such a message.
    pub(crate) unsafe fn received_at(&self, payload: NonNull<u8>) -> Received {
        let slots = &self.ring.slots;
        // SAFETY: the caller's.
        let slot = unsafe { slots.of_payload(payload) };
        // It is one of the last `count` ones.
        let (count, last) = (slots.count(), self.next.get() - 1);
        let back = (last % count + count - slots.index_of(slot)) % count;
        Received { slot, position: last - back }
    }

    /// Gives back the message of this number, if it is the oldest. Returns whether it is.
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
        // SAFETY: `message` comes from `receive`.
        let header = unsafe { self.ring.slots.header(message.slot) };
        // `head` may not tell for long that the message was received, and never will if an older
        // one is leaked or its holder dies: a buffer in it must not seem stranded.
        // Release: whoever sees it sees the buffer in this rank's table.
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

    /// Returns both ends of a ring whose first message has this number.
    fn ring_at(position: u64, degree: u64) -> (RingSender, RingReceiver, TestMemory<RingControl>) {
        let geometry = Geometry { stride: 16, payload: 0, header: 8, count: degree };
        let control = RingControl { head: CachePadded::new(AtomicU64::new(position)) };
        let memory = TestMemory::new(control, degree as usize);
        // SAFETY: large enough, aligned enough for these headers, and kept by the caller.
        let slots = unsafe { Slots::new(memory.slots(), geometry) };
        // SAFETY: nobody else has it.
        unsafe { slots.format(|_| SlotHeader::new()) };
        // SAFETY: formatted, and kept by the caller.
        let ring = || unsafe { Ring::new(memory.control, slots) };
        let mut sender = RingSender::new(ring());
        (sender.tail, sender.limit) = (position, position + degree);
        let receiver = RingReceiver::new(ring());
        receiver.next.set(position);
        receiver.oldest.set(position);
        (sender, receiver, memory)
    }

    /// No more messages are in flight than the window has room for, and they use all slots in turn.
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
            // The first slot's message.
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
                    // SAFETY: received, and not given back.
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
