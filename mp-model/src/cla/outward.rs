//! Trees along which a message goes from a root to all: within groups of ranks that are near each other, and
//! between these groups.
//!
//! The first rank of each group is its *head*, except in the root's group, whose head is the root. Heads form a tree,
//! and so do the ranks of each group below their head. A head serves other heads before its own group, because they are
//! farther away and have more ranks below them.
//!
//! A [`Fan`] determines how many children a rank has. That of the postal model is the tree of
//! [`in_order`](crate::in_order) in reverse: if a rank serves its children one after the other, and has served λ of
//! them before the first one can serve others, it is fastest if the first one has the most ranks below it.
//!
//! ```
//! use mp_model::cla::Placement;
//! use mp_model::cla::outward::{Fan, Outward};
//!
//! let sockets = Placement::packed(6, &[3, 3])?;
//! let places = Outward::new(&sockets, Fan::Degree(1), Fan::Lambda(2)).places(4).ok_or("no such root")?;
//! // The head of the other group, then its own.
//! assert_eq!(places[4].children, [0, 3, 5]);
//! assert_eq!((places[0].parent, &places[0].children[..]), (Some(4), &[2, 1][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::machine::Placement;
use super::tree::{Tree, TreeError};
use crate::in_order::Shape;

/// The number of children that a rank has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fan {
    /// This many, level by level; 0 counts as 1.
    Degree(usize),
    /// As in the postal model with this λ: from 1, the binomial tree, to P − 1, the flat one; 0 counts as 1.
    Lambda(usize),
}

/// Groups of ranks, and the fans of the trees between and within them: the tree of each root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outward {
    ranks: usize,
    groups: Vec<Vec<usize>>,
    between: Fan,
    within: Fan,
}

/// A rank's place in the tree of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The rank from which it has the message; `None` for the root.
    pub parent: Option<usize>,
    /// The ranks that it serves, in this order.
    pub children: Vec<usize>,
}

impl Fan {
    /// Returns the children of each of `count` positions, of which the first is the root.
    fn children(self, count: usize) -> Vec<Vec<usize>> {
        match self {
            Fan::Degree(degree) => {
                let degree = degree.max(1);
                let first = |position: usize| position.saturating_mul(degree).saturating_add(1);
                let of = |position| first(position).min(count)..first(position + 1).min(count);
                (0..count).map(|position| of(position).collect()).collect()
            }
            // The child that is taken last stands for the most ranks.
            Fan::Lambda(lambda) => {
                let places = Shape::new(count, lambda).places(0).unwrap_or_default();
                let children = places.into_iter().map(|place| place.children.into_iter().rev());
                children.map(|children| children.map(|child| child.rank).collect()).collect()
            }
        }
    }
}

impl Outward {
    /// Creates the trees for the groups of this placement. With one group, `between` is not used.
    pub fn new(placement: &Placement, between: Fan, within: Fan) -> Outward {
        Outward { ranks: placement.ranks(), groups: placement.groups(), between, within }
    }

    /// Returns P, the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the places of all ranks under this root, or `None` if there is no such root.
    pub fn places(&self, root: usize) -> Option<Vec<Place>> {
        let own = self.groups.iter().position(|group| group.contains(&root))?;
        let mut places = vec![Place::default(); self.ranks];
        let mut groups = self.groups.clone();
        // Groups are counted from that of the root, and ranks from the root.
        groups.rotate_left(own);
        let at = groups[0].iter().position(|&rank| rank == root)?;
        groups[0].rotate_left(at);
        let heads: Vec<usize> = groups.iter().map(|group| group[0]).collect();
        join(&mut places, &heads, self.between);
        groups.iter().for_each(|group| join(&mut places, group, self.within));
        Some(places)
    }

