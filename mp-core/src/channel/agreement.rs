//! The parameters of a channel, on which both ends must agree.

use std::{alloc::Layout, sync::Arc};

use super::{
    shared_ring::SharedSlotHeader,
    slots::{Geometry, LINE, SlotHeader},
    spec::ChannelSpec,
};
use crate::{ErrorKind, context::Namespace, error::Error, named::Name};

/// One of the two ends of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Sender,
    Receiver,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Sender, Self::Receiver];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
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
        Self { namespace, name: name.into(), senders, receivers, shared: false, spec }
    }

    /// Returns the ranks at an end.
    pub(super) fn side(&self, end: End) -> &[u32] {
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
    pub(super) fn geometry(&self) -> Result<Geometry, Error> {
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
        let geometry = Geometry::of(&self.spec, header(self.shared)).ok_or_else(|| {
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

/// Returns the layout of the header of each slot.
pub(super) fn header(shared: bool) -> Layout {
    if shared { Layout::new::<SharedSlotHeader>() } else { Layout::new::<SlotHeader>() }
}
