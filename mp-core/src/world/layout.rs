//! The structures that other modules keep in a segment's heap.

use crate::{channel, context, mpb};

/// Returns a fingerprint of the structures that other modules keep in a segment's heap.
pub(crate) fn parts() -> u64 {
    context::layout() ^ channel::layout().rotate_left(32) ^ mpb::layout().rotate_left(16)
}
