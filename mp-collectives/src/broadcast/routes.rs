//! A rank's neighbours in the trees of all roots, computed once for each root.

use mp_model::cla::Placement;
use mp_model::cla::outward::{Fan, Outward};
use mp_model::tree::{self, TreeError, told_by, told_siblings};

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

/// One rank's places in the trees of all roots.
#[derive(Debug)]
pub(super) struct Routes {
    tree: Outward,
    me: usize,
    known: Vec<Option<Route>>,
}

impl Routes {
    pub(super) fn new(tree: Outward, me: usize) -> Routes {
        Routes { me, known: vec![None; tree.ranks()], tree }
    }

    /// Returns the place under this root.
    #[inline]
    pub(super) fn under(&mut self, root: usize) -> Result<&Route, TreeError> {
        match self.known.get_mut(root) {
            Some(Some(route)) => Ok(route),
            Some(unknown) => Ok(unknown.insert(find(&self.tree, root, self.me)?)),
            None => Err(TreeError::NoSuchRank { rank: root, ranks: self.tree.ranks() }),
        }
    }
}

/// Returns the tree of the thesis.
pub(super) fn k_ary(ranks: usize, degree: usize) -> Result<Outward, TreeError> {
    let degree = Fan::Degree(tree::Shape::new(ranks, degree)?.degree());
    let one = Placement::one_group(ranks).map_err(|_| TreeError::NoRanks)?;
    Ok(Outward::new(&one, degree, degree))
}

#[cold]
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
