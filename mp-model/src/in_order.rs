//! Trees along which ranks' elements are combined in the order of ranks. The ranks of each subtree are next to each
//! other, so the operation needs only to be associative.
//!
//! How many children a rank has depends on λ, the latency of the *postal model*: in the time in which one child's
//! element gets to the parent, the parent takes the elements of λ children. A. Bar-Noy and S. Kipnis, *Designing
//! Broadcasting Algorithms in the Postal Model for Message-Passing Systems*, find the best tree for it, in reverse:
//! within a time t, the elements of
//!
//! N(t) = 1 for t < λ, N(t − 1) + N(t − λ) after that
//!
//! ranks can be combined, so the child that a parent takes after i others may stand for N(i) ranks. With λ = 1 this is
//! the binomial tree, with λ ≥ P − 1 the flat one.
//!
//! A subtree's head is its rank nearest to the parent, and a parent takes near children first. A root in
//! the middle has children on both sides.
//!
//! ```
//! use mp_model::in_order::Shape;
//!
//! let binomial = Shape::new(8, 1);
//! let root = binomial.place(0, 0).ok_or("no such rank")?;
//! assert_eq!(root.children.iter().map(|child| child.rank).collect::<Vec<_>>(), [1, 2, 4]);
//! let inner = binomial.place(0, 6).ok_or("no such rank")?;
//! assert_eq!((inner.parent, inner.children[0].rank), (Some(4), 7));
//! # Ok::<(), &str>(())
//! ```

use std::ops::Range;

/// A number of ranks and a λ: the tree of each root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    ranks: usize,
    lambda: usize,
}

/// A rank's place in the tree of a root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The rank to which it hands on what it has of its subtree; `None` for the root.
    pub parent: Option<usize>,
    /// Its children, in the order in which it takes what they have.
    pub children: Vec<Child>,
}

/// The head of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    /// Its rank.
    pub rank: usize,
    /// Whether the ranks of its subtree are above all that the parent has of others, or else below.
    pub is_above: bool,
}

/// A subtree, by its head.
struct Node {
    rank: usize,
    parent: Option<usize>,
    /// The other ranks, on either side of the head.
    below: Range<usize>,
    above: Range<usize>,
}

impl Shape {
    /// Creates the shape of trees of `ranks` ranks; a λ of 0 counts as 1.
    pub fn new(ranks: usize, lambda: usize) -> Shape {
        Shape { ranks, lambda: lambda.max(1) }
    }

    /// Returns P, the number of ranks.
    pub fn ranks(self) -> usize {
        self.ranks
    }

    /// Returns how many children a parent takes in the time in which what one has comes to it.
    pub fn lambda(self) -> usize {
        self.lambda
    }

    /// Returns a rank's place under this root, or `None` if there is no such rank or root.
    pub fn place(self, root: usize, rank: usize) -> Option<Place> {
        let (most, mut node) = (self.most(), self.whole(root)?);
        loop {
            let children = children(&node, &most);
            if node.rank == rank {
                return Some(place(&node, &children));
            }
            node = children.into_iter().find(|child| child.has(rank))?;
        }
    }

    /// Returns the places of all ranks under this root, or `None` if there is no such root.
    pub fn places(self, root: usize) -> Option<Vec<Place>> {
        let most = self.most();
        let mut places = vec![Place { parent: None, children: Vec::new() }; self.ranks];
        let mut open = vec![self.whole(root)?];
        while let Some(node) = open.pop() {
            let children = children(&node, &most);
            places[node.rank] = place(&node, &children);
            open.extend(children);
        }
        Some(places)
    }

    fn whole(self, root: usize) -> Option<Node> {
        let (below, above) = (0..root, root.saturating_add(1)..self.ranks);
        (root < self.ranks).then_some(Node { rank: root, parent: None, below, above })
    }

    /// Returns N(i), for as many children as a rank can need.
    fn most(self) -> Vec<usize> {
        let mut most: Vec<usize> = Vec::new();
        // Two of as many as there are ranks do for both sides: no N is more than twice the one before.
        while most.len() + 1 < self.ranks && most.last().is_none_or(|&last| last < self.ranks) {
            most.push(match most.len().checked_sub(self.lambda) {
                Some(far) => most[most.len() - 1] + most[far],
                None => 1,
            });
        }
        most
    }
}

impl Node {
    fn has(&self, rank: usize) -> bool {
        self.rank == rank || self.below.contains(&rank) || self.above.contains(&rank)
    }
}

fn place(node: &Node, children: &[Node]) -> Place {
    let child = |child: &Node| Child { rank: child.rank, is_above: child.rank > node.rank };
    Place { parent: node.parent, children: children.iter().map(child).collect() }
}

/// Returns as few children as possible, the first one to be taken first.
fn children(node: &Node, most: &[usize]) -> Vec<Node> {
    let others = node.below.len() + node.above.len();
    let (mut least, mut sum) = (0, 0);
    while sum < others && least < most.len() {
        sum += most[least];
        least += 1;
    }
    // More are needed where one side has less than its share.
    (least..=most.len()).find_map(|count| deal(node, &most[..count])).unwrap_or_default()
}

