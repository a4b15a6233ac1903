//! The figures that a report of overlap has.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The overlap of each rank. [`Display`](fmt::Display) gives a table, and `serde` gives JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverlapReport {
    /// The ranks that recorded something, in ascending order.
    pub ranks: Vec<RankOverlap>,
    /// Spans that could not be counted because a span of another thread stayed open for too long.
    pub lost_spans: u64,
}

/// The overlap of one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankOverlap {
    /// The rank.
    pub rank: usize,
    /// Time in which communication threads copied the rank's messages, advanced its tagged messages, and carried on its
    /// collective operations. Two threads at once count twice.
    pub delegated_ns: u64,
    /// Time in which the rank sent by itself.
    pub inline_ns: u64,
    /// The part of [`delegated_ns`](Self::delegated_ns) during which the rank computed; `None` if the rank does not say
    /// when it computes.
    pub hidden_ns: Option<u64>,
    /// Time that the rank spent on sending (inline, delegating, waiting for what it had delegated or for room), on
    /// pending tagged messages, and in collective operations.
    pub exposed_ns: u64,
    /// The part of [`exposed_ns`](Self::exposed_ns) in which the rank waited, except for room while it sent inline.
    pub waited_ns: u64,
    /// The part of [`delegated_ns`](Self::delegated_ns) in which communication threads advanced the rank's tagged
    /// messages between its calls.
    pub messages_delegated_ns: u64,
    /// Time in which the rank's own calls advanced pending tagged messages.
    pub messages_in_calls_ns: u64,
    /// Time in which the rank computed on a processor, without the communication within; 0 if the rank does not say
    /// when it computes.
    pub computing_ns: u64,
    /// What communication threads at work cost the rank's computation; `None` unless the rank computed
    /// [units](crate::trace::Recorder::compute) both beside them and without them.
    pub slowdown: Option<Slowdown>,
}

impl RankOverlap {
    /// Returns the time that sending the rank's messages took, both by communication threads and by the rank itself.
    pub fn sending_ns(&self) -> u64 {
        self.delegated_ns + self.inline_ns
    }

    /// Returns the part of the delegated time that was hidden, from 0 to 1; `None` if nothing was delegated, or if the
    /// rank does not say when it computes.
    pub fn hidden_part(&self) -> Option<f64> {
        let hidden = self.hidden_ns.filter(|_| self.delegated_ns > 0)?;
        Some(hidden as f64 / self.delegated_ns as f64)
    }
}

/// Rates of computation with communication threads idle, and with at least one at work.
///
/// The rates are fitted by least squares to all intervals of computation whose work is known. An interval may contain
/// both. The time that the rank's own communication took within an interval does not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// Units of work per second while no communication thread was at work.
    pub units_per_second_idle: f64,
    /// Units of work per second while one or more communication threads were at work.
    pub units_per_second_busy: f64,
    /// How long the rank computed while no communication thread was at work, in seconds.
    pub seconds_idle: f64,
    /// How long the rank computed while one or more communication threads were at work, in seconds.
    pub seconds_busy: f64,
}

impl Slowdown {
    /// Returns by how much the computation was slower beside communication threads at work: 0.1 for 10%; negative if it
    /// was faster.
    pub fn slowed(&self) -> f64 {
        1.0 - self.units_per_second_busy / self.units_per_second_idle
    }
}

impl OverlapReport {
    /// Puts the reports of several processes together. A process knows only its own communication threads, so the
    /// slowdown of its ranks refers only to these.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut merged = Self::default();
        for part in parts {
            merged.ranks.extend(part.ranks);
            merged.lost_spans += part.lost_spans;
        }
        merged.ranks.sort_by_key(|rank| rank.rank);
        merged
    }
}

impl fmt::Display for OverlapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = [
            "rank",
            "sending",
            "inline",
            "tagged by threads",
            "tagged in calls",
            "hidden",
            "",
            "exposed",
            "waiting",
            "computing slowed",
        ];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(self.ranks.iter().map(|rank| {
            let percent = |part: f64| format!("{:.1}%", 100.0 * part);
            [
                rank.rank.to_string(),
                time(rank.sending_ns()),
                time(rank.inline_ns),
                time(rank.messages_delegated_ns),
                time(rank.messages_in_calls_ns),
                rank.hidden_ns.map_or("-".to_owned(), time),
                rank.hidden_part().map_or("-".to_owned(), percent),
                time(rank.exposed_ns),
                time(rank.waited_ns),
                rank.slowdown.map_or("-".to_owned(), |slowdown| percent(slowdown.slowed())),
            ]
        }));
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 10] = std::array::from_fn(width);
        for (index, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            write!(f, "{}{}", if index == 0 { "" } else { "\n" }, line.trim_end())?;
        }
        match self.lost_spans {
            0 => Ok(()),
            lost => write!(f, "\n{lost} spans are not counted"),
        }
    }
}

/// Formats a time with about three digits.
fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.2} s", nanoseconds as f64 / 1e9),
    }
}
