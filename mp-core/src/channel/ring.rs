//! A channel between one sender and one receiver, degree 1 and up.
//!
//! ```text
//! sender                       slots                     receiver
//! 1 reserve ─▶ 2 write ─▶ 3 publish (Release) ─▶ 4 receive (Acquire)
//!    ▲                                               ▼
//!    └── 7 reuse (Acquire) ◀── 6 release on drop ◀── 5 read in place
//! ```
//!
//! Every slot has a sequence word beside the message; the receiver looks at nothing else, so that
//! a small message is one line transfer. The other way round a single word, `head`, counts the
//! slots given back; the sender keeps a copy and looks at the word only when the copy says that
//! all slots are taken. Source: Buono et al., section IV.A (a static set of k buffers used in a
//! circle); Ramos & Hoefler, section 2.4 (payload and notification in one line).

use std::{
    cell::{Cell, RefCell},
    ptr::NonNull,
};

use crossbeam_utils::CachePadded;

use super::slots::{MOVED, SlotHeader, Slots};
use crate::{
    segment::BlockKey,
    sync::{AtomicU64, Ordering},
};

/// The word that the receiver writes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RingControl {
    /// Slots given back since the channel was made.
    head: CachePadded<AtomicU64>,
}

impl RingControl {
    pub(crate) fn new() -> Self {
        Self { head: CachePadded::new(AtomicU64::new(0)) }
    }
}

/// The two parts of a ring in memory.
#[derive(Debug)]
pub(crate) struct Ring {
    control: NonNull<RingControl>,
    slots: Slots<SlotHeader>,
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

