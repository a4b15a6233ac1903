//! Trees as data: which rank notifies which, over which line, and in which order.

use std::fmt;

use thiserror::Error;

use super::machine::Placement;
use crate::in_order::Place;

/// A tree of ranks.
///
/// A rank has its children in *waves*. All children of a wave read one line, which no other rank reads ("single-use
/// synchronization lines"). The waves are served in order. With several groups of cores there is a wave for each group
/// (section 4.1.1). On a machine with contention there may be several waves within a group (section 4.1.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    root: usize,
    nodes: Vec<Node>,
}

/// A rank's place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    parent: Option<usize>,
    waves: Vec<Vec<usize>>,
}

/// Why waves do not make a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// The root is not one of the ranks.
    #[error(
        "there is no rank {root} that could be the root of a tree: there are {ranks}, numbered from 0"
    )]
    Root {
        /// The root.
        root: usize,
        /// How many ranks there are.
        ranks: usize,
    },
    /// A child is no rank, or is the root, or has a parent already.
    #[error(
        "rank {parent} can't have rank {child} as a child: it does not exist, or has a parent already"
    )]
    Child {
        /// The parent.
        parent: usize,
        /// The child.
        child: usize,
    },
    /// A rank is not reached from the root.
    #[error(
        "rank {rank} is not reached from the root of the tree: make it a child of another rank"
    )]
    Lost {
        /// The rank.
        rank: usize,
    },
}

impl Tree {
    /// Creates a tree from each rank's waves.
    ///
    /// # Errors
    /// [`TreeError`], unless each rank is reached from the root, once.
    pub fn new(root: usize, waves: Vec<Vec<Vec<usize>>>) -> Result<Tree, TreeError> {
        let ranks = waves.len();
        if root >= ranks {
            return Err(TreeError::Root { root, ranks });
        }
        let mut parents = vec![None; ranks];
        for (parent, waves) in waves.iter().enumerate() {
            for &child in waves.iter().flatten() {
                if child >= ranks || child == root || parents[child].is_some() {
                    return Err(TreeError::Child { parent, child });
                }
                parents[child] = Some(parent);
            }
        }
        let filled = |waves: Vec<Vec<usize>>| waves.into_iter().filter(|wave| !wave.is_empty());
        let node = |(parent, waves)| Node { parent, waves: filled(waves).collect() };
        let tree = Tree { root, nodes: parents.into_iter().zip(waves).map(node).collect() };
        let mut reached = vec![false; ranks];
        tree.preorder().into_iter().for_each(|rank| reached[rank] = true);
        match reached.iter().position(|reached| !reached) {
            Some(rank) => Err(TreeError::Lost { rank }),
            None => Ok(tree),
        }
    }

    /// Creates a tree from each rank's parent: a wave for each group of a rank's children, far ones first.
    ///
    /// # Errors
    /// [`TreeError`].
    pub fn from_parents(
        root: usize,
        parents: &[Option<usize>],
        placement: &Placement,
    ) -> Result<Tree, TreeError> {
        let mut children = vec![Vec::new(); parents.len()];
        for (child, &parent) in parents.iter().enumerate() {
            match parent {
                Some(parent) if parent < parents.len() => children[parent].push(child),
                Some(parent) => return Err(TreeError::Child { parent, child }),
                None => {}
            }
        }
        let waves = |(rank, children)| by_group(rank, children, placement);
        Tree::new(root, children.into_iter().enumerate().map(waves).collect())
    }

    /// Creates a tree from the places of a tree [in the order of ranks](crate::in_order): a wave for each child.
    ///
    /// # Errors
    /// [`TreeError`].
    pub fn in_order(root: usize, places: &[Place]) -> Result<Tree, TreeError> {
        let waves = |place: &Place| place.children.iter().map(|child| vec![child.rank]).collect();
        Tree::new(root, places.iter().map(waves).collect())
    }

    /// Returns its root.
    pub fn root(&self) -> usize {
        self.root
    }

    /// Returns the number of ranks: at least one.
    pub fn ranks(&self) -> usize {
        self.nodes.len()
    }

