//! All ranks together, once for each scheme.

use std::fs;
use std::path::Path;

use example_support::{Error, Result};
use onchip::critical::Protected;
use onchip::prelude::*;
use onchip::{Cause, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::client::{self, Fared, Store, Together};
use crate::plan::{Plan, Ranks, Role, Victim};
use crate::server::{self, TakenOver};

/// The report of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// It was a client.
    Client(Box<Fared>),
    /// It took over from the server.
    TakenOver(TakenOver),
    /// It served, or did nothing.
    Nothing,
    /// The launched world is too small or too large.
    Misfit(String),
}

/// The result of a world.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How the clients fared, the one that was killed as well.
    pub clients: Vec<Fared>,
    /// How another server took over.
    pub taken_over: Option<TakenOver>,
    /// Which rank was killed.
    pub killed: Option<usize>,
}

/// A hidden option that a rank which is a process is started with, and the plan.
pub const PLAN: &str = "--plan-of-rank";

/// Runs a world, and puts the results together.
///
/// # Errors
/// Whatever keeps the ranks from their work, and the loss of a rank that was not to be killed.
pub fn run(plan: &Plan) -> Result<Outcome> {
    let size = plan.others + plan.clients.unwrap_or(1);
    let code = |rank: &Rank| -> onchip::Result<Told> {
        let told = work(rank, plan)?;
        if let Some(folder) = &plan.reports {
            leave(folder, rank.id(), &told)?;
        }
        Ok(told)
    };
    let mut world = plan.ranks.world(size);
    if plan.ranks == Ranks::Processes {
        let json = serde_json::to_string(plan).map_err(Error::new)?;
        world = world.args([PLAN.to_owned(), json]);
    }
    let result = world.run(code);
    let victim = plan.victim(size);
    let told = match (result.map_err(onchip::Error::into_kind), &plan.reports) {
        (Ok(told), None) => told,
        (Err(ErrorKind::RanksFailed(failed)), Some(folder))
            if { failed.failures.iter() }
                .all(|f| Some(f.rank) == victim && f.cause == Cause::Signal(9)) =>
        {
            let all = (0..size).map(|rank| read(folder, rank));
            all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        }
        (Ok(_), Some(_)) => {
            return Err(Error::new("the rank that was to be killed came to its end before"));
        }
        (Err(kind), _) => return Err(onchip::Error::from(kind).into()),
    };
    let mut outcome = Outcome { killed: victim, ..Outcome::default() };
    for told in told {
        match told {
            Told::Client(fared) => outcome.clients.push(*fared),
            Told::TakenOver(how) => outcome.taken_over = Some(how),
            Told::Nothing => {}
            Told::Misfit(reason) => return Err(Error::new(reason)),
        }
    }
    Ok(outcome)
}

/// Does a rank's part, for values of the shortest type that has room.
fn work(rank: &Rank, plan: &Plan) -> onchip::Result<Told> {
    let (wanted, is) = (plan.others + plan.clients.unwrap_or(1), rank.size());
    if is < wanted || plan.clients.is_some() && is > wanted {
        let least = if plan.clients.is_none() { "at least " } else { "" };
        let clients = plan.clients.unwrap_or(1);
        return Ok(Told::Misfit(format!(
            "{} with {least}{clients} clients needs {least}{wanted} ranks, but this world has {is}",
            plan.scheme
        )));
    }
    match plan.value_bytes {
        0..16 => work_on::<15>(rank, plan),
        16..64 => work_on::<63>(rank, plan),
        _ => work_on::<255>(rank, plan),
    }
}

fn work_on<const N: usize>(rank: &Rank, plan: &Plan) -> onchip::Result<Told> {
    let mut together = Together::open(rank, plan)?;
    let store = Protected::<Store<N>>::open(rank, "store", plan.section(), |_| ())?;
    match plan.role(rank.id()) {
        Role::Client(number) => {
            let is_victim = client::is_victim(plan, rank);
            let leave = |fared| match &plan.reports {
                Some(folder) => leave(folder, rank.id(), &Told::Client(Box::new(fared))),
                None => Ok(()),
            };
            let fared = client::run(plan, number, is_victim, store, together, leave)?;
            Ok(Told::Client(Box::new(fared)))
        }
        Role::Server => {
            server::serve(plan, store, together)?;
            Ok(Told::Nothing)
        }
        Role::StandBy => server::stand_by(store, together).map(Told::TakenOver),
        Role::Idle => {
            drop(store);
            together.begin()?;
            Ok(Told::Nothing)
        }
    }
}

/// Writes the file of a rank's report.
fn leave(folder: &Path, rank: usize, told: &Told) -> onchip::Result<()> {
    let json = serde_json::to_vec(told).map_err(onchip::Error::other)?;
    fs::write(folder.join(rank.to_string()), json).map_err(onchip::Error::other)
}

/// Returns the report of a rank, if it left one.
fn read(folder: &Path, rank: usize) -> Result<Option<Told>> {
    let file = folder.join(rank.to_string());
    if !file.exists() {
        return Ok(None);
    }
    let json = fs::read(&file).map_err(|error| Error::at(file.display(), error))?;
    let told = serde_json::from_slice(&json);
    told.map(Some).map_err(|error| Error::at(file.display(), error))
}

/// Returns which rank was killed, in words.
pub fn victim_name(victim: Victim) -> &'static str {
    match victim {
        Victim::Client => "the last client",
        Victim::Server => "the server",
    }
}
