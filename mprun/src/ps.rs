//! `mprun ps`: the worlds of this user.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use onchip::report::{self, Found, RankKind, RankStage, WorldReport};

use super::{
    shown::Shown,
    text::{self, tame},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON, with all that `mprun report --json` tells
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Shown {
    let found = report::worlds()?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", super::report::json(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows =
        vec![["PID", "RANKS", "KIND", "STATE", "AGE", "MEMORY", "PROGRAM"].map(str::to_owned)];
    rows.extend(found.iter().filter_map(|found| Some(row(found.report.as_ref().ok()?))));
    for line in aligned(&rows) {
        writeln!(out, "{line}")?;
    }
    for Found { pids, report } in &found {
        if let Err(error) = report {
            writeln!(out, "{}", super::report::unreadable(pids, error))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(world: &WorldReport) -> [String; 7] {
    let kind = match world.kind {
        RankKind::Threads => "threads",
        RankKind::Processes => "processes",
    };
    [
        world.launcher.to_string(),
        world.ranks.len().to_string(),
        kind.to_owned(),
        state(world),
        text::time(world.age),
        text::bytes(world.resident),
        tame(&world.program),
    ]
}

fn state(world: &WorldReport) -> String {
    let count = |stage, waits| {
        let counted = world.ranks.iter();
        counted.filter(|r| r.stage == stage && r.wait.is_some() == waits).count()
    };
    let mut parts = vec![
        (count(RankStage::Expected, false) + count(RankStage::Expected, true), "expected"),
        (count(RankStage::Running, false), "running"),
        (count(RankStage::Running, true), "waiting"),
        (count(RankStage::Finished, false) + count(RankStage::Finished, true), "finished"),
        (count(RankStage::Lost, false) + count(RankStage::Lost, true), "lost"),
    ];
    parts.retain(|&(count, _)| count > 0);
    let mut parts: Vec<String> =
        parts.into_iter().map(|(count, what)| format!("{count} {what}")).collect();
    if !world.cycles.is_empty() {
        parts.push("deadlock".to_owned());
    }
    parts.join(", ")
}

/// Returns the rows as lines, in columns.
fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width: [usize; N] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(width).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
