//! The trees along which broadcasts go: chosen by the cache-line-aware model, and the same at all ranks.
//!
//! The costs of a machine are known from a calibration, which each rank may or may not have. Therefore one rank decides
//! for all ranks, from its own calibration, and announces the decision in this word:
//!
//! ```text
//! bits 0–23    for lines: what groups ranks (2 bits), λ between and λ within the groups (11 bits each)
//! bits 24–47   for chunks: the same, with degrees
//! bit 48       whether the parameters were measured
//! bit 63       whether anything was found at all
//! ```

use std::fmt;

use mp_model::Time;
use mp_model::cla::outward::{Fan, Outward};
use mp_model::cla::search::{Load, OutwardChoice, best_outward};
use mp_model::cla::{self, Parameters};

use crate::choice::{Machine, Origin, Reason, best_of};
use crate::near::{Near, Places};

/// The number of lines in a chunk, unless the settings say otherwise.
pub(crate) const CHUNK_LINES: usize = 1024;

/// The shape of a tree, independent of the root and of the number of ranks. With a degree or λ that is larger than the
/// number of other ranks, all of them are children of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// How ranks are grouped.
    pub near: Near,
    /// The number of children that the first rank of a group has in other groups.
    pub between: Fan,
    /// The number of children that a rank has in its own group.
    pub within: Fan,
}

/// The trees of broadcasts. All ranks must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trees {
    /// The tree for messages in lines.
    pub lines: Shape,
    /// The tree for messages in chunks.
    pub chunks: Shape,
    /// The reason for these trees.
    pub why: Reason,
}

/// The number of children of a rank that get chunks from its buffer. The thesis finds that every number from this one
/// to that of the flat tree is within a few percent of the best (figure 3.3). Up to about this number, readers of one
/// line do not hinder each other. The model knows about that only from a calibration that measures short lines.
const MOST_READERS: usize = 7;

/// The number of bits of a number.
const NUMBER: u32 = 11;

impl Shape {
    /// Returns a tree of one group in which a rank has this many children, at least 1.
    pub const fn of_degree(degree: usize) -> Shape {
        Shape { near: Near::All, between: Fan::Degree(1), within: Fan::Degree(degree) }
    }

    /// Returns whether a rank may have children in this tree. If it may not, the message can't leave the root.
    pub(super) fn reaches_all(self) -> bool {
        let may_have_children = |fan| !matches!(fan, Fan::Degree(0) | Fan::Lambda(0));
        may_have_children(self.between) && may_have_children(self.within)
    }

    /// Returns the tree for each root, if these are the places of the ranks.
    pub fn outward(self, places: &Places) -> Outward {
        Outward::new(&places.groups(self.near), self.between, self.within)
    }

    fn word(self) -> u64 {
        let number = |fan| match fan {
            Fan::Degree(number) | Fan::Lambda(number) => (number as u64).min((1 << NUMBER) - 1),
        };
        self.near.bits() | number(self.between) << 2 | number(self.within) << (2 + NUMBER)
    }

    fn read(word: u64, fan: fn(usize) -> Fan) -> Shape {
        let number = |bit: u32| fan((word >> bit & ((1 << NUMBER) - 1)) as usize);
        Shape { near: Near::read(word), between: number(2), within: number(2 + NUMBER) }
    }
}

impl Trees {
    /// Returns the same tree for lines and for chunks.
    pub const fn both(shape: Shape, why: Reason) -> Trees {
        Trees { lines: shape, chunks: shape, why }
    }

    /// Returns the trees that the model finds best for ranks at these places, with flags that are in caches and this
    /// many lines in a chunk. `parameters` are those of the machine, if they are known.
    pub fn best(
        machine: Machine,
        places: &Places,
        chunk_lines: usize,
        parameters: Option<Parameters>,
    ) -> Trees {
        if !machine.suits_trees() {
            let why =
                if machine.crowded() && machine.ranks > 3 { Reason::Crowded } else { Reason::Few };
            return Trees::both(Shape::of_degree(machine.ranks.saturating_sub(1).max(1)), why);
        }
        let (origin, parameters) = Origin::of(parameters);
        let model = cla::Machine { parameters, placement: places.finest() };
        // Groups are preferred to a tree over all ranks if they are at most a tenth slower. The model's minimum ignores
        // that lines that cross between groups at the same time hinder each other, and trees by groups have the fewest
        // such lines.
        let is_far = parameters.far.transfer > parameters.near.transfer;
        let best = |load, most| {
            let shape = |near| {
                let choice = best_outward(&model, &places.groups(near), load, most);
                let OutwardChoice { between, within, predicted } = choice;
                (predicted, Shape { near, between, within })
            };
            let levels = places.levels().take(if is_far { usize::MAX } else { 1 });
            let is_better = |next: Time, best: Time| 10 * next <= 11 * best;
            best_of(levels, shape, is_better).unwrap_or(Shape::of_degree(1))
        };
        // With two chunks, one arrives while the other one is copied.
        let load = Load::Chunks { lines: chunk_lines as u64, chunks: 2 };
        Trees {
            lines: best(Load::Line, usize::MAX),
            chunks: best(load, MOST_READERS),
            why: Reason::Modelled(origin),
        }
    }

    /// Returns the word for these trees, or 0 if the model does not decide.
    pub(super) fn word(self) -> u64 {
        let Reason::Modelled(origin) = self.why else { return 0 };
        self.lines.word() | self.chunks.word() << 24 | origin.bit() << 48 | 1 << 63
    }

