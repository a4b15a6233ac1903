//! A world in which everybody waits costs next to nothing.

use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, getpid, getppid};
use onchip::prelude::*;
use onchip_benches::clock::monotonic_ns;

use crate::ours::{self, Job, Ranks, Task};
use crate::row::{Bound, Row, Side, Unit};

pub const RANKS: usize = 8;
/// Percent of one core.
pub const LIMIT: f64 = 0.5;
const WATCHED: Duration = Duration::from_secs(2);
/// Spinning before parking is over after this.
const SETTLE: Duration = Duration::from_millis(100);

pub fn task() -> Task {
    Task::sharing(RANKS, Job::Idle)
}

pub fn rows() -> Vec<Row> {
    [Ranks::Threads, Ranks::Processes]
        .map(|ranks| Row {
            name: format!("idle.{}", ranks.name()),
            what: "processor time of a world of 8 ranks that all wait, percent of one core",
            unit: Unit::CorePercent,
            ours: ours::side(ranks, task(), |results| results[0][0]),
            reference: Side::stated(LIMIT),
            bound: Bound::at_most(1.0),
            by_distance: false,
        })
        .into()
}

/// Processor time that the process has used so far, in nanoseconds.
fn used(pid: Pid) -> onchip::Result<i64> {
    let clock: ClockId = clock_getcpuclockid(pid).map_err(std::io::Error::from)?;
    let time = clock_gettime(clock).map_err(std::io::Error::from)?;
    Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// All ranks wait in a receive. Rank 0 gives what that takes.
#[inline(never)]
pub fn perform(rank: &Rank) -> onchip::Result<Vec<f64>> {
    let go = Channel::degree(1);
    if rank.id() > 0 {
        report(rank)?;
        rank.receiver::<u32>("go", 0, go)?.receive()?;
        return Ok(Vec::new());
    }
    let percent = watch(rank)?;
    for peer in 1..rank.size() {
        rank.sender::<u32>("go", peer, go)?.send(&0)?;
    }
    Ok(vec![percent])
}

/// What the ranks other than 0 call before they wait.
pub fn report(rank: &Rank) -> onchip::Result<()> {
    rank.sender::<u32>("pid", 0, Channel::degree(1))?.send(&std::process::id())
}

/// The percentage of a core that the processes of all ranks, and the caller's which watches over
/// them, use while rank 0, which calls this, waits as well.
pub fn watch(rank: &Rank) -> onchip::Result<f64> {
    let channel = Channel::degree(1);
    let mut pids = vec![getpid().as_raw() as u32];
    if !onchip::caller() {
        pids.push(getppid().as_raw() as u32);
    }
    for peer in 1..rank.size() {
        pids.push(*rank.receiver::<u32>("pid", peer, channel)?.receive()?);
    }
    pids.sort();
    pids.dedup();
    let total =
        || -> onchip::Result<i64> { pids.iter().map(|&pid| used(Pid::from_raw(pid as i32))).sum() };
    let never = rank.receiver::<u32>("never", 1, channel)?;
    let wait = |time| match never.receive_timeout(time).map_err(onchip::Error::into_kind) {
        Err(onchip::ErrorKind::Timeout { .. }) => Ok(()),
        Err(e) => Err(e.into()),
        Ok(_) => Err(onchip::Error::other("a message that nobody sent")),
    };
    wait(SETTLE)?;
    let (start, before) = (monotonic_ns(), total()?);
    wait(WATCHED)?;
    Ok((total()? - before) as f64 / (monotonic_ns() - start) as f64 * 100.0)
}
