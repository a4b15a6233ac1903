//! One rank's proposal for all ranks, in a word: how ranks are grouped in a dissemination barrier, and the origin of
//! that choice. The rounds follow from the groups.
//!
//! ```text
//! bits 0–1    what groups ranks
//! bit 2       whether the parameters were measured
//! bit 3       whether anything is proposed
//! ```

use crate::choice::Origin;
use crate::near::Near;

/// Returns the word for a proposal.
pub(super) fn word(near: Near, origin: Origin) -> u64 {
    near.bits() | origin.bit() << 2 | 1 << 3
}

/// Returns the proposal in a word, if there is one.
pub(super) fn read(word: u64) -> Option<(Near, Origin)> {
    (word >> 3 & 1 == 1).then(|| (Near::read(word), Origin::read(word >> 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_proposed() {
        for near in [Near::All, Near::Caches, Near::Packages, Near::Given] {
            for origin in [Origin::Measured, Origin::Paper] {
                assert_eq!(read(word(near, origin)), Some((near, origin)));
            }
        }
        assert_eq!((read(0), read(u64::MAX << 4)), (None, None));
    }
}
