//! A peer is killed: how long until the rank that waits for it has the error.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onchip::prelude::*;
use onchip::{Cause, RankFailure, RanksFailed};
use onchip_benches::clock::monotonic_ns;

use crate::ours::{Job, Ranks, Task};
use crate::rivals::failed;
use crate::row::{Bound, Row, Side, Unit};

/// A world that lost a rank has no results: the survivor writes the nanoseconds here.
fn result_file() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ratios-kill-ns")
}

pub fn rows() -> Vec<Row> {
    let task = Task::sharing(3, Job::Kill);
    vec![Row {
        name: "kill.processes".into(),
        what: "from SIGKILL of a rank to the error at the rank that waits for it",
        unit: Unit::Nanoseconds,
        ours: Side::new("onchip", "adaptive", move |setup| {
            let file = result_file();
            let _ = std::fs::remove_file(&file);
            match task.run(Ranks::Processes, setup).map_err(onchip::Error::into_kind) {
                Ok(_) => return Err(failed("the world ended well although a rank was killed")),
                Err(onchip::ErrorKind::RanksFailed(lost)) if only_the_victim(&lost) => {}
                Err(e) => return Err(failed(e)),
            }
            let text = std::fs::read_to_string(&file).map_err(failed)?;
            let ns: f64 = text.trim().parse().map_err(failed)?;
            Ok(ns.into())
        }),
        reference: Side::stated(10e6),
        bound: Bound::at_most(1.0),
        by_distance: false,
    }]
}

fn only_the_victim(lost: &RanksFailed) -> bool {
    matches!(&lost.failures[..], [RankFailure { rank: VICTIM, cause: Cause::Signal(9) }])
}

const SURVIVOR: usize = 0;
const VICTIM: usize = 1;
const KILLER: usize = 2;

#[inline(never)]
pub fn perform(rank: &Rank) -> onchip::Result<Vec<f64>> {
    let channel = Channel::degree(1);
    match rank.id() {
        SURVIVOR => {
            let killed_at = rank.receiver::<u64>("killed at", KILLER, channel)?;
            let lost = rank.receiver::<u64>("never", VICTIM, channel)?.receive().map(|m| *m);
            let noticed = monotonic_ns();
            if !matches!(
                lost.as_ref().map_err(onchip::Error::kind),
                Err(onchip::ErrorKind::PeerLost { rank: VICTIM, .. })
            ) {
                return Err(onchip::Error::other(format!("expected a lost peer, got {lost:?}")));
            }
            let took = noticed - *killed_at.receive()?;
            std::fs::write(result_file(), took.to_string())?;
        }
        VICTIM => {
            rank.sender::<u32>("pid", KILLER, channel)?.send(&std::process::id())?;
            rank.receiver::<u64>("never", KILLER, channel)?.receive()?;
        }
        _ => {
            let victim = *rank.receiver::<u32>("pid", VICTIM, channel)?.receive()?;
            let mut killed_at = rank.sender::<u64>("killed at", SURVIVOR, channel)?;
            // Until the survivor sleeps: the harder case.
            std::thread::sleep(Duration::from_millis(20));
            let now = monotonic_ns();
            kill(Pid::from_raw(victim as i32), Signal::SIGKILL).map_err(std::io::Error::from)?;
            killed_at.send(&now)?;
        }
    }
    Ok(Vec::new())
}
