//! `mprun`: launches programs as the ranks of a world, and shows machines and worlds.
//!
//! | file | what it is |
//! |---|---|
//! | `launch` | launching, from the start of the ranks to an exit status |
//! | `between` | what connects the `mprun`s of several nodes |
//! | `mpiexec` | the options of MPI's launchers, under whose names it can be called |
//! | `output`, `signals` | the output of the ranks; signals for the ranks |
//! | `record` | what ranks record of their calls of MPI, as a trace or a picture |
//! | `topo`, `ps`, `report`, `trace_svg`, `calibrate`, `explain` | the subcommands |
//! | `nodes` | what `explain` simulates of several nodes |
//! | `text`, `drawn`, `shown` | times, sizes, lists and trees for humans; exit statuses |
#![forbid(unsafe_code)]

mod between;
mod calibrate;
mod drawn;
mod explain;
mod launch;
mod mpiexec;
mod nodes;
mod output;
mod ps;
mod record;
mod report;
mod shown;
mod signals;
mod text;
mod topo;
mod trace_svg;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::shown::OWN_FAILURE;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Runs a program as the ranks of a world; shows machines and worlds.",
    long_about = None,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    override_usage = "mprun [OPTIONS] PROGRAM [ARGS]...\n       mprun <topo|ps|report|trace-svg|calibrate|explain> [OPTIONS]",
    after_help = "Exit status: that of the rank that failed first (128 + the signal's number if one \
                  killed it,\n1 if it ended with 0 before its code did), 0 when none did; 124 when the time limit was over, 125 when mprun \
                  itself failed, 126 and 127\nwhen the program could not be started or was not \
                  found, 2 for wrong usage.\nTo launch a program named like a subcommand: mprun -- report."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    launch: launch::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Draws the machine, and where the ranks of a world would go
    Topo(topo::Args),
    /// Lists the worlds that run
    Ps(ps::Args),
    /// Shows who waits for whom in a world, and names deadlocks
    Report(report::Args),
    /// Draws a trace as SVG
    TraceSvg(trace_svg::Args),
    /// Shows what moving cache lines costs on this machine
    Calibrate(calibrate::Args),
    /// Shows which shape a collective operation has here, and what it takes
    Explain(explain::Args),
}

fn main() -> ExitCode {
    let cli = match mpiexec::translated(std::env::args_os()) {
        Ok(args) => Cli::parse_from(args),
        Err(wrong) => {
            eprintln!("mprun: {wrong}");
            return ExitCode::from(shown::USAGE);
        }
    };
    let shown = match &cli.command {
        None => return launch::run(&cli.launch),
        Some(Command::Topo(args)) => topo::run(args),
        Some(Command::Ps(args)) => ps::run(args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::TraceSvg(args)) => trace_svg::run(args),
        Some(Command::Calibrate(args)) => calibrate::run(args),
        Some(Command::Explain(args)) => explain::run(args),
    };
    match shown {
        Ok(status) => status,
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mprun: {error}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

/// Returns whether the reader of the output has closed the pipe.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
