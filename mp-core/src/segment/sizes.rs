//! Sizes that all of a segment is made of.

/// The page size to which everything is rounded. If the kernel's pages are larger, the commits below are merely finer
/// than needed.
pub(crate) const PAGE: u64 = 4096;
/// Size and alignment of a huge page on the supported machines.
pub(super) const HUGE: usize = 2 << 20;
/// The space before the segment in its file, which is never written and never committed.
pub(crate) const FRONT: u64 = HUGE as u64;
/// The size of a block from which on huge pages are worth their cost.
pub(super) const LARGE: u64 = 256 << 10;
