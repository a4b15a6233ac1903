//! The gray filter on its own: `gray hot|streamed` prints the nanoseconds it takes for a frame.
//!
//! A program by itself, so that the same source can be built for any instruction set.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use video_farm::filter::{gray, gray_reference};

const PIXELS: usize = 1000 * 1000;
/// Several times the cache.
const STREAMED: usize = 32;
const BATCHES: usize = 9;

fn frame(seed: usize) -> Vec<u8> {
    (0..3 * PIXELS).map(|i| ((i + seed).wrapping_mul(0x9E37_79B9) >> 11) as u8).collect()
}

fn main() -> ExitCode {
    let (count, passes) = match std::env::args().nth(1).as_deref() {
        Some("hot") => (1, 60),
        Some("streamed") => (STREAMED, 2),
        _ => {
            eprintln!("usage: gray hot|streamed");
            return ExitCode::FAILURE;
        }
    };
    let frames: Vec<_> = (0..count).map(frame).collect();
    let mut out = vec![vec![0; PIXELS]; count];
    let mut took: Vec<f64> = (0..=BATCHES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..passes {
                for (frame, out) in frames.iter().zip(&mut out) {
                    gray(black_box(frame), black_box(out));
                }
            }
            start.elapsed().as_nanos() as f64 / (passes * count) as f64
        })
        // The first touches every page for the first time.
        .skip(1)
        .collect();
    let mut expected = vec![0; PIXELS];
    for (frame, out) in frames.iter().zip(&out) {
        gray_reference(frame, &mut expected);
        if *out != expected {
            eprintln!("gray: a frame is not what the definition gives");
            return ExitCode::FAILURE;
        }
    }
    took.sort_by(f64::total_cmp);
    println!("{:.1}", took[BATCHES / 2]);
    ExitCode::SUCCESS
}
