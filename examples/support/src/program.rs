//! Runs a built example as a user does, for the tests of its package.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the command of an example, which cargo builds along with the tests of its package.
///
/// # Panics
/// When it is not built.
pub fn command(name: &str) -> Command {
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("the test is in a folder of cargo's");
    let example = profile.join("examples").join(name);
    assert!(example.exists(), "build it first: cargo build --example {name}");
    let mut command = Command::new(example);
    command.stdin(Stdio::null());
    command
}

/// Runs an example.
///
/// # Panics
/// When it cannot be started.
pub fn run(name: &str, arguments: &[&str]) -> Output {
    command(name).args(arguments).output().expect("the example can be started")
}

/// Runs an example that must succeed, and returns what it wrote.
///
/// # Panics
/// When it ends otherwise.
pub fn run_well(name: &str, arguments: &[&str]) -> Output {
    let output = run(name, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    output
}

/// Runs an example that must fail, and returns its standard error.
///
/// # Panics
/// When it ends well, or by a panic.
pub fn run_badly(name: &str, arguments: &[&str]) -> String {
    let output = run(name, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?} should fail");
    assert!(!complaint.contains("panicked"), "{complaint}");
    complaint
}
