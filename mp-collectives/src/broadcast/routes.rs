//! A rank's neighbours in the trees of all roots, computed once for each root.

use mp_model::cla::outward::Outward;
use mp_model::tree::{Shape, TreeError, told_by, told_siblings};

/// A rank's place in one tree ([`mp_model::cla::outward`]), and in the notification trees of thesis, section
/// 3.1.1 ([`mp_model::tree`]).
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// `None` at the root.
    pub(super) above: Option<Above>,
    /// The siblings that it tells of data in the parent's buffer.
    pub(super) told_siblings: Vec<usize>,
    /// The children in order of their indices.
    pub(super) children: Vec<usize>,
}

/// The source of a rank's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Above {
    pub(super) parent: usize,
    /// The rank's index among the parent's children.
    pub(super) index: usize,
    /// The rank that tells it of data in the parent's buffer.
    pub(super) notifier: usize,
}

impl Route {
    /// Returns the children that it tells itself of data in its buffer.
    #[inline]
    pub(super) fn told_children(&self) -> &[usize] {
        &self.children[..self.children.len().min(2)]
    }
}

/// The trees of all roots.
#[derive(Debug)]
pub(super) enum Trees {
    /// Those of the thesis, in which a rank finds its place by itself.
    KAry(Shape),
    /// Any others.
    Along(Outward),
}

/// One rank's places in the trees of all roots.
#[derive(Debug)]
pub(super) struct Routes {
    trees: Trees,
    me: usize,
    /// The places under the roots that there have been.
    known: Vec<Option<Route>>,
}

impl Routes {
    pub(super) fn new(trees: Trees, me: usize) -> Routes {
        Routes { trees, me, known: Vec::new() }
    }

    /// Returns the place under this root.
    #[inline]
    pub(super) fn under(&mut self, root: usize) -> Result<&Route, TreeError> {
        if root >= self.known.len() {
            self.make_room(root)?;
        }
        match &mut self.known[root] {
            Some(route) => Ok(route),
            unknown => Ok(unknown.insert(self.trees.route(root, self.me)?)),
        }
    }

    /// Makes room for the places up to this root's, so that ranks do not keep room for roots that they never have.
    #[cold]
    fn make_room(&mut self, root: usize) -> Result<(), TreeError> {
        let ranks = self.trees.ranks();
        if root >= ranks {
            return Err(TreeError::NoSuchRank { rank: root, ranks });
        }
        self.known.resize(root + 1, None);
        Ok(())
    }
}

/// Returns the trees of the thesis.
pub(super) fn k_ary(ranks: usize, degree: usize) -> Result<Trees, TreeError> {
    Ok(Trees::KAry(Shape::new(ranks, degree)?))
}

impl Trees {
    fn ranks(&self) -> usize {
        match self {
            Trees::KAry(shape) => shape.ranks(),
            Trees::Along(tree) => tree.ranks(),
        }
    }

    #[cold]
    fn route(&self, root: usize, me: usize) -> Result<Route, TreeError> {
        match self {
            Trees::KAry(shape) => {
                let node = shape.rooted(root)?.node(me)?;
                let children = node.children().collect();
                let told_siblings = node.notified_siblings().collect();
                let above = match (node.parent(), node.child_index(), node.notifier()) {
                    (Some(parent), Some(index), Some(notifier)) => {
                        Some(Above { parent, index, notifier })
                    }
                    _ => None,
                };
                Ok(Route { above, told_siblings, children })
            }
            Trees::Along(tree) => find(tree, root, me),
        }
    }
}

fn find(tree: &Outward, root: usize, me: usize) -> Result<Route, TreeError> {
    let missing = |rank| TreeError::NoSuchRank { rank, ranks: tree.ranks() };
    let places = tree.places(root).ok_or(missing(root))?;
    let place = places.get(me).ok_or(missing(me))?;
    let children = place.children.clone();
    let Some(parent) = place.parent else {
        return Ok(Route { above: None, told_siblings: Vec::new(), children });
    };
    let siblings = &places[parent].children;
    let index = siblings.iter().position(|&child| child == me).ok_or(missing(me))?;
    let notifier = told_by(siblings, index).unwrap_or(parent);
    let told_siblings = told_siblings(siblings, me).collect();
    Ok(Route { above: Some(Above { parent, index, notifier }), told_siblings, children })
}

#[cfg(test)]
mod tests {
    use mp_model::cla::Placement;
    use mp_model::cla::outward::Fan;

    use super::*;

    #[test]
    fn trees_of_the_thesis_are_trees_of_one_group() {
        for (ranks, degree) in [(1, 1), (2, 1), (8, 7), (9, 2), (48, 7), (48, 47)] {
            let degree = Shape::new(ranks, degree).unwrap().degree();
            let fan = Fan::Degree(degree);
            let one = Placement::one_group(ranks).unwrap();
            let along = Trees::Along(Outward::new(&one, fan, fan));
            for root in 0..ranks {
                for me in 0..ranks {
                    let [a, b] = [&k_ary(ranks, degree).unwrap(), &along]
                        .map(|trees| format!("{:?}", trees.route(root, me).unwrap()));
                    assert_eq!(a, b);
                }
            }
            let routes = &mut Routes::new(k_ary(ranks, degree).unwrap(), 0);
            assert!(routes.under(ranks).is_err() && routes.under(ranks - 1).is_ok());
        }
    }
}