    /// Returns a rank's parent, or `None` for the root.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn parent(&self, rank: usize) -> Option<usize> {
        self.nodes[rank].parent
    }

    /// Returns a rank's waves of children, in the order in which it notifies them. None is empty.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn waves(&self, rank: usize) -> &[Vec<usize>] {
        &self.nodes[rank].waves
    }

    /// Returns all children of a rank, wave by wave.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn children(&self, rank: usize) -> impl Iterator<Item = usize> + Clone {
        self.nodes[rank].waves.iter().flatten().copied()
    }

    /// Returns the number of the wave of its parent that a rank is in, or `None` for the root.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn wave_of(&self, rank: usize) -> Option<usize> {
        let parent = self.parent(rank)?;
        self.waves(parent).iter().position(|wave| wave.contains(&rank))
    }

    /// Returns the children of a rank, divided by the line with which they acknowledge: those of one group share a
    /// line, and the rank's own group is first.
    ///
    /// # Panics
    /// If there is no such rank, or the placement has fewer.
    pub fn acknowledging(&self, rank: usize, placement: &Placement) -> Vec<Vec<usize>> {
        let mut groups = by_group(rank, self.children(rank).collect(), placement);
        groups.reverse();
        groups
    }

    /// Returns the length of the longest way from the root, in edges.
    pub fn depth(&self) -> usize {
        let mut depths = vec![0; self.ranks()];
        for rank in self.preorder() {
            depths[rank] = self.parent(rank).map_or(0, |parent| depths[parent] + 1);
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// Returns all ranks, parents before children.
    pub fn preorder(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.ranks());
        let mut open = vec![self.root];
        while let Some(rank) = open.pop() {
            order.push(rank);
            let children: Vec<_> = self.children(rank).collect();
            open.extend(children.into_iter().rev());
        }
        order
    }

    /// Returns each rank's waves.
    pub(super) fn into_waves(self) -> Vec<Vec<Vec<usize>>> {
        self.nodes.into_iter().map(|node| node.waves).collect()
    }
}

/// Returns a wave for each group, the rank's own last.
fn by_group(rank: usize, children: Vec<usize>, placement: &Placement) -> Vec<Vec<usize>> {
    let mut groups = std::collections::BTreeMap::<_, Vec<usize>>::new();
    for child in children {
        let near = child < placement.ranks() && placement.near(rank, child);
        let group = if near || child >= placement.ranks() { 0 } else { placement.group(child) };
        groups.entry((near, group)).or_default().push(child);
    }
    groups.into_values().collect()
}

/// Fixed shapes, without regard to groups but for the waves.
impl Tree {
    /// Creates a tree from the positions' parents: position 0 is the root, position i the rank i further on.
    fn turned(
        root: usize,
        placement: &Placement,
        parent_of: impl Fn(usize) -> usize,
    ) -> Result<Tree, TreeError> {
        let ranks = placement.ranks();
        if root >= ranks {
            return Err(TreeError::Root { root, ranks });
        }
        let rank_at = |position: usize| (root + position) % ranks;
        let mut parents = vec![None; ranks];
        for position in 1..ranks {
            parents[rank_at(position)] = Some(rank_at(parent_of(position)));
        }
        Tree::from_parents(root, &parents, placement)
    }

    /// Creates a tree in which the root has all other ranks as children.
    ///
    /// # Errors
    /// [`TreeError::Root`].
    pub fn flat(root: usize, placement: &Placement) -> Result<Tree, TreeError> {
        Tree::turned(root, placement, |_| 0)
    }

    /// Creates a tree in which each rank has up to `degree` children, level by level. A degree of 0 counts as 1.
    ///
    /// # Errors
    /// [`TreeError::Root`].
    pub fn k_ary(root: usize, degree: usize, placement: &Placement) -> Result<Tree, TreeError> {
        Tree::turned(root, placement, |position| (position - 1) / degree.max(1))
    }

    /// Creates a tree in which each rank has one child.
    ///
    /// # Errors
    /// [`TreeError::Root`].
    pub fn chain(root: usize, placement: &Placement) -> Result<Tree, TreeError> {
        Tree::k_ary(root, 1, placement)
    }

    /// Creates a tree in which each of 2ⁱ ranks notifies another in stage i.
    ///
    /// # Errors
    /// [`TreeError::Root`].
    pub fn binomial(root: usize, placement: &Placement) -> Result<Tree, TreeError> {
        Tree::turned(root, placement, |position| position & !(1 << position.ilog2()))
    }
}

