//! A channel in the segment.
//!
//! A channel is one block of the heap: a [`Descriptor`], the control words of all kinds of channels ([`Middle`]), and
//! the slots. It is a [named](crate::named) object whose members are at two ends. The signal that an end is gone is
//! raised after the last message, so messages that were published before are still received. In a shared channel, the
//! slots that a rank had claimed or taken pass to the other ranks when the rank has released its end.

use std::ptr::NonNull;

use super::{
    agreement::{Agreement, End, header},
    rendezvous::Meeting,
    ring::{Ring, RingControl},
    shared_ring::{SharedControl, SharedRing, SharedSlotHeader},
    signals::{Signal, Signals},
    slots::{Geometry, Place, SlotHeader, Slots},
    spec::ChannelSpec,
    spec_words::SpecWords,
};
use crate::{
    context::Context,
    named::{Members, Named, Object, Title, find},
    segment::{BlockKey, BlockKind, LockedHeap, SegmentError, Shared, fingerprint},
    sync::{AtomicU32, Ordering},
};

/// The data at the start of a channel's block.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Descriptor {
    title: Title,
    pub(super) spec: SpecWords,
    /// The specification that the end opened second asked for, if it differs from `spec`.
    pub(super) other: SpecWords,
    shared: AtomicU32,
    /// The members at the two ends: the senders and the receivers.
    sides: [Members; 2],
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Descriptor {}

impl Descriptor {
    /// Writes the parameters of a channel into a new descriptor.
    pub(super) fn write(&self, agreement: &Agreement) {
        End::BOTH.iter().for_each(|&end| self.side(end).all.assign(agreement.side(end)));
        self.spec.write(&agreement.spec);
        self.shared.store(agreement.shared.into(), Ordering::Relaxed);
    }

    pub(super) fn side(&self, end: End) -> &Members {
        &self.sides[end as usize]
    }

    pub(super) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed) != 0
    }
}