    /// Buffers that were sent and not received, or written into a slot whose sender died before
    /// it published. To be called when no end is in use any more.
    pub(crate) fn stranded(&self) -> Vec<BlockKey> {
        let head = self.control().head.load(Ordering::Acquire);
        let mut keys = Vec::new();
        for index in 0..self.slots.count() {
            let slot = self.slots.slot(index);
            // SAFETY: a formatted slot; `MOVED` stands only in slots of slices.
            let (header, moved) = unsafe { (self.slots.header(slot), self.slots.moved(slot)) };
            if header.len.load(Ordering::Relaxed) != MOVED {
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

/// A control word says what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptHead {
    pub(crate) head: u64,
    pub(crate) tail: u64,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct RingSender {
    ring: Ring,
    /// Messages published.
    tail: u64,
    /// The slot of message `tail`.
    index: u64,
    /// What `head` was when last looked at.
    seen_head: u64,
}

impl RingSender {
    pub(crate) fn new(ring: Ring) -> Self {
        Self { ring, tail: 0, index: 0, seen_head: 0 }
    }

    /// 1 reserve: the next slot, if it is free.
    #[inline(always)]
    pub(crate) fn reserve(&mut self) -> Result<Option<NonNull<u8>>, CorruptHead> {
        if self.tail - self.seen_head >= self.ring.slots.count() && !self.look()? {
            return Ok(None);
        }
        Ok(Some(self.ring.slots.slot(self.index)))
    }

    /// 7 reuse: whether the receiver has given back more slots.
    fn look(&mut self) -> Result<bool, CorruptHead> {
        // Acquire: pairs with the Release in `RingReceiver::release`; the receiver's reads of the
        // slot come before our writes.
        let head = self.ring.control().head.load(Ordering::Acquire);
        if head > self.tail || head < self.seen_head {
            return Err(CorruptHead { head, tail: self.tail });
        }
        self.seen_head = head;
        Ok(self.tail - head < self.ring.slots.count())
    }

    /// What a wait for a free slot should watch.
    pub(crate) fn watched(&self) -> *const () {
        std::ptr::from_ref(&*self.ring.control().head).cast()
    }

    /// The reserved slot's payload, 2 to be written.
    #[inline(always)]
    pub(crate) fn payload(&self, slot: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: `slot` comes from `reserve`.
        let (header, payload) =
            unsafe { (self.ring.slots.header(slot), self.ring.slots.payload(slot)) };
        header.race.writing();
        payload
    }

    /// Writes down a moved buffer as the message, before it stops being the sender's.
    pub(crate) fn write_moved(&self, slot: NonNull<u8>, key: BlockKey, len: u64) {
        // SAFETY: `slot` comes from `reserve` in a channel of slices.
        let (header, moved) =
            unsafe { (self.ring.slots.header(slot), self.ring.slots.moved(slot)) };
        header.race.writing();
        moved.write(key, len, (self.tail as u32).wrapping_add(1));
        // Release: the mark stands only on what is a whole buffer, whenever this rank dies.
        header.len.store(MOVED, Ordering::Release);
    }

    /// Length of the message in elements; only slices have one.
    #[inline(always)]
    pub(crate) fn write_len(&self, slot: NonNull<u8>, len: u32) {
        // SAFETY: `slot` comes from `reserve`.
        unsafe { self.ring.slots.header(slot) }.len.store(len, Ordering::Relaxed);
    }

    /// 3 publish the slot last reserved.
    #[inline(always)]
    pub(crate) fn publish(&mut self, slot: NonNull<u8>) {
        self.tail += 1;
        self.index = self.ring.slots.next(self.index);
        // SAFETY: `slot` comes from `reserve`.
        let header = unsafe { self.ring.slots.header(slot) };
        // Release: pairs with the Acquire in `RingReceiver::receive`: the message is whole before
        // its number shows.
        header.seq.store(self.tail as u32, Ordering::Release);
    }
}

/// The receiving end. Messages may be held and given back in any order.
#[derive(Debug)]
pub(crate) struct RingReceiver {
    ring: Ring,
    /// Messages received.
    next: Cell<u64>,
    /// The slot of message `next`.
    index: Cell<u64>,
    /// Slots given back.
    head: Cell<u64>,
    /// Messages given back before older ones were.
    early: RefCell<Vec<u64>>,
}

/// A message that was received and not given back yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) slot: NonNull<u8>,
    position: u64,
}

impl RingReceiver {
    pub(crate) fn new(ring: Ring) -> Self {
        let zero = || Cell::new(0);
        Self { ring, next: zero(), index: zero(), head: zero(), early: RefCell::default() }
    }

    /// 4 receive: the next message, if it is there.
    #[inline(always)]
    pub(crate) fn receive(&self) -> Option<Received> {
        let position = self.next.get();
        let slot = self.ring.slots.slot(self.index.get());
        // SAFETY: one of the ring's slots.
        let header = unsafe { self.ring.slots.header(slot) };
        // Acquire: pairs with the Release in `RingSender::publish`.
        if header.seq.load(Ordering::Acquire) != (position as u32).wrapping_add(1) {
            return None;
        }
        header.race.reading();
        self.next.set(position + 1);
        self.index.set(self.ring.slots.next(self.index.get()));
        Some(Received { slot, position })
    }

    /// Whether the next message is there.
    #[inline(always)]
    pub(crate) fn ready(&self) -> bool {
        // SAFETY: one of the ring's slots.
        let header = unsafe { self.ring.slots.header(self.ring.slots.slot(self.index.get())) };
        // Relaxed: only `receive` reads the message.
        header.seq.load(Ordering::Relaxed) == (self.next.get() as u32).wrapping_add(1)
    }

    /// What a wait for a message should watch.
    pub(crate) fn watched(&self) -> *const () {
        self.ring.slots.slot(self.index.get()).as_ptr().cast()
    }

    /// Whether every slot is held by a guard, so that no message can come.
    pub(crate) fn all_held(&self) -> bool {
        self.next.get() - self.head.get() >= self.ring.slots.count()
    }

    /// 5 read in place: where the message lies, and the length that its header states.
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

    /// The moved buffer that the message is.
    pub(crate) fn moved(&self, slot: NonNull<u8>) -> Option<(BlockKey, u64)> {
        // SAFETY: `slot` comes from `receive` in a channel of slices.
        unsafe { self.ring.slots.moved(slot) }.read().map(|(key, len, _)| (key, len))
    }

    /// 6 release on drop.
    #[inline(always)]
    pub(crate) fn release(&self, message: Received) {
        // SAFETY: `message` comes from `receive`.
        let header = unsafe { self.ring.slots.header(message.slot) };
        header.race.reading();
        if message.position != self.head.get() {
            // `head` does not tell yet that the message was received, and never will if an older
            // one is leaked or its holder dies: a buffer in it must not seem stranded.
            header.len.store(0, Ordering::Relaxed);
            self.early.borrow_mut().push(message.position);
            return;
        }
        let mut head = message.position + 1;
        if !self.early.borrow().is_empty() {
            head = self.pass_early(head);
        }
        self.head.set(head);
        // Release: pairs with the Acquire in `RingSender::look`.
        self.ring.control().head.store(head, Ordering::Release);
    }

    #[cold]
    fn pass_early(&self, mut head: u64) -> u64 {
        let mut early = self.early.borrow_mut();
        while let Some(at) = early.iter().position(|&position| position == head) {
            early.swap_remove(at);
            head += 1;
        }
        head
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::channel::{slots::Geometry, test_memory::TestMemory};

    /// Both ends of a ring whose first message has this number.
    fn ring_at(position: u64, degree: u64) -> (RingSender, RingReceiver, TestMemory<RingControl>) {
        let geometry = Geometry { stride: 16, payload: 8, count: degree };
        let control = RingControl { head: CachePadded::new(AtomicU64::new(position)) };
        let memory = TestMemory::new(control, degree as usize);
        // SAFETY: large enough, aligned enough for these headers, and kept by the caller.
        let slots = unsafe { Slots::new(memory.slots(), geometry) };
        // SAFETY: nobody else has it.
        unsafe { slots.format(|_| SlotHeader::new()) };
        // SAFETY: formatted, and kept by the caller.
        let ring = || unsafe { Ring::new(memory.control, slots) };
        let mut sender = RingSender::new(ring());
        (sender.tail, sender.seen_head) = (position, position);
        let receiver = RingReceiver::new(ring());
        receiver.next.set(position);
        receiver.head.set(position);
        (sender, receiver, memory)
    }

    /// The slots know 32 bits of a message's number.
    #[test]
    fn numbers_go_on_past_four_billion() {
        const TURN: u64 = 1 << 32;
        for degree in [1, 2, 3, 5] {
            let (mut sender, receiver, _memory) = ring_at(TURN - 7, degree);
            for _ in 0..20 {
                for _ in 0..degree {
                    assert!(!receiver.ready() && receiver.receive().is_none());
                    let slot = sender.reserve().unwrap().expect("a free slot");
                    sender.publish(slot);
                    assert!(receiver.ready());
                    let received = receiver.receive().unwrap();
                    receiver.release(received);
                }
                for _ in 0..degree {
                    let slot = sender.reserve().unwrap().expect("a free slot");
                    sender.publish(slot);
                }
                assert!(sender.reserve().unwrap().is_none());
                let mut held: Vec<_> = (0..degree).map(|_| receiver.receive().unwrap()).collect();
                assert!(receiver.all_held() && receiver.receive().is_none());
                held.reverse();
                held.into_iter().for_each(|received| receiver.release(received));
                assert!(!receiver.all_held());
            }
        }
    }

    #[test]
    fn a_count_that_can_not_be_is_an_error() {
        for head in [u64::MAX, 101 + 3, 99, 0] {
            let (mut sender, _receiver, _memory) = ring_at(100, 3);
            for _ in 0..3 {
                let slot = sender.reserve().unwrap().unwrap();
                sender.publish(slot);
            }
            sender.ring.control().head.store(head, Ordering::Relaxed);
            assert_eq!(sender.reserve(), Err(CorruptHead { head, tail: 103 }));
        }
    }
}
