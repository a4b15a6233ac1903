//! How the ends of a channel find each other, and which ranks are still there.
//!
//! A channel is one block of the heap: a [`Descriptor`], the [`Signals`], the ring's control words, and the slots. The
//! end that is opened first makes it; the other end finds it by name and ranks. A rank that is no longer part of the
//! channel is **gone** (the others are told). The rank is **released** when nothing of it can touch the channel's
//! memory any more. The block is freed when every rank is gone and everything that was opened is released. All of this
//! happens under the heap's lock.
//!
//! Channels of one name between the same ranks are matched in the order of opening. An end that was opened for another
//! type, degree or length reports to both sides what each asked for. For each end and rank the descriptor has four
//! facts:
//!
//! | fact | meaning |
//! |---|---|
//! | opened | the rank has its end |
//! | gone | nothing more comes from it; the other end is told when all ranks of an end are gone |
//! | lost | gone because it died or panicked: the other end gets `PeerLost` and not `Disconnected` |
//! | released | nothing of the rank can touch the channel's memory any more |
//!
//! A rank is gone before it is released if its code has ended and its process still runs: a thread of it may still
//! write into a slot. In a shared channel, slots that a rank had claimed or taken pass to the others when it has
//! released its end. What was published before an end was gone is still received: the signal is raised after the last
//! message.

use std::{alloc::Layout, ptr::NonNull, sync::Arc};

use super::{
    callers::{self, Roll},
    farewell::{self, Farewell},
    rendezvous::Meeting,
    ring::{Ring, RingControl},
    shared_ring::{SharedControl, SharedRing, SharedSlotHeader},
    signals::{Glance, Signal, Signals},
    slots::{Geometry, LINE, Place, SlotHeader, Slots},
    spec::ChannelSpec,
};
use crate::{
    ErrorKind,
    context::{Context, Leaving, Namespace, RankSet, RankState, Text, hash},
    error::Error,
    segment::{BlockKey, BlockKind, LockedHeap, Offset, SegmentError, Shared, fingerprint},
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// Number of bytes that are kept of a channel's name (`NAME`) and of a type's name (`TYPE_NAME`).
pub(crate) const NAME: usize = 64;
const TYPE_NAME: usize = 104;

/// One of the two ends of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Sender,
    Receiver,
}

/// The ranks at one end.
#[derive(Debug)]
#[repr(C)]
struct Side {
    members: RankSet,
    opened: RankSet,
    gone: RankSet,
    /// The ranks in `gone` that were lost.
    lost: RankSet,
    released: RankSet,
}

impl Side {
    fn all_gone(&self) -> bool {
        self.members.is_subset_of(&self.gone)
    }

    fn all_released(&self) -> bool {
        self.opened.is_subset_of(&self.released)
    }
}

/// A [`ChannelSpec`] in the segment.
#[derive(Debug)]
#[repr(C)]
struct SpecWords {
    type_name: Text<{ TYPE_NAME / 8 }>,
    element_size: AtomicU64,
    element_align: AtomicU64,
    slice: AtomicU64,
    degree: AtomicU64,
    max_len: AtomicU64,
    /// A hash of the numbers above. It shows whether one of them was overwritten.
    sum: AtomicU64,
}

impl SpecWords {
    fn write(&self, spec: &ChannelSpec) {
        self.type_name.write(&spec.type_name);
        let words = [
            (&self.element_size, spec.element_size as u64),
            (&self.element_align, spec.element_align as u64),
            (&self.slice, spec.slice.into()),
            (&self.degree, spec.degree),
            (&self.max_len, spec.max_len as u64),
        ];
        for (word, value) in words {
            word.store(value, Ordering::Relaxed);
        }
        self.sum.store(Self::sum_of(spec), Ordering::Relaxed);
    }

    fn sum_of(spec: &ChannelSpec) -> u64 {
        let (size, align) = (spec.element_size as u64, spec.element_align as u64);
        hash([size, align, spec.slice.into(), spec.degree, spec.max_len as u64].into_iter())
    }

