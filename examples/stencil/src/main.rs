//! The stencil: `cargo run --release --example stencil -- --help` tells what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use stencil::cli::Options;

fn main() -> ExitCode {
    example_support::end("stencil", Options::parse().run())
}
