//! The video farm: `cargo run --release --example video_farm -- --help` tells what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use video_farm::cli::Options;

fn main() -> ExitCode {
    example_support::end("video_farm", Options::parse().run())
}
