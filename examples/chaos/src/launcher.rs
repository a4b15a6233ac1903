//! The launcher: runs the world, and tells how it ended.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use onchip::{Cause, Error, ErrorKind, WaitPolicy, World, launch::Ending};

use crate::judge::OWN_WORLD;
use crate::life::Life;
use crate::plan::{Plan, Start, Who};
use crate::rank;
use crate::record::Record;

/// Runs the launcher.
pub fn main(plan: &Plan) -> ExitCode {
    let life = Life::begin(plan, Who::Launcher);
    let before = possessions();
    Record::Begun.tell();
    let result = match plan.start {
        Start::Run => enter(plan, &life).map(|failures| (failures, None)),
        Start::Launch => launch(plan),
    };
    let left = possessions()
        .into_iter()
        .filter(|(what, count)| before.get(what).unwrap_or(&0) < count)
        .map(|(what, count)| format!("{count} × {what}"))
        .collect();
    let ((failures, memory), error) = match result {
        Ok(told) => (told, None),
        Err(error) => ((Vec::new(), None), Some(error.to_string())),
    };
    Record::World { failures, error, memory, left }.tell();
    match life.last() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs a rank. The library tells which one it is only in `run`, but the process may be hurt before that.
pub fn rank_main(plan: &Plan) -> ExitCode {
    let told = std::env::var("ONCHIP_RANK").unwrap_or_default();
    let rank = told.split(':').next().and_then(|rank| rank.parse().ok()).unwrap_or(usize::MAX);
    let life = Life::begin(plan, Who::Rank(rank));
    match enter(plan, &life) {
        Ok(_) if plan.start == Start::Run => {
            Record::Refused { rank, reason: OWN_WORLD.to_owned() }.tell();
        }
        Ok(_) => {}
        Err(error) => Record::Refused { rank, reason: error.to_string() }.tell(),
    }
    match plan.start == Start::Launch && life.last().is_err() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The ranks that failed, and how.
type Failures = Vec<(usize, String)>;

/// Makes the one call of `run`.
fn enter(plan: &Plan, life: &Life) -> Result<Failures, Error> {
    let policy = if plan.park { WaitPolicy::Park } else { WaitPolicy::Adaptive };
    let world = World::processes(plan.ranks).wait(policy).args(rank_arguments(plan));
    match world.run(|rank| rank::run(rank, plan, life)).map_err(Error::into_kind) {
        Ok(_) => Ok(Vec::new()),
        Err(ErrorKind::RanksFailed(failed)) => {
            let name = |cause: &Cause| match cause {
                Cause::Error(_) => "error".to_owned(),
                Cause::Panic(_) => "panic".to_owned(),
                Cause::Exit(status) => format!("exit {status}"),
                Cause::Signal(signal) => format!("signal {signal}"),
                other => format!("{other:?}"),
            };
            Ok(failed.failures.iter().map(|f| (f.rank, name(&f.cause))).collect())
        }
        Err(error) => Err(error.into()),
    }
}

/// Launches the ranks as `mprun` does. Also returns how many bytes of the world's memory are in use at the end.
fn launch(plan: &Plan) -> Result<(Failures, Option<u64>), Error> {
    let program = std::env::current_exe().map_err(Error::other)?;
    let world = World::processes(plan.ranks).args(rank_arguments(plan));
    let mut launched = world.launch(program, false)?;
    while launched.any_running() {
        launched.step(&[], None)?;
    }
    let endings = (0..plan.ranks).map(|rank| (rank, launched.ending(rank)));
    let failures = endings
        .filter_map(|(rank, ending)| match ending? {
            Ending::Exited(0) => None,
            Ending::Exited(status) => Some((rank, format!("exit {status}"))),
            Ending::Killed(signal) => Some((rank, format!("signal {signal}"))),
            Ending::Unseen => Some((rank, "unseen".to_owned())),
        })
        .collect();
    Ok((failures, Some(launched.report()?.memory.in_use)))
}

fn rank_arguments(plan: &Plan) -> [String; 4] {
    ["--part".to_owned(), "rank".to_owned(), "--seed".to_owned(), plan.seed.to_string()]
}

/// Returns what this process has open and mapped, by name.
fn possessions() -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    let mut count = |what: String| *all.entry(what).or_default() += 1;
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        // The folder itself is left out, because it is open while it is read.
        if !target.ends_with("fd") {
            let target = target.display().to_string();
            // Pipes and the like have numbers.
            count(format!("descriptor of {}", target.split(":[").next().unwrap_or_default()));
        }
    }
    for line in fs::read_to_string("/proc/self/maps").unwrap_or_default().lines() {
        if let Some((_, file)) = line.split_once("/memfd:") {
            count(format!("mapping of {file}"));
        }
    }
    all
}