    /// Returns the specification that was written, unless a number has changed since.
    fn read_whole(&self) -> Option<ChannelSpec> {
        let spec = self.read();
        (self.sum.load(Ordering::Relaxed) == Self::sum_of(&spec)).then_some(spec)
    }

    fn read(&self) -> ChannelSpec {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        ChannelSpec {
            type_name: self.type_name.read(),
            element_size: load(&self.element_size) as usize,
            element_align: load(&self.element_align) as usize,
            slice: load(&self.slice) != 0,
            degree: load(&self.degree),
            max_len: load(&self.max_len) as usize,
        }
    }
}

/// The data at the start of a channel's block.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Descriptor {
    /// A [`Namespace`]'s word.
    namespace: AtomicU64,
    name: Text<{ NAME / 8 }>,
    spec: SpecWords,
    /// What the end that was opened second asked for, if it was something else.
    other: SpecWords,
    /// Number of channels that the world made before this one.
    serial: AtomicU64,
    shared: AtomicU32,
    senders: Side,
    receivers: Side,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Descriptor {}

/// A channel's name and ranks: see [`Descriptor::outline`].
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    pub(crate) senders: Ends,
    pub(crate) receivers: Ends,
}

/// The ranks at one end.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) members: Vec<u32>,
    /// The ranks that have neither closed the end nor ended.
    pub(crate) present: Vec<u32>,
}

impl Descriptor {
    fn side(&self, end: End) -> &Side {
        match end {
            End::Sender => &self.senders,
            End::Receiver => &self.receivers,
        }
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed) != 0
    }

    /// Returns the channel as a reader outside the world sees it: its name, the ranks at either end, and which of them
    /// are still there.
    pub(crate) fn outline(&self) -> Outline {
        let of = |side: &Side| Ends {
            members: side.members.iter().collect(),
            present: side.members.iter().filter(|&rank| !side.gone.contains(rank)).collect(),
        };
        Outline {
            name: self.name.read(),
            senders: of(&self.senders),
            receivers: of(&self.receivers),
        }
    }
}

/// Returns the outline of the channel whose descriptor is said to be here.
pub(crate) fn outline_of(context: &Context, channel: u64) -> Result<Outline, SegmentError> {
    let segment = &context.segment;
    let payload = segment.heap().payload_of(channel, BlockKind::Channel)?;
    Ok(segment.at(Offset::<Descriptor>::new(payload))?.outline())
}

/// Returns a fingerprint that changes when the structures here change.
pub(crate) fn layout() -> u64 {
    fingerprint([
        size_of::<Descriptor>(),
        size_of::<Farewell>(),
        size_of::<Roll>(),
        size_of::<Signals>(),
        size_of::<Signal>(),
        size_of::<Middle>(),
        size_of::<SlotHeader>(),
        size_of::<SharedSlotHeader>(),
        const { Place::of_single::<u64>() }.header,
    ])
}

/// The control words of all kinds of channels, one after another. They are all zero at first.
#[derive(Debug)]
#[repr(C)]
struct Middle {
    signals: Signals,
    ring: RingControl,
    meeting: Meeting,
    shared: SharedControl,
}

const MIDDLE: u64 = size_of::<Descriptor>() as u64;
const SLOTS: u64 = MIDDLE + (size_of::<Middle>() as u64).next_multiple_of(128);

/// What both ends state about a channel.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub(crate) namespace: Namespace,
    pub(crate) name: Arc<str>,
    /// Sorted, without duplicates.
    pub(crate) senders: Vec<u32>,
    pub(crate) receivers: Vec<u32>,
    pub(crate) shared: bool,
    pub(crate) spec: ChannelSpec,
}

