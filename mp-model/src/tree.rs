//! Trees along which ranks pass on data (thesis, section 3.1.1 and figure 3.1).
//!
//! **Data**: a k-ary tree filled level by level. With root s, the rank at position i is (s + i) mod P, and its children
//! are at positions ik + 1 to (i + 1)k, as far as there are ranks.
//!
//! **Notification**: a parent and its children form a separate binary tree, also filled level by level. The parent
//! tells its first two children that data is there, and child j tells children 2j + 1 and 2j + 2 (counted from 1). So a
//! rank may be in two such trees, its parent's and its own.

use thiserror::Error;

/// A number of ranks and a degree that fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    ranks: usize,
    degree: usize,
}

/// Why there is no such tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// A tree needs a rank.
    #[error("a tree can't have 0 ranks: name at least one")]
    NoRanks,
    /// The degree is not within 1..P, or not 1 where there is one rank.
    #[error(
        "a tree of {ranks} ranks can't have degree {degree}: it must be at least 1 and less than the number of ranks"
    )]
    Degree {
        /// The requested degree.
        degree: usize,
        /// The number of ranks, P.
        ranks: usize,
    },
    /// A rank that is not there.
    #[error("there is no rank {rank}: there are {ranks}, numbered from 0")]
    NoSuchRank {
        /// The requested rank.
        rank: usize,
        /// The number of ranks, P.
        ranks: usize,
    },
}

impl Shape {
    /// Creates the shape of trees of `ranks` ranks, each with up to `degree` children.
    ///
    /// # Errors
    /// [`TreeError::NoRanks`]; [`TreeError::Degree`] unless 1 ≤ `degree` < `ranks` (a single rank has degree 1).
    pub fn new(ranks: usize, degree: usize) -> Result<Shape, TreeError> {
        match ranks {
            0 => Err(TreeError::NoRanks),
            _ if degree == 0 || degree > (ranks - 1).max(1) => {
                Err(TreeError::Degree { degree, ranks })
            }
            _ => Ok(Shape { ranks, degree }),
        }
    }

    /// Returns P, the number of ranks.
    pub fn ranks(self) -> usize {
        self.ranks
    }

    /// Returns k, the most children that a rank has.
    pub fn degree(self) -> usize {
        self.degree
    }

    /// Returns D of formulas 4.17 and 4.18: the number of levels of the data tree, including the root's.
    pub fn levels(self) -> usize {
        let (mut levels, mut covered, mut level) = (1, 1, 1_usize);
        while covered < self.ranks {
            level = level.saturating_mul(self.degree);
            covered = level.saturating_add(covered);
            levels += 1;
        }
        levels
    }

    /// Returns the tree with this root.
    ///
    /// # Errors
    /// [`TreeError::NoSuchRank`].
    pub fn rooted(self, root: usize) -> Result<Tree, TreeError> {
        self.check(root)?;
        Ok(Tree { shape: self, root })
    }

    fn check(self, rank: usize) -> Result<(), TreeError> {
        if rank < self.ranks {
            Ok(())
        } else {
            Err(TreeError::NoSuchRank { rank, ranks: self.ranks })
        }
    }
}

/// A data tree with its root, and the notification trees in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    shape: Shape,
    root: usize,
}

impl Tree {
    /// Returns its number of ranks and degree.
    pub fn shape(self) -> Shape {
        self.shape
    }

    /// Returns its root.
    pub fn root(self) -> usize {
        self.root
    }

    /// Returns one rank's place.
    ///
    /// # Errors
    /// [`TreeError::NoSuchRank`].
    pub fn node(self, rank: usize) -> Result<Node, TreeError> {
        self.shape.check(rank)?;
        let Shape { ranks, .. } = self.shape;
        // This is not (rank + ranks − root), which may be more than a usize holds.
        let position =
            if rank >= self.root { rank - self.root } else { rank + (ranks - self.root) };
        Ok(Node { tree: self, position })
    }

    fn rank_at(self, position: usize) -> usize {
        let to_the_end = self.shape.ranks - self.root;
        if position < to_the_end { self.root + position } else { position - to_the_end }
    }
}

/// A rank's place in a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    tree: Tree,
    position: usize,
}

impl Node {
    /// Returns the rank at this place.
    pub fn rank(self) -> usize {
        self.tree.rank_at(self.position)
    }

    /// Returns whether this is the root.
    pub fn is_root(self) -> bool {
        self.position == 0
    }

    /// Returns whether it has no children.
    pub fn is_leaf(self) -> bool {
        self.degree() == 0
    }