/// Deals subtrees of at most so many ranks, the last one on the outside. Returns `None` if that is not enough for all.
fn deal(node: &Node, most: &[usize]) -> Option<Vec<Node>> {
    let (mut below, mut above) = (node.below.clone(), node.above.clone());
    let mut children = Vec::new();
    for &most in most.iter().rev() {
        let parent = Some(node.rank);
        if above.is_empty() && below.is_empty() {
            break;
        }
        if above.len() >= below.len() {
            let head = above.end - most.min(above.len());
            children.push(Node {
                rank: head,
                parent,
                below: head..head,
                above: head + 1..above.end,
            });
            above.end = head;
        } else {
            let head = below.start + most.min(below.len()) - 1;
            children.push(Node { rank: head, parent, below: below.start..head, above: head..head });
            below.start = head + 1;
        }
    }
    children.reverse();
    (above.is_empty() && below.is_empty()).then_some(children)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn depth(places: &[Place], mut rank: usize) -> usize {
        let mut depth = 0;
        while let Some(parent) = places[rank].parent {
            rank = parent;
            depth += 1;
        }
        depth
    }

    /// Returns when a rank has what is below it, if a child's elements take λ to come and 1 to be taken, and takings of
    /// one rank begin 1 after the other.
    fn done(places: &[Place], rank: usize, lambda: usize) -> usize {
        let mut clock = 0;
        for child in &places[rank].children {
            clock = (clock + 1).max(done(places, child.rank, lambda) + lambda);
        }
        clock
    }

    /// Returns the first t with N(t) ≥ P.
    fn least_time(ranks: usize, lambda: usize) -> usize {
        let mut most: Vec<usize> = vec![1; lambda];
        while most[most.len() - 1] < ranks {
            most.push(most[most.len() - 1] + most[most.len() - lambda]);
        }
        if ranks == 1 { 0 } else { most.len() - 1 }
    }

    /// Returns what a rank hands on, combined as its place says.
    fn combined(places: &[Place], rank: usize) -> Vec<usize> {
        let mut own = vec![rank];
        for child in &places[rank].children {
            let theirs = combined(places, child.rank);
            own = if child.is_above { [own, theirs].concat() } else { [theirs, own].concat() };
        }
        own
    }

    #[test]
    fn shapes_by_hand() {
        let children = |ranks, lambda, root, rank| -> Vec<_> {
            let place = Shape::new(ranks, lambda).place(root, rank).unwrap();
            place.children.iter().map(|child| (child.rank, child.is_above)).collect()
        };
        assert_eq!(children(8, 1, 0, 0), [(1, true), (2, true), (4, true)]);
        assert_eq!(children(8, 1, 7, 7), [(6, false), (5, false), (3, false)]);
        assert_eq!(children(8, 1, 0, 4), [(5, true), (6, true)]);
        // 1, 2 and 4 ranks: the larger side has the most.
        assert_eq!(children(8, 1, 3, 3), [(2, false), (1, false), (4, true)]);
        // N = 1, 1, 2, 3, 5.
        assert_eq!(
            children(13, 2, 0, 0).iter().map(|child| child.0).collect::<Vec<_>>(),
            [1, 2, 3, 5, 8]
        );
        assert_eq!(children(5, 4, 2, 2), [(1, false), (3, true), (0, false), (4, true)]);
        assert_eq!((children(1, 1, 0, 0), children(2, 9, 1, 1)), (vec![], vec![(0, false)]));
        assert_eq!(Shape::new(0, 1).places(0), None);
        assert_eq!((Shape::new(3, 1).place(3, 0), Shape::new(3, 1).place(0, 3)), (None, None));
        assert_eq!(Shape::new(9, 0), Shape::new(9, 1));
        let most = usize::MAX;
        assert!(Shape::new(9, most).places(4).unwrap()[4].children.len() == 8);
    }

    #[test]
    fn at_an_end_it_is_as_quick_as_can_be() {
        for lambda in [1, 2, 3, 5, 11] {
            for ranks in 1..150 {
                for root in [0, ranks - 1] {
                    let places = Shape::new(ranks, lambda).places(root).unwrap();
                    let took = done(&places, root, lambda);
                    assert_eq!(took, least_time(ranks, lambda), "{ranks}, {lambda}, {root}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_are_combined_in_the_order_of_ranks(
            ranks in 1_usize..200,
            lambda in prop_oneof![1_usize..12, 12_usize..250],
            root in any::<prop::sample::Index>(),
        ) {
            let (root, shape) = (root.index(ranks), Shape::new(ranks, lambda));
            let places = shape.places(root).unwrap();
            prop_assert_eq!(combined(&places, root), (0..ranks).collect::<Vec<_>>());
            for (rank, place) in places.iter().enumerate() {
                prop_assert_eq!(shape.place(root, rank), Some(place.clone()));
                prop_assert_eq!(place.parent.is_none(), rank == root);
                for child in &place.children {
                    prop_assert_eq!(places[child.rank].parent, Some(rank));
                    prop_assert_eq!(child.is_above, child.rank > rank);
                }
                if lambda >= ranks - 1 {
                    prop_assert_eq!(place.children.len(), if rank == root { ranks - 1 } else { 0 });
                }
            }
            // One child more than at an end is enough.
            let took = done(&places, root, lambda);
            let least = least_time(ranks, lambda);
            prop_assert!((least..=least + 1).contains(&took), "{} where {} is the least", took, least);
            if lambda == 1 {
                let deepest = (0..ranks).map(|rank| depth(&places, rank)).max();
                let levels = ranks.next_power_of_two().ilog2() as usize;
                match root == 0 || root == ranks - 1 {
                    true => prop_assert_eq!(deepest, Some(levels)),
                    false => prop_assert!(deepest <= Some(levels + 1)),
                }
            }
        }
    }
}