/// Returns a fingerprint that changes when the structures here change.
pub(super) fn layout() -> u64 {
    fingerprint([
        size_of::<Descriptor>(),
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
pub(super) struct Middle {
    pub(super) signals: Signals,
    pub(super) ring: RingControl,
    pub(super) meeting: Meeting,
    pub(super) shared: SharedControl,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Middle {}

impl Middle {
    /// Returns the signal at which this end looks.
    pub(super) fn signal_for(&self, end: End) -> &Signal {
        match end {
            End::Sender => &self.signals.for_sender,
            End::Receiver => &self.signals.for_receiver,
        }
    }
}

pub(super) const MIDDLE: u64 = size_of::<Descriptor>() as u64;
pub(super) const SLOTS: u64 = MIDDLE + (size_of::<Middle>() as u64).next_multiple_of(128);

/// Returns the length of the block of a channel.
pub(super) fn block_len(geometry: &Geometry) -> u64 {
    // If the sum overflows, it is larger than any segment, so that the allocation fails.
    SLOTS.saturating_add(geometry.bytes() as u64)
}

impl Object<'_, Descriptor> {
    /// Returns the place of the control words.
    pub(super) fn middle(&self) -> Result<NonNull<Middle>, SegmentError> {
        self.place(MIDDLE, size_of::<Middle>() as u64).map(NonNull::cast)
    }

    /// Returns the place of the slots.
    pub(super) fn slots(&self, geometry: &Geometry) -> Result<NonNull<u8>, SegmentError> {
        self.place(SLOTS, geometry.bytes() as u64)
    }

    fn place(&self, offset: u64, len: u64) -> Result<NonNull<u8>, SegmentError> {
        self.context.segment.range(self.key.payload() + offset, len, "a channel")
    }

    /// Checks that the block has room for these slots.
    pub(super) fn check_room(&self, geometry: &Geometry) -> Result<(), SegmentError> {
        self.check_len(block_len(geometry), "a channel's length")
    }

    /// Returns the specification that the maker of the channel asked for.
    pub(super) fn whole_spec(&self) -> Result<ChannelSpec, SegmentError> {
        self.spec.read_whole().ok_or_else(|| self.corrupt("a channel's specification"))
    }
}

impl Named for Descriptor {
    const KIND: BlockKind = BlockKind::Channel;
    type Known = Agreement;

    fn title(&self) -> &Title {
        &self.title
    }

    fn sides(&self) -> &[Members] {
        &self.sides
    }

    fn tell(channel: &Object<'_, Self>, side: usize) -> Result<(), SegmentError> {
        let end = End::BOTH[side];
        // SAFETY: the control words are in range and aligned, and were formatted when the channel was made.
        let middle = unsafe { channel.middle()?.as_ref() };
        if channel.side(end).are_gone() {
            middle.signal_for(end.other()).raise_gone();
        }
        // The rank itself is rung, too, because threads of one rank can be at both ends.
        channel.side(end.other()).all.iter().for_each(|peer| channel.context.ring(peer));
        Ok(())
    }

    /// Frees the buffers that are stranded in the slots.
    fn clear(
        channel: &Object<'_, Self>,
        heap: &mut LockedHeap<'_>,
        known: Option<&Agreement>,
    ) -> Result<(), SegmentError> {
        let (spec, shared) = match known {
            Some(agreement) => (agreement.spec.clone(), agreement.shared),
            None => (channel.whole_spec()?, channel.is_shared()),
        };
        if !spec.slice {
            return Ok(());
        }
        let geometry = Geometry::of(&spec, header(shared));
        let geometry = geometry.ok_or_else(|| channel.corrupt("a channel's slots"))?;
        channel.check_room(&geometry)?;
        let (middle, first) = (channel.middle()?, channel.slots(&geometry)?);
        // SAFETY: the control words and slots are in range. They were formatted when the channel was made with this
        // specification, and are freed only after this.
        let keys = unsafe {
            let middle = middle.as_ref();
            if shared {
                let slots = Slots::new(first, geometry);
                SharedRing::new(NonNull::from(&middle.shared), slots).stranded()
            } else {
                Ring::new(NonNull::from(&middle.ring), Slots::new(first, geometry)).stranded()
            }
        };
        keys.into_iter().try_for_each(|key| heap.free(key))
    }
}

/// Returns what the two ends of the channel in this block agree on, and its number among all objects of the world.
/// Returns `None` if it is no channel between a rank of this node and one of another node, or if that rank's end was
/// opened or given up.
pub(crate) fn crossing_at(
    context: &Context,
    key: BlockKey,
) -> Result<Option<(Agreement, u64)>, SegmentError> {
    let channel = Object::<Descriptor>::at(context, key)?;
    let awaits = |end: End| {
        let other = |rank| !context.is_here(rank) && channel.side(end).expect(rank);
        let here = |rank| context.is_here(rank);
        channel.side(end).all.iter().all(other) && channel.side(end.other()).all.iter().all(here)
    };
    if channel.is_shared() || !End::BOTH.into_iter().any(awaits) {
        return Ok(None);
    }
    let side = |end| channel.side(end).all.iter().collect::<Vec<_>>();
    let agreement = Agreement {
        namespace: channel.title.namespace(),
        name: channel.title.name().into(),
        senders: side(End::Sender),
        receivers: side(End::Receiver),
        shared: false,
        spec: channel.whole_spec()?,
    };
    Ok(Some((agreement, channel.title.serial())))
}

/// Returns the oldest channel of this name between these ranks whose end this rank has not opened yet.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    agreement: &Agreement,
    end: End,
) -> Result<Option<Object<'a, Descriptor>>, SegmentError> {
    find(context, heap, agreement.full_name(), |found: &Descriptor| {
        found.is_shared() == agreement.shared
            && found.side(end).expect(context.me)
            && End::BOTH.iter().all(|&end| found.side(end).all.equals(agreement.side(end)))
    })
}
