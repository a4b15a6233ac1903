//! The filter in vectors of x86-64.
//!
//! All widths do the same. Every 128-bit part of a vector gets four pixels, whose bytes are shuffled
//! into two vectors with one pair of 16-bit numbers a pixel: R with G, and B with G. `PMADDWD`
//! multiplies them by signed coefficients and adds the two products of a pair in 32 bits. 38470 is
//! too large for that, but it is twice 19235:
//!
//! ```text
//! gray = ((19595 R + 19235 G) + (7471 B + 19235 G) + 32768) >> 16
//! ```
//!
//! A vector is wider than the pixels it is loaded for. So that none reaches beyond its block, every
//! second one begins a little before its pixels. Vectors come and go as arrays of bytes, which takes
//! no unsafe code and costs nothing.

use std::arch::x86_64::*;

use bytemuck::cast;

use super::{Version, by_blocks, by_blocks_in_place};

#[target_feature(enable = "ssse3")]
pub(super) fn ssse3() -> Version {
    Version {
        name: "ssse3",
        apart: |rgb, gray| by_blocks(rgb, gray, |rgb| gray_16(rgb)),
        in_place: |frame| by_blocks_in_place(frame, |rgb| gray_16(rgb)),
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn avx2() -> Version {
    Version {
        name: "avx2",
        apart: |rgb, gray| by_blocks(rgb, gray, |rgb| gray_32(rgb)),
        in_place: |frame| by_blocks_in_place(frame, |rgb| gray_32(rgb)),
    }
}

/// In a shuffle: no byte, but zero.
const ZERO: i8 = -1;

/// Where the bytes of R and G are, in four pixels.
const RG: [i8; 16] = [0, ZERO, 1, ZERO, 3, ZERO, 4, ZERO, 6, ZERO, 7, ZERO, 9, ZERO, 10, ZERO];
/// Where the bytes of B and G are.
const BG: [i8; 16] = [2, ZERO, 1, ZERO, 5, ZERO, 4, ZERO, 8, ZERO, 7, ZERO, 11, ZERO, 10, ZERO];

/// The coefficients of R and G, as a pair lies in memory.
const OF_RG: i32 = 19595 | 19235 << 16;
/// The coefficients of B and G.
const OF_BG: i32 = 7471 | 19235 << 16;
/// One half, so that the shift rounds.
const HALF: i32 = 1 << 15;

/// A shuffle of a whole vector: `four` for each four pixels. The first of them begin at `start`,
/// the others `step` bytes after those before.
pub(super) const fn shuffle<const BYTES: usize>(
    four: [i8; 16],
    start: i8,
    step: i8,
) -> [i8; BYTES] {
    let mut all = [ZERO; BYTES];
    let mut i = 0;
    while i < BYTES {
        if four[i % 16] != ZERO {
            all[i] = start + step * (i / 16) as i8 + four[i % 16];
        }
        i += 1;
    }
    all
}

/// The bytes of a vector that begins at `at`.
#[inline(always)]
pub(super) fn load<const BYTES: usize>(block: &[u8], at: usize) -> [u8; BYTES] {
    *block[at..].first_chunk().expect("vectors lie within their block")
}

/// 16 pixels, four at a time.
#[inline]
#[target_feature(enable = "ssse3")]
fn gray_16(rgb: &[u8; 48]) -> [u8; 16] {
    let four = |at, rg: [i8; 16], bg: [i8; 16]| {
        let pixels = cast(load::<16>(rgb, at));
        let rg = _mm_madd_epi16(_mm_shuffle_epi8(pixels, cast(rg)), _mm_set1_epi32(OF_RG));
        let bg = _mm_madd_epi16(_mm_shuffle_epi8(pixels, cast(bg)), _mm_set1_epi32(OF_BG));
        let sum = _mm_add_epi32(_mm_add_epi32(rg, bg), _mm_set1_epi32(HALF));
        _mm_srli_epi32::<16>(sum)
    };
    let at_start = |at| four(at, const { shuffle(RG, 0, 0) }, const { shuffle(BG, 0, 0) });
    let before = |at| four(at, const { shuffle(RG, 4, 0) }, const { shuffle(BG, 4, 0) });
    let low = _mm_packs_epi32(at_start(0), before(12 - 4));
    let high = _mm_packs_epi32(at_start(24), before(36 - 4));
    cast(_mm_packus_epi16(low, high))
}

/// 32 pixels, eight at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn gray_32(rgb: &[u8; 96]) -> [u8; 32] {
    let eight = |at| {
        let [first, second] = [load::<16>(rgb, at), load::<16>(rgb, at + 12 - 4)].map(cast);
        let pixels = _mm256_set_m128i(second, first);
        let [rg, bg] = const { [shuffle::<32>(RG, 0, 4), shuffle::<32>(BG, 0, 4)] }.map(cast);
        let rg = _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, rg), _mm256_set1_epi32(OF_RG));
        let bg = _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, bg), _mm256_set1_epi32(OF_BG));
        let sum = _mm256_add_epi32(_mm256_add_epi32(rg, bg), _mm256_set1_epi32(HALF));
        _mm256_srli_epi32::<16>(sum)
    };
    let low = _mm256_packs_epi32(eight(0), eight(24));
    let high = _mm256_packs_epi32(eight(48), eight(72));
    // Packing goes by 128-bit parts, which leaves four pixels of each vector in either part.
    let in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    cast(_mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), in_order))
}
