//! A clock that is the same for all threads and processes of a machine.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns nanoseconds since a moment that is the same for all processes of this machine (`CLOCK_MONOTONIC`).
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux always has CLOCK_MONOTONIC");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Keeps the caller's core busy for `time`. A sleeping core would need more time to wake up than the next measurement
/// takes.
pub fn spin_for(time: Duration) {
    let end = monotonic_ns() + time.as_nanos() as u64;
    while monotonic_ns() < end {
        std::hint::spin_loop();
    }
}

/// Returns the time of reading [`monotonic_ns`], in nanoseconds. The time between two readings contains it once,
/// whichever core they were taken on.
pub fn reading_ns() -> f64 {
    const READINGS: u32 = 1000;
    let took = (0..9).map(|_| {
        let start = monotonic_ns();
        let end = (0..READINGS).fold(start, |_, _| monotonic_ns());
        (end - start) as f64 / f64::from(READINGS)
    });
    // Disturbances only add to the time.
    took.fold(f64::INFINITY, f64::min)
}
