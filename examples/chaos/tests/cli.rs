//! Runs the built example as a user does.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let example = profile.join("examples").join("chaos");
    assert!(example.exists(), "build it first: cargo build --example chaos");
    Command::new(example).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    let (out, errors) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(errors))
}

#[test]
fn a_short_campaign_misses_nothing() {
    let output = run(&["--runs", "20", "--seed", "1", "--jobs", "2"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("20 runs, ") && text.contains("; 0 missed\n"), "{text}");
}

#[test]
fn a_seed_shows_its_plan_and_what_was_told() {
    let output = run(&["--runs", "1", "--seed", "1"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let plan = chaos::plan::Plan::new(1).to_string();
    assert!(text.starts_with(&format!("seed 1: {plan}\n")), "{text}");
    assert!(text.contains("Ended { rank: 0") && text.contains("Launched"), "{text}");
}
