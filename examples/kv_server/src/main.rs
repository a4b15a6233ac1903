//! The store: `cargo run --release --example kv_server -- --help` tells what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use kv_server::cli::Options;

fn main() -> ExitCode {
    match Options::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Of the ranks of a launched world, which all come here, one speaks.
            if onchip::caller() {
                eprintln!("kv_server: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
