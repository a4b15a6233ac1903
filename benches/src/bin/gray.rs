//! The gray filter on its own: prints the nanoseconds it takes for a frame.
//!
//! ```text
//! gray hot|streamed filter|any
//! ```
//!
//! `filter` is the filter of the video farm. `any` is the fastest of it and of plain loops that the compiler may
//! vectorise, so it shows what a build for the processor of this machine reaches without special care. This is a
//! separate program, so that the same source can be built for any instruction set.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use video_farm::filter::{gray, gray_reference};

const PIXELS: usize = 1000 * 1000;
/// The number of frames, which take several times the memory of the cache.
const STREAMED: usize = 32;
const BATCHES: usize = 9;

type Filter = fn(&[u8], &mut [u8]);

/// The definition of gray, in 32 bits.
fn wide(rgb: &[u8], gray: &mut [u8]) {
    for (gray, rgb) in gray.iter_mut().zip(rgb.as_chunks::<3>().0) {
        let [r, g, b] = rgb.map(u32::from);
        *gray = ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16) as u8;
    }
}

/// The same in 16 bits. Coefficients are split into 256 × high + low, so that nothing overflows.
fn narrow(rgb: &[u8], gray: &mut [u8]) {
    for (gray, rgb) in gray.iter_mut().zip(rgb.as_chunks::<3>().0) {
        let [r, g, b] = rgb.map(u16::from);
        let high = 76 * r + 150 * g + 29 * b + 128;
        let low = 139 * r + 70 * g + 47 * b;
        *gray = ((high + (low >> 8)) >> 8) as u8;
    }
}

fn frame(seed: usize) -> Vec<u8> {
    (0..3 * PIXELS).map(|i| ((i + seed).wrapping_mul(0x9E37_79B9) >> 11) as u8).collect()
}

/// Returns nanoseconds for each frame, the median of several batches; `None` if a frame was wrong.
fn measure(filter: Filter, frames: &[Vec<u8>], passes: usize) -> Option<f64> {
    let mut out = vec![vec![0; PIXELS]; frames.len()];
    let mut took: Vec<f64> = (0..=BATCHES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..passes {
                for (frame, out) in frames.iter().zip(&mut out) {
                    filter(black_box(frame), black_box(out));
                }
            }
            start.elapsed().as_nanos() as f64 / (passes * frames.len()) as f64
        })
        // In the first batch pages are touched for the first time, so it is skipped.
        .skip(1)
        .collect();
    let mut expected = vec![0; PIXELS];
    let right = frames.iter().zip(&out).all(|(frame, out)| {
        gray_reference(frame, &mut expected);
        *out == expected
    });
    took.sort_by(f64::total_cmp);
    right.then_some(took[BATCHES / 2])
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (count, passes, filters): (_, _, &[Filter]) = match words[..] {
        ["hot", "filter"] => (1, 30, &[gray]),
        ["hot", "any"] => (1, 30, &[gray, wide, narrow]),
        ["streamed", "filter"] => (STREAMED, 1, &[gray]),
        ["streamed", "any"] => (STREAMED, 1, &[gray, wide, narrow]),
        _ => {
            eprintln!("usage: gray hot|streamed filter|any");
            return ExitCode::FAILURE;
        }
    };
    let frames: Vec<_> = (0..count).map(frame).collect();
    let mut best = f64::INFINITY;
    for &filter in filters {
        match measure(filter, &frames, passes) {
            Some(ns) => best = best.min(ns),
            None => {
                eprintln!("gray: a frame is not what the definition gives");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{best:.1}");
    ExitCode::SUCCESS
}
