//! The gray filter: `gray = (19595 R + 38470 G + 7471 B + 32768) >> 16`.
//!
//! Written to be vectorised, and compiled for several instruction sets of which the best is
//! chosen at run time, so that the default build runs as fast as one for the machine at hand.
//! Every version gives the bits of [`gray_reference`].

use multiversion::multiversion;

/// Pixels handled at a time: a few vectors of the widest instruction set.
const CHUNK: usize = 64;

/// Turns interleaved RGB into gray, one pixel after the other, in the words of the definition.
///
/// This is what every other version is checked against.
///
/// # Panics
/// When `rgb` does not hold exactly three bytes for each byte of `gray`.
pub fn gray_reference(rgb: &[u8], gray: &mut [u8]) {
    check(rgb, gray);
    for (rgb, gray) in rgb.chunks_exact(3).zip(gray) {
        let [r, g, b] = [rgb[0], rgb[1], rgb[2]].map(u32::from);
        *gray = ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16) as u8;
    }
}

/// Turns interleaved RGB into gray.
///
/// ```
/// let mut gray = [0; 2];
/// video_farm::filter::gray(&[255, 255, 255, 0, 255, 0], &mut gray);
/// assert_eq!(gray, [255, 150]);
/// ```
///
/// # Panics
/// When `rgb` does not hold exactly three bytes for each byte of `gray`.
pub fn gray(rgb: &[u8], gray: &mut [u8]) {
    check(rgb, gray);
    gray_dispatched(rgb, gray);
}

/// Turns interleaved RGB into gray in place: the first third of `frame` becomes the gray frame,
/// the rest is left in an unspecified state. Returns the length of the gray frame.
///
/// # Panics
/// When the length of `frame` is not a multiple of three.
pub fn gray_in_place(frame: &mut [u8]) -> usize {
    assert!(frame.len().is_multiple_of(3), "{} bytes are no whole RGB pixels", frame.len());
    in_place_dispatched(frame);
    frame.len() / 3
}

fn check(rgb: &[u8], gray: &[u8]) {
    assert_eq!(rgb.len(), 3 * gray.len(), "three bytes of RGB for each byte of gray");
}

/// The filter on one pixel, in 16-bit arithmetic: twice as many lanes a vector as with 32 bits.
///
/// Each coefficient is split into `256 high + low`, so that the sum is `256 h + l + 32768` with
/// `h = 76 R + 150 G + 29 B ≤ 65025` and `l = 139 R + 70 G + 47 B ≤ 65280`. As `256 (h + 128)`
/// is a multiple of 256, dividing the sum by 65536 is dividing `h + 128 + (l >> 8)` by 256, and
/// that is at most 65408: nothing overflows and no bit is lost.
#[inline(always)]
fn gray_pixel(r: u8, g: u8, b: u8) -> u8 {
    let [r, g, b] = [r, g, b].map(u16::from);
    let high = 76 * r + 150 * g + 29 * b + 128;
    let low = 139 * r + 70 * g + 47 * b;
    ((high + (low >> 8)) >> 8) as u8
}

