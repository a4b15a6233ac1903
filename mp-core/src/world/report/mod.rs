//! Worlds seen from outside: which there are on this machine, who waits for whom in them, and
//! whether they can ever go on.
//!
//! Before a rank sleeps it writes down what it waits for, and nothing else is needed: the reader
//! maps the world's memory read-only, takes no lock, and checks whatever it reads, so that neither
//! a world that is changing nor one that is broken can harm it, and it harms no world.
//!
//! | file | what it is |
//! |---|---|
//! | `find` | the worlds of this machine |
//! | `read` | one look at a world |
//! | `stuck` | who can never go on, and the cycles of waits behind that |

mod find;
mod read;
mod stuck;

use std::time::Duration;

pub use find::{Found, worlds, worlds_of};

use super::rank::MemoryUse;
use crate::{context::Context, segment::SegmentError, wait::Operation};

/// One world, at one moment.
#[derive(Clone, Debug, serde::Serialize)]
pub struct WorldReport {
    /// The program's name.
    pub program: String,
    /// The process that made the world.
    pub launcher: u32,
    /// What its ranks are.
    pub kind: RankKind,
    /// Since when it exists.
    #[serde(rename = "age_seconds", serialize_with = "seconds")]
    pub age: Duration,
    /// What it uses of its memory.
    pub memory: MemoryUse,
    /// Bytes of memory that the system has given to it.
    pub resident: u64,
    /// By number.
    pub ranks: Vec<RankReport>,
    /// Cycles of ranks that can never go on: each waits for the next, the last for the first.
    /// Where a rank waits for any of several, all of them are stuck, and one is named here. One
    /// cycle is named for each group of ranks that wait for each other.
    pub cycles: Vec<Vec<usize>>,
}

/// What the ranks of a world are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RankKind {
    /// Threads of one process.
    Threads,
    /// Processes.
    Processes,
}

/// How far a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RankStage {
    /// It has not come to its code yet.
    Expected,
    /// Its code runs, or waits.
    Running,
    /// Its code returned.
    Finished,
    /// It panicked or died.
    Lost,
}

impl RankStage {
    /// Nothing more comes from a rank in this stage.
    pub fn ended(self) -> bool {
        matches!(self, Self::Finished | Self::Lost)
    }
}

/// One rank.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RankReport {
    /// Its number.
    pub rank: usize,
    /// Its process, once it is known; that of all ranks, if they are threads.
    pub pid: Option<u32>,
    /// How far it is.
    pub stage: RankStage,
    /// What it waits for. A rank whose code runs several threads may wait for more than this.
    pub wait: Option<WaitReport>,
    /// Channels in which sends that it has delegated wait for room.
    pub blocked_sends: Vec<ChannelReport>,
    /// A thread is at work for it that sends what it has delegated: then what it waits for may
    /// come of that.
    pub helped: bool,
    /// It waits without a time limit, and whoever could end that has ended or is stuck as well.
    pub stuck: bool,
}

/// One rank's wait.
#[derive(Clone, Debug, serde::Serialize)]
pub struct WaitReport {
    /// What it wants to do.
    pub operation: Operation,
    /// On which channels; several for a select, none for a wait for results or for a flag.
    pub channels: Vec<ChannelReport>,
    /// For which flag.
    pub flag: Option<FlagReport>,
    /// Further channels, of which nothing is known: a rank tells of the first 64 only.
    pub further_channels: u64,
    /// The ranks any one of which could end the wait; for results, the ranks that all must end.
    pub peers: Vec<usize>,
    /// For how long already.
    #[serde(rename = "since_seconds", serialize_with = "seconds")]
    pub since: Duration,
    /// When the wait will give up by itself.
    #[serde(rename = "gives_up_in_seconds", serialize_with = "maybe_seconds")]
    pub gives_up_in: Option<Duration>,
    /// Tells this wait from the rank's next.
    #[serde(skip)]
    version: u32,
}

/// A channel that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ChannelReport {
    /// Its name, as the program gave it.
    pub name: String,
    /// The ranks that may send.
    pub senders: Vec<usize>,
    /// The ranks that may receive.
    pub receivers: Vec<usize>,
}

/// A flag that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FlagReport {
    /// The name of its MPBs, as the program gave it.
    pub mpbs: String,
    /// Its line in the MPB of the rank that waits.
    pub line: usize,
}

/// How long ranks must wait for the same before they are called stuck: a rank that was woken
/// needs some time until it runs and says so.
const CONFIRMED_AFTER: Duration = Duration::from_millis(100);

/// Looks at a world: twice if ranks seem to be stuck, because one look may catch a rank between
/// being woken and running.
pub(crate) fn of(context: &Context) -> Result<WorldReport, SegmentError> {
    of_confirmed(context, CONFIRMED_AFTER)
}

fn of_confirmed(context: &Context, after: Duration) -> Result<WorldReport, SegmentError> {
    let mut first = read::look(context)?;
    if !stuck::judge(&mut first, |_| true) {
        return Ok(first);
    }
    std::thread::sleep(after);
    let mut second = read::look(context)?;
    let same_wait = |rank: &RankReport| {
        let before = first.ranks.get(rank.rank).and_then(|rank| rank.wait.as_ref());
        before.map(|wait| wait.version) == rank.wait.as_ref().map(|wait| wait.version)
    };
    stuck::judge(&mut second, same_wait);
    Ok(second)
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn maybe_seconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_some(&time.as_secs_f64()),
        None => serializer.serialize_none(),
    }
}
