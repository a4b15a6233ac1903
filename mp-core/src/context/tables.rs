//! A rank's tables of held buffers.

use crate::{segment::Shared, sync::AtomicU64};

/// One entry: a buffer's key, or 0 if it is free, or the mark of a reserved entry.
#[repr(transparent)]
pub(super) struct Entry(pub(super) AtomicU64);

// SAFETY: the type is one atomic.
unsafe impl Shared for Entry {}

/// The state of a rank's search for free entries in its tables. The search continues where it stopped. At the end, it
/// begins anew if at least every fourth entry was free; otherwise the rank adds a table. So an entry costs a few looks,
/// however many entries are taken.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub(super) table: usize,
    pub(super) index: usize,
    /// The number of entries that were free since the search began anew.
    pub(super) found: usize,
}
