//! The facts about a world that its report contains.

use std::time::Duration;

pub use crate::channel::RingReport;
use crate::{wait::Operation, world::rank::MemoryUse};

/// One world, at one moment.
#[derive(Clone, Debug, serde::Serialize)]
pub struct WorldReport {
    /// The program's name.
    pub program: String,
    /// The process that made the world.
    pub launcher: u32,
    /// What the world's ranks are.
    pub kind: RankKind,
    /// How long the world has existed.
    #[serde(rename = "age_seconds", serialize_with = "seconds")]
    pub age: Duration,
    /// How much of its memory the world uses.
    pub memory: MemoryUse,
    /// The number of bytes of memory that the system has given to the world.
    pub resident: u64,
    /// The ranks, by number.
    pub ranks: Vec<RankReport>,
    /// Cycles of ranks that can never continue: each rank waits for the next, and the last for the first. If a rank
    /// waits for any of several ranks, all of these are stuck, and the cycle names one of them. There is one cycle for
    /// each group of ranks that wait for each other.
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

/// How far a rank has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RankStage {
    /// The rank has not reached its code yet.
    Expected,
    /// The rank's code runs, or waits.
    Running,
    /// The rank's code returned.
    Finished,
    /// The rank panicked or died.
    Lost,
}

impl RankStage {
    /// Returns whether the rank has ended, so that nothing more comes from it.
    pub fn ended(self) -> bool {
        matches!(self, Self::Finished | Self::Lost)
    }
}

/// One rank.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RankReport {
    /// The rank's number.
    pub rank: usize,
    /// The rank's process, once it is known. If the ranks are threads, this is the process of all ranks.
    pub pid: Option<u32>,
    /// How far the rank has come.
    pub stage: RankStage,
    /// What the rank waits for. A rank whose code runs several threads may wait for more than this.
    pub wait: Option<WaitReport>,
    /// The channels in which sends that the rank has delegated wait for room.
    pub blocked_sends: Vec<ChannelReport>,
    /// Whether a thread that does the rank's delegated sends is at work. The thread may then bring about what the rank
    /// waits for.
    pub helped: bool,
    /// Whether the rank waits without a time limit, and every rank that could end the wait has ended or is stuck as
    /// well.
    pub stuck: bool,
}

/// One rank's wait.
#[derive(Clone, Debug, serde::Serialize)]
pub struct WaitReport {
    /// The operation that the rank waits in.
    pub operation: Operation,
    /// The call that waits, in the program's words: `receive of tag 7 from rank 2 on "world"`. It numbers ranks as the
    /// communicator that it names does. `None` for calls of channels and MPBs, which the other fields describe.
    pub call: Option<String>,
    /// The channels for which the rank waits: several for a select, none for a wait for results or for a flag.
    pub channels: Vec<ChannelReport>,
    /// The flag for which the rank waits.
    pub flag: Option<FlagReport>,
    /// What the rank's other pending operations wait for, which continue during this wait and may end it. MPBs are among
    /// these channels, too: their senders are the ranks that may set the flag.
    pub beside: Vec<ChannelReport>,
    /// The number of further channels, about which nothing is known: a rank records only the first 64.
    pub further_channels: u64,
    /// The ranks, each of which can end the wait. For results, the ranks that must all end.
    pub peers: Vec<usize>,
    /// How long the wait has lasted.
    #[serde(rename = "since_seconds", serialize_with = "seconds")]
    pub since: Duration,
    /// How much time is left until the wait gives up by itself.
    #[serde(rename = "gives_up_in_seconds", serialize_with = "maybe_seconds")]
    pub gives_up_in: Option<Duration>,
    /// Distinguishes this wait from the rank's next one.
    #[serde(skip)]
    pub(super) version: u32,
}

/// A channel for which a rank waits.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ChannelReport {
    /// The channel's name, as the program gave it.
    pub name: String,
    /// The ranks that may send.
    pub senders: Vec<usize>,
    /// The ranks that may receive.
    pub receivers: Vec<usize>,
    /// What lies in the channel, if it is one between two ranks whose degree is not 0.
    pub ring: Option<RingReport>,
}

/// A flag for which a rank waits.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FlagReport {
    /// The name of the flag's MPBs, as the program gave it.
    pub mpbs: String,
    /// The flag's line in the MPB of the rank that waits.
    pub line: usize,
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