impl fmt::Display for Tree {
    /// A rank a line, the children of a wave joined to its number where there are several waves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.root)?;
        self.draw(f, self.root, "")
    }
}

impl Tree {
    fn draw(&self, f: &mut fmt::Formatter<'_>, rank: usize, indent: &str) -> fmt::Result {
        let waves = self.waves(rank);
        for (index, wave) in waves.iter().enumerate() {
            for (place, &child) in wave.iter().enumerate() {
                let last = index + 1 == waves.len() && place + 1 == wave.len();
                let (turn, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                write!(f, "{indent}{turn}{child}")?;
                if waves.len() > 1 {
                    write!(f, " (line {})", index + 1)?;
                }
                writeln!(f)?;
                self.draw(f, child, &format!("{indent}{below}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves(waves: &[&[&[usize]]]) -> Vec<Vec<Vec<usize>>> {
        waves.iter().map(|waves| waves.iter().map(|wave| wave.to_vec()).collect()).collect()
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        assert_eq!(Tree::new(0, vec![]), Err(TreeError::Root { root: 0, ranks: 0 }));
        assert_eq!(Tree::new(2, waves(&[&[], &[]])), Err(TreeError::Root { root: 2, ranks: 2 }));
        let child = |parent, child| Err(TreeError::Child { parent, child });
        assert_eq!(Tree::new(0, waves(&[&[&[2]], &[]])), child(0, 2));
        assert_eq!(Tree::new(0, waves(&[&[&[1]], &[&[0]]])), child(1, 0));
        assert_eq!(Tree::new(0, waves(&[&[&[1, 1]], &[]])), child(0, 1));
        let circle = waves(&[&[], &[&[2]], &[&[1]]]);
        assert_eq!(Tree::new(0, circle), Err(TreeError::Lost { rank: 1 }));
    }

    #[test]
    fn shapes_by_hand() {
        let placement = Placement::packed(7, &[4, 4]).unwrap();
        let flat = Tree::flat(1, &placement).unwrap();
        assert_eq!(flat.waves(1), [vec![4, 5, 6], vec![0, 2, 3]]);
        assert_eq!(flat.acknowledging(1, &placement), [vec![0, 2, 3], vec![4, 5, 6]]);
        assert_eq!((flat.depth(), flat.wave_of(3), flat.wave_of(1)), (1, Some(1), None));
        let binomial = Tree::binomial(0, &placement).unwrap();
        assert_eq!(binomial.waves(0), [vec![4], vec![1, 2]]);
        assert_eq!((binomial.parent(6), binomial.parent(5)), (Some(2), Some(1)));
        assert_eq!(Tree::chain(0, &placement).unwrap().depth(), 6);
        assert_eq!(Tree::k_ary(0, 0, &placement), Tree::chain(0, &placement));
        assert_eq!(Tree::k_ary(3, 2, &placement).unwrap().parent(2), Some(5));
        assert_eq!(Tree::flat(7, &placement), Err(TreeError::Root { root: 7, ranks: 7 }));
    }

    #[test]
    fn in_the_order_of_ranks() {
        let places = crate::in_order::Shape::new(5, 1).places(1).unwrap();
        let tree = Tree::in_order(1, &places).unwrap();
        assert_eq!(tree.waves(1), [vec![0], vec![2]]);
        assert_eq!((tree.parent(4), tree.depth()), (Some(3), 3));
        assert_eq!(Tree::in_order(0, &places), Err(TreeError::Child { parent: 1, child: 0 }));
        assert_eq!(Tree::in_order(0, &[]), Err(TreeError::Root { root: 0, ranks: 0 }));
    }

    #[test]
    fn it_can_be_drawn() {
        let tree = Tree::new(1, waves(&[&[&[2]], &[&[0], &[3]], &[], &[]])).unwrap();
        let drawn = "1\n├─ 0 (line 1)\n│  └─ 2\n└─ 3 (line 2)\n";
        assert_eq!(tree.to_string(), drawn);
        let alone = Placement::one_group(1).unwrap();
        assert_eq!(Tree::flat(0, &alone).unwrap().to_string(), "0\n");
    }
}
