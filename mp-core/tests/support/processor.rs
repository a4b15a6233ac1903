//! How much processor time this process uses.

use std::{thread::sleep, time::Duration};

use nix::time::{ClockId, clock_gettime};

/// Returns how much it has used so far.
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock").into()
}

/// Returns whether it uses less than this in at least one of ten times 300 ms. Beside other programs, a rank needs longer
/// until it sleeps.
pub fn uses_less_than(time: Duration) -> bool {
    let used = || {
        let before = processor_time();
        sleep(Duration::from_millis(300));
        processor_time() - before
    };
    (0..10).any(|_| used() < time)
}
