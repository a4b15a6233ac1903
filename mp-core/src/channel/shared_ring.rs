//! A channel of several senders or several receivers.
//!
//! Every slot has a state word that says which message it is for and which rank is using it. So a rank that dies in the
//! middle leaves a trace from which the other ranks can go on:
//!
//! | state of message p | next step |
//! |---|---|
//! | `FREE` | a sender r: → `CLAIMED` by r |
//! | `CLAIMED` by r | r: → `FULL`, or gives it up: → `VOID`; a receiver s when r has released its end: → `TAKEN` by s |
//! | `FULL` | a receiver r: → `TAKEN` by r |
//! | `VOID` | a receiver r: → `TAKEN` by r; a sender r: → `CLEARING` by r |
//! | `TAKEN` by r | r: → `FREE` for message p + slots; a sender s when r has released its end: → `CLEARING` by s |
//! | `CLEARING` by r | r: → `FREE` for message p + slots; a sender s when r has released its end: → `CLEARING` by s |
//!
//! *Released* means that nothing of the rank can touch the channel any more (`named`): a slot must not be written
//! while a rank that had it can still touch it.
//!
//! `tail` and `head` only say where to look first; a rank that sees a slot further on moves them forward. Messages are
//! taken in the order in which their slots were claimed.

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::slots::{MOVED, Slots};
use crate::{
    segment::BlockKey,
    sync::{AtomicU32, AtomicU64, Ordering, RaceMarker, compiler_fence},
};

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const FULL: u64 = 2;
const TAKEN: u64 = 3;
const VOID: u64 = 4;
/// Differs from `TAKEN` in the end that r has: it is the sending end.
const CLEARING: u64 = 5;

/// Returns a state word: the message's position modulo 2³², the slot's state, and the rank that uses the slot.
fn word(position: u64, what: u64, rank: u32) -> u64 {
    (position << 32) | (what << 24) | u64::from(rank)
}

fn what(word: u64) -> u64 {
    word >> 24 & 0xff
}

fn rank(word: u64) -> u32 {
    word as u32 & 0xff_ffff
}

/// Returns how far the word's position is ahead of `position`.
fn ahead(word: u64, position: u64) -> i32 {
    ((word >> 32) as u32).wrapping_sub(position as u32) as i32
}

/// The header beside every payload.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SharedSlotHeader {
    state: AtomicU64,
    /// Number of elements of the message, for slices; or [`MOVED`].
    len: AtomicU32,
    /// Unused: it only fills the place of padding.
    rest: AtomicU32,
    race: RaceMarker,
}

impl SharedSlotHeader {
    /// Makes the header of slot `index` in a new channel.
    pub(crate) fn new(index: u64) -> Self {
        Self {
            state: AtomicU64::new(word(index, FREE, 0)),
            len: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            race: RaceMarker::new(),
        }
    }
}

/// The positions at which senders and receivers look first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SharedControl {
    tail: CachePadded<AtomicU64>,
    head: CachePadded<AtomicU64>,
}

#[cfg(all(test, loom))]
impl SharedControl {
    pub(crate) fn new() -> Self {
        let zero = || CachePadded::new(AtomicU64::new(0));
        Self { tail: zero(), head: zero() }
    }
}

/// The two parts of a shared ring in memory. Every end has one of these.
#[derive(Debug)]
pub(crate) struct SharedRing {
    control: NonNull<SharedControl>,
    slots: Slots<SharedSlotHeader>,
}

/// A slot that this rank has claimed or taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) slot: NonNull<u8>,
    position: u64,
}

/// The result of a look at the ring.
#[derive(Debug)]
pub(crate) enum Look {
    /// A slot that this rank now has.
    Got(Held),
    /// There is no slot or message now.
    Nothing,
    /// A slot whose message no rank will finish. The slot now belongs to this rank, which must free the buffer in it
    /// ([`buffer_in`](SharedRing::buffer_in)), [`release`](SharedRing::release) the slot, and look again.
    Orphan(Held),
    /// The pointer holds a position that contradicts the slots.
    Corrupt(u64),
}

impl SharedRing {
    /// # Safety
    /// The control words and the slots are formatted, and stay valid as long as the ring is used.
    pub(crate) unsafe fn new(
        control: NonNull<SharedControl>,
        slots: Slots<SharedSlotHeader>,
    ) -> Self {
        Self { control, slots }
    }

    fn control(&self) -> &SharedControl {
        // SAFETY: valid by the promise of `new`; atomics only.
        unsafe { self.control.as_ref() }
    }

