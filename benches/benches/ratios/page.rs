//! The tables of `README.md` and `docs/performance.md`: rows of one run, whose raw samples are kept in
//! `benches/results/<date>-<machine>/ratios.json`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::history::{self, Holds};
use crate::measure::{Outcome, Result, Verdict};
use crate::probe::Distance;
use crate::report::{Report, RowReport};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const RESULTS: &str = "benches/results";
const RAW: &str = "ratios.json";
const README: &str = "README.md";
const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- ratios: begin -->\n";
const END: &str = "<!-- ratios: end -->";

/// The rows that README shows, and their labels.
const HEADLINES: [(&str, &str); 12] = [
    ("8 bytes to another process", "pingpong.iceoryx2"),
    ("stream of 8-byte messages, threads", "stream.8B.threads"),
    ("the same", "stream.8B.threads.crossbeam"),
    ("1 MB moved with its buffer, processes", "buffer.1MiB.iceoryx2"),
    ("8 bytes with a tag, processes", "tagged.8B.processes"),
    ("64 KB with a tag, processes", "tagged.64KB.processes"),
    ("one of 64 nonblocking sends and receives of 8 bytes, processes", "requests.64.processes"),
    ("all-reduce of 8 bytes, 2 processes", "all-reduce.8B.loop.processes"),
    ("broadcast of 1 MB, 2 processes", "broadcast.1MB.loop.processes"),
    ("counter, one client with 32 operations in flight", "critical.in-flight.slot-server.threads"),
    ("counter, 8 threads on 2 cores, HybLock", "critical.8on2.hyb-lock"),
    ("stencil of 1080², 100 steps, processes", "stencil.openmp.processes"),
];

/// Parts of the names of rows that a report leaves out unless they are asked for: sizes between others, a third way of
/// timing, and rows that take minutes to build. With these rows a report would take an hour.
const LEFT_OUT: [&str; 12] = [
    ".separated.",
    ".64B.",
    ".1KB.",
    "scan.8KB",
    "gather.8KB",
    "scatter.8KB",
    "all-to-all.8KB",
    ".4MB.",
    ".8MB.",
    ".4on2.",
    "filter.",
    "delegate.foundation.stream.56B",
];

/// Returns whether a report has the row of this name if no rows are named.
pub fn is_reported(name: &str) -> bool {
    !LEFT_OUT.iter().any(|part| name.contains(part))
}

fn at(path: impl AsRef<Path>) -> PathBuf {
    Path::new(ROOT).join(path)
}

fn wrong<T>(what: String) -> io::Result<T> {
    Err(io::Error::other(what))
}

/// Keeps the run's raw samples in place of those of the run before, and writes the tables from them. Returns the
/// folder.
pub fn keep(report: &Report) -> io::Result<String> {
    let day = report.date.split('T').next().unwrap_or_default();
    let folder = format!("{RESULTS}/{day}-{}", report.machine.short_name());
    for raw in raw_samples()? {
        fs::remove_file(&raw)?;
        // The folder stays if it holds results of other benches.
        let _ = raw.parent().map(fs::remove_dir);
    }
    fs::create_dir_all(at(&folder))?;
    fs::write(at(&folder).join(RAW), serde_json::to_string_pretty(report)? + "\n")?;
    render()?;
    Ok(folder)
}

/// Writes the tables from the kept samples.
pub fn render() -> io::Result<()> {
    let kept = Kept::read()?;
    for page in [README, PAGE] {
        let (text, [before, _, after]) = (kept.text(page), parts(page)?);
        fs::write(at(page), [before, text, after].concat())?;
    }
    Ok(())
}

/// Fails if a table differs from the kept results, or if these do not hold for the current sources. If the latter could
/// not be checked, returns the reason.
pub fn check() -> io::Result<Option<String>> {
    let kept = Kept::read()?;
    for page in [README, PAGE] {
        let (text, [_, shown, _]) = (kept.text(page), parts(page)?);
        if text != shown {
            let differs = text.lines().zip(shown.lines()).find(|(text, shown)| text != shown);
            let (text, shown) = differs.unwrap_or(("", "another number of lines"));
            return wrong(format!(
                "{page} differs from {}: it has\n  {shown}\ninstead of\n  {text}\n\
                 Write it again: cargo bench --bench ratios -- --render",
                kept.place
            ));
        }
    }
    match history::holds(&kept.report.commit) {
        Holds::Yes => Ok(None),
        Holds::Unknown(why) => Ok(Some(why)),
        Holds::No(why) => wrong(why),
    }
}

fn raw_samples() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(at(RESULTS))? {
        let raw = folder?.path().join(RAW);
        if raw.exists() {
            found.push(raw);
        }
    }
    Ok(found)
}

