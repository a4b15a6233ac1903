//! A channel as a reader outside the world sees it. The reader takes no lock, and any word may change or be wrong.

use super::{
    agreement::{End, Means, geometry_of},
    descriptor::{Descriptor, MIDDLE, Middle, SLOTS},
    slots::{Geometry, SlotHeader},
};
use crate::{
    context::Context,
    named::Named,
    segment::{BlockKind, Offset, SegmentError},
    sync::Ordering,
};

/// A channel's name, its ranks, and what lies in it.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub(crate) name: String,
    pub(crate) senders: Ends,
    pub(crate) receivers: Ends,
    /// `None` for a channel that has no ring between two ranks.
    pub(crate) ring: Option<RingReport>,
}

/// The ranks at one end.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) members: Vec<u32>,
    /// The ranks that have neither closed the end nor ended.
    pub(crate) present: Vec<u32>,
}

/// What lies in a channel between two ranks, and which of them sleeps there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RingReport {
    /// The number of slots.
    pub slots: u64,
    /// The number of messages that the receiver has not given back.
    pub messages: u64,
    /// Whether the sender has asked to be woken when the receiver gives a message back. It does so before it sleeps.
    pub sender_asks: bool,
    /// Whether the receiver has asked to be woken by the next message. It does so before it sleeps.
    pub receiver_asks: bool,
}

/// Returns the outline of the channel whose descriptor is said to be at this place in the segment.
pub(crate) fn outline_of(context: &Context, channel: u64) -> Result<Outline, SegmentError> {
    let segment = &context.segment;
    let payload = segment.heap().payload_of(channel, BlockKind::Channel)?;
    let descriptor = segment.at(Offset::<Descriptor>::new(payload))?;
    let of = |end| {
        let side = descriptor.side(end);
        Ends { members: side.all.iter().collect(), present: side.present() }
    };
    let (name, ring) = (descriptor.title().name(), ring_of(context, descriptor, payload));
    Ok(Outline { name, senders: of(End::Sender), receivers: of(End::Receiver), ring })
}

/// Returns what lies in the ring of a channel, if it has one that can be read.
fn ring_of(context: &Context, descriptor: &Descriptor, payload: u64) -> Option<RingReport> {
    let spec = descriptor.spec.read_whole()?;
    if descriptor.is_shared() || spec.degree == 0 {
        return None;
    }
    let Geometry { stride, header, count, .. } = geometry_of(&spec, Means::Ring)?;
    let segment = &context.segment;
    let middle = segment.at(Offset::<Middle>::new(payload + MIDDLE)).ok()?;
    let given_back = middle.ring.given_back();
    let is_there = |&ahead: &u64| {
        let position = given_back.wrapping_add(ahead);
        let slot = (position % count).saturating_mul(stride as u64);
        let at = slot.saturating_add(payload + SLOTS + header as u64);
        let header = segment.at(Offset::<SlotHeader>::new(at));
        let seq = header.map(|header| header.seq.load(Ordering::Relaxed));
        seq.is_ok_and(|seq| seq == (position as u32).wrapping_add(1))
    };
    Some(RingReport {
        slots: count,
        messages: (0..count).take_while(is_there).count() as u64,
        sender_asks: middle.signals.for_receiver.is_parked(),
        receiver_asks: middle.signals.for_sender.is_parked(),
    })
}
