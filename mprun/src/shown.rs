//! How `mprun` ends.

use std::process::ExitCode;

/// The exit status for wrong usage, which clap uses as well.
pub const USAGE: u8 = 2;
/// The exit status when `mprun` itself fails.
pub const OWN_FAILURE: u8 = 125;

/// The result of a subcommand.
pub type Shown = Result<ExitCode, Box<dyn std::error::Error>>;
