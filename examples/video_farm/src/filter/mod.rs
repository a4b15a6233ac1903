//! The gray filter: `gray = (19595 R + 38470 G + 7471 B + 32768) >> 16`.
//!
//! Written in the vectors of several instruction sets, of which the best is chosen at run time, so
//! that the default build runs as fast as one for the machine at hand and does not depend on what a
//! compiler sees fit to vectorise. Every version gives the bits of [`gray_reference`].

use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[allow(unsafe_code)]
mod versions;
#[cfg(target_arch = "x86_64")]
mod x86;

/// The filter in the vectors of one instruction set.
#[derive(Clone, Copy, Debug)]
struct Version {
    name: &'static str,
    /// From interleaved RGB to gray, of which there is a third.
    apart: fn(&[u8], &mut [u8]),
    /// Into the first third.
    in_place: fn(&mut [u8]),
}

static BEST: LazyLock<Version> = LazyLock::new(|| versions::offered()[0]);

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
    (BEST.apart)(rgb, gray);
}

/// Turns interleaved RGB into gray in place: the first third of `frame` becomes the gray frame,
/// the rest is left in an unspecified state. Returns the length of the gray frame.
///
/// # Panics
/// When the length of `frame` is not a multiple of three.
pub fn gray_in_place(frame: &mut [u8]) -> usize {
    assert!(frame.len().is_multiple_of(3), "{} bytes are no whole RGB pixels", frame.len());
    (BEST.in_place)(frame);
    frame.len() / 3
}

/// The instruction set whose vectors [`gray`] and [`gray_in_place`] use on this machine.
pub fn instruction_set() -> &'static str {
    BEST.name
}

fn check(rgb: &[u8], gray: &[u8]) {
    assert_eq!(rgb.len(), 3 * gray.len(), "three bytes of RGB for each byte of gray");
}

/// Where a coefficient is split into `256 HIGH + LOW`: those of R, G and B.
const HIGH: [u8; 3] = [76, 150, 29];
const LOW: [u8; 3] = [139, 70, 47];

/// The filter on one pixel, in 16-bit arithmetic: twice as many lanes a vector as with 32 bits.
///
/// Each coefficient is split into `256 high + low`, so that the sum is `256 h + l + 32768` with
/// `h = 76 R + 150 G + 29 B ≤ 65025` and `l = 139 R + 70 G + 47 B ≤ 65280`. As `256 (h + 128)`
/// is a multiple of 256, dividing the sum by 65536 is dividing `h + 128 + (l >> 8)` by 256, and
/// that is at most 65408: nothing overflows and no bit is lost.
#[inline(always)]
fn gray_pixel(rgb: [u8; 3]) -> u8 {
    let sum = |of: [u8; 3]| (0..3).map(|i| u16::from(rgb[i]) * u16::from(of[i])).sum::<u16>();
    ((sum(HIGH) + 128 + (sum(LOW) >> 8)) >> 8) as u8
}

/// Takes `rgb` through `block`, which turns `PIXELS` pixels of `BYTES` bytes gray.
#[inline(always)]
fn by_blocks<const BYTES: usize, const PIXELS: usize>(
    rgb: &[u8],
    gray: &mut [u8],
    block: impl Fn(&[u8; BYTES]) -> [u8; PIXELS],
) {
    const { assert!(BYTES == 3 * PIXELS) };
    let (rgb_blocks, rgb_rest) = rgb.as_chunks();
    let (gray_blocks, gray_rest) = gray.as_chunks_mut();
    for (rgb, gray) in rgb_blocks.iter().zip(gray_blocks) {
        *gray = block(rgb);
    }
    if !gray_rest.is_empty() {
        gray_rest.copy_from_slice(&block(&padded(rgb_rest))[..gray_rest.len()]);
    }
}

/// The same, with the gray frame in the first third of the other.
#[inline(always)]
fn by_blocks_in_place<const BYTES: usize, const PIXELS: usize>(
    frame: &mut [u8],
    block: impl Fn(&[u8; BYTES]) -> [u8; PIXELS],
) {
    const { assert!(BYTES == 3 * PIXELS) };
    let pixels = frame.len() / 3;
    let whole = pixels - pixels % PIXELS;
    for start in (0..whole).step_by(PIXELS) {
        // A block is read before its gray pixels are written, which may lie in it but not after it.
        if let Some(rgb) = frame[3 * start..].first_chunk() {
            let gray = block(rgb);
            frame[start..start + PIXELS].copy_from_slice(&gray);
        }
    }
    let gray = block(&padded(&frame[3 * whole..3 * pixels]));
    frame[whole..pixels].copy_from_slice(&gray[..pixels - whole]);
}

/// A block that begins with `rest`.
fn padded<const BYTES: usize>(rest: &[u8]) -> [u8; BYTES] {
    let mut block = [0; BYTES];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// For processors without a version of their own.
fn plain() -> Version {
    fn block(rgb: &[u8; 48]) -> [u8; 16] {
        std::array::from_fn(|i| gray_pixel([rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]]))
    }
    Version {
        name: "plain",
        apart: |rgb, gray| by_blocks(rgb, gray, block),
        in_place: |frame| by_blocks_in_place(frame, block),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_all_versions_agree(rgb: &[u8]) {
        let mut expected = vec![0; rgb.len() / 3];
        gray_reference(rgb, &mut expected);
        for Version { name, apart, in_place } in versions::offered() {
            let mut out = vec![0; expected.len()];
            apart(rgb, &mut out);
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
    fn every_colour_is_exact() {
        for r in 0..=255u8 {
            let greens_and_blues = (0..=255u8).flat_map(|g| (0..=255u8).map(move |b| [r, g, b]));
            let rgb: Vec<[u8; 3]> = greens_and_blues.collect();
            assert_all_versions_agree(rgb.as_flattened());
        }
    }

    #[test]
    fn versions_agree_around_the_size_of_a_block() {
        for pixels in (0..=130).chain([1000, 4095, 4096, 4097]) {
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
            for Version { name, apart, in_place } in versions::offered() {
                let mut out = vec![7; 200 + 64];
                apart(rgb, &mut out[63 - start..][..200]);
                assert!(out[63 - start..][..200] == expected, "{name} from {start}");
                out[63 - start..][..200].fill(7);
                assert!(out.iter().all(|&byte| byte == 7), "{name} writes elsewhere");
                let mut frame = bytes.clone();
                in_place(&mut frame[start..start + 3 * 200]);
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