    /// Returns the trees that a word stands for, if any. The trees of any word are valid.
    pub(super) fn read(word: u64) -> Option<Trees> {
        (word >> 63 == 1).then(|| Trees {
            lines: Shape::read(word, Fan::Lambda),
            chunks: Shape::read(word >> 24, Fan::Degree),
            why: Reason::Modelled(Origin::read(word >> 48)),
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fan = |fan| match fan {
            Fan::Degree(degree) => format!("degree {degree}"),
            Fan::Lambda(lambda) => format!("λ = {lambda}"),
        };
        match self.near {
            Near::All => write!(f, "tree of {}", fan(self.within)),
            near => {
                let (between, within) = (fan(self.between), fan(self.within));
                write!(f, "tree of {within} for {near}, and of {between} between these groups")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mp_core::topology::Seat;
    use mp_model::cla::search::outward_time;
    use proptest::prelude::*;

    use super::*;

    fn packages(packages: usize, each: usize) -> Places {
        let seat = |rank: usize| Some(Seat { cache: rank / each, package: rank / each });
        Places::of_seats(&(0..packages * each).map(seat).collect::<Vec<_>>())
    }

    fn best(places: &Places, cores: usize, parameters: Option<Parameters>) -> Trees {
        let machine = Machine { ranks: places.ranks(), cores, payload: 56 };
        Trees::best(machine, places, 1024, parameters)
    }

    #[test]
    fn trees_are_flat_for_few_ranks_and_where_ranks_share_cores() {
        let flat = |ranks, cores| best(&Places::unknown(ranks), cores, None);
        for (ranks, cores, degree) in [(0, 1, 1), (1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 2, 2)] {
            assert_eq!(flat(ranks, cores), Trees::both(Shape::of_degree(degree), Reason::Few));
        }
        for (ranks, cores) in [(9, 8), (48, 2), (48, 47)] {
            let shape = Shape::of_degree(ranks - 1);
            assert_eq!(flat(ranks, cores), Trees::both(shape, Reason::Crowded));
        }
        assert_eq!(flat(48, 47).word(), 0);
    }

    /// Returns the nanoseconds predicted for a line along these trees, as in the table of `mp-model`. The tests there
    /// check what other trees take, and what all of them take in virtual time.
    fn predicted(trees: Trees, places: &Places) -> u64 {
        let parameters = Parameters::SANDY_BRIDGE.with_cached_flags();
        let model = cla::Machine { parameters, placement: places.finest() };
        outward_time(&model, &trees.lines.outward(places), 0, Load::Line).as_nanos() as u64
    }

    #[test]
    fn trees_follow_the_machine() {
        let lambda = Fan::Lambda;
        let one = best(&Places::unknown(48), 48, None);
        assert_eq!(one.lines, Shape { near: Near::All, between: lambda(1), within: lambda(2) });
        assert_eq!((one.chunks.near, one.chunks.within), (Near::All, Fan::Degree(7)));
        let phi = best(&Places::unknown(48), 48, Some(Parameters::XEON_PHI));
        assert_eq!((phi.lines.within, phi.why), (lambda(2), Reason::Modelled(Origin::Measured)));
        assert_eq!(predicted(one, &Places::unknown(48)), 333);
        for (count, each, nanos) in [(4, 4, 352), (2, 8, 317), (2, 64, 502), (8, 16, 558)] {
            let places = packages(count, each);
            let trees = best(&places, count * each, None);
            assert_eq!((trees.lines.near, predicted(trees, &places)), (Near::Caches, nanos));
            assert_eq!(trees.chunks.near, Near::Caches, "{count} of {each}");
            assert_eq!(trees.why, Reason::Modelled(Origin::Paper));
        }
        // If a package has several caches, ranks are far from each other if they have different caches.
        let seat = |rank: usize| Some(Seat { cache: rank / 4, package: rank / 8 });
        let places = Places::of_seats(&(0..16).map(seat).collect::<Vec<_>>());
        assert_ne!(best(&places, 16, None).lines.near, Near::All);
        // If all ranks are equally far from each other, groups are of no use.
        let near = Parameters::SANDY_BRIDGE.near;
        let even = Parameters { far: near, ..Parameters::SANDY_BRIDGE };
        let trees = best(&packages(2, 8), 16, Some(even));
        assert_eq!([trees.lines.near, trees.chunks.near], [Near::All; 2]);
    }

    #[test]
    fn what_is_read_is_what_was_found() {
        for places in [Places::unknown(4), Places::unknown(1000), packages(2, 64), packages(16, 64)]
        {
            for parameters in [None, Some(Parameters::XEON_PHI)] {
                let trees = best(&places, places.ranks(), parameters);
                assert_eq!(Trees::read(trees.word()), Some(trees));
            }
        }
        assert_eq!(Trees::read(0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_word_is_a_tree(word in any::<u64>(), ranks in 1_usize..40, root in 0_usize..40) {
            let trees = Trees::read(word | 1 << 63).unwrap();
            prop_assert_eq!(Trees::read(trees.word()), Some(trees));
            for shape in [trees.lines, trees.chunks] {
                let outward = shape.outward(&packages(ranks.div_ceil(3), 3));
                let root = root % outward.ranks();
                prop_assert!(outward.tree(root).is_ok());
            }
        }
    }
}
