//! Runs tests again in a sandbox in which the kernel refuses the system calls that make sleeping cheap.

use crate::sandbox::{Refused, run};

const TESTS: [&str; 6] =
    ["mpb::nobody_sleeps", "mpb::several", "pairs::", "rendezvous::", "select::", "shared::"];

#[test]
fn without_the_system_calls() {
    run(Refused::Unknown, &TESTS);
}

#[test]
fn with_barriers_that_fail() {
    run(Refused::Barriers, &TESTS);
}
