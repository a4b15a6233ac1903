//! The choice of an algorithm and its reason, as far as all collective operations have them in common.

use std::fmt;

use mp_model::Time;
use mp_model::cla::Parameters;
use mp_model::cla::schedule::By;

use crate::calibration;
use crate::near::Near;
use crate::rings::LINE_BYTES;

/// The facts about the world and the machine that choices use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// P, the number of ranks.
    pub ranks: usize,
    /// The number of cores that the ranks may use.
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
    /// With more lines, a root runs further ahead of ranks that share its core, and they switch less often. Each rank
    /// has these lines for every other rank, so there are few with many ranks.
    pub fn slots(self) -> usize {
        match self.ranks {
            ..=16 => 64,
            17..=128 => 16,
            // Each further line of a pair is needed once for every pair of ranks.
            129..=256 => 4,
            _ => 2,
        }
    }

    /// Returns whether trees can be chosen for these ranks. Where ranks share cores, few waits and levels matter most.
    /// Up to three ranks have no better tree: either all others are children of the root, or the tree is a chain.
    pub(crate) fn suits_trees(self) -> bool {
        self.ranks > 3 && !self.crowded()
    }

    /// Returns the greatest length in bytes of a message that is sent in lines rather than by large copies, if `round`
    /// bytes can be pending in lines.
    ///
    /// Each additional line costs about a tenth of a line transfer. Notifying first and getting afterwards costs one
    /// transfer and its overhead, whatever the length (`cargo bench --bench ratios -- broadcast`).
    #[inline]
    pub(crate) fn most_in_lines(self, round: usize) -> usize {
        const SHORT: usize = 8;
        (SHORT * self.payload).min(round)
    }

    /// Describes for the model how a message is sent in lines.
    pub(crate) fn in_lines(self, bytes: usize) -> By {
        By::Lines { lines: bytes.div_ceil(self.payload.max(1)) as u64 }
    }
}

/// Describes for the model how a message goes through `buffers` buffers, in pieces of `piece` lines.
pub(crate) fn in_buffers(bytes: usize, piece: usize, buffers: usize) -> By {
    let lines = bytes.div_ceil(LINE_BYTES) as u64;
    By::Buffers { lines, piece: piece as u64, buffers: buffers as u64 }
}

/// The source of the model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine's [calibration](crate::calibration).
    Measured,
    /// The paper's Sandy Bridge, if there is no calibration. The choices depend on the cost of a line from another core
    /// relative to that of a line in the own cache. This ratio differs little between machines.
    Paper,
}

impl Origin {
    /// Returns the parameters of the machine, or the paper's if they are not known, with flags that are in caches.
    pub(crate) fn of(known: Option<Parameters>) -> (Origin, Parameters) {
        let origin = if known.is_some() { Origin::Measured } else { Origin::Paper };
        (origin, known.unwrap_or(Parameters::SANDY_BRIDGE).with_cached_flags())
    }

    /// Returns the parameters of this machine, if they are `asked` for and [kept](calibration::kept).
    pub(crate) fn kept(asked: bool) -> Option<Parameters> {
        let kept = if asked { calibration::kept() } else { None };
        kept.map(|calibration| calibration.parameters)
    }

    /// Returns the origin as a bit of a word that one rank announces to all.
    pub(crate) fn bit(self) -> u64 {
        u64::from(self == Origin::Measured)
    }

    /// Returns the origin that the lowest bit of a word stands for.
    pub(crate) fn read(word: u64) -> Origin {
        if word & 1 == 1 { Origin::Measured } else { Origin::Paper }
    }
}

/// The reason why an algorithm or a tree was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The [settings](crate::collectives::Settings) force it.
    Forced,
    /// The message is so short that it goes in lines, beside their flags. Notifying a rank first, which then gets the
    /// message, would cost more.
    Short {
        /// The greatest length of a short message, in bytes.
        most: usize,
    },
    /// The message is longer and is copied faster in large pieces.
    Long {
        /// The greatest length of a short message, in bytes.
        most: usize,
    },
    /// Getting more data costs less than another wait.
    Middle,
    /// All ranks work at the same time, each on a different part.
    Parts,
    /// The settings ask for combining in this order.
    Ordered,
    /// One element is longer than a block.
    LargeElements,
    /// Ranks share cores, so that few waits and wake-ups matter more than the work of a single rank.
    Crowded,
    /// There are so few ranks that all others are children of the root.
    Few,
    /// Each rank has a core, and the cache-line-aware model finds this algorithm best.
    Modelled(Origin),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Forced => "forced",
            Reason::Short { most } => {
                return write!(
                    f,
                    "up to {most} bytes, a transfer for each line is less than one to be told and \
                     then one to get it"
                );
            }
            Reason::Long { most } => {
                return write!(
                    f,
                    "above {most} bytes large copies are faster than lines one by one"
                );
            }
            Reason::Middle => "to get more costs less than to wait once more",
            Reason::Parts => "all ranks work at the same time, each on another part",
            Reason::Ordered => "this keeps the order of ranks",
            Reason::LargeElements => "one element is longer than a block",
            Reason::Crowded => "ranks share cores, and so few waits and wake-ups count most",
            Reason::Few => "for so few ranks",
            Reason::Modelled(Origin::Measured) => {
                "which the cache-line-aware model finds best for this machine"
            }
            Reason::Modelled(Origin::Paper) => {
                "which the cache-line-aware model finds best for the paper's Sandy Bridge"
            }
        })
    }
}

/// A chosen algorithm, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice<A> {
    pub(crate) algorithm: A,
    pub(crate) reason: Reason,
}

impl<A> Choice<A> {
    /// Returns the forced algorithm, or else what `automatic` returns.
    #[inline(always)]
    pub(crate) fn new(forced: Option<A>, automatic: impl FnOnce() -> (A, Reason)) -> Self {
        let (algorithm, reason) = match forced {
            Some(algorithm) => (algorithm, Reason::Forced),
            None => automatic(),
        };
        Choice { algorithm, reason }
    }

    /// Returns the forced algorithm, or else one of two by the message's length: the first one up to `most` bytes.
    #[inline(always)]
    pub(crate) fn by_length(
        forced: Option<A>,
        bytes: usize,
        most: usize,
        [short, long]: [A; 2],
    ) -> Self {
        Choice::new(forced, || match bytes <= most {
            true => (short, Reason::Short { most }),
            false => (long, Reason::Long { most }),
        })
    }

    /// Returns another algorithm if elements are too large for this one, unless this one is forced.
    #[inline(always)]
    pub(crate) fn or(self, too_large: bool, algorithm: A) -> Self {
        match too_large && self.reason != Reason::Forced {
            true => Choice { algorithm, reason: Reason::LargeElements },
            false => self,
        }
    }

    pub(crate) fn map<B>(self, of: impl FnOnce(A) -> B) -> Choice<B> {
        Choice { algorithm: of(self.algorithm), reason: self.reason }
    }
}

/// Returns the best of the shapes for all ranks or for groups of them, by the times that the model predicts. Each level
/// has finer groups than the one before, and replaces the best one so far if its time `is_better`.
pub(crate) fn best_of<S>(
    levels: impl Iterator<Item = Near>,
    timed: impl FnMut(Near) -> (Time, S),
    is_better: impl Fn(Time, Time) -> bool,
) -> Option<S> {
    let better =
        |best: (Time, S), next: (Time, S)| if is_better(next.0, best.0) { next } else { best };
    levels.map(timed).reduce(better).map(|best| best.1)
}
