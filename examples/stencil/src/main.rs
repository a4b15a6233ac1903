//! The stencil: `cargo run --release --example stencil -- --help` tells what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use stencil::cli::Options;

fn main() -> ExitCode {
    match Options::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Of the ranks of a launched world, which all come here, one speaks.
            if onchip::caller() {
                eprintln!("stencil: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
