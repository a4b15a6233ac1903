//! What lies in a segment above its heap.

use crate::{channel, context, mpb};

/// Returns a fingerprint of everything that lies in a segment above its heap.
pub(crate) fn parts() -> u64 {
    context::layout() ^ channel::layout().rotate_left(32) ^ mpb::layout().rotate_left(16)
}
