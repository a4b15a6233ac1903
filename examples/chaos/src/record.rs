//! What processes tell the campaign: lines on standard error, which all of them have inherited.
//! What else comes there was said by the library, or by a panic.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::plan::{How, Who};

/// A report of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The process is about to be hurt.
    Hurt {
        /// Which process.
        who: Who,
        /// Its number.
        pid: i32,
        /// The injury.
        how: How,
        /// When, on the machine's clock.
        at: u64,
    },
    /// A rank's code begins.
    Started {
        /// The rank.
        rank: usize,
        /// When, on the machine's clock.
        at: u64,
    },
    /// A rank's code is over.
    Ended {
        /// The rank.
        rank: usize,
        /// How its operations ended.
        verdict: Verdict,
        /// When they did, on the machine's clock.
        at: u64,
    },
    /// A process that was started as a rank could not be one.
    Refused {
        /// The rank.
        rank: usize,
        /// Why.
        reason: String,
    },
    /// What a rank got out of something that ranks take from each other.
    Got {
        /// The step.
        step: usize,
        /// The rank.
        rank: usize,
        /// Each thing got.
        things: Vec<u32>,
    },
    /// A rank has come to the end of a step whose ranks go on without those that were lost.
    Survived {
        /// The step.
        step: usize,
        /// The rank.
        rank: usize,
        /// The ranks that were left, including this one.
        group: Vec<usize>,
        /// The result that they have computed together.
        result: u64,
    },
    /// A rank was told that these numbers are in the set.
    Marked {
        /// The step.
        step: usize,
        /// The rank.
        rank: usize,
        /// The numbers that it has put there.
        things: Vec<u32>,
    },
    /// What a rank has found in the set, after all ranks had told what they have put there.
    Read {
        /// The step.
        step: usize,
        /// The rank.
        rank: usize,
        /// All numbers.
        things: Vec<u32>,
    },
    /// Operations on the set that a rank got no result of.
    Unsure {
        /// The step.
        step: usize,
        /// The rank.
        rank: usize,
        /// How many may have been executed or not.
        unknown: usize,
        /// How many were refused, because an earlier one had not come to its end.
        poisoned: usize,
    },
    /// The launcher is about to start the world.
    Begun,
    /// The world has come to its end, for the launcher.
    World {
        /// The ranks that failed, and how.
        failures: Vec<(usize, String)>,
        /// Why there was no world.
        error: Option<String>,
        /// Bytes of the world's memory in use, when all ranks have ended.
        memory: Option<u64>,
        /// Descriptors and mappings that were not there before.
        left: Vec<String>,
    },
    /// The launcher's process has ended, as its parent sees it.
    Launched {
        /// The kind of its end.
        ending: String,
    },
}

/// How a rank's operations ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// All of them succeeded.
    Done,
    /// The plan says that it leaves.
    Left,
    /// An operation failed.
    Failed {
        /// The step.
        step: usize,
        /// The kind of the error.
        told: Told,
        /// The error in words.
        error: String,
    },
    /// A condition was violated.
    Wrong {
        /// The step.
        step: usize,
        /// The condition.
        reason: String,
    },
}

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// This rank was lost.
    Lost(usize),
    /// The other end was closed.
    Closed,
    /// The rank that was to execute an operation is gone.
    Unknown,
    /// The communicator was revoked.
    Revoked,
    /// Something else.
    Other,
}

/// Begins a record's line.
const MARK: char = '\u{1e}';

/// Returns nanoseconds on a clock that all processes share.
pub fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Where records go: the standard error that the process was started with. The library discards what most ranks of a
/// launched world write to standard error after a failure.
static LINES: OnceLock<File> = OnceLock::new();

/// Keeps the standard error of this process for its records. Is called at the start of `main`.
///
/// # Errors
/// The descriptor can't be duplicated.
pub fn keep_standard_error() -> io::Result<()> {
    let kept = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    LINES.get_or_init(|| kept);
    Ok(())
}

impl Record {
    /// Tells the record. A line is written at once, so that lines of several processes do not mix.
    pub fn tell(&self) {
        if let (Some(mut lines), Ok(json)) = (LINES.get(), serde_json::to_string(self)) {
            // If this fails, there is no other place to report it.
            let _ = lines.write_all(format!("{MARK}{json}\n").as_bytes());
        }
    }
}

/// Splits what came into records and everything else.
pub fn parse(text: &str) -> (Vec<Record>, String) {
    let (mut records, mut rest) = (Vec::new(), String::new());
    for line in text.split_inclusive('\n') {
        let (before, json) = line.split_once(MARK).unwrap_or((line, ""));
        rest += before;
        match serde_json::from_str(json) {
            Ok(record) => records.push(record),
            Err(_) => rest += json,
        }
    }
    (records, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stand_out() {
        let record = Record::Refused { rank: 1, reason: "a\nb".to_owned() };
        let json = serde_json::to_string(&record).unwrap();
        let text = format!("thread {MARK}{json}\n'main' panicked\n{MARK}{{broken\n");
        let (records, rest) = parse(&text);
        assert_eq!(records, [record]);
        assert_eq!(rest, "thread 'main' panicked\n{broken\n");
    }
}
