//! A rank's places in the trees of all roots, computed once for each root.

use mp_model::in_order::{Place, Shape};

/// One rank's places, for the λ that was requested last.
#[derive(Debug)]
pub(super) struct Places {
    shape: Shape,
    me: usize,
    known: Vec<Option<Place>>,
}

impl Places {
    /// Creates an empty table.
    pub(super) fn new(ranks: usize, me: usize) -> Places {
        Places { shape: Shape::new(ranks, 1), me, known: Vec::new() }
    }

    /// Returns the place under this root, or `None` if there is no such root.
    pub(super) fn under(&mut self, lambda: usize, root: usize) -> Option<&Place> {
        let shape = Shape::new(self.shape.ranks(), lambda);
        if self.shape != shape || self.known.is_empty() {
            self.shape = shape;
            self.known = vec![None; shape.ranks()];
        }
        let known = self.known.get_mut(root)?;
        if known.is_none() {
            *known = shape.place(root, self.me);
        }
        known.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_root_and_lambda_has_its_own() {
        let mut places = Places::new(9, 4);
        for lambda in [1, 1, 3, 1, 9, 0] {
            for root in [0, 8, 4, 0] {
                let place = Shape::new(9, lambda).place(root, 4);
                assert_eq!(places.under(lambda, root), place.as_ref(), "{lambda}, {root}");
            }
            assert_eq!(places.under(lambda, 9), None);
        }
    }
}
