//! The same tests where the kernel refuses the calls that make sleeping cheap.

use crate::sandbox::{Refused, run};

/// A thread that sleeps at several words, or may miss a wake-up, wakes now and then, which takes processor time.
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
