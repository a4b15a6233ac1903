//! The layout of a channel's slots in memory.
//!
//! A slot consists of a payload and a header. A small message and its header share one cache line, so that one line
//! transfer carries both (C, section 2.4); several very small messages share a line. In such slots the header comes
//! after the payload, because a line that is written from its first byte to its last goes to memory faster than a line
//! whose first bytes are written last (`cargo bench --bench ratios -- stream`). A large payload starts on a line of its
//! own, after the header's line.

use std::{alloc::Layout, cell::Cell, marker::PhantomData, ptr::NonNull};

use super::spec::ChannelSpec;
use crate::{
    segment::{BlockKey, Shared},
    sync::{AtomicU32, AtomicU64, Ordering, RaceMarker},
};

/// Alignment of the slots, and the largest alignment that a type may ask for.
pub(crate) const LINE: usize = 64;

/// The header beside every payload of a channel between two ranks.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SlotHeader {
    /// 1 + the position (modulo 2³²) of the message in the slot. This stays until the next message is published.
    pub(crate) seq: AtomicU32,
    /// Number of elements of the message, for slices; or [`MOVED`].
    pub(crate) len: AtomicU32,
    pub(crate) race: RaceMarker,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`. The marker has no data.
unsafe impl Shared for SlotHeader {}

impl SlotHeader {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { seq: AtomicU32::new(0), len: AtomicU32::new(0), race: RaceMarker::new() }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { seq: AtomicU32::new(0), len: AtomicU32::new(0), race: RaceMarker::new() }
    }
}

/// A value of `len` that is no length: the payload is a [`MovedBuffer`], which says where the elements are.
pub(crate) const MOVED: u32 = u32::MAX;

/// A message that is a moved shared buffer. Only the location of the buffer travels.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MovedBuffer {
    key: AtomicU64,
    len: AtomicU64,
    /// The sequence word that the slot will show. It differs from the slot's word if the sender died before it
    /// published. The buffer then belongs to no rank.
    seq: AtomicU32,
}

impl MovedBuffer {
    /// Makes a value that names no buffer.
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self { key: AtomicU64::new(0), len: AtomicU64::new(0), seq: AtomicU32::new(0) }
    }

    pub(crate) fn write(&self, key: BlockKey, len: u64, seq: u32) {
        self.key.store(key.word(), Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        // Release: pairs with the Acquire in `read`: a reader that sees this word sees the two above.
        self.seq.store(seq, Ordering::Release);
    }

    /// Returns the buffer's block, its length in elements, and the sequence word for which it was written.
    pub(crate) fn read(&self) -> Option<(BlockKey, u64, u32)> {
        let seq = self.seq.load(Ordering::Acquire);
        let key = BlockKey::from_word(self.key.load(Ordering::Relaxed))?;
        Some((key, self.len.load(Ordering::Relaxed), seq))
    }
}

/// Where the payload and the header lie in a slot, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From a slot's start to its payload.
    pub(crate) payload: usize,
    /// From a slot's start to its header.
    pub(crate) header: usize,
    /// From one slot to the next.
    pub(crate) stride: usize,
}

impl Place {
    /// Returns the place for single values in a channel between two ranks, at compile time. It is the same as that of
    /// [`Geometry::of`].
    pub(crate) const fn of_single<T>() -> Self {
        match Self::of(size_of::<T>(), align_of::<T>(), Layout::new::<SlotHeader>()) {
            Some(place) => place,
            None => panic!("no slot can hold the type"),
        }
    }

    const fn of(size: usize, align: usize, header: Layout) -> Option<Self> {
        let align = if align > header.align() { align } else { header.align() };
        let Some(close) = size.checked_next_multiple_of(header.align()) else { return None };
        let Some(whole) = close.checked_add(header.size()) else { return None };
        if whole <= LINE {
            let stride = whole.next_power_of_two();
            return Some(Self {
                payload: 0,
                header: close,
                stride: if stride > align { stride } else { align },
            });
        }
        let payload = header.size().next_multiple_of(LINE);
        let Some(end) = payload.checked_add(size) else { return None };
        match end.checked_next_multiple_of(LINE) {
            Some(stride) => Some(Self { payload, header: 0, stride }),
            None => None,
        }
    }
}

/// Distances and sizes of a channel's slots, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// From one slot to the next.
    pub(crate) stride: usize,
    /// From a slot's start to its payload.
    pub(crate) payload: usize,
    /// From a slot's start to its header.
    pub(crate) header: usize,
    /// Number of slots.
    pub(crate) count: u64,
}

impl Geometry {
    /// Returns the geometry of the slots of a channel, with a header of this layout beside each payload. Returns `None`
    /// if the size of all slots overflows, or if the alignment is impossible or too large.
    pub(crate) fn of(spec: &ChannelSpec, header: Layout) -> Option<Self> {
        if !spec.element_align.is_power_of_two() || spec.element_align > LINE {
            return None;
        }
        let elements = if spec.slice { spec.max_len } else { 1 };
        let mut size = spec.element_size.checked_mul(elements)?;
        let mut align = spec.element_align;
        if spec.slice {
            size = size.max(size_of::<MovedBuffer>());
            align = align.max(align_of::<MovedBuffer>());
        }
        let Place { payload, header, stride } = Place::of(size, align, header)?;
        let count = spec.degree.max(1);
        stride.checked_mul(usize::try_from(count).ok()?)?;
        Some(Self { stride, payload, header, count })
    }

    /// Returns the number of bytes of all slots.
    pub(crate) fn bytes(&self) -> usize {
        self.stride * self.count as usize
    }
}

/// The slots themselves.
#[derive(Debug)]
pub(crate) struct Slots<H> {
    first: NonNull<u8>,
    geometry: Geometry,
    header: PhantomData<H>,
}

impl<H> Clone for Slots<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Slots<H> {}

/// Number of headers that fit into a line.
const HEADERS: usize =
    if size_of::<SlotHeader>() < LINE { LINE / size_of::<SlotHeader>() } else { 1 };

/// A line of headers that show no message.
#[repr(C, align(64))]
struct BlankLine([SlotHeader; HEADERS]);

impl Slots<SlotHeader> {
    /// Returns an empty set of slots. A receiver may still look at the first slot. It finds no message there, at
    /// whatever distance it looks for the header within the line.
    pub(crate) fn blank() -> Self {
        #[cfg(not(loom))]
        static BLANK: BlankLine = BlankLine([const { SlotHeader::new() }; HEADERS]);
        #[cfg(not(loom))]
        let line = NonNull::from(&BLANK);
        #[cfg(loom)]
        let line = {
            let headers = std::array::from_fn(|_| SlotHeader::new());
            NonNull::from(Box::leak(Box::new(BlankLine(headers))))
        };
        let geometry = Geometry { stride: LINE, payload: 0, header: 0, count: 0 };
        Self { first: line.cast(), geometry, header: PhantomData }
    }
}

impl<H> Slots<H> {
    /// # Safety
    /// At `first` lie `geometry.bytes()` bytes, aligned to a line, for as long as the value and the pointers and
    /// references that it returns are used.
    pub(crate) unsafe fn new(first: NonNull<u8>, geometry: Geometry) -> Self {
        Self { first, geometry, header: PhantomData }
    }

    /// Writes a header into every slot. A header has no padding, because that would leave uninitialized bytes for the
    /// next user of the memory.
    ///
    /// # Safety
    /// No other thread uses the slots yet.
    pub(crate) unsafe fn format(&self, mut header: impl FnMut(u64) -> H) {
        for index in 0..self.geometry.count {
            // SAFETY: the header's place lies in a slot and is aligned. The caller guarantees that nobody else uses the
            // slots.
            unsafe { self.slot(index).add(self.geometry.header).cast::<H>().write(header(index)) };
        }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> u64 {
        self.geometry.count
    }

    /// Returns where the payload and the header lie in each slot.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        let Geometry { stride, payload, header, .. } = self.geometry;
        Place { payload, header, stride }
    }

    #[inline(always)]
    pub(crate) fn slot(&self, index: u64) -> NonNull<u8> {
        debug_assert!(index < self.geometry.count);
        // SAFETY: index < count, so that the slot lies in the range of `new`.
        unsafe { self.first.add(index as usize * self.geometry.stride) }
    }

    /// Makes a cursor at slot 0. Its next stop is the end.
    pub(crate) fn cursor(&self) -> Cursor {
        // SAFETY: the result is one past the last slot.
        let end = unsafe { self.first.add(self.geometry.bytes()) };
        let begins = if self.geometry.bytes() < SMALL { usize::MAX } else { LINE - 1 };
        let stride = self.geometry.stride;
        let (at, first) = (Cell::new(self.first), self.first);
        Cursor { at, stride, stop: Cell::new(end), begins, first, end }
    }

    /// # Safety
    /// `slot` is one of these slots, and it is formatted.
    #[inline(always)]
    pub(crate) unsafe fn header<'a>(&self, slot: NonNull<u8>) -> &'a H {
        // SAFETY: the caller guarantees that this is a formatted slot, and `geometry.header` is where its header lies.
        unsafe { self.header_at(slot, self.geometry.header) }
    }

    /// Returns the [`header`](Self::header) that lies `distance` bytes into the slot.
    ///
    /// # Safety
    /// `slot` is one of these slots, it is formatted, and headers lie at `distance` in it. Or there are no slots,
    /// `slot` is `first`, and `distance` leaves a header within the line.
    #[inline(always)]
    pub(crate) unsafe fn header_at<'a>(&self, slot: NonNull<u8>, distance: usize) -> &'a H {
        // SAFETY: the caller guarantees that a header lies there. Headers consist of atomics, so they may be shared.
        unsafe { slot.add(distance).cast::<H>().as_ref() }
    }

    /// # Safety
    /// `slot` is one of these slots.
    #[inline(always)]
    pub(crate) unsafe fn payload(&self, slot: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: the caller guarantees that this is a slot. The payload's distance is less than the stride, so it lies
        // in the slot.
        unsafe { slot.add(self.geometry.payload) }
    }

    /// Returns the slot of a payload.
    ///
    /// # Safety
    /// `payload` is the payload of one of these slots.
    pub(crate) unsafe fn of_payload(&self, payload: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: the caller guarantees that this is the payload of a slot, which begins at this distance before it.
        unsafe { payload.sub(self.geometry.payload) }
    }

    /// Returns the number of a slot.
    pub(crate) fn index_of(&self, slot: NonNull<u8>) -> u64 {
        let distance = slot.addr().get() - self.first.addr().get();
        (distance / self.geometry.stride) as u64
    }

    /// # Safety
    /// `slot` is one of these slots, and the channel carries slices.
    #[inline(always)]
    pub(crate) unsafe fn moved<'a>(&self, slot: NonNull<u8>) -> &'a MovedBuffer {
        // SAFETY: the caller guarantees that this is a slot of slices. Its payload has room and alignment for a
        // `MovedBuffer` (`Geometry::of`), which consists of atomics.
        unsafe { self.payload(slot).cast::<MovedBuffer>().as_ref() }
    }
}

/// A position that goes round the slots.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cursor {
    at: Cell<NonNull<u8>>,
    stride: usize,
    /// The address at which [`advance`](Self::advance) has to do more than one addition.
    stop: Cell<NonNull<u8>>,
    /// A mask: the cursor looks ahead from slots in whose address none of these bits is set, because they begin a line.
    begins: usize,
    first: NonNull<u8>,
    end: NonNull<u8>,
}

impl Cursor {
    #[inline(always)]
    pub(crate) fn slot(&self) -> NonNull<u8> {
        self.at.get()
    }

    /// Moves to the next slot. The caller passes the current slot and the stride, which it already knows. Returns true
    /// at a stop; the next stop is then the end.
    #[inline(always)]
    pub(crate) fn advance(&self, slot: NonNull<u8>, stride: usize) -> bool {
        debug_assert_eq!((slot, stride), (self.at.get(), self.stride));
        // SAFETY: the result is at most one past the last slot, because the cursor goes back to the first slot there.
        let next = unsafe { slot.add(stride) };
        self.at.set(next);
        // The processor predicts this branch. A conditional move would make every step wait for the previous one.
        let stops = next == self.stop.get();
        if stops {
            self.turn();
        }
        stops
    }

    #[cold]
    fn turn(&self) {
        if self.at.get() == self.end {
            self.at.set(self.first);
        }
        self.stop.set(self.end);
    }

    /// Sets the next stop after `slots` slots, but after one slot at least, and at the end at the latest.
    pub(crate) fn stop_after(&self, slots: u64) {
        let left = self.end.addr().get() - self.at.get().addr().get();
        let bytes = self.stride.saturating_mul(slots.max(1) as usize);
        // SAFETY: `left` is the distance to the end, so the result is at most one past the last slot.
        self.stop.set(unsafe { self.at.get().add(bytes.min(left)) });
    }

    /// Returns the address some lines ahead of the slot, if the slot is the first on its line.
    ///
    /// Also returns `None` in a small ring, in which the other end could be at that address.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> Option<*const u8> {
        (self.slot().addr().get() & self.begins == 0).then(|| {
            let span = self.end.addr().get() - self.first.addr().get();
            let distance = self.slot().addr().get() - self.first.addr().get() + AHEAD;
            let distance = if distance >= span { distance - span } else { distance };
            self.first.as_ptr().cast_const().wrapping_add(distance)
        })
    }
}

/// Far enough to hide a transfer, and near enough that the receiver's own look-ahead has not been there
/// (`cargo bench --bench ratios -- stream` measures it).
const AHEAD: usize = 4 * LINE;
/// There is no look-ahead in a ring smaller than this.
const SMALL: usize = 32 * LINE;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn geometry(size: usize, align: usize) -> Geometry {
        let spec = ChannelSpec {
            type_name: String::new(),
            element_size: size,
            element_align: align,
            slice: false,
            degree: 4,
            max_len: 1,
        };
        Geometry::of(&spec, Layout::new::<SlotHeader>()).unwrap()
    }

    #[test]
    fn a_small_message_shares_a_line_with_its_header() {
        for size in 0..=56 {
            let Geometry { stride, payload, header, .. } = geometry(size, 1);
            assert!(LINE.is_multiple_of(stride), "{size}: {stride}");
            assert!(payload + size <= header, "{size}: {header}");
            assert!(header + size_of::<SlotHeader>() <= stride, "{size}: {header}, {stride}");
        }
        assert_eq!(geometry(8, 8).stride, 16);
        assert_eq!(geometry(56, 8).stride, 64);
    }

    #[test]
    fn a_large_payload_starts_on_its_own_line() {
        for size in [57, 64, 65, 1 << 20] {
            let Geometry { stride, payload, header, .. } = geometry(size, 8);
            assert_eq!((header, payload), (0, LINE));
            assert_eq!(stride, LINE + size.next_multiple_of(LINE));
        }
        assert_eq!(geometry(16, 32).payload % 32, 0);
        assert_eq!(geometry(64, 64).payload % 64, 0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::rc::Rc;

    use loom::thread;

    use super::*;
    use crate::sync::explore;

    /// This order is for a rank that clears up after a dead rank, because the slot's other words give no order then.
    #[test]
    fn the_number_of_a_moved_buffer_comes_last() {
        explore(6, || {
            let moved = Rc::new(MovedBuffer::new());
            let writing = thread::spawn({
                let moved = Rc::clone(&moved);
                move || moved.write(BlockKey::from_word(5).unwrap(), 6, 7)
            });
            if let Some((key, len, 7)) = moved.read() {
                assert_eq!((key.word(), len), (5, 6));
            }
            writing.join().unwrap();
        });
    }
}
