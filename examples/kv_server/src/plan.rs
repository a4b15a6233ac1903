//! What is to be done, as all ranks get to know it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use onchip::critical::{Backoff, Scheme, Section};
use serde::{Deserialize, Serialize};

use crate::load::{Distribution, Mix};

/// Who lets clients into the store, or does for them what they ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// A test-and-set lock
    Tas,
    /// The queue lock of Mellor-Crummey and Scott
    Mcs,
    /// The queue lock of Craig, Landin and Hagersten
    Clh,
    /// A queue lock that is handed over by messages
    HybLock,
    /// One client executes the operations of those who wait
    CcSynch,
    /// The same for each memory of the machine
    HSynch,
    /// One client executes operations that come as messages
    HybComb,
    /// A server that looks at lines of shared memory
    SlotServer,
    /// A server at the other end of channels
    MpServer,
}

impl Algorithm {
    /// The library's word for it; rank 0 serves.
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Tas => Scheme::Tas,
            Self::Mcs => Scheme::Mcs,
            Self::Clh => Scheme::Clh,
            Self::HybLock => Scheme::HybLock,
            Self::CcSynch => Scheme::CcSynch,
            Self::HSynch => Scheme::HSynch,
            Self::HybComb => Scheme::HybComb,
            Self::SlotServer => Scheme::SlotServer,
            Self::MpServer => Scheme::MpServer(0),
        }
    }

    /// Whether a rank serves.
    pub fn needs_server(self) -> bool {
        self.scheme().needs_server()
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every one has a name.
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// What ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ranks {
    /// Threads of one process
    Threads,
    /// Processes
    Processes,
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Self::Threads { "threads" } else { "processes" })
    }
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The last client, with operations in flight
    Client,
    /// The rank that serves; another one stands by, but for an mp-server
    Server,
}

/// When a client has done enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// After so long.
    Time(Duration),
    /// After so many operations.
    Operations(u64),
}

/// How long a client of the slot server looks away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pause {
    /// Not at all.
    None,
    /// So many of the processor's pauses.
    Fixed(u32),
    /// As long as turns out to be best.
    Tuned,
}

/// One world with one algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Who lets clients in.
    pub algorithm: Algorithm,
    /// What ranks are.
    pub ranks: Ranks,
    /// How many clients there are; `None` for all ranks of a launched world that are left.
    pub clients: Option<usize>,
    /// Ranks that are no clients: the first ones.
    pub others: usize,
    /// How many keys clients use.
    pub keys: usize,
    /// How many of them the store has room for.
    pub capacity: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How often which operation is chosen.
    pub mix: Mix,
    /// How often which key is chosen.
    pub distribution: Distribution,
    /// Operations that a client has in flight.
    pub in_flight: usize,
    /// Operations that a combiner executes before it hands over.
    pub max_ops: usize,
    /// How long clients of the slot server look away.
    pub backoff: Pause,
    /// Where random numbers begin.
    pub seed: u64,
    /// When a client has done enough.
    pub limit: Limit,
    /// Who is killed after half of the time.
    pub kill: Option<Victim>,
    /// Where the ranks leave their reports when one is killed: a world with such a rank has no
    /// results.
    pub reports: Option<PathBuf>,
}

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Executes operations.
    Server,
    /// Will when the server is gone.
    StandBy,
    /// Nothing, in a launched world that has more ranks than this algorithm needs.
    Idle,
    /// Asks for operations; the clients are numbered.
    Client(usize),
}

impl Plan {
    /// What a rank does.
    pub fn role(&self, rank: usize) -> Role {
        match rank {
            _ if rank >= self.others => Role::Client(rank - self.others),
            0 if self.algorithm.needs_server() => Role::Server,
            1 if self.has_stand_by() => Role::StandBy,
            _ => Role::Idle,
        }
    }

    /// Whether a rank takes over when the server is killed. Behind an `mp-server` one could as well,
    /// but a rank has one handle of that only, so that nobody could put the repair of a store before
    /// what the clients ask for.
    pub fn has_stand_by(&self) -> bool {
        self.kill == Some(Victim::Server) && self.algorithm == Algorithm::SlotServer
    }

    /// The rank that is killed.
    pub fn victim(&self, ranks: usize) -> Option<usize> {
        self.kill.map(|kill| if kill == Victim::Server { 0 } else { ranks - 1 })
    }

    /// How the store is protected.
    pub fn section(&self) -> Section {
        let backoff = match self.backoff {
            Pause::None => Backoff::None,
            Pause::Fixed(pauses) => Backoff::Fixed(pauses),
            Pause::Tuned => Backoff::Tuned,
        };
        Section::new(self.algorithm.scheme())
            .len(self.capacity)
            .in_flight(self.in_flight)
            .max_ops(self.max_ops)
            .backoff(backoff)
            // Whoever stands by has a handle of its own beside the one it serves.
            .seats(if self.has_stand_by() { 2 } else { 1 })
    }
}
