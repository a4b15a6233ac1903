//! The trees along which reductions to a root go: chosen by the cache-line-aware model, and the same at all ranks.
//!
//! The costs of a machine are known from a calibration, which each rank may or may not have. Therefore one rank decides
//! for all ranks, from its own calibration, and announces the decision in this word:
//!
//! ```text
//! bits 0–15    λ for lines; 0 where they go straight to the root
//! bits 16–31   λ for chunks, or 0
//! bits 32–37   the power of two up to which a vector goes in chunks
//! bit 38       whether the parameters were measured
//! ```

use mp_model::cla::schedule::By;
use mp_model::cla::search::{reduction_along, reduction_scattered};
use mp_model::cla::{self, Parameters, Placement, best_lambda};
use mp_model::in_order::Shape;

use super::choice::{SEGMENTS, block_lines, chunk_lines};
use crate::choice::{Machine, Origin};
use crate::rings::{self, LINE_BYTES};

/// The trees of reductions to a root, each given by its λ ([`in_order`](mp_model::in_order)). All ranks must have the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trees {
    /// The tree for vectors in lines; `None` if these go straight to the root.
    pub lines: Option<usize>,
    /// The tree for vectors in chunks.
    pub chunks: Option<usize>,
    /// The length in bytes of the longest vector for which the trees are better than having each rank combine a part.
    pub most: usize,
    /// The source of the model's parameters.
    pub origin: Origin,
}

/// The model compares both ways for vectors whose lengths are these powers of two.
const LENGTHS: std::ops::RangeInclusive<u32> = 8..=20;

impl Trees {
    /// No trees: everything goes straight to the root.
    pub const NONE: Trees = Trees { lines: None, chunks: None, most: 0, origin: Origin::Paper };

    /// Returns the trees that the model finds best for flags that are in caches. It uses the given parameters of the
    /// machine, if they are known, and the given number of lines in a chunk and a block, if it [is
    /// set](super::Settings::chunk_lines).
    pub fn best(
        machine: Machine,
        lines_said: Option<usize>,
        parameters: Option<Parameters>,
    ) -> Trees {
        let Ok(placement) = Placement::one_group(machine.ranks) else { return Trees::NONE };
        if !machine.suits_trees() {
            return Trees::NONE;
        }
        let (origin, parameters) = Origin::of(parameters);
        let model = cla::Machine { parameters, placement };
        let piece = |by_default: usize| lines_said.unwrap_or(by_default).max(1) as u64;
        let (piece, block) = (piece(chunk_lines(machine.ranks)), piece(block_lines(machine.ranks)));
        let by = |lines| By::Buffers { lines, piece, buffers: rings::FEWEST_BUFFERS as u64 };
        let by_blocks = |lines| By::Buffers { lines, piece: block, buffers: SEGMENTS as u64 };
        let better = |by| {
            let lambda = best_lambda(&model, by).lambda;
            (lambda + 1 < machine.ranks).then_some(lambda)
        };
        // With two chunks, one arrives while the other one is copied.
        let chunks = better(by(2 * piece));
        let most = chunks.map_or(0, |lambda| {
            let along = |lines| {
                let shape = Shape::new(machine.ranks, lambda);
                reduction_along(&model, shape, 0, by(lines))
            };
            let is_better = |&power: &u32| {
                let lines = (1_u64 << power) / LINE_BYTES as u64;
                along(lines) <= reduction_scattered(&model, 0, by_blocks(lines))
            };
            LENGTHS.take_while(is_better).last().map_or(0, |power| 1 << power)
        });
        Trees { lines: better(By::Lines { lines: 1 }), chunks, most, origin }
    }

    /// Returns the word for these trees.
    pub(super) fn word(self) -> u64 {
        let lambda = |lambda: Option<usize>| {
            lambda.and_then(|lambda| u16::try_from(lambda).ok()).map_or(0, u64::from)
        };
        let power = self.most.checked_ilog2().map_or(0, u64::from);
        lambda(self.lines) | lambda(self.chunks) << 16 | power << 32 | self.origin.bit() << 38
    }

    /// Returns the trees that a word stands for. Words that [`word`](Self::word) never returns also stand for some
    /// trees.
    pub(super) fn read(word: u64) -> Trees {
        let lambda = |bit: u32| Some((word >> bit & 0xffff) as usize).filter(|&lambda| lambda > 0);
        let power = (word >> 32 & 0x3f) as u32;
        let most = if power == 0 { 0 } else { 1_usize.checked_shl(power).unwrap_or(usize::MAX) };
        let origin = Origin::read(word >> 38);
        Trees { lines: lambda(0), chunks: lambda(16), most, origin }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn best(ranks: usize, cores: usize, parameters: Option<Parameters>) -> Trees {
        Trees::best(Machine { ranks, cores, payload: 56 }, None, parameters)
    }

    #[test]
    fn trees_are_for_many_ranks_with_a_core_each() {
        for (ranks, cores) in [(1, 1), (2, 2), (3, 3), (48, 47), (0, 1)] {
            assert_eq!(best(ranks, cores, None), Trees::NONE, "{ranks} on {cores}");
        }
        for parameters in [Parameters::SANDY_BRIDGE, Parameters::XEON_PHI] {
            for ranks in [16, 33, 48, 100] {
                let Trees { lines, chunks, most, origin } = best(ranks, ranks, Some(parameters));
                assert!(lines.is_some_and(|lambda| (1..8).contains(&lambda)), "{ranks}: {lines:?}");
                assert!(
                    chunks.is_some_and(|lambda| (1..8).contains(&lambda)),
                    "{ranks}: {chunks:?}"
                );
                assert!((4 << 10..1 << 20).contains(&most), "{ranks}: {most}");
                assert_eq!(origin, Origin::Measured);
            }
        }
        let paper = best(48, 48, Some(Parameters::SANDY_BRIDGE));
        assert_eq!(best(48, 48, None), Trees { origin: Origin::Paper, ..paper });
    }

    #[test]
    fn what_is_read_is_what_was_found() {
        for ranks in [1, 4, 7, 48, 300] {
            for parameters in [None, Some(Parameters::XEON_PHI)] {
                let trees = best(ranks, ranks, parameters);
                assert_eq!(Trees::read(trees.word()), trees, "{ranks}");
            }
        }
        assert_eq!(Trees::read(0), Trees::NONE);
        let large = Trees { lines: Some(1 << 16), ..Trees::NONE };
        assert_eq!(Trees::read(large.word()), Trees::NONE);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_word_is_read(word in any::<u64>()) {
            let trees = Trees::read(word);
            prop_assert!(trees.lines != Some(0) && trees.chunks != Some(0));
            prop_assert_eq!(Trees::read(trees.word()), trees);
        }
    }
}