#[inline(always)]
fn gray_chunk(rgb: &[u8; 3 * CHUNK], gray: &mut [u8; CHUNK]) {
    for i in 0..CHUNK {
        gray[i] = gray_pixel(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
    }
}

#[inline(always)]
fn gray_kernel(rgb: &[u8], gray: &mut [u8]) {
    let (rgb_chunks, rgb_rest) = rgb.as_chunks::<{ 3 * CHUNK }>();
    let (gray_chunks, gray_rest) = gray.as_chunks_mut::<CHUNK>();
    for (rgb, gray) in rgb_chunks.iter().zip(gray_chunks) {
        gray_chunk(rgb, gray);
    }
    for (rgb, gray) in rgb_rest.chunks_exact(3).zip(gray_rest) {
        *gray = gray_pixel(rgb[0], rgb[1], rgb[2]);
    }
}

#[inline(always)]
fn in_place_kernel(frame: &mut [u8]) {
    let pixels = frame.len() / 3;
    let whole = pixels - pixels % CHUNK;
    for start in (0..whole).step_by(CHUNK) {
        // The gray bytes of the first chunks land on RGB bytes of the same chunk.
        let mut rgb = [0; 3 * CHUNK];
        rgb.copy_from_slice(&frame[3 * start..3 * start + 3 * CHUNK]);
        let mut gray = [0; CHUNK];
        gray_chunk(&rgb, &mut gray);
        frame[start..start + CHUNK].copy_from_slice(&gray);
    }
    for i in whole..pixels {
        frame[i] = gray_pixel(frame[3 * i], frame[3 * i + 1], frame[3 * i + 2]);
    }
}

/// Compiles both kernels for a list of targets, of which the first that fits is taken.
macro_rules! dispatch {
    ($gray:ident, $in_place:ident, $($target:literal),*) => {
        #[multiversion(targets($($target),*))]
        fn $gray(rgb: &[u8], gray: &mut [u8]) {
            gray_kernel(rgb, gray)
        }

        #[multiversion(targets($($target),*))]
        fn $in_place(frame: &mut [u8]) {
            in_place_kernel(frame)
        }
    };
}

// NEON is part of every aarch64 and so of the version without any extra instruction set.
dispatch!(
    gray_dispatched,
    in_place_dispatched,
    "x86_64+avx512f+avx512bw+avx512vl",
    "x86_64+avx2",
    "x86_64+ssse3+sse4.1"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    dispatch!(gray_avx512, in_place_avx512, "x86_64+avx512f+avx512bw+avx512vl");
    dispatch!(gray_avx2, in_place_avx2, "x86_64+avx2");
    dispatch!(gray_sse, in_place_sse, "x86_64+ssse3+sse4.1");

    type Version = (&'static str, fn(&[u8], &mut [u8]), fn(&mut [u8]));

    /// Each falls back to the plain kernel on a machine that lacks its instruction set.
    const VERSIONS: [Version; 5] = [
        ("plain", gray_kernel, in_place_kernel),
        ("sse", gray_sse, in_place_sse),
        ("avx2", gray_avx2, in_place_avx2),
        ("avx512", gray_avx512, in_place_avx512),
        ("dispatched", gray_dispatched, in_place_dispatched),
    ];

    fn assert_all_versions_agree(rgb: &[u8]) {
        let mut expected = vec![0; rgb.len() / 3];
        gray_reference(rgb, &mut expected);
        for (name, gray, in_place) in VERSIONS {
            let mut out = vec![0; expected.len()];
            gray(rgb, &mut out);
            assert!(out == expected, "{name} differs for {} pixels", expected.len());
            let mut frame = rgb.to_vec();
            in_place(&mut frame);
            assert!(
                frame[..expected.len()] == expected,
                "{name} in place differs for {} pixels",
                expected.len()
            );
        }
    }

    #[test]
    fn one_pixel_is_exact_for_every_colour() {
        for r in 0..=255u8 {
            for g in 0..=255u8 {
                for b in 0..=255u8 {
                    let [wide_r, wide_g, wide_b] = [r, g, b].map(u32::from);
                    let sum = 19595 * wide_r + 38470 * wide_g + 7471 * wide_b + 32768;
                    assert_eq!(u32::from(gray_pixel(r, g, b)), sum >> 16, "{r} {g} {b}");
                }
            }
        }
    }

    #[test]
    fn versions_agree_around_the_chunk_size() {
        for pixels in (0..=2 * CHUNK + 1).chain([1000, 4095, 4096, 4097]) {
            let rgb: Vec<u8> = (0..3 * pixels).map(|i| ((i * 7919) >> 4) as u8).collect();
            assert_all_versions_agree(&rgb);
        }
    }

    #[test]
    #[should_panic(expected = "three bytes of RGB")]
    fn lengths_must_fit() {
        gray(&[0; 5], &mut [0; 2]);
    }

    #[test]
    #[should_panic(expected = "no whole RGB pixels")]
    fn in_place_wants_whole_pixels() {
        gray_in_place(&mut [0; 4]);
    }

    proptest! {
        #[test]
        fn versions_agree_on_any_frame(pixels in proptest::collection::vec(any::<[u8; 3]>(), 0..700)) {
            assert_all_versions_agree(pixels.as_flattened());
        }
    }
}