impl Agreement {
    /// Returns an agreement by which to find the channels of this name between two ranks, whatever they carry.
    pub(super) fn between(namespace: Namespace, name: &str, sender: u32, receiver: u32) -> Self {
        let spec = ChannelSpec {
            type_name: String::new(),
            element_size: 0,
            element_align: 0,
            slice: false,
            degree: 0,
            max_len: 0,
        };
        let (senders, receivers) = (vec![sender], vec![receiver]);
        Self { namespace, name: name.into(), senders, receivers, shared: false, spec }
    }

    fn side(&self, end: End) -> &[u32] {
        match end {
            End::Sender => &self.senders,
            End::Receiver => &self.receivers,
        }
    }

    fn hash(&self) -> u64 {
        let ranks = self.senders.iter().chain(&[u32::MAX]).chain(&self.receivers);
        let words = self.name.bytes().map(u64::from).chain(ranks.map(|&r| u64::from(r)));
        hash(std::iter::once(self.namespace.word()).chain(words))
    }

    fn geometry(&self) -> Result<Geometry, Error> {
        let bad = |reason: String| {
            Error::from(ErrorKind::BadChannel { channel: self.name.clone(), reason })
        };
        if self.spec.element_align > LINE {
            return Err(bad(format!(
                "its elements are of alignment {}, and {LINE} is the most",
                self.spec.element_align
            )));
        }
        if self.spec.max_len >= u32::MAX as usize {
            return Err(bad(format!(
                "its messages are of up to {} elements (Channel::max_len), and {} is the most",
                self.spec.max_len,
                u32::MAX - 1
            )));
        }
        let header = if self.shared {
            Layout::new::<SharedSlotHeader>()
        } else {
            Layout::new::<SlotHeader>()
        };
        let geometry = Geometry::of(&self.spec, header).ok_or_else(|| {
            bad("its slots are larger than any memory: lower its degree or Channel::max_len"
                .to_owned())
        })?;
        // Sequence words are compared modulo 2³².
        if self.spec.degree > i32::MAX as u64 {
            return Err(bad(format!(
                "its degree is {}, and {} is the most",
                self.spec.degree,
                i32::MAX
            )));
        }
        Ok(geometry)
    }
}

/// An open end: the channel's parts in this process's memory.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) context: Arc<Context>,
    pub(crate) agreement: Agreement,
    pub(crate) end: End,
    block: BlockKey,
    middle: NonNull<Middle>,
    slots: NonNull<u8>,
    geometry: Geometry,
    /// 1 when a panic has left this end, whichever thread drops it.
    broken_off: AtomicU32,
}

// SAFETY: the pointers lead into the segment that `context` keeps mapped; what is behind them is
// atomic or handed over by the ring's protocol.
unsafe impl Send for Opened {}

