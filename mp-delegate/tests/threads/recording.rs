//! The trace of delegated sends.

use std::{thread, time::Duration};

use mp_core::{Channel, Wait};
use mp_delegate::{
    overlap::OverlapReport,
    threads::{self, Choice, CommThreads},
    trace::{Detail, Kind, Lane, Recording, Span, Trace, Track},
};

use crate::support::on_all;

fn spans(trace: &Trace, lane: Lane, kind: Kind) -> Vec<Span> {
    let of_lane = trace.tracks.iter().filter(|track| track.track.lane == lane);
    of_lane.flat_map(|track| &track.spans).filter(|span| span.kind == kind).copied().collect()
}

#[test]
fn every_send_is_delegated_and_copied_once() {
    on_all(2, |rank| {
        let channel = Channel::degree(3).max_len(50);
        if rank.id() == 1 {
            let from = rank.receiver::<[u16]>("rows", 0, channel)?;
            for n in 0..60 {
                ensure!(from.receive()?.len() == n % 7, "message {n}");
            }
            return Ok(());
        }
        let recording = Recording::trace();
        let recorder = recording.recorder(Track::rank(0));
        let kts = (0..2).map(|kt| recording.recorder(Track::kt(kt)));
        let threads = CommThreads::builder(2).record(kts).start()?;
        let sender = rank.sender::<[u16]>("rows", 1, channel)?;
        let mut to = threads.delegate_to(sender, &[0, 1], Choice::RoundRobin);
        let name = recorder.name("rows");
        to.record(recorder.clone(), Detail::message(0, 1, 0).on(name));
        let mut borrowed = [7u16; 50];
        for n in 0..60 {
            let len = n % 7;
            match n % 4 {
                0 => drop(to.send(vec![1; len]).wait()?),
                1 => {
                    threads::scope(|scope| scope.send(&mut to, &borrowed[..len]).wait().map(drop))?
                }
                2 => drop(to.send_buffer(rank.buffer_zeroed::<u16>(len)?)),
                _ => drop(to.send_here(&mut borrowed[..len])?),
            }
        }
        // The message is too long, so no thread can send it.
        ensure!(to.send(vec![0; 51]).wait().is_err(), "51 elements");
        drop(to);
        threads.shutdown();

        let trace = recording.take_trace();
        let delegated = spans(&trace, Lane::Rank(0), Kind::Delegate);
        let sent_here = spans(&trace, Lane::Rank(0), Kind::Send);
        let mut copied = Vec::new();
        for kt in 0..2 {
            let copies = spans(&trace, Lane::Kt(kt), Kind::Copy);
            ensure!(!copies.is_empty(), "KT {kt} has copied nothing");
            for copy in &copies {
                let idle = spans(&trace, Lane::Kt(kt), Kind::Idle);
                let beside = |idle: &Span| idle.end <= copy.start || copy.end <= idle.start;
                ensure!(idle.iter().all(beside), "idle while it copied");
            }
            copied.extend(copies);
        }
        ensure!(sent_here.len() == 15, "{} sends", sent_here.len());
        ensure!(delegated.len() == 45 + 1, "{} delegations", delegated.len());
        ensure!(copied.len() == 45, "{} copies", copied.len());
        let mut arrows = 0;
        for span in delegated.iter().filter(|span| span.detail.flow.is_some()) {
            let same = |copy: &&Span| copy.detail.flow == span.detail.flow;
            let found: Vec<&Span> = copied.iter().filter(same).collect();
            ensure!(found.len() == 1, "{} copies of one delegation", found.len());
            ensure!(found[0].detail == span.detail && span.start <= found[0].start, "{span:?}");
            ensure!(span.detail.channel.and_then(|name| trace.name(name)) == Some("rows"), "name");
            arrows += 1;
        }
        ensure!(arrows == 45, "{arrows} arrows");
        let lens = |spans: &[Span]| spans.iter().filter_map(|s| s.detail.bytes).sum::<u64>();
        let all: u64 = (0..60).map(|n| 2 * (n % 7)).sum();
        ensure!(lens(&copied) + lens(&sent_here) == all, "bytes");
        let report = OverlapReport::of(&trace);
        ensure!(report.ranks.len() == 1 && report.ranks[0].delegated_ns > 0, "{report}");
        Ok(())
    });
}

