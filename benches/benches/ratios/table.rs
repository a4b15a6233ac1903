//! A run as a Markdown table: a line for each row, with near and far beside each other.

use crate::measure::{Outcome, Result, Verdict};
use crate::probe::Distance;
use crate::report::{Report, RowReport};

/// Returns the page's part about one run: what it was taken with, and its rows.
pub fn of(report: &Report) -> String {
    let mut page = format!(
        "Commit {}, {}, `{}`.\n{}.\n\n\
         | row | bound | near: ours, reference, ratio | far | reference |\n|---|---|---|---|---|\n",
        report.commit,
        report.date,
        report.command,
        report.machine.line()
    );
    for row in &report.rows {
        page.push_str(&line(row));
    }
    page
}

fn line(row: &RowReport) -> String {
    let (near, far) = match &row.outcome {
        Outcome::Measured { results, .. } => (
            cell(row, results, |distance| distance != Some(Distance::Far)),
            cell(row, results, |distance| distance == Some(Distance::Far)),
        ),
        Outcome::Skipped { reason } => (format!("skipped: {reason}"), "–".into()),
        Outcome::Failed { reason } => (format!("failed: {reason}"), "–".into()),
    };
    let bound = row.bound.show(false);
    format!("| `{}` | {bound} | {near} | {far} | {} |\n", row.name, row.reference.name)
}

fn cell(row: &RowReport, results: &[Result], here: impl Fn(Option<Distance>) -> bool) -> String {
    let Some(result) = results.iter().find(|result| here(result.distance)) else {
        return "–".into();
    };
    let mark = match result.verdict {
        Verdict::Missed => " **missed**",
        Verdict::TooFewRounds => " (few rounds)",
        Verdict::Ok | Verdict::Context => "",
    };
    let (ours, reference) = (result.ours.median, result.reference.median);
    let (ours, reference) = (row.unit.show(ours), row.unit.show(reference));
    format!("{ours}, {reference}, {:.2}{mark}", result.ratio.median)
}
