//! The trace of nonblocking collectives.

use std::{thread, time::Duration};

use mp_collectives::{
    barrier::{self, Barriers},
    nonblocking::{Nonblocking, Settings},
    reduce::Sum,
};
use mp_core::{Rank, Result};
use mp_delegate::{
    overlap::OverlapReport,
    threads::CommThreads,
    trace::{Kind, Lane, Recording, Span, Trace, Track},
};

use crate::support::on_all;

fn spans(trace: &Trace, lane: Lane) -> Vec<Span> {
    let of_lane = trace.tracks.iter().filter(|track| track.track.lane == lane);
    of_lane.flat_map(|track| &track.spans).copied().collect()
}

/// Runs broadcasts and sums by a thread that records, while the rank computes.
fn traced(rank: &Rank, recording: &Recording) -> Result<()> {
    let me = rank.id();
    let recorder = recording.recorder(Track::rank(me));
    let threads = CommThreads::builder(1).record([recording.recorder(Track::kt(me))]).start()?;
    let mut nonblocking = Nonblocking::open(rank, "traced", &threads, Settings::default())?;
    for round in 0..10u64 {
        let weights = nonblocking.broadcast(vec![round; 3000], 0);
        let sums = nonblocking.all_reduce([1u32; 25], Sum);
        let barrier = nonblocking.barrier();
        let busy = recorder.compute(1.0, || (0..1000 * round).sum::<u64>());
        ensure!(busy < u64::MAX && weights.wait()?[2999] == round, "round {round}");
        ensure!(sums.wait()? == [rank.size() as u32; 25], "round {round}");
        barrier.wait()?;
    }
    drop(nonblocking);
    threads.shutdown();
    Ok(())
}

#[test]
fn a_trace_shows_what_threads_did_for_collectives() {
    on_all(2, |rank| {
        let recording = Recording::trace();
        traced(rank, &recording)?;
        let trace = recording.take_trace();
        let kt = spans(&trace, Lane::Kt(rank.id() as u32));
        let steps: Vec<&Span> = kt.iter().filter(|span| span.kind == Kind::Collective).collect();
        let named = |name: &str, bytes: u64| {
            let is_it = |span: &&&Span| {
                let told = span.detail.channel.and_then(|told| trace.name(told));
                told == Some(name) && span.detail.bytes == Some(bytes)
            };
            steps.iter().filter(is_it).count()
        };
        // There is at least one span for each operation, and there are no others.
        let [weights, sums, barriers] = [
            named("nonblocking broadcast", 24_000),
            named("nonblocking all_reduce", 100),
            named("nonblocking barrier", 0),
        ];
        ensure!([weights, sums, barriers].iter().all(|&steps| steps >= 10), "{steps:?}");
        ensure!(weights + sums + barriers == steps.len(), "{steps:?}");
        for step in &steps {
            ensure!(step.detail.from == Some(rank.id() as u32), "{step:?}");
            let beside = |idle: &&Span| idle.end <= step.start || step.end <= idle.start;
            ensure!(kt.iter().filter(|s| s.kind == Kind::Idle).all(|s| beside(&s)), "idle");
        }
        let report = OverlapReport::of(&trace);
        let took: u64 = steps.iter().map(|step| step.end - step.start).sum();
        ensure!(report.ranks.len() == 1 && report.ranks[0].delegated_ns == took, "{report}");
        let mut json = Vec::new();
        trace.write_chrome(&mut json)?;
        let json = String::from_utf8(json).map_err(mp_core::Error::other)?;
        ensure!(json.contains(r#""name":"collective""#), "{json}");
        ensure!(json.contains(r#""operation":"nonblocking broadcast""#), "{json}");
        Ok(())
    });
}

#[test]
fn who_waits_for_others_in_a_collective_is_seen_to_wait() {
    on_all(2, |rank| {
        let recording = Recording::measure();
        let recorder = recording.recorder(Track::rank(rank.id()));
        let threads = CommThreads::builder(1).start()?;
        let mut barriers = Barriers::open(rank, "waits", barrier::Settings::default())?;
        let mut nonblocking = Nonblocking::open(rank, "waits", &threads, Settings::default())?;
        let mut waited = 0;
        for round in 0..2 {
            recorder.compute(1.0, || -> Result<()> {
                if rank.id() == 1 {
                    thread::sleep(Duration::from_millis(20));
                }
                match round {
                    0 => barriers.wait(),
                    _ => Ok(nonblocking.barrier().wait()?),
                }
            })?;
            let report = recording.overlap();
            let now = report.ranks[0].waited_ns;
            ensure!(rank.id() == 1 || now > waited, "round {round}: {report}");
            waited = now;
        }
        drop(nonblocking);
        threads.shutdown();
        Ok(())
    });
}

#[test]
fn what_is_off_records_nothing() {
    on_all(2, |rank| {
        let recording = Recording::off();
        traced(rank, &recording)?;
        ensure!(recording.take_trace().tracks.is_empty(), "tracks");
        Ok(())
    });
}
