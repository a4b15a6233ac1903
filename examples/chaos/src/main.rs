//! The campaign: `cargo run --release --example chaos -- --runs 200 --seed 1`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use chaos::cli::Options;
use clap::Parser;

fn main() -> ExitCode {
    Options::parse().run()
}