/// Returns a page in three parts: up to its table, the table, and the rest.
fn parts(page: &str) -> io::Result<[String; 3]> {
    let text = fs::read_to_string(at(page))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some([format!("{before}{BEGIN}"), table.to_owned(), format!("{END}{after}")])
    });
    parts.map_or_else(|| wrong(format!("{page} has no lines {BEGIN:?} and {END:?}")), Ok)
}

/// The run whose results the tables show.
struct Kept {
    report: Report,
    /// The path from the root of the workspace.
    place: String,
}

impl Kept {
    fn read() -> io::Result<Kept> {
        let [raw] = &raw_samples()?[..] else {
            return wrong(format!("{RESULTS} must have one folder with a {RAW}: one run's"));
        };
        let report = serde_json::from_str(&fs::read_to_string(raw)?)?;
        let place = raw.strip_prefix(at("")).unwrap_or(raw).display().to_string();
        Ok(Kept { report, place })
    }

    fn text(&self, page: &str) -> String {
        if page == README { self.headlines() } else { self.all() }
    }

    /// Returns the machine and the settings of the run.
    fn origin(&self) -> String {
        let Report { date, commit, machine, .. } = &self.report;
        let (day, short) =
            (date.split('T').next().unwrap_or_default(), &commit[..commit.len().min(10)]);
        format!("Taken on {day} at commit {short}: {}.", machine.line())
    }

    fn headlines(&self) -> String {
        let mut text =
            format!("{}\n\n| operation | rival | near | far |\n|---|---|---|---|\n", self.origin());
        for (operation, name) in HEADLINES {
            let Some(row) = self.report.rows.iter().find(|row| row.name == name) else { continue };
            let Outcome::Measured { results, .. } = &row.outcome else { continue };
            let [near, far] = [false, true].map(|far| times(row, at_distance(results, far)));
            let _ = writeln!(text, "| {operation} | {} | {near} | {far} |", row.reference.name);
        }
        text
    }

    fn all(&self) -> String {
        let Report { rows, command, seconds, .. } = &self.report;
        let count = |what: fn(&RowReport) -> bool| rows.iter().filter(|row| what(row)).count();
        let mut text = format!(
            "{} `{command}` took {} minutes; [raw samples](../{}).\n\n\
             {} rows, {} **missed**, {} skipped, {} failed.\n\n\
             | row | bound | near: ours, reference, ratio | far | reference |\n|---|---|---|---|---|\n",
            self.origin(),
            seconds.div_ceil(60),
            self.place,
            rows.len(),
            count(RowReport::missed),
            count(RowReport::skipped),
            count(RowReport::failed),
        );
        rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }
}

/// Rows that do not tell distances apart have one result, which is shown in the column of near cores.
fn at_distance(results: &[Result], far: bool) -> Option<&Result> {
    results.iter().find(|result| (result.distance == Some(Distance::Far)) == far)
}

/// Returns both figures, and how many times as fast ours is.
fn times(row: &RowReport, result: Option<&Result>) -> String {
    let Some(result) = result else { return "–".into() };
    let ratio = 1.0 / row.unit.cost(result.ours.median, result.reference.median);
    let [ours, reference] = [result.ours, result.reference].map(|side| row.unit.show(side.median));
    let (ours, reference) = if ratio < 1.0 {
        (ours, format!("**{reference}**"))
    } else {
        (format!("**{ours}**"), reference)
    };
    format!("{ours}, {reference}: {}", show(ratio))
}

fn show(ratio: f64) -> String {
    if ratio < 9.995 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

fn line(row: &RowReport) -> String {
    let (near, far) = match &row.outcome {
        Outcome::Measured { results, .. } if results.is_empty() => {
            ("no good round".into(), "–".into())
        }
        Outcome::Measured { results, .. } => {
            (cell(row, at_distance(results, false)), cell(row, at_distance(results, true)))
        }
        Outcome::Skipped { reason } => (format!("skipped: {reason}"), "–".into()),
        Outcome::Failed { reason } => {
            (format!("failed: {}", reason.replace('\n', " ")), "–".into())
        }
    };
    let (near_bound, far_bound) = (row.bound.show(false), row.bound.show(true));
    let bound =
        if near_bound == far_bound { near_bound } else { format!("{near_bound}, far {far_bound}") };
    format!("| `{}` | {bound} | {near} | {far} | {} |\n", row.name, row.reference.name)
}

fn cell(row: &RowReport, result: Option<&Result>) -> String {
    let Some(result) = result else { return "–".into() };
    let mark = match result.verdict {
        Verdict::Missed => " **missed**",
        Verdict::TooFewRounds => " (few rounds)",
        Verdict::Ok | Verdict::Context => "",
    };
    let [ours, reference] = [result.ours, result.reference].map(|side| row.unit.show(side.median));
    format!("{ours}, {reference}, {}{mark}", show(result.ratio.median))
}
