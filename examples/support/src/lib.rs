//! The common parts of the large examples.
//!
//! | part | what it is |
//! |---|---|
//! | [`Error`] | why there is no result |
//! | [`options`] | pieces of command lines, and what ranks are |
//! | [`measure`], [`table`] | medians, spreads and ratios; results beside each other |
//! | [`files`] | files that appear only when they are whole |
//! | [`kts`] | communication threads where a plan puts them |
//! | [`peers`] | programs in C that do the same with other libraries |
//! | [`machine`], [`program`] | machines for tests of placements; running a built example, for tests |
#![forbid(unsafe_code)]

mod error;
pub mod files;
pub mod kts;
mod machine;
pub mod measure;
pub mod options;
pub mod peers;
pub mod program;
pub mod table;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

pub use error::{Error, Result};
pub use machine::machine;

/// Returns the exit status of the program `name`, and prints the error if there was one.
pub fn end(name: &str, result: Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // All ranks of a launched world come here, but only one prints.
    if onchip::caller() {
        eprintln!("{name}: {error}");
    }
    ExitCode::FAILURE
}

/// Prints a line, unless this is a rank that is a process.
///
/// # Errors
/// Standard output that is closed.
pub fn say(text: impl fmt::Display) -> Result<()> {
    if !onchip::caller() {
        return Ok(());
    }
    writeln!(io::stdout(), "{text}").map_err(|error| Error::at("standard output", error))
}
