//! Every promise of speed beside the rival it is made about, in one run.
//!
//! `cargo bench --bench ratios -- [FILTER]… [--json FILE] [--markdown FILE] [--list] [--rounds N]`
//!
//! A row is two sides doing the same work in turn, with a raw probe of the distance between the
//! two cores before and after every sample. What was moved is checked; wrong data fails the run.

#![deny(unsafe_code)]

mod busy;
mod measure;
mod ours;
mod party;
mod plan;
mod report;
mod rivals;
mod row;
mod rows;
mod table;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser;
use onchip_benches::{machine, probe, stats};

use crate::machine::Machine;
use crate::report::{Report, RowReport};
use crate::row::{Bound, Setup};

/// Measures every promise of speed beside its rivals.
#[derive(Parser)]
#[command(name = "ratios")]
struct Options {
    /// Only rows whose name contains one of these
    filters: Vec<String>,
    /// Write raw samples, machine and command to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table of the run to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Name the rows and their bounds, and measure nothing
    #[arg(long)]
    list: bool,
    /// Good rounds to take of every row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// End with success even where a bound was missed; failures still count
    #[arg(long)]
    tolerate_misses: bool,
    /// Cargo passes this to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--child") {
        return child(&arguments.collect::<Vec<_>>());
    }
    let options = Options::parse();
    let mut rows = rows::all();
    if !options.filters.is_empty() {
        rows.retain(|row| options.filters.iter().any(|filter| row.name.contains(filter)));
    }
    if options.list {
        for row in &rows {
            println!("{:<32} {:<7} {}", row.name, bounds(row.bound), row.what);
        }
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(onchip::WAIT_VARIABLE).is_some() {
        eprintln!("ratios: {} is set; it would change what is measured", onchip::WAIT_VARIABLE);
        return ExitCode::FAILURE;
    }
    let Some(setup) = Setup::of_this_machine() else {
        eprintln!("ratios: two CPUs are needed, and this process may use fewer");
        return ExitCode::FAILURE;
    };
    if rows.is_empty() {
        eprintln!("ratios: no row's name contains {:?}; --list names all", options.filters);
        return ExitCode::FAILURE;
    }
    run(&options, rows, &setup)
}

/// How to run this again; where the program lies is this machine's affair.
fn command() -> String {
    let words = ["cargo", "bench", "--bench", "ratios", "--"].map(String::from);
    let given = std::env::args().skip(1).filter(|argument| argument != "--bench");
    words.into_iter().chain(given).collect::<Vec<_>>().join(" ")
}

fn bounds(bound: Bound) -> String {
    let (near, far) = (bound.show(false), bound.show(true));
    if near == far { near } else { format!("{near}, far {far}") }
}

/// What this program does when it was started again as a part of a measurement.
fn child(arguments: &[String]) -> ExitCode {
    let done = match arguments.split_first() {
        Some((kind, rest)) if kind == rivals::iceoryx2::ECHO => rivals::iceoryx2::echo(rest),
        Some((kind, rest)) if kind == rows::farm::FARM => rows::farm::child(rest),
        Some((kind, rest)) if kind == rows::stencil::STENCIL => rows::stencil::child(rest),
        Some((kind, _)) if kind == busy::BUSY => busy::child(),
        Some((kind, rest)) if kind == ours::RANK => ours::rank(rest),
        _ => Err(rivals::failed(format!("unknown child {arguments:?}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("ratios, in a child process: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, rows: Vec<row::Row>, setup: &Setup) -> ExitCode {
    let machine = Machine::describe(setup.cpus);
    println!("{}", machine.line());
    println!("raw probe now: {:.1} ns", probe::probe(setup.cpus));
    println!("{}\n\n{}", report::LEGEND, report::heading());
    let mut reports = Vec::new();
    for mut row in rows {
        let outcome = measure::measure(&mut row, setup, options.rounds.into());
        print!("{}", report::show(&row, &outcome));
        // Long runs are watched, and a reader that went away does not matter to the measurements.
        let _ = std::io::stdout().flush();
        reports.push(RowReport::new(&row, outcome));
    }
    let count = |what: fn(&RowReport) -> bool| reports.iter().filter(|r| what(r)).count();
    let (missed, failed) = (count(RowReport::missed), count(RowReport::failed));
    println!(
        "\n{} rows: {missed} missed, {failed} failed, {} skipped",
        reports.len(),
        count(RowReport::skipped)
    );
    let report = Report {
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        commit: machine::commit(),
        command: command(),
        machine: &machine,
        rows: reports,
    };
    let mut files = Vec::new();
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::from);
        files.push((path, text.map(|text| text + "\n")));
    }
    if let Some(path) = &options.markdown {
        files.push((path, Ok(table::of(&report))));
    }
    for (path, text) in files {
        if let Err(e) = text.and_then(|text| std::fs::write(path, text)) {
            eprintln!("ratios: cannot write {}: {e}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if failed > 0 || (missed > 0 && !options.tolerate_misses) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
