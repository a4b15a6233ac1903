//! Our side of the rows: a task that ranks perform, as threads or as processes.

use onchip::prelude::*;
use onchip_benches::cpus;
use serde::{Deserialize, Serialize};

use crate::plan::{Large, Pairs, PingPong, Stream, Untouched, Wakes};
use crate::rivals::failed;
use crate::row::{Setup, Side, Trouble};
use crate::rows;

/// The word after `--child` that makes this program a rank.
pub const RANK: &str = "rank";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ranks {
    Threads,
    Processes,
}

impl Ranks {
    pub fn name(self) -> &'static str {
        match self {
            Ranks::Threads => "threads",
            Ranks::Processes => "processes",
        }
    }
}

/// What the ranks of a world do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Job {
    PingPong(PingPong),
    Stream8(Stream),
    Stream56(Stream),
    LargeSent(Large),
    LargeMoved(Large),
    Untouched(Untouched),
    Park(Wakes),
    Pairs(Pairs),
    Idle,
    Kill,
    Nothing,
}

impl Job {
    fn perform(self, rank: &Rank) -> onchip::Result<Vec<f64>> {
        match self {
            Job::PingPong(plan) => rows::pingpong::perform(rank, plan),
            Job::Stream8(plan) => rows::stream::perform::<1>(rank, plan),
            Job::Stream56(plan) => rows::stream::perform::<7>(rank, plan),
            Job::LargeSent(plan) => rows::large::sent(rank, plan),
            Job::LargeMoved(plan) => rows::large::moved(rank, plan),
            Job::Untouched(plan) => rows::buffer::perform(rank, plan),
            Job::Park(plan) => rows::park::perform(rank, plan),
            Job::Pairs(plan) => rows::oversubscribed::perform(rank, plan),
            Job::Idle => rows::idle::perform(rank),
            Job::Kill => rows::kill::perform(rank),
            Job::Nothing => Ok(Vec::new()),
        }
    }
}