impl Opened {
    /// Opens this rank's end, and makes the channel if the other end has not.
    pub(crate) fn open(
        context: Arc<Context>,
        mut agreement: Agreement,
        end: End,
    ) -> Result<Self, Error> {
        if agreement.name.len() > NAME || agreement.name.is_empty() || agreement.name.contains('\0')
        {
            let reason = format!("its name must have 1 to {NAME} bytes, none of them zero");
            return Err(ErrorKind::BadChannel { channel: agreement.name, reason }.into());
        }
        // Both ends keep as much of the name as the segment does, cut between two characters:
        // otherwise the same type would differ from itself.
        let type_name = &mut agreement.spec.type_name;
        let cut = (0..=TYPE_NAME).rev().find(|&end| type_name.is_char_boundary(end)).unwrap_or(0);
        type_name.truncate(cut);
        let geometry = agreement.geometry()?;
        let me = context.me;
        let (mut heap, block) = context.find_or_make(
            |heap| Self::find(&context, heap, &agreement, end),
            || Self::make(&context, &agreement, &geometry),
            |heap, block| Self::announce(&context, heap, &agreement, block),
        )?;
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        let place = |offset: u64, len: u64| {
            context.segment.range(block.payload() + offset, len, "a channel")
        };
        let middle = place(MIDDLE, size_of::<Middle>() as u64)?.cast::<Middle>();
        // SAFETY: in range, aligned (blocks are aligned to 128), formatted by `make`.
        let signals = unsafe { &middle.as_ref().signals };

        let corrupt = |what| context.segment.corrupt(what, block.payload(), SLOTS);
        let theirs = descriptor.spec.read_whole();
        let theirs = theirs.ok_or_else(|| corrupt("a channel's specification"))?;
        if agreement.spec != theirs {
            descriptor.other.write(&agreement.spec);
            signals.for_sender.raise_mismatch();
            signals.for_receiver.raise_mismatch();
            let leaving = Leaving::NeverOpened;
            leave(&context, &mut heap, descriptor, (block, None), me, end, leaving)?;
            drop(heap);
            for rank in agreement.senders.iter().chain(&agreement.receivers) {
                context.ring(*rank);
            }
            let (ours, theirs) = (Box::new(agreement.spec), Box::new(theirs));
            return Err(ErrorKind::Mismatch { channel: agreement.name, ours, theirs }.into());
        }
        let room = context.segment.heap().check(block, BlockKind::Channel)?;
        if room < SLOTS.saturating_add(geometry.bytes() as u64) {
            return Err(corrupt("a channel's length").into());
        }
        descriptor.side(end).opened.insert(me);
        drop(heap);
        let slots = place(SLOTS, geometry.bytes() as u64)?;
        let broken_off = AtomicU32::new(0);
        Ok(Self { context, agreement, end, block, middle, slots, geometry, broken_off })
    }

    /// Finds the oldest channel of this name between these ranks whose end this rank has not opened yet. Ends pair up
    /// in the order in which they are opened, whatever the order of the heap's lists.
    pub(super) fn find(
        context: &Context,
        heap: &LockedHeap<'_>,
        agreement: &Agreement,
        end: End,
    ) -> Result<Option<BlockKey>, Error> {
        let mut oldest: Option<(u64, BlockKey)> = None;
        let blocks = heap.by_hash(agreement.hash())?;
        for block in blocks.iter().filter(|block| block.kind == BlockKind::Channel) {
            let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
            let side = descriptor.side(end);
            if descriptor.is_shared() == agreement.shared
                && !side.opened.contains(context.me)
                && !side.gone.contains(context.me)
                && descriptor.senders.members.equals(&agreement.senders)
                && descriptor.receivers.members.equals(&agreement.receivers)
                && descriptor.namespace.load(Ordering::Relaxed) == agreement.namespace.word()
                && descriptor.name.read() == *agreement.name
            {
                let serial = descriptor.serial.load(Ordering::Relaxed);
                if oldest.is_none_or(|(other, _)| serial < other) {
                    oldest = Some((serial, block.key));
                }
            }
        }
        Ok(oldest.map(|(_, key)| key))
    }

    /// Makes a complete channel that no other rank can find yet.
    fn make(
        context: &Context,
        agreement: &Agreement,
        geometry: &Geometry,
    ) -> Result<BlockKey, Error> {
        // More than there is fails in `allocate`.
        let len = SLOTS.saturating_add(geometry.bytes() as u64);
        let block = context.allocate(BlockKind::Channel, len)?;
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        let nobody = &[][..];
        for (end, side) in
            [(End::Sender, &descriptor.senders), (End::Receiver, &descriptor.receivers)]
        {
            side.members.assign(agreement.side(end));
            for set in [&side.opened, &side.gone, &side.lost, &side.released] {
                set.assign(nobody);
            }
        }
        descriptor.namespace.store(agreement.namespace.word(), Ordering::Relaxed);
        descriptor.name.write(&agreement.name);
        descriptor.spec.write(&agreement.spec);
        descriptor.shared.store(agreement.shared.into(), Ordering::Relaxed);
        let range = |offset: u64, len: u64| {
            context.segment.range(block.payload() + offset, len, "a channel")
        };
        let middle = range(MIDDLE, size_of::<Middle>() as u64)?.cast::<Middle>();
        let first = range(SLOTS, geometry.bytes() as u64)?;
        // SAFETY: the block is new and known to nobody else; the places are in its range and
        // aligned. Zeros are control words of a channel in which nothing has happened.
        unsafe {
            // Not a value, whose padding would be no bytes at all for the next buffer here.
            middle.write_bytes(0, 1);
            if agreement.shared {
                Slots::new(first, *geometry).format(SharedSlotHeader::new);
            } else {
                Slots::new(first, *geometry).format(|_| SlotHeader::new());
            }
        }
        Ok(block)
    }

