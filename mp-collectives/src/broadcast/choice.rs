//! The choice of the algorithm for a broadcast, with its reason.

use std::fmt;

use super::trees::{Shape, Trees};

/// The way in which a message goes to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Line by line with the payload in the notification: [`LineBcast`](super::LineBcast).
    Lines,
    /// Chunks through the buffers of a tree's inner ranks: [`OcBcast`](super::OcBcast).
    OcBcast,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Lines => "lines with the payload in the notification",
            Algorithm::OcBcast => "OC-Bcast",
        })
    }
}

/// The facts about the world and the machine that the choice uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// P, the number of ranks.
    pub ranks: usize,
    /// The number of cores that they may use.
    pub cores: usize,
    /// The number of bytes that a line holds beside a flag.
    pub payload: usize,
}

impl Machine {
    /// Returns whether ranks share cores, so that a waiting rank gets in the way of another.
    pub fn crowded(self) -> bool {
        self.ranks > self.cores
    }

    /// Returns how many lines may be pending between two ranks.
    ///
    /// The more there are, the further a root runs ahead of ranks that share its core, and the fewer turns they take.
    /// Each rank has these lines for every other rank, so with many ranks there are few.
    pub fn slots(self) -> usize {
        match self.ranks {
            ..=16 => 64,
            17..=128 => 16,
            // Each line that a pair has more is one for the square of the ranks.
            129..=256 => 4,
            _ => 2,
        }
    }
}

/// The reason why an algorithm was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller forced it.
    Forced,
    /// The message is so short that notifying a rank first and getting the message afterwards would cost more.
    Short {
        /// The greatest length of a short message, in bytes.
        most: usize,
    },
    /// The message is longer and is copied faster in large pieces.
    Long {
        /// The greatest length of a short message, in bytes.
        most: usize,
    },
}

/// The choice for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The message's length.
    pub bytes: usize,
    /// What was known about the machine.
    pub machine: Machine,
    /// The chosen algorithm.
    pub algorithm: Algorithm,
    /// The reason for the choice.
    pub reason: Reason,
    /// The trees along which the message goes.
    pub trees: Trees,
}

/// The number of lines up to which a message is short.
///
/// Each additional line costs about a tenth of a line transfer. Notifying first and getting afterwards costs one
/// transfer and its overhead, whatever the length (`cargo bench --bench ratios -- broadcast`).
const SHORT: usize = 8;

/// Chooses the algorithm for a message of `bytes` bytes, along these trees.
#[inline]
pub fn choose(
    machine: Machine,
    trees: Trees,
    bytes: usize,
    forced: Option<Algorithm>,
) -> Explanation {
    let most = SHORT * machine.payload;
    let (algorithm, reason) = match forced {
        Some(algorithm) => (algorithm, Reason::Forced),
        None if bytes <= most => (Algorithm::Lines, Reason::Short { most }),
        None => (Algorithm::OcBcast, Reason::Long { most }),
    };
    Explanation { bytes, machine, algorithm, reason, trees }
}

impl Explanation {
    /// Returns the tree along which the message goes.
    pub fn shape(&self) -> Shape {
        match self.algorithm {
            Algorithm::Lines => self.trees.lines,
            Algorithm::OcBcast => self.trees.chunks,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { bytes, machine, algorithm, reason, trees } = self;
        let Machine { ranks, cores, payload } = machine;
        write!(f, "{bytes} bytes to {ranks} ranks on {cores} cores: {algorithm}")?;
        write!(f, ", {} ({})", self.shape(), trees.why)?;
        match reason {
            Reason::Forced => f.write_str("; forced"),
            Reason::Short { most } => write!(
                f,
                "; up to {most} bytes, {} lines, a transfer for each line is less than one to be \
                 told and then one to get it",
                most / payload.max(&1)
            ),
            Reason::Long { most } => {
                write!(f, "; above {most} bytes large copies are faster than lines one by one")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mp_core::topology::Seat;

    use super::*;
    use crate::near::Places;

    #[test]
    fn short_messages_go_by_lines_and_long_ones_in_chunks() {
        let machine = Machine { ranks: 3, cores: 4, payload: 56 };
        let trees = Trees::best(machine, &Places::unknown(3), 1024, None);
        let algorithm = |bytes| choose(machine, trees, bytes, None).algorithm;
        assert_eq!([0, 1, 448].map(algorithm), [Algorithm::Lines; 3]);
        assert_eq!([449, 1 << 20, usize::MAX].map(algorithm), [Algorithm::OcBcast; 3]);
        let forced = choose(machine, trees, 5, Some(Algorithm::OcBcast));
        assert_eq!((forced.algorithm, forced.reason), (Algorithm::OcBcast, Reason::Forced));
    }

    #[test]
    fn explanations_give_the_facts() {
        let told = |ranks, cores, places: &Places| {
            let machine = Machine { ranks, cores, payload: 56 };
            let trees = Trees::best(machine, places, 1024, None);
            choose(machine, trees, 100, None).to_string()
        };
        let text = told(8, 2, &Places::unknown(8));
        for fact in ["100 bytes", "8 ranks", "2 cores", "degree 7", "flat", "448"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        let seat = |rank: usize| Some(Seat { cache: rank / 4, package: rank / 4 });
        let text = told(16, 16, &Places::of_seats(&(0..16).map(seat).collect::<Vec<_>>()));
        for fact in ["λ = 2 for ranks of a cache", "λ = 3 between", "Sandy Bridge"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }
}
