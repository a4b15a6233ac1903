//! The patterns that a receive names, and the status that it returns.

/// The rank from which a receive or probe takes messages, or [`ANY_SOURCE`].
///
/// Calls take anything that converts to it, such as a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Any rank of the communicator (`MPI_ANY_SOURCE`).
    Any,
    /// This rank.
    Rank(usize),
}

/// The tag of the messages that a receive or probe takes, or [`ANY_TAG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// Any tag (`MPI_ANY_TAG`).
    Any,
    /// This tag.
    Is(u32),
}

/// Any rank of the communicator: `MPI_ANY_SOURCE`.
///
/// A receive from any source opens this rank's end of a channel from every rank of the communicator.
pub const ANY_SOURCE: Source = Source::Any;

/// Any tag: `MPI_ANY_TAG`.
pub const ANY_TAG: Tag = Tag::Any;

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

impl From<u32> for Tag {
    fn from(tag: u32) -> Self {
        Self::Is(tag)
    }
}

impl Tag {
    pub(crate) fn wanted(self) -> Option<u32> {
        match self {
            Self::Any => None,
            Self::Is(tag) => Some(tag),
        }
    }
}

/// What is known of a message (`MPI_Status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The sender, as a rank of the communicator.
    pub source: usize,
    /// Its tag.
    pub tag: u32,
    /// Its length in the sender's elements (`MPI_Get_count`).
    pub count: usize,
    /// Its length in bytes.
    pub bytes: usize,
}
