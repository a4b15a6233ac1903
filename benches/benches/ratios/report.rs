//! The table on the terminal, and the file of raw samples beside it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::measure::{Outcome, Result, Verdict};
use crate::row::{Bound, Row, Unit};
use crate::stats::Spread;

/// The meaning of the columns. Every line of the table has at most 120 columns.
pub const LEGEND: &str = "\
ratio: median over the rounds (quartiles). Under a bound \"≤\" it is the cost of ours over that of the
reference, under \"≥\" how many times ours is ahead. near/far: distance of the two cores by the raw
probe; any: not told apart. waits: how ours waits | how the reference waits.";

/// The reasons for which rounds are dropped.
const UNSETTLED: &str = "the cores were moved, busy with something else, or a side had no figure";

pub fn heading() -> String {
    line(["row", "at", "ours", "reference", "ratio", "bound", "waits", "verdict"])
}

fn line([name, at, ours, reference, ratio, bound, waits, verdict]: [&str; 8]) -> String {
    format!(
        "{name:<27} {at:<4} {ours:>8}  {reference:<24} {ratio:<17} {bound:<6} {waits:<17} {verdict}"
    )
}

/// Returns all lines about one row.
pub fn show(row: &Row, outcome: &Outcome) -> String {
    let mut text = String::new();
    let name = row.name.as_str();
    match outcome {
        Outcome::Skipped { reason } => {
            let _ = writeln!(text, "{name:<27} skipped: {reason}");
        }
        Outcome::Failed { reason } => {
            let _ = writeln!(text, "{name:<27} FAILED: {reason}");
        }
        Outcome::Measured { results, dropped, .. } => {
            for result in results {
                let _ = writeln!(text, "{}", measured(row, result));
            }
            if results.is_empty() {
                let _ = writeln!(text, "{name:<27} NO RESULT: {UNSETTLED}");
            }
            if *dropped > 0 {
                let _ = writeln!(text, "  {dropped} rounds dropped: {UNSETTLED}");
            }
        }
    }
    if !matches!(outcome, Outcome::Skipped { .. }) {
        for side in [&row.ours, &row.reference] {
            if let Some(remark) = side.remarks() {
                let _ = writeln!(text, "  {}: {remark}", side.name);
            }
        }
    }
    text
}

fn measured(row: &Row, result: &Result) -> String {
    let far = result.distance == Some(crate::probe::Distance::Far);
    let reference = format!("{} {}", row.reference.name, row.unit.show(result.reference.median));
    line([
        &row.name,
        result.distance.map_or("any", |distance| distance.name()),
        &row.unit.show(result.ours.median),
        &reference,
        &ratio(result.ratio),
        &row.bound.show(far),
        &format!("{}|{}", row.ours.waits, row.reference.waits),
        &match result.verdict {
            Verdict::Ok => "ok".to_string(),
            Verdict::Missed => "MISS".to_string(),
            Verdict::Context => "-".to_string(),
            Verdict::TooFewRounds => format!("only {}", result.rounds),
        },
    ])
}

fn ratio(spread: Spread) -> String {
    let digits = match spread.median {
        m if m < 9.995 => 2,
        m if m < 99.95 => 1,
        _ => 0,
    };
    format!(
        "{:.digits$} ({:.digits$}–{:.digits$})",
        spread.median, spread.lower_quartile, spread.upper_quartile
    )
}

/// The whole run as `--json` writes it.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// UTC, RFC 3339.
    pub date: String,
    /// The commit of the sources, if Git knows it; with a plus if files differ from it.
    pub commit: String,
    pub command: String,
    /// The duration of the whole run.
    pub seconds: u64,
    pub machine: Machine,
    pub rows: Vec<RowReport>,
}

#[derive(Serialize, Deserialize)]
pub struct RowReport {
    pub name: String,
    pub what: String,
    pub unit: Unit,
    pub bound: Bound,
    pub ours: SideReport,
    pub reference: SideReport,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The duration of all its rounds.
    pub seconds: f64,
}

#[derive(Serialize, Deserialize)]
pub struct SideReport {
    pub name: String,
    waits: String,
    remark: Option<String>,
}

impl RowReport {
    pub fn new(row: &Row, outcome: Outcome, seconds: f64) -> RowReport {
        let [ours, reference] = [&row.ours, &row.reference].map(|side| SideReport {
            name: side.name.clone(),
            waits: side.waits.to_owned(),
            remark: side.remarks().map(str::to_string),
        });
        RowReport {
            name: row.name.clone(),
            what: row.what.to_owned(),
            unit: row.unit,
            bound: row.bound,
            ours,
            reference,
            outcome,
            seconds: (seconds * 10.0).round() / 10.0,
        }
    }

    pub fn missed(&self) -> bool {
        match &self.outcome {
            Outcome::Measured { results, .. } => {
                results.is_empty() || results.iter().any(|r| r.verdict == Verdict::Missed)
            }
            Outcome::Skipped { .. } | Outcome::Failed { .. } => false,
        }
    }

    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. })
    }

    pub fn skipped(&self) -> bool {
        matches!(self.outcome, Outcome::Skipped { .. })
    }
}
