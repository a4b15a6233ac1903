//! The streams of messages of a communicator.

/// A communicator's two streams of messages: those of the program, and those of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Program = 0,
    /// The stream of collective operations. Its tags from [`OWN_TAGS`] on belong to this crate.
    Together = 1,
}

/// Tags of joint operations that this crate keeps for itself: see [`Joint`](crate::communicator::Joint).
pub(crate) const OWN_TAGS: u32 = 1 << 31;
