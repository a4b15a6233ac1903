//! When a communication thread pays: the model of `onchip::threads::pays` beside measurements on this machine.
//!
//! `cargo bench --bench when_it_pays -- [--csv FILE] [--svg FILE] [--quick]`
//!
//! A rank on one core computes for a grain of time and sends a message to itself, in turn. The same is measured without
//! the send, with an inline send, and with a delegated one, for a thread on the other core and on the rank's own. The
//! constants of the model are measured first, separately from the grid.

#![forbid(unsafe_code)]

mod costs;
mod grid;
mod picture;
mod rounds;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use onchip_benches::{cpus, output::write};

use crate::grid::Cell;

/// Measures when communication threads pay, beside the model.
#[derive(Parser)]
#[command(name = "when_it_pays")]
struct Options {
    /// Write the grid to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the gain over the size, one line for each grain
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Few grains and sizes, each once: to see that it works
    #[arg(long)]
    quick: bool,
    /// Cargo passes this to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("when_it_pays: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let [first, second, ..] = cpus::usable()[..] else {
        return Err("two CPUs are needed, and this process may use fewer".into());
    };
    let cpus = [first, second];
    let costs = costs::measure(cpus, options.quick)?;
    println!("{}\n", costs::show(&costs));
    println!("{}", Cell::HEADING);
    let mut cells = Vec::new();
    for cell in grid::measure(cpus, &costs, options.quick) {
        let cell = cell?;
        println!("{cell}");
        // The output is flushed because somebody may watch it. If that reader has gone, this does not matter to the
        // measurements.
        let _ = std::io::stdout().flush();
        cells.push(cell);
    }
    if let Some(path) = &options.csv {
        write(path, &grid::csv(&cells))?;
    }
    if let Some(path) = &options.svg {
        write(path, &picture::svg(&cells)?)?;
    }
    Ok(())
}
