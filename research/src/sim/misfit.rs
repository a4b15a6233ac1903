//! Places that a simulated machine does not have.

use thiserror::Error;

/// An operation named a place that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// There is no such rank.
    #[error("rank {rank} of {ranks}")]
    Rank {
        /// The rank named.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The lines are beyond the end of an MPB.
    #[error("{count} lines from line {first} on, in a buffer of {lines} lines")]
    Lines {
        /// The first line named.
        first: usize,
        /// The number of lines named.
        count: usize,
        /// The number of lines in the MPB.
        lines: usize,
    },
    /// The payload has more bytes than a flag's line holds beside the flag.
    #[error("{bytes} bytes beside a flag, which takes up to {most}")]
    Payload {
        /// The number of bytes.
        bytes: usize,
        /// The greatest number.
        most: usize,
    },
}

/// Allows rank code to return it with `?`.
impl From<Misfit> for mp_core::Error {
    fn from(misfit: Misfit) -> Self {
        Self::other(misfit)
    }
}

/// Checks that this many bytes have room beside a flag in a line of `line_bytes` bytes.
pub(super) fn check_payload(bytes: usize, line_bytes: usize) -> Result<(), Misfit> {
    let most = line_bytes.saturating_sub(size_of::<u64>());
    if bytes <= most { Ok(()) } else { Err(Misfit::Payload { bytes, most }) }
}

/// Checks that a range of lines exists.
pub(super) fn check_lines(first: usize, count: usize, lines: usize) -> Result<(), Misfit> {
    match first.checked_add(count) {
        Some(end) if end <= lines => Ok(()),
        _ => Err(Misfit::Lines { first, count, lines }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(check_lines(0, 0, 0), Ok(()));
        assert_eq!(check_lines(3, 1, 4), Ok(()));
        assert_eq!(check_lines(4, 0, 4), Ok(()));
        for (first, count) in [(4, 1), (5, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert_eq!(check_lines(first, count, 4), Err(Misfit::Lines { first, count, lines: 4 }));
        }
        assert_eq!((check_payload(24, 32), check_payload(0, 8)), (Ok(()), Ok(())));
        assert_eq!(check_payload(25, 32), Err(Misfit::Payload { bytes: 25, most: 24 }));
    }
}
