//! The store: `cargo run --release --example kv_server -- --help` tells what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use kv_server::cli::Options;

fn main() -> ExitCode {
    example_support::end("kv_server", Options::parse().run())
}