    /// Puts a new channel where the other ranks find it.
    fn announce(
        context: &Context,
        heap: &mut LockedHeap<'_>,
        agreement: &Agreement,
        block: BlockKey,
    ) -> Result<(), Error> {
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        let made = &context.world()?.channels;
        let serial = made.load(Ordering::Relaxed);
        made.store(serial.wrapping_add(1), Ordering::Relaxed);
        descriptor.serial.store(serial, Ordering::Relaxed);
        // Ranks that ended or withdrew before the channel was made will never open their end of it.
        // Before the channel can be found: a maker that dies here leaves no channel that waits for
        // them.
        let farewell = match agreement.shared {
            true => None,
            false => farewell::of(context, heap, agreement.namespace, &agreement.name)?,
        };
        for end in [End::Sender, End::Receiver] {
            for &rank in agreement.side(end).iter().filter(|&&rank| rank != context.me) {
                let state = context.rank(rank)?.state();
                let leaving = if state.ended() {
                    Leaving::Ended { lost: state == RankState::Lost, released: true }
                } else if farewell.is_some_and(|(_, farewell)| farewell.contains(rank)) {
                    Leaving::NeverOpened
                } else {
                    continue;
                };
                let channel = (block, Some(agreement));
                leave(context, heap, descriptor, channel, rank, end, leaving)?;
            }
        }
        heap.enlist(block, agreement.hash())?;
        if let (Some((_, farewell)), &[receiver]) = (farewell, &agreement.receivers[..])
            && receiver != context.me
            && farewell.is_heard_by(receiver)
            && let name = (agreement.namespace, &*agreement.name)
            && let Some(roll) = callers::of(context, heap, name, receiver)?
        {
            roll.enter(context.me);
            context.ring(receiver);
        }
        Ok(())
    }

    fn middle(&self) -> &Middle {
        // SAFETY: placed by `open` in the segment that `context` keeps mapped.
        unsafe { self.middle.as_ref() }
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.middle().signals
    }

    /// Returns the signal at which this end looks.
    fn signal_for(&self, end: End) -> &Signal {
        match end {
            End::Sender => &self.signals().for_sender,
            End::Receiver => &self.signals().for_receiver,
        }
    }

    /// Returns what this end looks at after each message.
    ///
    /// # Safety
    /// `self` is kept as long as the value is used.
    pub(crate) unsafe fn glance(&self, end: End) -> Glance {
        // SAFETY: the signal lies in the segment, which `self` keeps mapped.
        unsafe { Glance::at(self.signal_for(end), self.context.waiting.asymmetry) }
    }

    /// Wakes the other end if it sleeps. This end must call it after each of its moves, unless a [`Glance`] has shown
    /// that it need not.
    pub(crate) fn attend(&self, end: End) {
        self.context.waiting.asymmetry.light();
        let signal = self.signal_for(end);
        if !signal.quiet() && signal.take_parked() {
            self.ring_peers();
        }
    }

    pub(crate) fn meeting(&self) -> &Meeting {
        &self.middle().meeting
    }