    fn at(&self, position: u64) -> (NonNull<u8>, &SharedSlotHeader) {
        let slot = self.slots.slot(position % self.slots.count());
        // SAFETY: this is one of the ring's slots.
        (slot, unsafe { self.slots.header(slot) })
    }

    /// Returns whether the slot of `position` is further on than possible while `pointer` still says `position`. The
    /// other ranks move the pointer past `position` before they use the slot again.
    fn impossible(&self, pointer: &AtomicU64, position: u64, state: u64) -> bool {
        i64::from(ahead(state, position)) > self.slots.count() as i64
            && pointer.load(Ordering::Relaxed) == position
    }

    /// Moves a pointer past `position`, unless another rank has done so.
    fn pass(pointer: &AtomicU64, position: u64) {
        // Relaxed: the pointer is a hint. The state words order the accesses to the slots.
        let next = position.wrapping_add(1);
        let _ = pointer.compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Claims a slot for rank `me` (step 1, reserve). `receiver_gone` and `sender_gone` say whether a rank has released
    /// that end.
    pub(crate) fn reserve(
        &self,
        me: u32,
        receiver_gone: impl Fn(u32) -> bool,
        sender_gone: impl Fn(u32) -> bool,
    ) -> Look {
        let tail = &*self.control().tail;
        loop {
            let position = tail.load(Ordering::Relaxed);
            let (slot, header) = self.at(position);
            // Acquire: pairs with the Release in `release`: the last reader of the slot is done.
            let state = header.state.load(Ordering::Acquire);
            match ahead(state, position) {
                0 if what(state) == FREE => {
                    let claimed = word(position, CLAIMED, me);
                    if header
                        .state
                        .compare_exchange(state, claimed, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                    {
                        // The slot no longer holds the `MovedBuffer` of an earlier message.
                        header.len.store(0, Ordering::Relaxed);
                        compiler_fence(Ordering::Release);
                        Self::pass(tail, position);
                        return Look::Got(Held { slot, position });
                    }
                }
                // The slot still holds the message of the previous round.
                ..0 => {
                    let orphan = match what(state) {
                        VOID => true,
                        TAKEN => receiver_gone(rank(state)),
                        CLEARING => sender_gone(rank(state)),
                        _ => false,
                    };
                    let before = position.wrapping_sub(self.slots.count());
                    if orphan && let Some(held) = self.take_over(slot, state, CLEARING, me, before)
                    {
                        return Look::Orphan(held);
                    }
                    if !orphan && tail.load(Ordering::Relaxed) == position {
                        return Look::Nothing;
                    }
                }
                _ if self.impossible(tail, position, state) => return Look::Corrupt(position),
                // Another rank has claimed the slot and has not moved the tail yet.
                _ => Self::pass(tail, position),
            }
        }
    }

    /// Returns whether [`reserve`](Self::reserve) would do anything other than find all slots taken.
    pub(crate) fn has_room(
        &self,
        receiver_gone: impl Fn(u32) -> bool,
        sender_gone: impl Fn(u32) -> bool,
    ) -> bool {
        let position = self.control().tail.load(Ordering::Relaxed);
        let state = self.at(position).1.state.load(Ordering::Relaxed);
        match (ahead(state, position), what(state)) {
            (..0, TAKEN) => receiver_gone(rank(state)),
            (..0, CLEARING) => sender_gone(rank(state)),
            (..0, what) => what == VOID,
            _ => true,
        }
    }

    /// Takes a message for rank `me` (step 4, receive). `sender_gone` says whether a rank has released that end.
    pub(crate) fn receive(&self, me: u32, sender_gone: impl Fn(u32) -> bool) -> Look {
        let head = &*self.control().head;
        loop {
            let position = head.load(Ordering::Relaxed);
            let (slot, header) = self.at(position);
            // Acquire: pairs with the Release in `publish`.
            let state = header.state.load(Ordering::Acquire);
            match (ahead(state, position), what(state)) {
                (0, FULL) => {
                    let taken = word(position, TAKEN, me);
                    if header
                        .state
                        .compare_exchange(state, taken, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                    {
                        header.race.reading();
                        Self::pass(head, position);
                        return Look::Got(Held { slot, position });
                    }
                }
                (0, what) if what == VOID || what == CLAIMED && sender_gone(rank(state)) => {
                    if let Some(held) = self.take_over(slot, state, TAKEN, me, position) {
                        return Look::Orphan(held);
                    }
                }
                (0, FREE | CLAIMED) | (..0, _) => {
                    if head.load(Ordering::Relaxed) == position {
                        return Look::Nothing;
                    }
                }
                _ if self.impossible(head, position, state) => return Look::Corrupt(position),
                _ => Self::pass(head, position),
            }
        }
    }

    /// Takes over the slot of message `seen`, which was given up or whose rank is gone. Of several ranks that try, only
    /// one succeeds.
    fn take_over(
        &self,
        slot: NonNull<u8>,
        state: u64,
        next: u64,
        me: u32,
        seen: u64,
    ) -> Option<Held> {
        let position = state >> 32;
        // SAFETY: this is one of the ring's slots.
        let header: &SharedSlotHeader = unsafe { self.slots.header(slot) };
        header
            .state
            // Acquire: pairs with the Release in `abandon`. For a dead rank, `sender_gone` and `receiver_gone` order
            // its stores before this.
            .compare_exchange(state, word(position, next, me), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // If a sender takes the slot over before any receiver looks, `head` still says `seen`.
        Self::pass(&self.control().head, seen);
        Some(Held { slot, position })
    }

    /// Returns the moved buffer in an orphaned slot. The caller must free the buffer before it releases the slot. If
    /// the caller dies in between, the next rank frees the buffer again, which is harmless.
    pub(crate) fn buffer_in(&self, orphan: Held) -> Option<BlockKey> {
        let Held { slot, position } = orphan;
        if self.header(orphan).len.load(Ordering::Acquire) != MOVED {
            return None;
        }
        // SAFETY: this is one of the ring's slots, and only slots of slices say `MOVED`.
        let (key, _, written_for) = unsafe { self.slots.moved(slot) }.read()?;
        (written_for == position as u32).then_some(key)
    }

    /// Returns whether [`receive`](Self::receive) may find a message.
    pub(crate) fn ready(&self, sender_gone: impl Fn(u32) -> bool) -> bool {
        let position = self.control().head.load(Ordering::Relaxed);
        let state = self.at(position).1.state.load(Ordering::Relaxed);
        match (ahead(state, position), what(state)) {
            // Behind the slot of a lost sender there may be messages of other senders.
            (0, CLAIMED) => sender_gone(rank(state)),
            (0, FREE) | (..0, _) => false,
            _ => true,
        }
    }

    /// Returns the address that a wait for a message, or for a free slot, should watch.
    pub(crate) fn watched(&self, sender: bool) -> *const () {
        let control = self.control();
        let pointer = if sender { &control.tail } else { &control.head };
        let position = pointer.load(Ordering::Relaxed);
        std::ptr::from_ref(&self.at(position).1.state).cast()
    }

    /// Returns the payload of the held slot, to be written (step 2) or read (step 5).
    pub(crate) fn payload(&self, held: Held) -> NonNull<u8> {
        // SAFETY: a `Held` names one of the ring's slots.
        unsafe { self.slots.payload(held.slot) }
    }

    /// Finds, by its payload, a message that this rank has taken and not given back.
    ///
    /// # Safety
    /// `payload` is the payload of such a message.
    pub(crate) unsafe fn taken_at(&self, payload: NonNull<u8>) -> Held {
        // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
        let slot = unsafe { self.slots.of_payload(payload) };
        // SAFETY: this is one of the ring's slots.
        let header = unsafe { self.slots.header(slot) };
        // Relaxed: this rank has written the word itself.
        Held { slot, position: header.state.load(Ordering::Relaxed) >> 32 }
    }

    fn header(&self, held: Held) -> &SharedSlotHeader {
        // SAFETY: a `Held` names one of the ring's slots.
        unsafe { self.slots.header(held.slot) }
    }

    /// Notes that the payload is being written.
    pub(crate) fn writing(&self, held: Held) {
        self.header(held).race.writing();
    }

    /// Writes the length of the message in elements. It must be written before the elements: see
    /// `RingSender::write_len`.
    pub(crate) fn write_len(&self, held: Held, len: u32) {
        self.header(held).len.store(len, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
    }

    pub(crate) fn write_moved(&self, held: Held, key: BlockKey, len: u64) {
        self.writing(held);
        // SAFETY: this is a slot of a channel of slices, because only these carry buffers.
        unsafe { self.slots.moved(held.slot) }.write(key, len, held.position as u32);
        // Release: a slot that is marked as `MOVED` has a whole `MovedBuffer`, even if this rank dies here.
        self.header(held).len.store(MOVED, Ordering::Release);
    }

    pub(crate) fn len(&self, held: Held) -> u32 {
        self.header(held).len.load(Ordering::Relaxed)
    }

    pub(crate) fn moved(&self, held: Held) -> Option<(BlockKey, u64)> {
        // SAFETY: this is a slot of a channel of slices, because only these carry buffers.
        unsafe { self.slots.moved(held.slot) }.read().map(|(key, len, _)| (key, len))
    }

    /// Publishes the message (step 3).
    pub(crate) fn publish(&self, held: Held) {
        // Release: pairs with the Acquire in `receive`.
        self.header(held).state.store(word(held.position, FULL, 0), Ordering::Release);
    }

    /// Gives up a claimed slot without a message.
    pub(crate) fn abandon(&self, held: Held) {
        self.header(held).state.store(word(held.position, VOID, 0), Ordering::Release);
    }

    /// Gives the slot back (step 6, release on drop).
    pub(crate) fn release(&self, held: Held) {
        let header = self.header(held);
        header.race.reading();
        let next = held.position.wrapping_add(self.slots.count());
        // Release: pairs with the Acquire in `reserve`.
        header.state.store(word(next, FREE, 0), Ordering::Release);
    }

    /// Returns the buffers that were sent and not received. Must be called only when no end is in use any more.
    pub(crate) fn stranded(&self) -> Vec<BlockKey> {
        let mut keys = Vec::new();
        for index in 0..self.slots.count() {
            let slot = self.slots.slot(index);
            // SAFETY: this is one of the ring's slots.
            let header = unsafe { self.slots.header(slot) };
            let state = header.state.load(Ordering::Acquire);
            if what(state) != FREE {
                keys.extend(self.buffer_in(Held { slot, position: state >> 32 }));
            }
        }
        keys
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::channel::{slots::Geometry, test_memory::TestMemory};

    /// Makes a ring whose first message has this number.
    fn ring_at(position: u64, degree: u64) -> (SharedRing, TestMemory<SharedControl>) {
        let geometry = Geometry { stride: 16, payload: 16, header: 0, count: degree };
        let start = || CachePadded::new(AtomicU64::new(position));
        let control = SharedControl { tail: start(), head: start() };
        let memory = TestMemory::new(control, degree as usize);
        let round = position - position % degree;
        // SAFETY: the memory is large enough, is aligned for these headers, and is kept by the caller. Nobody else uses
        // it.
        let ring = unsafe {
            let slots = Slots::new(memory.slots(), geometry);
            slots.format(|index| {
                let first = round + index;
                SharedSlotHeader::new(if first < position { first + degree } else { first })
            });
            SharedRing::new(memory.control, slots)
        };
        (ring, memory)
    }

    fn got(look: Look) -> Held {
        match look {
            Look::Got(held) => held,
            other => panic!("{other:?}"),
        }
    }

    const NOBODY: fn(u32) -> bool = |_| false;

    /// The slots hold only 32 bits of a message's number.
    #[test]
    fn numbers_go_on_past_four_billion() {
        for degree in [1, 2, 3, 5] {
            let (ring, _memory) = ring_at((1 << 32) - 7, degree);
            for _ in 0..20 {
                assert!(!ring.ready(NOBODY));
                assert!(matches!(ring.receive(1, NOBODY), Look::Nothing));
                for _ in 0..degree {
                    ring.publish(got(ring.reserve(0, NOBODY, NOBODY)));
                }
                assert!(ring.ready(NOBODY));
                assert!(matches!(ring.reserve(0, NOBODY, NOBODY), Look::Nothing));
                let mut held: Vec<_> = (0..degree).map(|_| got(ring.receive(1, NOBODY))).collect();
                assert!(held.is_sorted_by_key(|held| held.position));
                held.reverse();
                for held in held {
                    // SAFETY: the message was taken and not given back.
                    let found = unsafe { ring.taken_at(ring.payload(held)) };
                    assert_eq!(found.slot, held.slot);
                    assert_eq!(found.position as u32, held.position as u32);
                    ring.release(found);
                }
            }
        }
    }

    #[test]
    fn a_position_that_can_not_be_is_an_error() {
        for degree in [1, 3] {
            for wrong in [u64::MAX, 1000u64.wrapping_sub(1 << 30), 1000 - 5 * degree, 0] {
                let (ring, _memory) = ring_at(1000, degree);
                ring.publish(got(ring.reserve(0, NOBODY, NOBODY)));
                ring.control().tail.store(wrong, Ordering::Relaxed);
                ring.control().head.store(wrong, Ordering::Relaxed);
                assert!(matches!(ring.reserve(0, NOBODY, NOBODY), Look::Corrupt(_)), "{wrong}");
                assert!(matches!(ring.receive(1, NOBODY), Look::Corrupt(_)), "{wrong}");
            }
            // With a tail that is too far ahead, the slot seems to hold a message of an earlier round that is still
            // being read.
            let (ring, _memory) = ring_at(1000, degree);
            ring.control().tail.store(1000 + (1 << 30), Ordering::Relaxed);
            assert!(matches!(ring.reserve(0, NOBODY, NOBODY), Look::Nothing));
        }
    }
}
