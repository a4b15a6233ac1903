//! Values that are made for a communicator at the first call, and kept with it.

use std::{any::Any, cell::OnceCell};

/// One value of each type, in the order in which they were added. The list only grows, so its values can be borrowed.
/// Finding the first or the second value costs about a nanosecond.
#[derive(Default)]
pub(crate) struct Shelf(OnceCell<Box<Node>>);

struct Node {
    value: Box<dyn Any>,
    next: Shelf,
}

impl Shelf {
    #[inline]
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        let mut place = self;
        while let Some(node) = place.0.get() {
            if let Some(found) = node.value.downcast_ref() {
                return Some(found);
            }
            place = &node.next;
        }
        None
    }

    pub(crate) fn push<T: Any>(&self, value: T) {
        let mut place = self;
        while let Some(node) = place.0.get() {
            place = &node.next;
        }
        place.0.get_or_init(|| Box::new(Node { value: Box::new(value), next: Self::default() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_type() {
        let shelf = Shelf::default();
        assert_eq!(shelf.get::<u8>(), None);
        shelf.push(1u8);
        shelf.push("two");
        shelf.push(vec![3]);
        // A second one of a type is not found.
        shelf.push(4u8);
        assert_eq!((shelf.get(), shelf.get()), (Some(&1u8), Some(&"two")));
        assert_eq!((shelf.get(), shelf.get::<i8>()), (Some(&vec![3]), None));
    }
}
