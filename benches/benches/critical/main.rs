//! The figures of Petrović's thesis on critical sections, chapters 6 and 7, on the machine at hand:
//! 6.4, 6.5, 6.6a, 6.8 and 7.5 to 7.11, in shape.
//!
//! `cargo bench --bench critical -- [FIGURE]… [--csv FILE] [--svg FILE] [--quick]`
//!
//! The thesis has 36 to 160 hardware threads. Here clients share the first two CPUs, together with a server if there is
//! one. With more than two threads, the results also depend on the operating system. The behaviour of many cores is
//! left to the simulator.

#![forbid(unsafe_code)]

mod figures;
mod picture;
mod point;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use onchip_benches::{cpus, machine::Machine, output::write, probe};

use crate::figures::{Drawn, Taken};
use crate::point::{Measured, Point};

/// Reproduces figures of the thesis on this machine.
#[derive(Parser)]
#[command(name = "critical")]
struct Options {
    /// Only figures whose number begins like one of these
    figures: Vec<String>,
    /// Write all points to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the figures
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Few points, each for a moment: to see that it works
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
            eprintln!("critical: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let [first, second, ..] = cpus::usable()[..] else {
        return Err("two CPUs are needed, and this process may use fewer".into());
    };
    let cpus = [first, second];
    let machine = Machine::describe(cpus).line();
    println!("{machine}\nraw probe now: {:.1} ns\n\n{}", probe::probe(cpus), Measured::HEADING);
    let mut drawn = Vec::new();
    for mut group in figures::all(options.quick) {
        group.panels.retain(|panel| {
            let named = |wanted: &String| panel.figure.starts_with(wanted.as_str());
            options.figures.is_empty() || options.figures.iter().any(named)
        });
        if group.panels.is_empty() {
            continue;
        }
        let figure = group.name();
        let mut points = Vec::new();
        for (line, (name, settings)) in group.lines.iter().enumerate() {
            for &(x, point) in settings {
                eprint!("\r{figure}: {name}, {x}        ");
                let measured = Point { quick: options.quick, ..point }.measure(cpus)?;
                println!("{figure:<10} {name:<14} {x:>6} {measured}");
                points.push(Taken { line, x, measured });
            }
        }
        let lines = group.lines.into_iter().map(|(name, _)| name).collect();
        drawn.push(Drawn { panels: group.panels, lines, x_label: group.x_label, points });
    }
    eprintln!();
    if drawn.is_empty() {
        return Err(format!("there is no figure {:?}", options.figures).into());
    }
    if let Some(path) = &options.csv {
        write(path, &csv(&machine, &drawn))?;
    }
    if let Some(path) = &options.svg {
        write(path, &picture::svg(&machine, &drawn)?)?;
    }
    Ok(())
}

fn csv(machine: &str, drawn: &[Drawn]) -> String {
    let mut text = format!("# {machine}\nfigures,line,x,x_is,{}\n", Measured::COLUMNS);
    for group in drawn {
        let figures: Vec<&str> = group.panels.iter().map(|panel| panel.figure).collect();
        for Taken { line, x, measured } in &group.points {
            let (figures, line) = (figures.join(" "), &group.lines[*line]);
            text += &format!("\"{figures}\",\"{line}\",{x},{},{}\n", group.x_label, measured.csv());
        }
    }
    text
}