    /// Returns the same as a tree whose ranks serve one child after the other.
    ///
    /// # Errors
    /// [`TreeError::Root`].
    pub fn tree(&self, root: usize) -> Result<Tree, TreeError> {
        let none = TreeError::Root { root, ranks: self.ranks };
        let places = self.places(root).ok_or(none)?;
        let waves = |place: Place| place.children.into_iter().map(|child| vec![child]).collect();
        Tree::new(root, places.into_iter().map(waves).collect())
    }
}

/// Puts ranks below the first of them.
fn join(places: &mut [Place], ranks: &[usize], fan: Fan) {
    for (&parent, children) in ranks.iter().zip(fan.children(ranks.len())) {
        for child in children.into_iter().map(|position| ranks[position]) {
            places[child].parent = Some(parent);
            places[parent].children.push(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tree;

    fn any_fan() -> impl Strategy<Value = Fan> {
        (any::<bool>(), 0_usize..70).prop_map(|(degree, number)| match degree {
            true => Fan::Degree(number),
            false => Fan::Lambda(number),
        })
    }

    #[test]
    fn with_a_degree_and_one_group_it_is_the_tree_of_the_thesis() {
        for (ranks, degree) in [(1, 1), (2, 1), (8, 7), (9, 2), (48, 7), (48, 47)] {
            let one = Placement::one_group(ranks).unwrap();
            let outward = Outward::new(&one, Fan::Degree(3), Fan::Degree(degree));
            for root in [0, ranks / 2, ranks - 1] {
                let thesis = tree::Shape::new(ranks, degree).unwrap().rooted(root).unwrap();
                for (rank, place) in outward.places(root).unwrap().into_iter().enumerate() {
                    let node = thesis.node(rank).unwrap();
                    assert_eq!(place.parent, node.parent());
                    assert_eq!(place.children, node.children().collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn with_lambda_and_one_group_it_is_the_postal_tree() {
        let one = Placement::one_group(8).unwrap();
        let places = Outward::new(&one, Fan::Degree(1), Fan::Lambda(1)).places(2).unwrap();
        assert_eq!(places[2].children, [6, 4, 3]);
        assert_eq!(places[6].children, [0, 7]);
        let most = Outward::new(&one, Fan::Degree(1), Fan::Degree(usize::MAX)).places(0).unwrap();
        assert_eq!(most[0].children.len(), 7);
    }

    #[test]
    fn each_group_is_reached_once_from_outside() {
        let placement = Placement::new(vec![5, 1, 5, 1, 9, 1]).unwrap();
        let outward = Outward::new(&placement, Fan::Lambda(9), Fan::Degree(1));
        let places = outward.places(3).unwrap();
        // 1, 3, 5 come first, and of those 3.
        assert_eq!(places[3].children, [4, 0, 5]);
        assert_eq!((&places[5].children[..], &places[0].children[..]), (&[1][..], &[2][..]));
        assert_eq!(outward.places(6), None);
        assert_eq!(outward.tree(6), Err(TreeError::Root { root: 6, ranks: 6 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn everyone_is_reached_once(
            groups in proptest::collection::vec(0_usize..9, 1..70),
            between in any_fan(),
            within in any_fan(),
            root in any::<prop::sample::Index>(),
        ) {
            let (ranks, root) = (groups.len(), root.index(groups.len()));
            let placement = Placement::new(groups).unwrap();
            let outward = Outward::new(&placement, between, within);
            let (places, tree) = (outward.places(root).unwrap(), outward.tree(root));
            // A tree has checked that all are reached.
            let tree = tree.unwrap();
            let mut crossed = 0;
            for (rank, place) in places.iter().enumerate() {
                prop_assert_eq!(place.parent, tree.parent(rank));
                prop_assert_eq!(&place.children, &tree.children(rank).collect::<Vec<_>>());
                crossed += place.children.iter().filter(|&&c| !placement.near(rank, c)).count();
            }
            prop_assert_eq!((outward.ranks(), crossed), (ranks, placement.groups().len() - 1));
        }
    }
}
