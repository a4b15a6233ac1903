//! The filter in vectors of AArch64.
//!
//! 16-bit sums of 8-bit products, with coefficients split as in
//! [`gray_pixel`](super::gray_pixel).

use std::arch::aarch64::*;

use bytemuck::cast;

use super::{HIGH, LOW, Version, by_blocks, by_blocks_in_place};

#[target_feature(enable = "neon")]
pub(super) fn neon() -> Version {
    Version {
        name: "neon",
        apart: |rgb, gray| by_blocks(rgb, gray, |rgb| gray_16(rgb)),
        in_place: |frame| by_blocks_in_place(frame, |rgb| gray_16(rgb)),
    }
}

/// 16 pixels at a time.
#[inline]
#[target_feature(enable = "neon")]
fn gray_16(rgb: &[u8; 48]) -> [u8; 16] {
    let [first, second, third]: [[u8; 16]; 3] = cast(*rgb);
    let pixels = uint8x16x3_t(cast(first), cast(second), cast(third));
    let colour = |place: u8| {
        let indices: [u8; 16] = std::array::from_fn(|i| 3 * i as u8 + place);
        vqtbl3q_u8(pixels, cast(indices))
    };
    let [r, g, b] = [colour(0), colour(1), colour(2)];
    let sum = |[of_r, of_g, of_b]: [u8; 3]| {
        let [of_r, of_g, of_b] = [of_r, of_g, of_b].map(|of| vdupq_n_u8(of));
        let low = vmull_u8(vget_low_u8(r), vget_low_u8(of_r));
        let low = vmlal_u8(low, vget_low_u8(g), vget_low_u8(of_g));
        let low = vmlal_u8(low, vget_low_u8(b), vget_low_u8(of_b));
        let high = vmull_high_u8(r, of_r);
        let high = vmlal_high_u8(high, g, of_g);
        [low, vmlal_high_u8(high, b, of_b)]
    };
    let [high, low] = [sum(HIGH), sum(LOW)];
    let half = vdupq_n_u16(128);
    let [first, second] =
        [0, 1].map(|part| vsraq_n_u16::<8>(vaddq_u16(high[part], half), low[part]));
    cast(vshrn_high_n_u16::<8>(vshrn_n_u16::<8>(first), second))
}
