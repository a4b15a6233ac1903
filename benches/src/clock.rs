//! A clock that threads and processes of one machine agree on.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since a moment that is the same for every process of this machine
/// (`CLOCK_MONOTONIC`).
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux always has CLOCK_MONOTONIC");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Keeps the caller's core busy for `time`: a sleeping core would take longer to come back than
/// what is measured next.
pub fn spin_for(time: Duration) {
    let end = monotonic_ns() + time.as_nanos() as u64;
    while monotonic_ns() < end {
        std::hint::spin_loop();
    }
}

/// What reading [`monotonic_ns`] takes, in nanoseconds: the time from one reading to the next has
/// it in it once, on whichever core either was taken.
pub fn reading_ns() -> f64 {
    const READINGS: u32 = 1000;
    let took = (0..9).map(|_| {
        let start = monotonic_ns();
        let end = (0..READINGS).fold(start, |_, _| monotonic_ns());
        (end - start) as f64 / f64::from(READINGS)
    });
    // What disturbs it only adds to it.
    took.fold(f64::INFINITY, f64::min)
}
