//! A channel in the segment.
//!
//! A channel is one block of the heap: a [`Descriptor`], the control words of all kinds of channels ([`Middle`]), and
//! the slots. It is a [named](crate::named) object whose members are at two ends. The signal that an end is gone is
//! raised after the last message, so messages that were published before are still received. In a shared channel, the
//! slots that a rank had claimed or taken pass to the other ranks when the rank has released its end.

use std::ptr::NonNull;

use super::{
    agreement::{Agreement, Apart, End, Means, geometry_of},
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
    /// Whose part of which kind of channel this is: see [`form_of`].
    form: AtomicU32,
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
        self.form.store(form_of(agreement), Ordering::Relaxed);
    }

    pub(super) fn side(&self, end: End) -> &Members {
        &self.sides[end as usize]
    }

    fn form(&self) -> u32 {
        self.form.load(Ordering::Relaxed)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.form() != BETWEEN_TWO
    }

    /// Returns the end for which this part of a shared channel is, if that is apart from the slots.
    fn apart(&self) -> Option<Apart> {
        let word = self.form().checked_sub(APART)?;
        Some(Apart { end: End::BOTH[word as usize % 2], rank: word / 2 })
    }
}

const BETWEEN_TWO: u32 = 0;
const SHARED: u32 = 1;
const APART: u32 = 2;

/// Returns the word of what kind a channel is; and, if the part is of one end, of which one.
fn form_of(agreement: &Agreement) -> u32 {
    match (agreement.shared, agreement.apart) {
        (false, _) => BETWEEN_TWO,
        (true, None) => SHARED,
        (true, Some(Apart { end, rank })) => APART + 2 * rank + end as u32,
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

    /// Returns what the two ends agree on.
    fn agreement(&self) -> Result<Agreement, SegmentError> {
        let side = |end| self.side(end).all.iter().collect();
        Ok(Agreement {
            namespace: self.title.namespace(),
            name: self.title.name().into(),
            senders: side(End::Sender),
            receivers: side(End::Receiver),
            shared: self.is_shared(),
            apart: self.apart(),
            spec: self.whole_spec()?,
        })
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

    fn is_kept(&self, side: usize) -> bool {
        self.apart().is_some_and(|apart| apart.end as usize != side)
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
        let agreement = known.map_or_else(|| channel.agreement(), |known| Ok(known.clone()))?;
        if !agreement.spec.slice {
            return Ok(());
        }
        let means = agreement.means();
        let geometry = geometry_of(&agreement.spec, means);
        let geometry = geometry.ok_or_else(|| channel.corrupt("a channel's slots"))?;
        channel.check_room(&geometry)?;
        let (middle, first) = (channel.middle()?, channel.slots(&geometry)?);
        // SAFETY: the control words and slots are in range. They were formatted when the channel was made with this
        // specification, and are freed only after this.
        let keys = unsafe {
            let middle = middle.as_ref();
            if means == Means::SharedRing {
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
/// Returns `None` if it is no channel between a rank of this node and one of another node and no part of an end that is
/// apart, or if its other end was opened or given up.
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
    let crosses = match channel.apart() {
        Some(apart) => {
            let other = channel.side(apart.end.other());
            other.opened.first().is_none() && !other.are_gone()
        }
        None => !channel.is_shared() && End::BOTH.into_iter().any(awaits),
    };
    Ok(if crosses { Some((channel.agreement()?, channel.title.serial())) } else { None })
}

/// Returns the oldest channel of this name between these ranks whose end this rank has not opened yet.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    agreement: &Agreement,
    end: End,
) -> Result<Option<Object<'a, Descriptor>>, SegmentError> {
    let ranks = agreement.stood_for(end, &context.me).iter();
    find(context, heap, agreement.full_name(), |found: &Descriptor| {
        found.form() == form_of(agreement)
            && ranks.clone().all(|&rank| found.side(end).expect(rank))
            && End::BOTH.iter().all(|&end| found.side(end).all.equals(agreement.side(end)))
    })
}
