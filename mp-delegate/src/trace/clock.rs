//! The clock of all traces.

use nix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds of `CLOCK_MONOTONIC`. This clock is the same in all processes of the machine, so that spans
/// of several processes line up.
pub fn now() -> u64 {
    #[cfg(test)]
    READINGS.with(|count| count.set(count.get() + 1));
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds for which this thread has had a processor.
pub(super) fn of_thread() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    // It cannot fail: the clock is always there, and the kernel can write the answer.
    let Ok(time) = clock_gettime(clock) else { return 0 };
    let number = |part: i64| u64::try_from(part).unwrap_or(0);
    number(time.tv_sec()) * 1_000_000_000 + number(time.tv_nsec())
}

#[cfg(test)]
thread_local! {
    /// How often this thread has read the clock.
    pub(super) static READINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