#[test]
fn copies_keep_to_their_message_when_a_thread_ends_or_a_send_fails() {
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(100);
        if rank.id() == 1 {
            let from = rank.receiver::<[u8]>("pages", 0, channel)?;
            for n in 0..40 {
                ensure!(from.receive()?.len() == n, "message {n}");
            }
            return Ok(());
        }
        let recording = Recording::trace();
        let kts = (0..2).map(|kt| recording.recorder(Track::kt(kt)));
        let threads = CommThreads::builder(2).record(kts).start()?;
        let mut to = threads.delegate(rank.sender::<[u8]>("pages", 1, channel)?);
        to.set_wait(Wait::forever());
        let mut requests = Vec::new();
        for n in 0..100 {
            if n == 20 {
                threads.stop(0);
            }
            requests.push(to.send(vec![0u8; n]));
        }
        let sent = requests.into_iter().map(|request| request.wait().is_ok());
        let sent: Vec<bool> = sent.collect();
        drop(to);
        threads.shutdown();
        // Without a recorder of the rank, there are only the copies, in the order of their lanes.
        let trace = recording.take_trace();
        let mut copied: Vec<u64> = (0..2)
            .flat_map(|kt| spans(&trace, Lane::Kt(kt), Kind::Copy))
            .filter_map(|copy| copy.detail.bytes)
            .collect();
        copied.sort_unstable();
        let wanted = (0..).zip(sent).filter_map(|(n, sent)| sent.then_some(n)).collect::<Vec<_>>();
        ensure!(copied == wanted, "{copied:?} instead of {wanted:?}");
        Ok(())
    });
}

#[test]
fn sending_and_waiting_in_turn_hides_nothing_and_is_seen_to_wait() {
    on_all(2, |rank| {
        let channel = Channel::degree(1).max_len(1000);
        if rank.id() == 1 {
            let from = rank.receiver::<[u8]>("pages", 0, channel)?;
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(1));
                ensure!(from.receive()?.len() == 1000, "length");
            }
            return Ok(());
        }
        let recording = Recording::trace();
        let threads = CommThreads::builder(1).record([recording.recorder(Track::kt(0))]).start()?;
        let mut to = threads.delegate(rank.sender::<[u8]>("pages", 1, channel)?);
        to.record(recording.recorder(Track::rank(0)), Detail::message(0, 1, 0));
        for _ in 0..20 {
            to.send(vec![1; 1000]).wait()?;
        }
        drop(to);
        threads.shutdown();
        let trace = recording.take_trace();
        for report in [recording.overlap(), OverlapReport::of(&trace)] {
            let found = &report.ranks[0];
            ensure!(found.delegated_ns > 0 && found.waited_ns > 0, "{report}");
            ensure!(found.hidden_part().is_none(), "{report}");
            ensure!(!report.to_string().contains('%'), "{report}");
        }
        ensure!(!spans(&trace, Lane::Rank(0), Kind::Wait).is_empty(), "no waits");
        Ok(())
    });
}

#[test]
fn what_is_off_records_nothing() {
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(10);
        if rank.id() == 1 {
            let from = rank.receiver::<[u8]>("pages", 0, channel)?;
            ensure!(from.receive()?.len() == 10, "length");
            return Ok(());
        }
        let recording = Recording::off();
        let threads = CommThreads::builder(1).record([recording.recorder(Track::kt(0))]).start()?;
        let mut to = threads.delegate(rank.sender::<[u8]>("pages", 1, channel)?);
        to.record(recording.recorder(Track::rank(0)), Detail::message(0, 1, 0));
        to.send([1u8; 10].to_vec()).wait()?;
        ensure!(recording.take_trace().tracks.is_empty(), "tracks");
        Ok(())
    });
}
