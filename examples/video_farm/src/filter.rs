//! The gray filter: `gray = (19595 R + 38470 G + 7471 B + 32768) >> 16`.
//!
//! One loop, compiled for several instruction sets, of which the best is chosen at run time. Every version gives the
//! bits of [`gray_reference`].

use multiversion::multiversion;
use multiversion::target::match_target;

/// How many pixels are filtered at a time where the result replaces the frame.
const BLOCK: usize = 1024;

/// Turns interleaved RGB into gray, one pixel after the other, exactly as in the definition.
///
/// The loop in 16 bits is checked against this one.
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
    vectors(rgb, gray);
}

/// Turns interleaved RGB into gray in place: the first third of `frame` becomes the gray frame,
/// the rest is left in an unspecified state. Returns the length of the gray frame.
///
/// # Panics
/// When the length of `frame` is not a multiple of three.
pub fn gray_in_place(frame: &mut [u8]) -> usize {
    in_place(frame, vectors)
}

fn in_place(frame: &mut [u8], filter: impl Fn(&[u8], &mut [u8])) -> usize {
    assert!(frame.len().is_multiple_of(3), "{} bytes are no whole RGB pixels", frame.len());
    let pixels = frame.len() / 3;
    let mut block = [0; BLOCK];
    for start in (0..pixels).step_by(BLOCK) {
        let end = pixels.min(start + BLOCK);
        let gray = &mut block[..end - start];
        filter(&frame[3 * start..3 * end], gray);
        frame[start..end].copy_from_slice(gray);
    }
    pixels
}

fn check(rgb: &[u8], gray: &[u8]) {
    assert_eq!(rgb.len(), 3 * gray.len(), "three bytes of RGB for each byte of gray");
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+ssse3+sse4.1"))]
fn vectors(rgb: &[u8], gray: &mut [u8]) {
    plain(rgb, gray);
}

/// The filter in 16-bit arithmetic: twice as many lanes in a vector as with 32 bits.
///
/// Each coefficient is split into `256 high + low`, so that the sum is `256 h + l + 32768` with
/// `h = 76 R + 150 G + 29 B ≤ 65025` and `l = 139 R + 70 G + 47 B ≤ 65280`. As `256 (h + 128)`
/// is a multiple of 256, dividing the sum by 65536 is dividing `h + 128 + (l >> 8)` by 256, and
/// that is at most 65408: nothing overflows and no bit is lost.
///
/// The three bytes are read one by one, because the compiler makes no vectors from pixels that are copied as arrays.
#[inline(always)]
fn plain(rgb: &[u8], gray: &mut [u8]) {
    for (rgb, gray) in rgb.chunks_exact(3).zip(gray) {
        let (r, g, b) = (u16::from(rgb[0]), u16::from(rgb[1]), u16::from(rgb[2]));
        let high = 76 * r + 150 * g + 29 * b;
        let low = 139 * r + 70 * g + 47 * b;
        *gray = ((high + 128 + (low >> 8)) >> 8) as u8;
    }
}

/// Returns the instruction set whose vectors [`gray`] and [`gray_in_place`] use on this machine.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "x86_64+ssse3+sse4.1"))]
pub fn instruction_set() -> &'static str {
    match_target! {
        "x86_64+avx512bw" => "avx512",
        "x86_64+avx2" => "avx2",
        "x86_64+ssse3" => "ssse3",
        "aarch64+neon" => "neon",
        _ => "plain",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Filter = fn(&[u8], &mut [u8]);

    #[multiversion(targets("x86_64+avx2"))]
    fn avx2(rgb: &[u8], gray: &mut [u8]) {
        plain(rgb, gray);
    }

    #[multiversion(targets("x86_64+ssse3+sse4.1"))]
    fn ssse3(rgb: &[u8], gray: &mut [u8]) {
        plain(rgb, gray);
    }

    /// The versions that this processor has; the plain one in place of the others.
    const VERSIONS: [(&str, Filter); 4] =
        [("best", vectors), ("avx2", avx2), ("ssse3", ssse3), ("plain", plain)];

    fn assert_all_versions_agree(rgb: &[u8]) {
        let mut expected = vec![0; rgb.len() / 3];
        gray_reference(rgb, &mut expected);
        for (name, filter) in VERSIONS {
            let mut out = vec![0; expected.len()];
            filter(rgb, &mut out);
            assert!(out == expected, "{name} differs for {} pixels", expected.len());
            let mut frame = rgb.to_vec();
            assert_eq!(in_place(&mut frame, filter), expected.len());
            assert!(
                frame[..expected.len()] == expected,
                "{name} in place differs for {} pixels",
                expected.len()
            );
        }
    }

    #[test]
    fn every_colour_is_exact() {
        for r in 0..=255u8 {
            let greens_and_blues = (0..=255u8).flat_map(|g| (0..=255u8).map(move |b| [r, g, b]));
            let rgb: Vec<[u8; 3]> = greens_and_blues.collect();
            assert_all_versions_agree(rgb.as_flattened());
        }
    }

    #[test]
    fn versions_agree_around_the_size_of_a_block() {
        for pixels in (0..=130).chain([1000, 1023, 1024, 1025, 4095, 4096, 4097]) {
            let rgb: Vec<u8> = (0..3 * pixels).map(|i| ((i * 7919) >> 4) as u8).collect();
            assert_all_versions_agree(&rgb);
        }
    }

    #[test]
    fn frames_and_results_may_begin_anywhere() {
        let bytes: Vec<u8> = (0..3 * 200 + 64).map(|i| ((i * 7919) >> 4) as u8).collect();
        for start in 0..64 {
            let rgb = &bytes[start..start + 3 * 200];
            let mut expected = [0; 200];
            gray_reference(rgb, &mut expected);
            for (name, filter) in VERSIONS {
                let mut out = vec![7; 200 + 64];
                filter(rgb, &mut out[63 - start..][..200]);
                assert!(out[63 - start..][..200] == expected, "{name} from {start}");
                out[63 - start..][..200].fill(7);
                assert!(out.iter().all(|&byte| byte == 7), "{name} writes elsewhere");
                let mut frame = bytes.clone();
                in_place(&mut frame[start..start + 3 * 200], filter);
                assert!(frame[start..start + 200] == expected, "{name} in place from {start}");
                assert_eq!(frame[..start], bytes[..start], "{name} writes before the frame");
                assert_eq!(frame[start + 3 * 200..], bytes[start + 3 * 200..], "{name}");
            }
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
