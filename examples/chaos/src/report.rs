//! The results of all runs, in tables.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::plan::{How, Operation, Plan, Who};
use crate::record::{Record, Told, Verdict};

/// The time from the death of one of two ranks, or from the other's beginning if that was later, to the other's error.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Notice {
    nanos: u64,
    /// Whether the rank died before its code began. The system lets a process die only after the call that it is
    /// in, and those of a start take milliseconds.
    at_start: bool,
}

/// The summary of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// The injuries of the plan, and whether each happened.
    pub injuries: Vec<(String, bool)>,
    /// The operations of the ranks.
    pub operations: Vec<Operation>,
    /// The operations in which ranks got an error.
    pub told: Vec<Operation>,
    /// The number of ranks that finished.
    pub finished: usize,
    /// The time until one of two ranks was told of the other's death.
    pub notice: Option<Notice>,
    /// The conditions that did not hold.
    pub misses: Vec<String>,
    /// The time that it took.
    pub took: Duration,
}

impl Summary {
    /// Sums up a run.
    pub fn new(plan: &Plan, outcome: &Outcome, misses: Vec<String>, took: Duration) -> Self {
        let hurt = |who: Who| {
            let mut records = outcome.records.iter();
            records.find_map(|record| match record {
                Record::Hurt { who: is, at, .. } if *is == who => Some(*at),
                _ => None,
            })
        };
        let started = |rank: usize| {
            let mut records = outcome.records.iter();
            records.find_map(|record| match record {
                Record::Started { rank: is, at } if *is == rank => Some(*at),
                _ => None,
            })
        };
        let injuries = plan.injuries.iter().map(|injury| {
            let who = match injury.who {
                Who::Rank(_) => "a rank".to_owned(),
                other => other.to_string(),
            };
            (format!("{who}: {}", injury.how.name()), hurt(injury.who).is_some())
        });
        let (mut told, mut finished, mut notice) = (Vec::new(), 0, None);
        for record in &outcome.records {
            match record {
                Record::Ended { verdict: Verdict::Done, .. } => finished += 1,
                Record::Ended { rank, verdict: Verdict::Failed { step, told: what, .. }, at } => {
                    told.push(plan.steps[*step].operation);
                    let alone = plan.ranks == 2 && plan.injuries.len() == 1;
                    if let (Told::Lost(dead), true) = (what, alone)
                        && matches!(plan.injuries[0].how, How::Kill | How::Segv)
                        && let Some(died) = hurt(Who::Rank(*dead))
                    {
                        let from = started(*rank).map_or(died, |started| started.max(died));
                        let at_start = started(*dead).is_none_or(|started| started > died);
                        notice = Some(Notice { nanos: at.saturating_sub(from), at_start });
                    }
                }
                _ => {}
            }
        }
        let operations = plan.steps.iter().map(|step| step.operation).collect();
        let injuries = injuries.collect();
        Self { seed: plan.seed, injuries, operations, told, finished, notice, misses, took }
    }
}

/// The results of all runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    runs: Vec<Summary>,
}

impl Report {
    /// Adds a run.
    pub fn add(&mut self, run: Summary) {
        self.runs.push(run);
    }

    /// Returns how many runs there were.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns in how many runs something did not hold.
    pub fn missed(&self) -> usize {
        self.runs.iter().filter(|run| !run.misses.is_empty()).count()
    }

    /// Returns the tables.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.by_injury(), self.by_operation());
        for (at_start, when) in [(false, "at work"), (true, "as it started")] {
            text += &self.notices(at_start, when);
        }
        let took: Duration = self.runs.iter().map(|run| run.took).sum();
        let mean = took / self.runs.len().max(1) as u32;
        text += &format!("\n{} runs, {mean:.1?} each; {} missed", self.runs(), self.missed());
        if self.missed() > 0 {
            let missed = self.runs.iter().filter(|run| !run.misses.is_empty());
            let seeds: Vec<_> = missed.map(|run| run.seed.to_string()).collect();
            text += &format!(": seeds {}", seeds.join(", "));
        }
        text + "\n"
    }

    fn notices(&self, at_start: bool, when: &str) -> String {
        let notices = self.runs.iter().filter_map(|run| run.notice);
        let mut nanos: Vec<u64> = notices
            .filter(|notice| notice.at_start == at_start)
            .map(|notice| notice.nanos)
            .collect();
        nanos.sort_unstable();
        let Some(last) = nanos.len().checked_sub(1) else { return String::new() };
        let at = |quantile: f64| nanos[(quantile * last as f64).round() as usize] as f64 / 1e6;
        format!(
            "\nOf two ranks one died {when}, and the other was told after {:.3} ms (median), {:.3} (90 %), \
             {:.3} (99 %), {:.3} (the longest of {}).\n",
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
            nanos.len()
        )
    }

    fn by_injury(&self) -> Table {
        let mut rows: BTreeMap<String, [usize; 5]> = BTreeMap::new();
        for run in &self.runs {
            let mut names = run.injuries.clone();
            if names.is_empty() {
                names.push(("nobody".to_owned(), false));
            }
            for (name, came) in names {
                let row = rows.entry(name).or_default();
                let add =
                    [1, came.into(), run.finished, run.told.len(), (!run.misses.is_empty()).into()];
                row.iter_mut().zip(add).for_each(|(sum, add)| *sum += add);
            }
        }
        let heads =
            ["who was hurt", "runs", "came to it", "ranks finished", "ranks told", "missed"];
        table(&heads, rows)
    }

    fn by_operation(&self) -> Table {
        let mut rows: BTreeMap<Operation, [usize; 3]> = BTreeMap::new();
        for run in &self.runs {
            for operation in Operation::ALL {
                let row = rows.entry(operation).or_default();
                if run.operations.contains(&operation) {
                    row[0] += 1;
                    row[2] += usize::from(!run.misses.is_empty());
                }
                row[1] += run.told.iter().filter(|&&told| told == operation).count();
            }
        }
        table(&["what ranks did", "runs", "ranks told in it", "missed"], rows)
    }
}

fn table<K: ToString, const N: usize>(heads: &[&str], rows: BTreeMap<K, [usize; N]>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(heads);
    for (name, numbers) in rows {
        table.add_row([name.to_string()].into_iter().chain(numbers.iter().map(usize::to_string)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