    /// Returns the number of its children.
    pub fn degree(self) -> usize {
        let Shape { ranks, degree } = self.tree.shape;
        self.first_child().map_or(0, |first| degree.min(ranks - first))
    }

    /// Returns the number of levels above it: 0 for the root.
    pub fn level(self) -> usize {
        let mut node = self;
        let mut level = 0;
        while let Some((parent, _)) = node.above() {
            node = parent;
            level += 1;
        }
        level
    }

    /// Returns the rank whose buffer it gets data from, or `None` for the root.
    pub fn parent(self) -> Option<usize> {
        self.above().map(|(parent, _)| parent.rank())
    }

    /// Returns its index among its parent's children, from 0, or `None` for the root.
    pub fn child_index(self) -> Option<usize> {
        self.above().map(|(_, index)| index)
    }

    /// Returns the ranks that get data from its buffer, in order of [`Node::child_index`].
    pub fn children(self) -> impl ExactSizeIterator<Item = usize> + Clone {
        (0..self.degree()).map(move |index| self.child(index))
    }

    /// Returns the rank that tells it that data is there, or `None` for the root.
    pub fn notifier(self) -> Option<usize> {
        let (parent, index) = self.above()?;
        Some(match index {
            0 | 1 => parent.rank(),
            _ => parent.child(index / 2 - 1),
        })
    }

    /// Returns the siblings that it tells that data is in their common parent's buffer: notifyChildren \ dataChildren
    /// in algorithm 1.
    pub fn notified_siblings(self) -> impl Iterator<Item = usize> + Clone {
        self.above().into_iter().flat_map(|(parent, index)| {
            let below = [index * 2 + 2, index * 2 + 3].into_iter();
            below
                .filter(move |&index| index < parent.degree())
                .map(move |index| parent.child(index))
        })
    }

    /// Returns the children that it tells that data is in its own buffer: notifyChildren ∩ dataChildren in algorithm 1.
    pub fn notified_children(self) -> impl ExactSizeIterator<Item = usize> + Clone {
        self.children().take(2)
    }

    fn above(self) -> Option<(Node, usize)> {
        let before = self.position.checked_sub(1)?;
        let degree = self.tree.shape.degree;
        Some((Node { tree: self.tree, position: before / degree }, before % degree))
    }

    fn first_child(self) -> Option<usize> {
        let Shape { ranks, degree } = self.tree.shape;
        let first = self.position.checked_mul(degree)?.checked_add(1)?;
        (first < ranks).then_some(first)
    }

    fn child(self, index: usize) -> usize {
        self.tree.rank_at(self.position * self.tree.shape.degree + 1 + index)
    }
}

/// Returns the sibling that tells the child of this index that data is in the parent's buffer, or `None` if the parent
/// does.
pub fn told_by(siblings: &[usize], index: usize) -> Option<usize> {
    siblings.get((index / 2).checked_sub(1)?).copied()
}

