//! Sizes that all of a segment is made of.

/// The page size that everything is rounded to. The kernel's page size is the same, or the commits below are merely
/// finer than needed.
pub(crate) const PAGE: u64 = 4096;
/// Size and alignment of a huge page on the supported machines.
pub(super) const HUGE: usize = 2 << 20;
/// The space before the segment in its file: never written, never committed.
pub(crate) const FRONT: u64 = HUGE as u64;
/// Blocks of at least this size are worth huge pages.
pub(super) const LARGE: u64 = 256 << 10;