    /// Returns the ring between two ranks.
    pub(crate) fn ring(&self) -> Ring {
        // SAFETY: both places are formatted, and valid as long as `self` is kept, which the ends
        // do.
        unsafe {
            let slots = Slots::new(self.slots, self.geometry);
            Ring::new(NonNull::from(&self.middle().ring), slots)
        }
    }

    /// Returns a ring without slots, for a channel that does not use the ring between two ranks.
    pub(crate) fn no_ring(&self) -> Ring {
        // SAFETY: as in `ring`; the blank slot stays for ever.
        unsafe { Ring::new(NonNull::from(&self.middle().ring), Slots::blank()) }
    }

    /// Returns the ring among several ranks.
    pub(crate) fn shared_ring(&self) -> SharedRing {
        // SAFETY: as in `ring`.
        unsafe {
            let slots = Slots::new(self.slots, self.geometry);
            SharedRing::new(NonNull::from(&self.middle().shared), slots)
        }
    }

    fn descriptor(&self) -> Result<&Descriptor, SegmentError> {
        self.context.segment.at(self.descriptor_offset())
    }

    pub(crate) fn descriptor_offset(&self) -> Offset<Descriptor> {
        Offset::new(self.block.payload())
    }

    /// Returns the ranks at the other end.
    pub(crate) fn peers(&self) -> &[u32] {
        match self.end {
            End::Sender => &self.agreement.receivers,
            End::Receiver => &self.agreement.senders,
        }
    }

    /// Returns the error for an impossible value in a control word of the shared ring.
    #[cold]
    pub(crate) fn corrupt_position(&self, position: u64) -> Error {
        let offset = self.descriptor_offset().bytes();
        self.context.segment.corrupt("a shared channel's position", offset, position).into()
    }

    /// Returns whether nothing of the rank can touch this channel at that end any more, because the rank has closed the
    /// end or its process is gone. (A rank that is merely lost may be a thread that still unwinds, or may have left
    /// others behind.) The slots of a shared channel that it held then belong to the other ranks.
    pub(crate) fn released(&self, end: End, rank: u32) -> bool {
        self.descriptor().is_ok_and(|descriptor| descriptor.side(end).released.contains(rank))
    }

    /// Wakes the other end's ranks.
    #[cold]
    pub(crate) fn ring_peers(&self) {
        for &rank in self.peers() {
            self.context.ring(rank);
        }
    }

    /// Returns the reason why the channel can't be used any more.
    #[cold]
    pub(crate) fn why_ended(&self, operation: crate::wait::Operation) -> Error {
        let channel = self.agreement.name.clone();
        let descriptor = match self.descriptor() {
            Ok(descriptor) => descriptor,
            Err(error) => return error.into(),
        };
        let (own, other) = match self.end {
            End::Sender => (&self.signals().for_sender, &descriptor.receivers),
            End::Receiver => (&self.signals().for_receiver, &descriptor.senders),
        };
        if own.mismatched() {
            let ours = self.agreement.spec.clone();
            let theirs = Box::new(descriptor.other.read());
            return ErrorKind::Mismatch { channel, ours: Box::new(ours), theirs }.into();
        }
        match other.lost.first() {
            Some(rank) => {
                let (rank, place) =
                    (rank as usize, crate::Place::Named { operation, name: channel });
                Error::from(ErrorKind::PeerLost { rank, world_rank: rank, place })
            }
            None => ErrorKind::Disconnected { channel }.into(),
        }
    }
}

impl Opened {
    /// Notes that a panic has left this end. Another thread may be the one that drops it.
    pub(crate) fn break_off(&self) {
        self.broken_off.store(1, Ordering::Relaxed);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let closed = || -> Result<(), SegmentError> {
            let mut heap = self.context.lock_heap()?;
            let descriptor = self.descriptor()?;
            let (me, channel) = (self.context.me, (self.block, Some(&self.agreement)));
            // What a panic leaves behind is no orderly end.
            // Relaxed: the threads that share the end have met at its last reference.
            let broken_off = self.broken_off.load(Ordering::Relaxed) == 1;
            let leaving = match broken_off || std::thread::panicking() {
                true => Leaving::Ended { lost: true, released: true },
                false => Leaving::Closed,
            };
            leave(&self.context, &mut heap, descriptor, channel, me, self.end, leaving)
        };
        // A heap too broken for that is found by the next who allocates.
        let _ = closed();
    }
}

