//! A rank's tables of held buffers.

use crate::{segment::Shared, sync::AtomicU64};

/// One entry: a buffer's key, or 0.
#[repr(transparent)]
pub(super) struct Entry(pub(super) AtomicU64);

// SAFETY: one atomic.
unsafe impl Shared for Entry {}

/// How far a rank's search for free entries has come in its tables. It continues where it stopped, and begins anew at
/// the end if at least every fourth entry was free. So an entry costs a few looks, however many are taken.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub(super) table: usize,
    pub(super) index: usize,
    /// The entries that were free since the beginning.
    pub(super) found: usize,
}
