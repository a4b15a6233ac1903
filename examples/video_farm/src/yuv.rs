//! From Y′CbCr to RGB, for files of the y4m kind.
//!
//! The matrix is that of ITU-R BT.601, for limited range (luma 16–235, chroma 16–240) and for
//! full range (0–255), in 16.16 fixed point, rounded and clamped. Where chroma is subsampled, a
//! sample covers its whole block of pixels: no interpolation, whatever the siting.

use multiversion::multiversion;

use crate::frame::Size;

/// The codes that stand for black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Black is 16 and white 235, as in television; the default of y4m.
    Limited,
    /// Black is 0 and white 255.
    Full,
}

/// The number of chroma samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chroma {
    /// None: luma alone.
    Mono,
    /// One for each block of so many pixels.
    Blocks {
        /// Pixels in a row that share one sample.
        across: usize,
        /// Rows that share one sample.
        down: usize,
    },
}

impl Chroma {
    /// Returns the width and height of a chroma plane; blocks at the right and lower edge may be cut.
    pub fn plane(self, size: Size) -> (usize, usize) {
        match self {
            Chroma::Mono => (0, 0),
            Chroma::Blocks { across, down } => {
                (size.width().div_ceil(across), size.height().div_ceil(down))
            }
        }
    }
}

/// Turns planes of luma and chroma, one after the other in `planes`, into interleaved RGB.
///
/// # Panics
/// When `planes` is shorter than the three planes together, or `rgb` is not one frame of `size`.
pub fn to_rgb(planes: &[u8], size: Size, chroma: Chroma, range: Range, rgb: &mut [u8]) {
    let width = size.width();
    assert_eq!(rgb.len(), size.rgb_len(), "one frame of {size}");
    let (luma, rest) = planes.split_at(size.gray_len());
    let (chroma_width, chroma_height) = chroma.plane(size);
    let (cb, rest) = rest.split_at(chroma_width * chroma_height);
    let cr = &rest[..chroma_width * chroma_height];

    let rows = luma.chunks_exact(width).zip(rgb.chunks_exact_mut(3 * width));
    match chroma {
        Chroma::Mono => {
            let neutral = vec![128; width];
            for (luma, rgb) in rows {
                row_to_rgb(luma, &neutral, &neutral, range, rgb);
            }
        }
        Chroma::Blocks { across: 1, down } => {
            for (y, (luma, rgb)) in rows.enumerate() {
                let row = y / down * chroma_width;
                row_to_rgb(luma, &cb[row..][..width], &cr[row..][..width], range, rgb);
            }
        }
        Chroma::Blocks { across, down } => {
            let (mut wide_cb, mut wide_cr) = (vec![0; width], vec![0; width]);
            for (y, (luma, rgb)) in rows.enumerate() {
                if y % down == 0 {
                    let row = y / down * chroma_width;
                    widen(&cb[row..][..chroma_width], across, &mut wide_cb);
                    widen(&cr[row..][..chroma_width], across, &mut wide_cr);
                }
                row_to_rgb(luma, &wide_cb, &wide_cr, range, rgb);
            }
        }
    }
}

fn widen(samples: &[u8], across: usize, wide: &mut [u8]) {
    for (wide, &sample) in wide.chunks_mut(across).zip(samples) {
        wide.fill(sample);
    }
}

/// Coefficients in units of 1/65536.
struct Matrix {
    black: i32,
    luma: i32,
    cr_to_r: i32,
    cb_to_g: i32,
    cr_to_g: i32,
    cb_to_b: i32,
}

const LIMITED: Matrix = Matrix {
    black: 16,
    luma: 76_309,
    cr_to_r: 104_597,
    cb_to_g: -25_675,
    cr_to_g: -53_279,
    cb_to_b: 132_201,
};

