//! The choice of the algorithm for a broadcast.

use std::fmt;

use crate::choice::{Choice, Machine};

/// The way in which a message goes to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broadcast {
    /// Line by line with the payload in the notification: [`LineBcast`](super::LineBcast).
    Lines,
    /// Chunks through the buffers of a tree's inner ranks: [`OcBcast`](super::OcBcast).
    OcBcast,
}

impl Broadcast {
    /// All algorithms.
    pub(crate) const ALL: [Broadcast; 2] = [Broadcast::Lines, Broadcast::OcBcast];
}

impl fmt::Display for Broadcast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broadcast::Lines => "lines with the payload in the notification",
            Broadcast::OcBcast => "OC-Bcast",
        })
    }
}

/// Chooses the algorithm for a message of `bytes` bytes.
#[inline]
pub(crate) fn choose(
    machine: Machine,
    bytes: usize,
    forced: Option<Broadcast>,
) -> Choice<Broadcast> {
    let most = machine.most_in_lines(usize::MAX);
    Choice::by_length(forced, bytes, most, [Broadcast::Lines, Broadcast::OcBcast])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Reason;

    #[test]
    fn short_messages_go_by_lines_and_long_ones_in_chunks() {
        let machine = Machine { ranks: 3, cores: 4, payload: 56 };
        let algorithm = |bytes| choose(machine, bytes, None).algorithm;
        assert_eq!([0, 1, 448].map(algorithm), [Broadcast::Lines; 3]);
        assert_eq!([449, 1 << 20, usize::MAX].map(algorithm), [Broadcast::OcBcast; 3]);
        let forced = choose(machine, 5, Some(Broadcast::OcBcast));
        assert_eq!((forced.algorithm, forced.reason), (Broadcast::OcBcast, Reason::Forced));
    }
}
