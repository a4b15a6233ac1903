//! A buffer for the beginning of a message.

use bytemuck::Zeroable;

use super::fixed::FixedBytes;
use super::landing::{Buffer, BufferMut, sealed::Sealed};
use crate::error::{ErrorKind, Result};

/// A buffer for a message that may be longer. What does not fit is dropped by [`cut`](Self::cut).
#[derive(Debug)]
pub struct CutBuffer<B: BufferMut> {
    buffer: B,
    /// The whole message, if it is longer than the buffer.
    whole: Vec<B::Element>,
}

impl<B: BufferMut> CutBuffer<B> {
    /// Makes a buffer for the first elements of a message.
    pub fn new(buffer: B) -> Self {
        Self { buffer, whole: Vec::new() }
    }

    /// Copies the first elements of a message that is longer than the buffer to the buffer.
    pub fn cut(&mut self) {
        let into = self.buffer.elements_mut();
        if let Some(fits) = self.whole.get(..into.len()) {
            into.copy_from_slice(fits);
        }
    }
}

impl<B: BufferMut> Sealed for CutBuffer<B> {}

impl<B: BufferMut> Buffer for CutBuffer<B> {
    type Element = B::Element;

    fn elements(&self) -> &[B::Element] {
        if self.whole.is_empty() { self.buffer.elements() } else { &self.whole }
    }
}

impl<B: BufferMut> BufferMut for CutBuffer<B> {
    fn elements_mut(&mut self) -> &mut [B::Element] {
        if self.whole.is_empty() { self.buffer.elements_mut() } else { &mut self.whole }
    }

    fn room(&self) -> Option<usize> {
        None
    }

    fn make_room(&mut self, count: usize) -> Result<()> {
        if count > self.buffer.elements().len() {
            let no_memory =
                |_| ErrorKind::OutOfMemory { bytes: count.saturating_mul(size_of::<B::Element>()) };
            self.whole.try_reserve_exact(count).map_err(no_memory)?;
            self.whole.resize(count, B::Element::zeroed());
        }
        Ok(())
    }

    /// A message that does not fit there has to wait for a call that has this value.
    fn fixed(&self) -> Option<FixedBytes> {
        self.buffer.fixed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut() {
        for count in [2, 3, 5] {
            let mut numbers = [0u32; 3];
            let mut buffer = CutBuffer::new(&mut numbers[..]);
            assert_eq!(buffer.room(), None);
            buffer.make_room(count).unwrap();
            let message = &[1, 2, 3, 4, 5][..count];
            buffer.elements_mut()[..count].copy_from_slice(message);
            buffer.cut();
            assert_eq!(numbers, [1, 2, if count > 2 { 3 } else { 0 }]);
        }
    }
}
