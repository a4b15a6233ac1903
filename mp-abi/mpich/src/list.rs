//! Copies of arrays of the program.

/// The most elements that need no memory of the heap.
const FEW: usize = 8;

/// The elements of an array in another form.
#[derive(Debug)]
pub struct List<T> {
    few: [T; FEW],
    many: Vec<T>,
    length: usize,
}

impl<T: Copy> List<T> {
    /// Makes a list of this length. Elements are empty but those that are made of the array's.
    #[inline]
    pub fn new(length: usize, empty: T, make: impl Fn(usize) -> T) -> Self {
        let mut list = Self { few: [empty; FEW], many: Vec::new(), length };
        match list.few.get_mut(..length) {
            Some(few) => few.iter_mut().enumerate().for_each(|(place, one)| *one = make(place)),
            None => list.many = (0..length).map(make).collect(),
        }
        list
    }

    /// Returns the elements.
    #[inline]
    pub fn elements(&mut self) -> &mut [T] {
        match self.length {
            ..=FEW => &mut self.few[..self.length],
            _ => &mut self.many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_their_elements() {
        for length in [0, 1, FEW, FEW + 1, 100] {
            let mut list = List::new(length, usize::MAX, |place| place * 2);
            let wanted: Vec<_> = (0..length).map(|place| place * 2).collect();
            assert_eq!(list.elements(), wanted);
        }
    }
}
