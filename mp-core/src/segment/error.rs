//! Errors of segments.

use std::io;

/// A segment that can't be made, entered or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The file does not have the mark of a segment in its place.
    #[error("not a segment of an Onchip world: its mark is {found:#018x} and not {expected:#018x}")]
    NotASegment {
        /// The eight bytes in the mark's place.
        found: u64,
        /// The mark of a segment.
        expected: u64,
    },
    /// The file is shorter than a segment's header.
    #[error(
        "too small for a segment of an Onchip world: the file has {size} bytes, and a segment has at least {least}"
    )]
    TooSmall {
        /// Bytes in the file.
        size: u64,
        /// Bytes of the smallest segment.
        least: u64,
    },
    /// The segment was made by another version of the library.
    #[error(
        "the world's segment is of version {found}, and this program's Onchip of version {expected}: build all programs \
         of a world with the same Onchip"
    )]
    Version {
        /// The segment's version.
        found: u32,
        /// This program's version.
        expected: u32,
    },
    /// The layout of the segment's parts differs from this program's.
    #[error(
        "the world's segment is of layout {found:#018x}, and this program's Onchip of layout {expected:#018x}: build \
         all programs of a world with the same Onchip"
    )]
    Layout {
        /// The segment's fingerprint.
        found: u64,
        /// This program's fingerprint.
        expected: u64,
    },
    /// The size of the file is not the size that its header states.
    #[error(
        "the world's segment is truncated: its header states {stated} bytes, and the file has {found}"
    )]
    Truncated {
        /// The size stated in the header, in bytes.
        stated: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// The segment's maker has not finished it yet.
    #[error("the segment holds no world yet: the process that makes it is not done; try again")]
    Unfinished,
    /// The file is not sealed: it could shrink under its users, which would end them by SIGBUS.
    #[error(
        "the segment's size is not sealed: the file could shrink while it is used, so it is no segment of an Onchip world"
    )]
    NotSealed,
    /// A control word names a place that no segment of this size has.
    #[error(
        "the world's segment is corrupt: {what} at {offset:#x} (+{len} bytes) in {size} bytes; some rank has overwritten \
         memory that is not its own"
    )]
    Corrupt {
        /// What should be at the place.
        what: &'static str,
        /// The place where it should be.
        offset: u64,
        /// The length that it should have.
        len: u64,
        /// The segment's size in bytes.
        size: u64,
    },
    /// The whole segment is in use.
    #[error(
        "the segment is full: {asked} bytes asked for, {left} of {size} left at its end; give it more by \
         World::segment_size or mprun --segment-size"
    )]
    Full {
        /// Bytes asked for.
        asked: u64,
        /// Bytes behind the last block.
        left: u64,
        /// The segment's size in bytes.
        size: u64,
    },
    /// The elements' alignment is larger than that of the heap's blocks.
    #[error(
        "elements of alignment {asked} can't be in shared memory, where {most} is the most: use a type of lower alignment"
    )]
    Alignment {
        /// The element type's alignment.
        asked: usize,
        /// The largest alignment supported.
        most: usize,
    },
    /// The machine, or this process's control group, does not have enough memory left.
    #[error(
        "not enough memory: {asked} bytes asked for, {available} available ({limit}); ask for less, or free buffers and \
         close channels before"
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that can still be taken.
        available: u64,
        /// What sets the limit.
        limit: &'static str,
    },
    /// A limit that was set for this process does not allow a segment of this size.
    #[error(
        "a segment of {asked} bytes goes beyond this process's limit on {limit}, which is \
         {allowed} bytes: raise the limit, or ask for less by World::segment_size or \
         mprun --segment-size"
    )]
    Limit {
        /// The segment's size in bytes.
        asked: u64,
        /// The limit in bytes.
        allowed: u64,
        /// The limited resource, and the `ulimit` that sets the limit.
        limit: &'static str,
    },
    /// The launcher made a smaller segment than the program asks for.
    #[error(
        "the program asks for a segment of {asked} bytes, the launcher made one of {size}: start \
         it by mprun --segment-size {asked}"
    )]
    Smaller {
        /// The size asked for in bytes.
        asked: u64,
        /// The segment's size in bytes.
        size: u64,
    },
    /// The world uses `membarrier`, which this process can't use.
    #[error(
        "the world was made with the system call membarrier, which this process may not use: start it without the \
         filter (seccomp) that forbids this"
    )]
    NoMembarrier,
    /// A system call failed.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl SegmentError {
    pub(crate) fn os(call: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::Os { call, source: errno.into() }
    }
}
