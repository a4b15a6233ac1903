//! A moving clip made on the spot, for when there is no video at hand.

use example_support::Result;
use multiversion::multiversion;

use crate::frame::{Format, Rate, Size};
use crate::input::source::Source;

/// Colour gradients that drift, and a bright square that crosses them; it never ends.
///
/// Frame `n` depends on `n` and the size alone, so that any rank can make it again to check.
#[derive(Debug)]
pub struct Clip {
    size: Size,
    next: u64,
}

impl Clip {
    /// The size of the frames of the paper.
    pub const SIZE: (u64, u64) = (1000, 1000);

    /// Returns a clip with frames of `size`.
    pub fn new(size: Size) -> Self {
        Self { size, next: 0 }
    }

    /// Draws frame `number`.
    ///
    /// # Panics
    /// When `rgb` is not one frame of the clip's size.
    pub fn draw(&self, number: u64, rgb: &mut [u8]) {
        let (width, height) = (self.size.width(), self.size.height());
        assert_eq!(rgb.len(), self.size.rgb_len(), "one frame of {}", self.size);
        let side = (width.min(height) / 4).max(1);
        let place = |room: usize, speed: u64| (number * speed % (room as u64 + 1)) as usize;
        let (left, top) = (place(width - side, 7), place(height - side, 3));
        for (y, row) in rgb.chunks_exact_mut(3 * width).enumerate() {
            draw_gradient(row, y as u8, number as u8);
            if (top..top + side).contains(&y) {
                for byte in &mut row[3 * left..3 * (left + side)] {
                    *byte |= 0xc0;
                }
            }
        }
    }
}

impl Source for Clip {
    fn format(&self) -> Format {
        Format { size: self.size, rate: Rate::default(), frames: None }
    }

    fn read(&mut self, rgb: &mut [u8]) -> Result<bool> {
        self.draw(self.next, rgb);
        self.next += 1;
        Ok(true)
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+ssse3+sse4.1"))]
fn draw_gradient(row: &mut [u8], y: u8, time: u8) {
    let (pixels, _) = row.as_chunks_mut::<3>();
    for (x, pixel) in pixels.iter_mut().enumerate() {
        let x = x as u8;
        *pixel = [
            x.wrapping_add(time.wrapping_mul(3)),
            y.wrapping_sub(time),
            (x ^ y).wrapping_add(time.wrapping_mul(2)),
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_differ_and_can_be_made_again() {
        for (width, height) in [(1, 1), (1, 9), (16, 5), (100, 100)] {
            let size = Size::new(width, height).unwrap();
            let mut clip = Clip::new(size);
            let mut frames = vec![vec![0; size.rgb_len()]; 5];
            for frame in &mut frames {
                assert!(clip.read(frame).unwrap());
            }
            let mut again = vec![0; size.rgb_len()];
            for (number, frame) in frames.iter().enumerate() {
                Clip::new(size).draw(number as u64, &mut again);
                assert_eq!(*frame, again);
            }
            assert!(frames.windows(2).all(|pair| pair[0] != pair[1]), "{size} does not move");
        }
    }
}
