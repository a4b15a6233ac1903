//! The plan of a run, which all ranks get.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
pub use example_support::options::Ranks;
use onchip::critical::{Backoff, Scheme, Section};
use serde::{Deserialize, Serialize};

use crate::mix::{Distribution, Mix};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The last client, with operations in flight
    Client,
    /// The rank that serves; another one stands by
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
    /// As long as measurements show to be best.
    Tuned,
}

/// One world with one algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The scheme; rank 0 serves.
    #[serde(with = "by_name")]
    pub scheme: Scheme,
    /// The kind of the ranks.
    pub ranks: Ranks,
    /// How many clients there are; `None` for all ranks of a launched world that are left.
    pub clients: Option<usize>,
    /// The number of ranks that are no clients: the first ones.
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
    /// The seed of random numbers.
    pub seed: u64,
    /// When a client has done enough.
    pub limit: Limit,
    /// The rank that is killed after half of the time.
    pub kill: Option<Victim>,
    /// Where the ranks leave their reports when one is killed: a world with such a rank has no
    /// results.
    pub reports: Option<PathBuf>,
}

/// The part of a rank.
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
    /// Returns what a rank does.
    pub fn role(&self, rank: usize) -> Role {
        match rank {
            _ if rank >= self.others => Role::Client(rank - self.others),
            0 if self.scheme.needs_server() => Role::Server,
            1 if self.has_stand_by() => Role::StandBy,
            _ => Role::Idle,
        }
    }

    /// Returns whether a rank takes over when the server is killed.
    pub fn has_stand_by(&self) -> bool {
        self.kill == Some(Victim::Server) && self.scheme.needs_server()
    }

    /// Returns whether the store goes on when one operation is unknown, because the killed rank has a successor.
    pub fn is_followed(&self) -> bool {
        self.has_stand_by() || self.kill.is_some() && !self.scheme.needs_server()
    }

    /// Returns the rank that is killed.
    pub fn victim(&self, ranks: usize) -> Option<usize> {
        self.kill.map(|kill| if kill == Victim::Server { 0 } else { ranks - 1 })
    }

    /// Returns how the store is protected.
    pub fn section(&self) -> Section {
        let backoff = match self.backoff {
            Pause::None => Backoff::None,
            Pause::Fixed(pauses) => Backoff::Fixed(pauses),
            Pause::Tuned => Backoff::Tuned,
        };
        Section::new(self.scheme)
            .len(self.capacity)
            .in_flight(self.in_flight)
            .max_ops(self.max_ops)
            .backoff(backoff)
    }
}

/// Stores schemes in files, and passes them to other ranks, by their names.
pub(crate) mod by_name {
    use onchip::critical::Scheme;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(scheme: &Scheme, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(scheme)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Scheme, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