/// Takes a rank out of one end. If it was the last rank at that end, tells the other end. If no rank is left, frees the
/// channel. If this rank has an agreement of its own, that takes precedence over what the segment says.
fn leave(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    descriptor: &Descriptor,
    (block, agreement): (BlockKey, Option<&Agreement>),
    rank: u32,
    end: End,
    leaving: Leaving,
) -> Result<(), SegmentError> {
    let side = descriptor.side(end);
    leaving.note(rank, &side.gone, &side.lost, &side.released);
    let middle = context
        .segment
        .range(block.payload() + MIDDLE, size_of::<Middle>() as u64, "a channel")?
        .cast::<Middle>();
    // SAFETY: in range, aligned, formatted when the channel was made.
    let signals = unsafe { &middle.as_ref().signals };
    let (other_end, signal) = match end {
        End::Sender => (End::Receiver, &signals.for_receiver),
        End::Receiver => (End::Sender, &signals.for_sender),
    };
    let other = descriptor.side(other_end);
    if side.all_gone() {
        signal.raise_gone();
    }
    // The rank itself, too: threads of one rank can be at both ends.
    for peer in other.members.iter() {
        context.ring(peer);
    }
    let empty = side.all_gone() && other.all_gone() && side.all_released() && other.all_released();
    if empty {
        free(context, heap, descriptor, (block, agreement), middle)?;
    }
    Ok(())
}

/// Frees a channel that no rank uses, and the buffers stranded in it.
fn free(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    descriptor: &Descriptor,
    (block, agreement): (BlockKey, Option<&Agreement>),
    middle: NonNull<Middle>,
) -> Result<(), SegmentError> {
    let corrupt = |what| context.segment.corrupt(what, block.payload(), SLOTS);
    let (spec, shared) = match agreement {
        Some(agreement) => (agreement.spec.clone(), agreement.shared),
        None => {
            let spec = descriptor.spec.read_whole();
            (spec.ok_or_else(|| corrupt("a channel's specification"))?, descriptor.is_shared())
        }
    };
    let header =
        if shared { Layout::new::<SharedSlotHeader>() } else { Layout::new::<SlotHeader>() };
    if spec.slice {
        let room = context.segment.heap().check(block, BlockKind::Channel)?;
        let fits = |geometry: &Geometry| geometry.bytes() as u64 <= room.saturating_sub(SLOTS);
        let geometry = Geometry::of(&spec, header).filter(fits);
        let geometry = geometry.ok_or_else(|| corrupt("a channel's slots"))?;
        let first = context.segment.range(
            block.payload() + SLOTS,
            geometry.bytes() as u64,
            "a channel's slots",
        )?;
        // SAFETY: formatted when the channel was made with this specification, in range, and
        // freed only below.
        let keys = unsafe {
            let middle = middle.as_ref();
            if shared {
                let slots = Slots::new(first, geometry);
                SharedRing::new(NonNull::from(&middle.shared), slots).stranded()
            } else {
                Ring::new(NonNull::from(&middle.ring), Slots::new(first, geometry)).stranded()
            }
        };
        for key in keys {
            heap.free(key)?;
        }
    }
    heap.delist(block)?;
    heap.free(block)
}

/// Takes this rank out of the channels of this name and these ranks whose end it has not opened.
pub(super) fn close_unopened(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    agreement: &Agreement,
    end: End,
) -> Result<(), Error> {
    while let Some(block) = Opened::find(context, heap, agreement, end)? {
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.payload()))?;
        leave(context, heap, descriptor, (block, None), context.me, end, Leaving::NeverOpened)?;
    }
    Ok(())
}

