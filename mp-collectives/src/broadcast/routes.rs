//! A rank's neighbours in the trees of all roots, worked out once for each root.

use mp_model::tree::{Shape, TreeError};

/// A rank's place in one tree ([`mp_model::tree`]).
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// None at the root.
    pub(super) above: Option<Above>,
    /// Siblings that it tells of data in the parent's buffer.
    pub(super) told_siblings: Vec<usize>,
    /// In order of their indices.
    pub(super) children: Vec<usize>,
}

/// Where a rank has its data from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Above {
    pub(super) parent: usize,
    /// Which of the parent's children it is.
    pub(super) index: usize,
    /// Who tells it of data in the parent's buffer.
    pub(super) notifier: usize,
}

impl Route {
    /// Children that it tells itself of data in its buffer.
    #[inline]
    pub(super) fn told_children(&self) -> &[usize] {
        &self.children[..self.children.len().min(2)]
    }
}

/// One rank's places in the trees of all roots.
#[derive(Debug)]
pub(super) struct Routes {
    shape: Shape,
    me: usize,
    known: Vec<Option<Route>>,
}

impl Routes {
    pub(super) fn new(shape: Shape, me: usize) -> Routes {
        Routes { shape, me, known: vec![None; shape.ranks()] }
    }

    /// The place under this root.
    #[inline]
    pub(super) fn under(&mut self, root: usize) -> Result<&Route, TreeError> {
        match self.known.get_mut(root) {
            Some(Some(route)) => Ok(route),
            Some(unknown) => Ok(unknown.insert(find(self.shape, root, self.me)?)),
            None => Err(TreeError::NoSuchRank { rank: root, ranks: self.shape.ranks() }),
        }
    }
}

#[cold]
fn find(shape: Shape, root: usize, me: usize) -> Result<Route, TreeError> {
    let node = shape.rooted(root)?.node(me)?;
    let above = node.parent().zip(node.child_index()).zip(node.notifier());
    Ok(Route {
        above: above.map(|((parent, index), notifier)| Above { parent, index, notifier }),
        told_siblings: node.notified_siblings().collect(),
        children: node.children().collect(),
    })
}
