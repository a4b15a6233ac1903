//! What the leaders of the nodes do in this library: who sends to whom, and in which round. The library's collective
//! operations take these steps, and the simulation takes them in virtual time.
//!
//! Leaders have the numbers of their nodes. A vector is combined in the order of these numbers, and all leaders get the same
//! bits: in each round, a leader has the combination of neighbouring leaders, and combines it with that of the leaders just
//! below or above them.

use std::fmt;
use std::ops::Range;

/// The number of bytes in a piece. Longer vectors and messages go piece by piece.
pub const PIECE: usize = 64 << 10;

/// How leaders combine a vector for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combining {
    /// Piece by piece, in the rounds of [`doubling`].
    Doubling,
    /// Each sends everything to all others and combines what it gets.
    Everywhere,
    /// Each combines a part of the vector, which all others send to it, and sends the result to all others. The parts are
    /// pieces; a longer vector goes in several turns.
    InTurns,
}

impl fmt::Display for Combining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Combining::Doubling => "recursive doubling",
            Combining::Everywhere => "each combines all",
            Combining::InTurns => "each combines a part",
        })
    }
}

/// How many empty messages take as long as the bytes of a piece. The tables of the guide have five for MPICH.
const EMPTY: usize = 5;

impl Combining {
    /// Chooses the way in which a leader is busy for the shortest time.
    ///
    /// A leader and its relay are busy for each message, even an empty one, and for each byte. With P leaders and a vector of
    /// n bytes, a leader sends:
    ///
    /// | way | messages | bytes | messages that wait for each other |
    /// |---|---|---|---|
    /// | doubling | r for each piece | rn | r = log₂ P; two more if P is no power of two |
    /// | everywhere, if n is a piece or less | P − 1 | (P − 1)n | 1 |
    /// | in turns | 2(P − 1) for each P pieces | 2n(P − 1)/P | 2 |
    ///
    /// Of two ways that take as long, it chooses the one in which fewer messages wait for each other. So short vectors go by
    /// doubling, except among 3 and 5 leaders: doubling has at least as many rounds as a leader has others to send to. Long
    /// vectors go in turns: from 65 KiB on among 4 leaders, 82 KiB among 8, 305 KiB among 64. Two leaders exchange
    /// everything.
    pub fn of(leaders: usize, bytes: usize) -> Combining {
        let (rounds, others) = (doubling(leaders).count(), leaders.saturating_sub(1));
        let pieces = bytes.div_ceil(PIECE);
        let busy = |messages: usize, bytes: usize| messages * PIECE + EMPTY * bytes;
        let part = bytes.div_ceil(leaders.max(1));
        let ways = [
            (Combining::Doubling, rounds * busy(pieces, bytes), rounds),
            (Combining::Everywhere, others * busy(pieces, bytes), 1),
            (Combining::InTurns, 2 * others * busy(part.div_ceil(PIECE), part), 2),
        ];
        let possible =
            ways.into_iter().filter(|&(way, ..)| way != Combining::Everywhere || pieces <= 1);
        let best = possible.min_by_key(|&(_, busy, waits)| (busy, waits));
        best.map_or(Combining::Doubling, |(way, ..)| way)
    }
}

/// How a vector is cut that goes [in turns](Combining::InTurns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The number of elements in a part. The last part may have fewer. There are as many parts for each leader, if there are
    /// enough elements.
    pub length: usize,
    /// How many neighbouring parts the ranks of a node reduce, or broadcast, in one operation.
    pub together: usize,
}

impl Parts {
    /// Cuts a vector for this many leaders. It has `elements` elements of `bytes` bytes each. A part is at most as long as a
    /// [`PIECE`], or has one longer element.
    pub fn of(leaders: usize, elements: usize, bytes: usize) -> Parts {
        let leaders = leaders.max(1);
        let pieces = elements.div_ceil((PIECE / bytes.max(1)).max(1)).max(1);
        let length = elements.div_ceil(pieces.next_multiple_of(leaders)).max(1);
        let together = PIECE / length.saturating_mul(bytes).max(1);
        Parts { length, together: together.clamp(1, leaders) }
    }
}

/// Returns the leaders in the order in which one of them sends to them in turns: those after it, those before it, and
/// itself. So each gets something from one other at a time. What all others send comes in the reverse order.
pub fn around(leader: usize, leaders: usize) -> impl DoubleEndedIterator<Item = usize> {
    runs(leader, leaders, leaders).flatten()
}

