//! The parameters of a channel, on which both ends must agree.

use std::{alloc::Layout, cmp::Reverse, slice, sync::Arc};

use super::{
    shared_ring::SharedSlotHeader,
    slots::{Geometry, LINE, SlotHeader},
    spec::ChannelSpec,
};
use crate::{
    ErrorKind,
    context::{Context, Namespace},
    error::Error,
    named::Name,
};

/// One of the two ends of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) enum End {
    Sender,
    Receiver,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Sender, Self::Receiver];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// By what the ends of a channel pass on messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// A ring between two ranks.
    Ring,
    /// A meeting: at degree 0, and at a sender that is [`Apart`].
    Meeting,
    /// A meeting for each message, and a slot for each message that guards may hold: at a receiver that is [`Apart`].
    Asking,
    /// A ring among several ranks.
    SharedRing,
}

/// An end of a shared channel on another node than the channel's slots. It has a part of the channel for itself, in which
/// a [`Bridge`](crate::bridge::Bridge) stands in for all ranks at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Apart {
    pub(crate) end: End,
    pub(crate) rank: u32,
}

/// The parameters of a channel, as one end states them.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub(crate) namespace: Namespace,
    pub(crate) name: Arc<str>,
    /// Sorted, without duplicates.
    pub(crate) senders: Vec<u32>,
    pub(crate) receivers: Vec<u32>,
    pub(crate) shared: bool,
    /// The end for which this part of the channel is, if that is apart from the slots.
    pub(crate) apart: Option<Apart>,
    pub(crate) spec: ChannelSpec,
}

impl Agreement {
    /// Returns an agreement that finds the channels of this name between two ranks, whatever their specification.
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
        let (shared, apart) = (false, None);
        Self { namespace, name: name.into(), senders, receivers, shared, apart, spec }
    }

    /// Returns by what the ends of this part of the channel pass on messages.
    pub(super) fn means(&self) -> Means {
        match (self.shared, self.apart, self.spec.degree) {
            (true, None, _) => Means::SharedRing,
            (true, Some(Apart { end: End::Sender, .. }), _) => Means::Meeting,
            (true, Some(Apart { end: End::Receiver, .. }), _) => Means::Asking,
            (false, _, 1..) => Means::Ring,
            (false, _, 0) => Means::Meeting,
        }
    }

    /// Returns the host of a shared channel: the first receiver on the node of the slots. This is the node of most
    /// receivers, and the first one of several such.
    pub(crate) fn host(&self, context: &Context) -> u32 {
        let same = |&a: &u32, &b: &u32| context.node_of(a) == context.node_of(b);
        let nodes = self.receivers.chunk_by(same);
        nodes.min_by_key(|ranks| Reverse(ranks.len())).map_or(0, |ranks| ranks[0])
    }

    /// Returns the ranks for which `me` opens an end: itself, or all, for a bridge at the other end of one that is apart.
    pub(super) fn stood_for<'a>(&'a self, end: End, me: &'a u32) -> &'a [u32] {
        match self.apart {
            Some(apart) if apart.end != end => self.side(end),
            _ => slice::from_ref(me),
        }
    }

    /// Returns the ranks that use the other end of the part of the channel at which this end is.
    pub(super) fn peers(&self, end: End) -> &[u32] {
        match &self.apart {
            Some(Apart { end: other, rank }) if *other != end => slice::from_ref(rank),
            _ => self.side(end.other()),
        }
    }

    /// Returns the ranks at an end.
    pub(crate) fn side(&self, end: End) -> &[u32] {
        match end {
            End::Sender => &self.senders,
            End::Receiver => &self.receivers,
        }
    }

    pub(super) fn name(&self) -> Name<'_> {
        Name::new(self.namespace, &self.name)
    }

    /// Returns the name by which the channel is found. Its hash also covers the ranks at both ends.
    pub(super) fn full_name(&self) -> Name<'_> {
        let ranks = self.senders.iter().chain(&[u32::MAX]).chain(&self.receivers);
        self.name().of(ranks.map(|&rank| rank.into()))
    }

    /// Returns the layout of the slots.
    pub(super) fn geometry(&self, means: Means) -> Result<Geometry, Error> {
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
        let geometry = geometry_of(&self.spec, means).ok_or_else(|| {
            bad("its slots are larger than any memory: lower its degree or Channel::max_len"
                .to_owned())
        })?;
        // Sequence words are compared modulo 2³², so the degree must be less than 2³¹.
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

/// Returns the layout of the slots of a channel, if it is possible.
pub(super) fn geometry_of(spec: &ChannelSpec, means: Means) -> Option<Geometry> {
    match means {
        Means::Ring | Means::Asking => Geometry::of(spec, Layout::new::<SlotHeader>()),
        Means::SharedRing => Geometry::of(spec, Layout::new::<SharedSlotHeader>()),
        Means::Meeting => {
            let geometry = Geometry::of(spec, Layout::new::<SlotHeader>())?;
            Some(Geometry { count: 1, ..geometry })
        }
    }
}
