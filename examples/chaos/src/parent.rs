//! The launcher's parent: starts it and waits for it, so that its death is that of any program that
//! starts worlds.

use std::process::{Command, ExitCode, Stdio};

use crate::life::Life;
use crate::plan::{Plan, Who};
use crate::record::Record;

/// Runs the parent.
pub fn main(plan: &Plan) -> ExitCode {
    let life = Life::begin(plan, Who::Parent);
    let launcher = std::env::current_exe().and_then(|program| {
        let seed = plan.seed.to_string();
        let arguments = ["--part", "launcher", "--seed", &seed];
        Command::new(program).args(arguments).stdin(Stdio::null()).status()
    });
    let ending = match launcher {
        Ok(status) => status.to_string(),
        Err(error) => format!("not started: {error}"),
    };
    Record::Launched { ending }.tell();
    match life.last() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