/// Returns the leaders in the order of [`around`], in runs of at most `most` neighbours. The parts of neighbours lie one after
/// the other in the vector. So the ranks of a node reduce the parts of a run in one operation, and broadcast them in one.
pub fn runs(
    leader: usize,
    leaders: usize,
    most: usize,
) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let cut = move |all: Range<usize>| {
        all.clone().step_by(most).map(move |first| first..all.end.min(first + most))
    };
    cut(leader + 1..leaders).chain(cut(0..leader + 1))
}

/// A round, in which each leader sends what it has to at most one other, and receives from at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    /// In the first pairs of leaders, the second one gives what it has to the first one, which has a place in what
    /// follows. Leaders outside of these pairs have places, too.
    Fold {
        /// The number of pairs.
        pairs: usize,
    },
    /// The leaders of places at a distance exchange what they have.
    Exchange {
        /// The number of pairs.
        pairs: usize,
        /// The distance.
        far: usize,
    },
    /// In the first pairs, the first leader gives the result to the second one.
    Unfold {
        /// The number of pairs.
        pairs: usize,
    },
    /// Of each two neighbouring groups of this many leaders, one gives what it has to the other one. In the group of
    /// the root, the root has it, and in any other group the first leader.
    ToRoot {
        /// The number of leaders in a group. There may be fewer in the last one.
        far: usize,
        /// The root.
        root: usize,
        /// The number of all leaders.
        leaders: usize,
    },
}

impl Round {
    /// Returns the leader to which this one sends.
    pub fn to(self, leader: usize) -> Option<usize> {
        match self {
            Round::Fold { pairs } => (leader / 2 < pairs && leader % 2 == 1).then(|| leader - 1),
            Round::Unfold { pairs } => {
                (leader / 2 < pairs && leader.is_multiple_of(2)).then(|| leader + 1)
            }
            Round::Exchange { pairs, far } => {
                let place = match leader / 2 < pairs {
                    true if leader % 2 == 1 => return None,
                    true => leader / 2,
                    false => leader - pairs,
                };
                let other = place ^ far;
                Some(if other < pairs { 2 * other } else { other + pairs })
            }
            Round::ToRoot { far, root, .. } => {
                let to = holder(leader, 2 * far, root);
                (holder(leader, far, root) == leader && to != leader).then_some(to)
            }
        }
    }

    /// Returns the leader from which this one receives.
    pub fn from(self, leader: usize) -> Option<usize> {
        match self {
            Round::Fold { pairs } => Round::Unfold { pairs }.to(leader),
            Round::Unfold { pairs } => Round::Fold { pairs }.to(leader),
            Round::Exchange { .. } => self.to(leader),
            Round::ToRoot { far, root, leaders } => {
                let other = ((leader / far) ^ 1) * far;
                let gets = holder(leader, 2 * far, root) == leader && other < leaders;
                gets.then(|| holder(other, far, root))
            }
        }
    }

    /// Returns whether leaders combine what they receive with what they have. Otherwise it is the result.
    pub fn combines(self) -> bool {
        !matches!(self, Round::Unfold { .. })
    }
}

/// Returns which leader has what the group of a leader has combined.
fn holder(leader: usize, group: usize, root: usize) -> usize {
    if leader / group == root / group { root } else { leader / group * group }
}

/// Returns the rounds in which all leaders get the combination of what all have.
pub fn doubling(leaders: usize) -> impl Iterator<Item = Round> + Clone {
    let places = 1 << leaders.max(1).ilog2();
    let pairs = leaders.saturating_sub(places);
    let around = (pairs > 0).then_some((Round::Fold { pairs }, Round::Unfold { pairs }));
    let (fold, unfold) = around.unzip();
    let exchanges = distances(places).map(move |far| Round::Exchange { pairs, far });
    fold.into_iter().chain(exchanges).chain(unfold)
}

/// Returns the rounds in which the root gets the combination of what all have.
pub fn to_root(leaders: usize, root: usize) -> impl Iterator<Item = Round> + Clone {
    distances(leaders).map(move |far| Round::ToRoot { far, root, leaders })
}

/// Returns 1, 2, 4 and so on, below the number of ranks.
pub fn distances(ranks: usize) -> impl Iterator<Item = usize> + Clone {
    (0..usize::BITS).map(|bit| 1 << bit).take_while(move |&far| far < ranks)
}

/// Returns the place above another one in the tree along which leaders broadcast. The root is at place 0, and the leaders
/// after it follow.
pub fn above(place: usize) -> Option<usize> {
    Some(place.checked_sub(1)? / 2)
}

/// Returns the places below another one.
pub fn below(place: usize, leaders: usize) -> impl Iterator<Item = usize> {
    [2 * place + 1, 2 * place + 2].into_iter().filter(move |&child| child < leaders)
}
