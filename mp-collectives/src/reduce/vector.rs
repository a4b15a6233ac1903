//! A rank's elements for a reduction, and the place for the result.

use std::ops::Range;

use crate::layout::LayoutError;

/// One rank's elements, and the place for the result: the place of the elements, or another one, so that the elements
/// are only read. Then they need not be copied to the place for the result first, because algorithms combine them with
/// those of other ranks on the way.
#[derive(Debug)]
pub struct Vector<'a, T> {
    /// The elements, unless they are in the place for the result.
    own: Option<&'a [T]>,
    /// It is empty at a rank that gets no result.
    result: &'a mut [T],
}

/// A vector that the result replaces.
impl<'a, T> From<&'a mut [T]> for Vector<'a, T> {
    #[inline(always)]
    fn from(vector: &'a mut [T]) -> Self {
        Vector { own: None, result: vector }
    }
}

impl<'a, T> From<&'a mut Vec<T>> for Vector<'a, T> {
    fn from(vector: &'a mut Vec<T>) -> Self {
        Vector::from(&mut vector[..])
    }
}

impl<'a, T, const N: usize> From<&'a mut [T; N]> for Vector<'a, T> {
    fn from(vector: &'a mut [T; N]) -> Self {
        Vector::from(&mut vector[..])
    }
}

impl<'a, T: Copy> Vector<'a, T> {
    /// Names elements, and another place for the result, which must be as long.
    ///
    /// # Errors
    /// [`LayoutError::Length`].
    #[inline]
    pub fn apart(own: &'a [T], result: &'a mut [T]) -> Result<Self, LayoutError> {
        let (length, needed) = (result.len(), own.len());
        match length == needed {
            true => Ok(Vector::of_block(own, result)),
            false => Err(LayoutError::Length { length, needed }),
        }
    }

    /// Names elements, and another place for the result, which is as long.
    #[inline]
    pub(super) fn of_block(own: &'a [T], result: &'a mut [T]) -> Self {
        Vector { own: Some(own), result }
    }

    /// Names the elements of a rank that gets no result.
    #[inline]
    pub fn to_send(own: &'a [T]) -> Self {
        Vector { own: Some(own), result: &mut [] }
    }

    /// Returns the vector with a place for the result: `room`, which is as long, if it had none.
    #[inline]
    pub(super) fn or_in(self, room: impl FnOnce() -> &'a mut [T]) -> Self {
        match self {
            Vector { own: Some(own), result } if result.len() < own.len() => {
                Vector::of_block(own, room())
            }
            vector => vector,
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.own().len()
    }

    /// Returns the rank's elements.
    #[inline]
    pub(super) fn own(&self) -> &[T] {
        self.own.unwrap_or(self.result)
    }

    /// Returns some of the elements, with their part of the place for the result.
    #[inline]
    pub(super) fn part(&mut self, range: Range<usize>) -> Vector<'_, T> {
        Vector {
            own: self.own.map(|own| &own[range.clone()]),
            result: if self.result.is_empty() { &mut [] } else { &mut self.result[range] },
        }
    }

    /// Returns the parts of up to this many elements.
    pub(super) fn parts(&self, most: usize) -> impl Iterator<Item = Range<usize>> + use<T> {
        let length = self.len();
        (0..length).step_by(most).map(move |start| start..length.min(start + most))
    }

    /// Copies the elements to the place for the result, unless they are there already, and returns this place.
    #[inline]
    pub(crate) fn begin(&mut self) -> &mut [T] {
        if let Some(own) = self.own.take() {
            self.result.copy_from_slice(own);
        }
        self.result
    }

    /// Takes the elements to combine, which are in the place for the result afterwards, and that place.
    #[inline]
    pub(super) fn combined(&mut self) -> (Option<&'a [T]>, &mut [T]) {
        (self.own.take(), self.result)
    }
}
