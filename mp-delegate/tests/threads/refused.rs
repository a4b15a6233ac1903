//! The same where the kernel refuses what makes sleeping cheap.

use crate::sandbox::{Refused, run};

/// Who sleeps at several words, or is not sure to be woken, comes back now and then: that takes
/// processor time.
const TESTS: [&str; 5] =
    ["ends::", "requests::", "threads::", "--skip", "who_can_do_nothing_sleeps"];

#[test]
fn without_the_system_calls() {
    run(Refused::Unknown, &TESTS);
}

#[test]
fn with_barriers_that_fail() {
    run(Refused::Barriers, &TESTS);
}
