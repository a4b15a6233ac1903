//! The raw probe: one cache line to and fro between two pinned threads. Half of its round trip is the floor of every
//! latency, and shows where the host has placed the two cores at the moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};

use crate::cpus;
use crate::stats::median;

/// Cores are near each other if half of a round trip takes less than this.
const NEAR_BELOW_NS: f64 = 100.0;
/// If one probe took this many times as long as another, the cores were moved, or other programs ran on them.
const MOVED: f64 = 1.6;
/// No cores are that far from each other: other programs were running on them.
const BUSY_ABOVE_NS: f64 = 1000.0;

/// How far apart the two cores were while a sample was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// Usually cores under one last-level cache.
    Near,
    /// Further apart.
    Far,
}

impl Distance {
    /// Returns the distance by the probes around one or more samples. `None` if the cores were moved between the
    /// probes, because they differ too much, or if the probes show that other programs use the cores.
    pub fn of(probes: &[f64]) -> Option<Distance> {
        let least = probes.iter().copied().fold(f64::INFINITY, f64::min);
        let most = probes.iter().copied().fold(0.0, f64::max);
        if most > MOVED * least || most > BUSY_ABOVE_NS {
            None
        } else if (least * most).sqrt() < NEAR_BELOW_NS {
            Some(Distance::Near)
        } else {
            Some(Distance::Far)
        }
    }

    /// Returns `near` or `far`.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
        }
    }
}

/// Tells the other side that the last trip has been made.
const STOP: u64 = u64::MAX;

/// Returns half round trips in nanoseconds, one for each batch. Batches of `trips` follow each other until `go_on`,
/// which is called after each, returns false. The first batch warms up and is not reported.
fn batches(cpus: [usize; 2], trips: u64, mut go_on: impl FnMut(usize) -> bool + Send) -> Vec<f64> {
    let there = CachePadded::new(AtomicU64::new(0));
    let back = CachePadded::new(AtomicU64::new(0));
    let measure = || {
        let mut sequence = 0;
        let mut took = Vec::new();
        loop {
            let start = Instant::now();
            for _ in 0..trips {
                sequence += 1;
                there.store(sequence, Ordering::Release);
                while back.load(Ordering::Acquire) != sequence {}
            }
            took.push(start.elapsed().as_nanos() as f64 / (2 * trips) as f64);
            if !go_on(took.len() - 1) {
                there.store(STOP, Ordering::Release);
                took.remove(0);
                return took;
            }
        }
    };
    let echo = || {
        let mut last = 0;
        loop {
            let seen = there.load(Ordering::Acquire);
            if seen == STOP {
                return;
            }
            if seen != last {
                last = seen;
                back.store(seen, Ordering::Release);
            }
        }
    };
    cpus::side_by_side(cpus, measure, echo).0
}

/// Makes the probe between samples, which takes about 1.5 ms. Returns half of a round trip in nanoseconds.
pub fn probe(cpus: [usize; 2]) -> f64 {
    let start = Instant::now();
    median(&batches(cpus, 500, |taken| {
        taken < 3 || (taken < 50 && start.elapsed() < Duration::from_micros(1500))
    }))
}

/// Measures the floor as a reference, for as long as the measurement that it is compared with.
pub fn floor(cpus: [usize; 2], count: usize, trips: u64) -> f64 {
    median(&batches(cpus, trips, |taken| taken < count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_that_probes_show() {
        assert_eq!(Distance::of(&[60.0, 69.0, 63.0, 61.0]), Some(Distance::Near));
        assert_eq!(Distance::of(&[235.0, 244.0]), Some(Distance::Far));
        assert_eq!(Distance::of(&[121.0, 142.0, 135.0, 128.0]), Some(Distance::Far));
        assert_eq!(Distance::of(&[61.0, 240.0]), None, "they were moved");
        assert_eq!(Distance::of(&[5e4, 5e4]), None, "they were busy");
    }
}
