//! The filter in 512-bit vectors of x86-64, for processors with byte shuffles of whole vectors
//! (VBMI) and dot products of bytes (VNNI): Intel since Ice Lake, AMD since Zen 4.
//!
//! `VPERMB` takes four bytes a pixel, R, G, B and G again. `VPDPBUSD` multiplies them by signed
//! 8-bit coefficients and adds the four products to a 32-bit sum. So a coefficient is split into
//! `256 high + low`, and the coefficient of G into that of the one G and that of the other:
//!
//! ```text
//! gray = (256 (77 R + 75 G + 29 B + 75 G + 128) + (-117 R + 70 G + 47 B)) >> 16
//! ```

use std::arch::x86_64::*;

use bytemuck::cast;

use super::x86::{load, shuffle};
use super::{Version, by_blocks, by_blocks_in_place};

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn version() -> Version {
    Version {
        name: "avx512",
        apart: |rgb, gray| by_blocks(rgb, gray, |rgb| gray_64(rgb)),
        in_place: |frame| by_blocks_in_place(frame, |rgb| gray_64(rgb)),
    }
}

/// Where the bytes of R, G, B and G are, in four pixels.
const RGBG: [i8; 16] = [0, 1, 2, 1, 3, 4, 5, 4, 6, 7, 8, 7, 9, 10, 11, 10];
const HIGH: i32 = i32::from_le_bytes([77, 75, 29, 75]);
const LOW: i32 = i32::from_le_bytes([-117i8 as u8, 70, 47, 0]);

/// 64 pixels, sixteen at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn gray_64(rgb: &[u8; 192]) -> [u8; 64] {
    let sixteen = |at, rgbg: [i8; 64]| {
        let pixels = _mm512_permutexvar_epi8(cast(rgbg), cast(load::<64>(rgb, at)));
        let high = _mm512_dpbusd_epi32(_mm512_set1_epi32(128), pixels, _mm512_set1_epi32(HIGH));
        let high = _mm512_slli_epi32::<8>(high);
        _mm512_dpbusd_epi32(high, pixels, _mm512_set1_epi32(LOW))
    };
    let at_start = |at| sixteen(at, const { shuffle(RGBG, 0, 12) });
    let before = |at| sixteen(at, const { shuffle(RGBG, 16, 12) });
    // Sums have 24 bits, of which the upper 8 are the gray pixel.
    let gray = |first, second| {
        let third_bytes = const { third_bytes() };
        _mm512_permutex2var_epi8(first, cast(third_bytes), second)
    };
    let first = gray(at_start(0), before(48 - 16));
    let second = gray(at_start(96), before(144 - 16));
    cast(_mm512_inserti64x4::<1>(first, _mm512_castsi512_si256(second)))
}

/// The third byte of every four in two vectors; the second half is unused.
const fn third_bytes() -> [u8; 64] {
    let mut all = [0; 64];
    let mut i = 0;
    while i < 32 {
        all[i] = 4 * i as u8 + 2;
        i += 1;
    }
    all
}