/// Returns the siblings that a rank tells of data in their common parent's buffer; none if it is not one of them.
pub fn told_siblings(siblings: &[usize], rank: usize) -> impl Iterator<Item = usize> {
    let index = siblings.iter().position(|&sibling| sibling == rank).unwrap_or(siblings.len());
    let first = siblings.len().min(2 * index + 2);
    siblings[first..siblings.len().min(first + 2)].iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(ranks: usize, degree: usize, root: usize, rank: usize) -> Node {
        Shape::new(ranks, degree).unwrap().rooted(root).unwrap().node(rank).unwrap()
    }

    #[test]
    fn figure_3_1() {
        let c1 = node(12, 7, 0, 1);
        assert_eq!(c1.parent(), Some(0));
        assert_eq!(c1.children().collect::<Vec<_>>(), [8, 9, 10, 11]);
        assert_eq!(c1.notified_siblings().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(c1.notified_children().collect::<Vec<_>>(), [8, 9]);
        let c0 = node(12, 7, 0, 0);
        assert_eq!(c0.children().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(c0.notified_children().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(c0.notified_siblings().count(), 0);
        assert_eq!((c0.parent(), c0.notifier(), c0.child_index()), (None, None, None));
        assert_eq!(node(12, 7, 0, 7).notifier(), Some(3));
        assert_eq!(node(12, 7, 0, 10).notifier(), Some(8));
        // The same tree turned: root 10.
        let turned = node(12, 7, 10, 11);
        assert_eq!(turned.children().collect::<Vec<_>>(), [6, 7, 8, 9]);
        assert_eq!(turned.notified_siblings().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn depths_by_hand() {
        // Section 3.3.1: k = 7 is the least degree with which 48 cores have a depth of two.
        for (ranks, degree, levels) in [
            (1, 1, 1),
            (2, 1, 2),
            (48, 1, 48),
            (48, 2, 6),
            (48, 6, 4),
            (48, 7, 3),
            (48, 46, 3),
            (48, 47, 2),
            (usize::MAX, usize::MAX - 1, 2),
            (usize::MAX, 2, 64),
        ] {
            assert_eq!(Shape::new(ranks, degree).unwrap().levels(), levels, "{ranks}, {degree}");
        }
    }

    #[test]
    fn misfits_are_errors() {
        assert_eq!(Shape::new(0, 1), Err(TreeError::NoRanks));
        for (ranks, degree) in [(1, 0), (1, 2), (5, 0), (5, 5), (2, usize::MAX)] {
            assert_eq!(Shape::new(ranks, degree), Err(TreeError::Degree { degree, ranks }));
        }
        let shape = Shape::new(5, 4).unwrap();
        let missing = TreeError::NoSuchRank { rank: 5, ranks: 5 };
        assert_eq!(shape.rooted(5), Err(missing));
        assert_eq!(shape.rooted(4).unwrap().node(5), Err(missing));
    }

    fn any_tree() -> impl Strategy<Value = Tree> {
        (1_usize..200)
            .prop_flat_map(|ranks| (Just(ranks), 1..=(ranks - 1).max(1), 0..ranks))
            .prop_map(|(ranks, degree, root)| {
                Shape::new(ranks, degree).unwrap().rooted(root).unwrap()
            })
    }

    proptest! {
        #[test]
        fn data_reaches_everyone_from_the_parent_it_names(tree in any_tree()) {
            let ranks = tree.shape().ranks();
            let mut reached = vec![0; ranks];
            for rank in 0..ranks {
                let node = tree.node(rank).unwrap();
                prop_assert_eq!(node.rank(), rank);
                prop_assert!(node.degree() <= tree.shape().degree());
                prop_assert_eq!(node.is_leaf(), node.children().count() == 0);
                for (index, child) in node.children().enumerate() {
                    let child_node = tree.node(child).unwrap();
                    prop_assert_eq!(child_node.parent(), Some(rank));
                    prop_assert_eq!(child_node.child_index(), Some(index));
                    prop_assert_eq!(child_node.level(), node.level() + 1);
                    reached[child] += 1;
                }
                prop_assert!(node.level() < tree.shape().levels());
            }
            reached[tree.root()] += 1;
            prop_assert!(reached.iter().all(|&times| times == 1));
            let deepest = (0..ranks).map(|rank| tree.node(rank).unwrap().level()).max();
            prop_assert_eq!(deepest, Some(tree.shape().levels() - 1));
        }

        #[test]
        fn everyone_is_told_once_by_one_who_knows(tree in any_tree()) {
            let ranks = tree.shape().ranks();
            let mut told = vec![0; ranks];
            for rank in 0..ranks {
                let node = tree.node(rank).unwrap();
                let siblings: Vec<_> = node.notified_siblings().collect();
                prop_assert!(siblings.len() <= 2 && node.notified_children().len() <= 2);
                if let Some(parent) = node.parent() {
                    let of: Vec<_> = tree.node(parent).unwrap().children().collect();
                    prop_assert_eq!(told_siblings(&of, rank).collect::<Vec<_>>(), siblings.clone());
                    let index = node.child_index().unwrap();
                    prop_assert_eq!(told_by(&of, index).or(Some(parent)), node.notifier());
                }
                for &other in &siblings {
                    // It knows of the same data: that of their common parent.
                    prop_assert_eq!(tree.node(other).unwrap().parent(), node.parent());
                }
                for other in siblings.into_iter().chain(node.notified_children()) {
                    prop_assert_eq!(tree.node(other).unwrap().notifier(), Some(rank));
                    told[other] += 1;
                }
            }
            told[tree.root()] += 1;
            prop_assert!(told.iter().all(|&times| times == 1));
        }

        #[test]
        fn no_notification_is_further_than_a_binary_tree_is_deep(tree in any_tree()) {
            for rank in 0..tree.shape().ranks() {
                let mut node = tree.node(rank).unwrap();
                let Some(parent) = node.parent() else { continue };
                let mut hops = 1;
                while node.notifier() != Some(parent) {
                    node = tree.node(node.notifier().unwrap()).unwrap();
                    hops += 1;
                }
                let group = tree.node(parent).unwrap().degree() + 1;
                prop_assert!(hops <= group.ilog2(), "{hops} in a group of {group}");
            }
        }
    }
}
