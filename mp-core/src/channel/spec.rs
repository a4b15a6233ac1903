//! What a channel carries: the type and the asynchrony degree. Both ends compare these.

use std::fmt;

use crate::context::Namespace;

/// How to make a channel: its asynchrony degree and, for slices, the longest message.
///
/// Both ends must ask for the same, or they get [`Mismatch`](crate::ErrorKind::Mismatch).
///
/// Source: Buono et al., section IV.A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    pub(crate) degree: u64,
    pub(crate) max_len: usize,
    pub(crate) namespace: Namespace,
}

impl Channel {
    /// Returns a channel in which up to `degree` messages can be in flight without blocking the sender. Degree 0 is a
    /// rendezvous: sender and receiver meet.
    pub const fn degree(degree: u32) -> Self {
        Self { degree: degree as u64, max_len: 0, namespace: Namespace::PROGRAM }
    }

    /// Sets the longest message of a channel of slices, in elements. The channel has `degree` slots of this length.
    /// Without it, a channel of slices carries only moved buffers, of any length.
    pub const fn max_len(self, elements: usize) -> Self {
        Self { max_len: elements, ..self }
    }
}

impl Namespace {
    /// Returns the channel with its name in this namespace.
    pub const fn channel(self, channel: Channel) -> Channel {
        Channel { namespace: self, ..channel }
    }
}

/// One end's view of a channel. [`Mismatch`](crate::ErrorKind::Mismatch) shows that of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelSpec {
    /// The element type's name, up to 104 bytes.
    pub type_name: String,
    /// Size of an element in bytes.
    pub element_size: usize,
    /// Alignment of an element in bytes.
    pub element_align: usize,
    /// Whether a message is a slice of elements.
    pub slice: bool,
    /// The asynchrony degree.
    pub degree: u64,
    /// The longest slice in elements.
    pub max_len: usize,
}

impl fmt::Display for ChannelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_name, element_size, element_align, degree, max_len, .. } = self;
        let size = format_args!("{element_size} bytes, alignment {element_align}");
        if self.slice {
            write!(f, "[{type_name}] ({size}) of up to {max_len}, degree {degree}")
        } else {
            write!(f, "{type_name} ({size}), degree {degree}")
        }
    }
}