const FULL: Matrix = Matrix {
    black: 0,
    luma: 65_536,
    cr_to_r: 91_881,
    cb_to_g: -22_554,
    cr_to_g: -46_802,
    cb_to_b: 116_130,
};

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+ssse3+sse4.1"))]
fn row_to_rgb(luma: &[u8], cb: &[u8], cr: &[u8], range: Range, rgb: &mut [u8]) {
    let m = match range {
        Range::Limited => LIMITED,
        Range::Full => FULL,
    };
    let rounded = |sum: i32| ((sum + 32_768) >> 16).clamp(0, 255) as u8;
    let (rgb, _) = rgb.as_chunks_mut::<3>();
    for (((rgb, &y), &cb), &cr) in rgb.iter_mut().zip(luma).zip(cb).zip(cr) {
        let y = m.luma * (i32::from(y) - m.black);
        let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
        *rgb = [
            rounded(y + m.cr_to_r * cr),
            rounded(y + m.cb_to_g * cb + m.cr_to_g * cr),
            rounded(y + m.cb_to_b * cb),
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_pixel(y: u8, cb: u8, cr: u8, range: Range) -> [u8; 3] {
        let mut rgb = [0; 3];
        let chroma = Chroma::Blocks { across: 1, down: 1 };
        to_rgb(&[y, cb, cr], Size::new(1, 1).unwrap(), chroma, range, &mut rgb);
        rgb
    }

    /// Computes BT.601 by its definition, in floating point.
    fn by_definition(y: u8, cb: u8, cr: u8, range: Range) -> [f64; 3] {
        let (kr, kb) = (0.299, 0.114);
        let (black, luma, chroma) = match range {
            Range::Limited => (16.0, 219.0, 224.0),
            Range::Full => (0.0, 255.0, 255.0),
        };
        let y = (f64::from(y) - black) / luma;
        let (cb, cr) = ((f64::from(cb) - 128.0) / chroma, (f64::from(cr) - 128.0) / chroma);
        let r = y + 2.0 * (1.0 - kr) * cr;
        let b = y + 2.0 * (1.0 - kb) * cb;
        let g = (y - kr * r - kb * b) / (1.0 - kr - kb);
        [r, g, b].map(|v| (255.0 * v).clamp(0.0, 255.0))
    }

    #[test]
    fn black_white_and_primaries() {
        assert_eq!(one_pixel(16, 128, 128, Range::Limited), [0, 0, 0]);
        assert_eq!(one_pixel(235, 128, 128, Range::Limited), [255, 255, 255]);
        assert_eq!(one_pixel(0, 128, 128, Range::Limited), [0, 0, 0]);
        assert_eq!(one_pixel(255, 128, 128, Range::Limited), [255, 255, 255]);
        assert_eq!(one_pixel(81, 90, 240, Range::Limited), [254, 0, 0]);
        assert_eq!(one_pixel(0, 128, 128, Range::Full), [0, 0, 0]);
        assert_eq!(one_pixel(77, 128, 128, Range::Full), [77, 77, 77]);
        assert_eq!(one_pixel(255, 128, 128, Range::Full), [255, 255, 255]);
    }

    #[test]
    fn every_pixel_is_the_definition_rounded() {
        for range in [Range::Limited, Range::Full] {
            for y in (0..=255).step_by(3) {
                for cb in 0..=255 {
                    for cr in (0..=255).step_by(5) {
                        let got = one_pixel(y, cb, cr, range);
                        let want = by_definition(y, cb, cr, range);
                        for (got, want) in got.into_iter().zip(want) {
                            let error = (f64::from(got) - want).abs();
                            assert!(error < 0.51, "{y} {cb} {cr} {range:?}: {got} for {want}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_chroma_sample_covers_its_block() {
        let size = Size::new(5, 3).unwrap();
        for (across, down) in [(1, 1), (2, 1), (2, 2), (4, 1)] {
            let chroma = Chroma::Blocks { across, down };
            let (width, height) = chroma.plane(size);
            let luma: Vec<u8> = (0..15).map(|i| 20 + 14 * i).collect();
            let cb: Vec<u8> = (0..width * height).map(|i| 60 + 9 * i as u8).collect();
            let cr: Vec<u8> = (0..width * height).map(|i| 200 - 9 * i as u8).collect();
            let mut rgb = vec![0; size.rgb_len()];
            let planes = [luma.clone(), cb.clone(), cr.clone()].concat();
            to_rgb(&planes, size, chroma, Range::Limited, &mut rgb);
            for y in 0..3 {
                for x in 0..5 {
                    let block = y / down * width + x / across;
                    let want = one_pixel(luma[5 * y + x], cb[block], cr[block], Range::Limited);
                    assert_eq!(rgb[3 * (5 * y + x)..][..3], want, "{across}x{down} at {x},{y}");
                }
            }
        }
    }

    #[test]
    fn mono_has_no_colour() {
        let size = Size::new(3, 1).unwrap();
        let mut rgb = [0; 9];
        to_rgb(&[1, 130, 255], size, Chroma::Mono, Range::Full, &mut rgb);
        assert_eq!(rgb, [1, 1, 1, 130, 130, 130, 255, 255, 255]);
    }
}