/// Takes a rank that has ended out of all channels. `released` says whether its process is gone.
pub(crate) fn retire(
    context: &Context,
    rank: u32,
    lost: bool,
    released: bool,
) -> Result<(), SegmentError> {
    let mut heap = context.lock_heap()?;
    for block in heap.blocks()?.iter().filter(|block| block.settled) {
        match block.kind {
            BlockKind::Channel => {}
            BlockKind::Farewell => {
                farewell::retire(context, &mut heap, block.key, rank)?;
                continue;
            }
            BlockKind::Roll => {
                callers::retire(context, &mut heap, block.key, rank, (lost, released))?;
                continue;
            }
            _ => continue,
        }
        let descriptor = context.segment.at(Offset::<Descriptor>::new(block.key.payload()))?;
        let sides = [End::Sender, End::Receiver].map(|end| {
            let side = descriptor.side(end);
            // Who never opened its end holds nothing of it.
            let released = released || !side.opened.contains(rank);
            (end, side.members.contains(rank), Leaving::Ended { lost, released })
        });
        for (end, _, leaving) in sides.into_iter().filter(|&(_, member, _)| member) {
            // The first side's leaving can free the block when a rank is at both ends.
            if context.segment.heap().check(block.key, BlockKind::Channel).is_ok() {
                leave(context, &mut heap, descriptor, (block.key, None), rank, end, leaving)?;
            }
        }
    }
    Ok(())
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::{
        channel::Channel,
        segment::Segment,
        wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
        world::{Rank, bury},
    };

    type Word = fn(&SpecWords) -> &AtomicU64;

    /// An overwritten number in a specification is an error for a rank that opens the other end and for a rank that
    /// buries another one. An end that is already open knows what it asked for.
    #[test]
    fn a_specification_that_was_overwritten_places_no_slot() {
        let spoils: [(Word, u64); 6] = [
            (|spec| &spec.element_align, 12),
            (|spec| &spec.element_align, 4096),
            (|spec| &spec.element_size, 3),
            (|spec| &spec.degree, 2),
            (|spec| &spec.max_len, 1 << 40),
            (|spec| &spec.slice, 0),
        ];
        for (word, value) in spoils {
            let waiting = Waiting {
                policy: WaitPolicy::Park,
                asymmetry: Asymmetry::ORDINARY,
                line_wait: LineWait::Pause,
                spare: 0,
            };
            let segment = Segment::on_heap(1 << 20, false, 0).unwrap();
            let world = Context::create(Arc::new(segment), 2, true, waiting).unwrap();
            let ranks = [0, 1].map(|rank| Rank::new(Arc::new(world.as_rank(rank))));
            let channel = Channel::degree(3).max_len(20);
            let mut to = ranks[0].sender::<[u32]>("x", 1, channel).unwrap();
            let buffer = ranks[0].buffer_from(&[7u32; 100]).unwrap();
            to.send_buffer(buffer).unwrap();
            let key = world.lock_heap().unwrap().blocks().unwrap();
            let key = key.iter().find(|block| block.kind == BlockKind::Channel).unwrap().key;
            let place = Offset::<Descriptor>::new(key.payload());
            word(&world.segment.at(place).unwrap().spec).store(value, Ordering::Relaxed);
            let error = ranks[1].receiver::<[u32]>("x", 0, channel).unwrap_err();
            let corrupt = matches!(error.kind(), ErrorKind::Segment(SegmentError::Corrupt { .. }));
            assert!(corrupt, "{error}");
            // Frees the buffer with the channel.
            bury(&world, 1).unwrap();
            drop(to);
            let kinds: Vec<_> = world.lock_heap().unwrap().blocks().unwrap();
            assert!(kinds.iter().all(|block| block.kind != BlockKind::Buffer), "{kinds:?}");
        }
    }
}
