//! A computation of any length: most of it in registers, some of it in memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Words in a cache line.
const LINE: usize = 8;
/// Multiplications for each line. Each of them needs the result of the one before.
const ROUNDS: usize = 16;
/// More than a second-level cache holds, so that a pass over the words is memory traffic.
const WORDS: usize = (4 << 20) / 8;
/// At least one of the tries is undisturbed.
const TRIES: usize = 9;

/// A computation that passes over its own four megabytes, one line of 64 bytes at a time, and changes each line. A line
/// takes some nanoseconds, so about 4 GB/s go in and out.
pub struct Work {
    memory: Vec<u64>,
    at: usize,
    state: u64,
}

impl Work {
    /// Returns a computation at its beginning, with its memory in the caches.
    #[must_use]
    pub fn new() -> Work {
        let mut work = Work { memory: vec![1; WORDS], at: 0, state: 1 };
        work.run(WORDS / LINE);
        work
    }

    /// Computes on so many lines.
    pub fn run(&mut self, lines: usize) {
        let mut state = self.state;
        for _ in 0..lines {
            let word = &mut self.memory[self.at];
            state ^= *word;
            for _ in 0..ROUNDS {
                state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
            *word = state;
            self.at = if self.at + LINE < WORDS { self.at + LINE } else { 0 };
        }
        self.state = black_box(state);
    }

    /// Returns how many lines take about `time` on an undisturbed core.
    pub fn lines_in(&mut self, time: Duration) -> usize {
        const LINES: usize = 4000;
        let fastest = (0..TRIES)
            .map(|_| {
                let start = Instant::now();
                self.run(LINES);
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::MAX);
        (LINES as f64 * time.as_secs_f64() / fastest.as_secs_f64()).round() as usize
    }
}

impl Default for Work {
    fn default() -> Work {
        Work::new()
    }
}
