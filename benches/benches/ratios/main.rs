//! Measures every promise of speed beside the rival it is made about, in one run.
//!
//! `cargo bench --bench ratios -- [FILTER]… [--json FILE] [--list] [--rounds N]`, and `--report` for the tables of
//! the documentation, `--check-report` and `--guard` for every change.
//!
//! A row consists of two sides that do the same work in turn, with a raw probe of the distance between the two cores
//! before and after every sample. The moved data is checked, and wrong data fails the run.

#![deny(unsafe_code)]

mod busy;
mod guard;
mod history;
mod job;
mod measure;
mod meet;
mod ours;
mod page;
mod party;
mod perform;
mod plan;
mod report;
mod rivals;
mod row;
mod rows;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

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
    /// Keep the results in benches/results, in place of those of the run before, and write the tables of README.md
    /// and docs/performance.md from them. Takes 3 rounds where --rounds is not given, and leaves out some rows where
    /// no filter is given. Bounds that are missed are no failure
    #[arg(long)]
    report: bool,
    /// Write these tables from the results that are kept, and measure nothing
    #[arg(long, conflicts_with = "report")]
    render: bool,
    /// Fail where these tables differ from the results that are kept, or where the library has changed since then
    #[arg(long, conflicts_with_all = ["report", "render"])]
    check_report: bool,
    /// Fail where a row of one kind or another takes twice what is expected
    #[arg(long, conflicts_with_all = ["report", "render", "check_report", "json"])]
    guard: bool,
    /// Name the rows and their bounds, and measure nothing
    #[arg(long)]
    list: bool,
    /// Good rounds to take of every row: 7, or 3 for a report
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
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
    if options.render || options.check_report {
        return kept(&options);
    }
    let mut rows = if options.guard { rows::guard::rows() } else { rows::all() };
    if options.report && options.filters.is_empty() {
        rows.retain(|row| page::is_reported(&row.name));
    }
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
    let Some(setup) = Setup::of_this_machine(perform::perform) else {
        eprintln!("ratios: two CPUs are needed, and this process may use fewer");
        return ExitCode::FAILURE;
    };
    if rows.is_empty() {
        eprintln!("ratios: no row's name contains {:?}; --list names all", options.filters);
        return ExitCode::FAILURE;
    }
    if options.guard { guard(rows, &setup) } else { run(&options, rows, &setup) }
}

/// Writes or checks the tables of the kept results.
fn kept(options: &Options) -> ExitCode {
    let done = if options.render { page::render().map(|()| None) } else { page::check() };
    match done {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(why)) => {
            println!("skipped: whether the figures hold for these sources: {why}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("ratios: {e}");
            ExitCode::FAILURE
        }
    }
}

fn guard(rows: Vec<row::Row>, setup: &Setup) -> ExitCode {
    println!("{}", Machine::describe(setup.cpus).line());
    println!("raw probe now: {:.1} ns", probe::probe(setup.cpus));
    let (start, count) = (Instant::now(), rows.len());
    let failed = guard::run(rows, setup);
    println!("\n{count} rows in {} s, {failed} failed", start.elapsed().as_secs());
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the command that repeats this run. It leaves out the program's folder, which differs between machines.
fn command() -> String {
    let words = ["cargo", "bench", "--bench", "ratios", "--"].map(String::from);
    let given = std::env::args().skip(1).filter(|argument| argument != "--bench");
    words.into_iter().chain(given).collect::<Vec<_>>().join(" ")
}

fn bounds(bound: Bound) -> String {
    let (near, far) = (bound.show(false), bound.show(true));
    if near == far { near } else { format!("{near}, far {far}") }
}

/// Does the work of a program that was started again as a part of a measurement.
fn child(arguments: &[String]) -> ExitCode {
    let done = match arguments.split_first() {
        Some((kind, rest)) if kind == rivals::iceoryx2::ECHO => rivals::iceoryx2::echo(rest),
        Some((kind, rest)) if kind == rows::farm::FARM => rows::farm::child(rest),
        Some((kind, rest)) if kind == rows::stencil::STENCIL => rows::stencil::child(rest),
        Some((kind, _)) if kind == busy::BUSY => busy::child(),
        Some((kind, rest)) if kind == ours::RANK => ours::rank(rest, perform::perform),
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
    let start = Instant::now();
    let rounds = options.rounds.unwrap_or(if options.report { 3 } else { 7 }).into();
    // The commit is read before the rows are measured, because they take so long that the sources may change meanwhile.
    let commit = history::commit();
    let mut reports = Vec::new();
    for mut row in rows {
        let begin = Instant::now();
        let outcome = measure::measure(&mut row, setup, rounds);
        print!("{}", report::show(&row, &outcome));
        // The output is flushed because somebody may watch it. If that reader has gone, this does not matter to the
        // measurements.
        let _ = std::io::stdout().flush();
        reports.push(RowReport::new(&row, outcome, begin.elapsed().as_secs_f64()));
    }
    let count = |what: fn(&RowReport) -> bool| reports.iter().filter(|r| what(r)).count();
    let (missed, failed) = (count(RowReport::missed), count(RowReport::failed));
    println!(
        "\n{} rows in {} s: {missed} missed, {failed} failed, {} skipped",
        reports.len(),
        start.elapsed().as_secs(),
        count(RowReport::skipped)
    );
    let report = Report {
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        commit,
        command: command(),
        seconds: start.elapsed().as_secs(),
        machine,
        rows: reports,
    };
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::from);
        if let Err(e) = text.and_then(|text| std::fs::write(path, text + "\n")) {
            eprintln!("ratios: cannot write {}: {e}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if options.report {
        match page::keep(&report) {
            Ok(folder) => println!("kept in {folder}; README.md and docs/performance.md show it"),
            Err(e) => {
                eprintln!("ratios: cannot keep the results: {e}");
                return ExitCode::FAILURE;
            }
        }
        if report.commit.ends_with(history::CHANGED) {
            println!("These are figures of no commit: --check-report will refuse them.");
        }
    }
    let tolerated = options.tolerate_misses || options.report;
    if failed > 0 || (missed > 0 && !tolerated) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
