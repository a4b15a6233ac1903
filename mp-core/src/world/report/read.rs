//! One look at a world, through memory that may change during the look and may contain anything.

use std::{fs, time::Duration};

use super::facts::{
    ChannelReport, FlagReport, RankKind, RankReport, RankStage, WaitReport, WorldReport,
};
use crate::{
    channel::{Outline, outline_of, outline_of_callers},
    context::{Context, RankControl, RankState},
    mpb,
    segment::{BlockKind, Offset, SegmentError},
    sync::Ordering,
    wait::{NOBODY, Operation, Waited, beside_parts, monotonic_ns},
    world::MemoryUse,
};

pub(super) fn look(context: &Context) -> Result<WorldReport, SegmentError> {
    let world = context.world()?;
    let kind = match world.processes.load(Ordering::Relaxed) {
        0 => RankKind::Threads,
        _ => RankKind::Processes,
    };
    let heap = context.segment.heap();
    let since_ns = world.since_ns.load(Ordering::Relaxed);
    let mut ranks = Vec::new();
    for rank in 0..context.begun() as usize {
        ranks.push(rank_report(context, rank)?);
    }
    // The peers of a wait for results are known only when all ranks have been read.
    let together = ranks.iter().take(context.size());
    let unended: Vec<usize> = together.filter(|r| !r.stage.ended()).map(|r| r.rank).collect();
    for report in &mut ranks {
        if let Some(wait) = &mut report.wait
            && wait.operation == Operation::Results
        {
            wait.peers = unended.iter().copied().filter(|&rank| rank != report.rank).collect();
        }
    }
    Ok(WorldReport {
        program: world.name.read(),
        launcher: world.launcher.load(Ordering::Relaxed),
        kind,
        age: Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)),
        memory: MemoryUse { in_use: heap.used(), touched: heap.touched() },
        resident: context.segment.resident(),
        ranks,
        cycles: Vec::new(),
    })
}

fn rank_report(context: &Context, rank: usize) -> Result<RankReport, SegmentError> {
    let control = context.rank(rank as u32)?;
    let pid = Some(control.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0);
    let stage = stage(control, pid);
    let waited = control.record.read().filter(|_| stage != RankStage::Lost);
    let wait = waited.map(|waited| wait_report(context, rank, waited));
    let blocked = if stage == RankStage::Lost { Vec::new() } else { control.delegations.blocked() };
    // A channel that can't be read was probably freed just now.
    let blocked_sends = blocked.into_iter().filter_map(|channel| {
        outline_of(context, channel).ok().map(|outline| channel_report(context, &outline))
    });
    let blocked_sends = blocked_sends.collect();
    let helped = stage != RankStage::Lost && control.delegations.at_work();
    Ok(RankReport { rank, pid, stage, wait, blocked_sends, helped, stuck: false })
}

fn stage(control: &RankControl, pid: Option<u32>) -> RankStage {
    match control.state() {
        RankState::Expected => RankStage::Expected,
        RankState::Finished => RankStage::Finished,
        RankState::Lost => RankStage::Lost,
        // A launcher that is stopped does not bury ranks.
        RankState::Running if pid.is_some_and(is_zombie) => RankStage::Lost,
        RankState::Running => RankStage::Running,
    }
}

/// Returns whether the process has ended and its parent has not waited for it yet. A process that does not exist proves
/// nothing, because it may be in another namespace.
fn is_zombie(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which stands in parentheses and may contain parentheses.
    let name_end = stat.iter().rposition(|&b| b == b')').unwrap_or(stat.len());
    stat.get(name_end + 2).is_some_and(|state| b"ZX".contains(state))
}

fn wait_report(context: &Context, rank: usize, waited: Waited) -> WaitReport {
    let now_ns = monotonic_ns();
    let mut report = WaitReport {
        operation: waited.operation,
        call: Some(waited.call).filter(|call| !call.is_empty()),
        channels: Vec::new(),
        flag: None,
        beside: Vec::new(),
        further_channels: waited.unnamed,
        peers: Vec::new(),
        since: Duration::from_nanos(now_ns.saturating_sub(waited.since_ns)),
        gives_up_in: waited
            .until_ns
            .map(|until| Duration::from_nanos(until.saturating_sub(now_ns))),
        version: waited.version,
    };
    if waited.operation == Operation::Flag {
        // This counts the MPBs as unknown, unless they can be read below.
        report.further_channels += 1;
        if let [mpbs, line, setter] = waited.channels[..]
            && let Ok(outline) = mpb_outline(context, mpbs)
        {
            let setters = |&other: &usize| match setter {
                // Another thread of the rank completes the operation, and may wait for any other rank.
                NOBODY if waited.beside.is_empty() => other != rank,
                0 => other != rank,
                setter => 1 + other as u64 == setter,
            };
            report.peers = ranks(context, &outline.present).into_iter().filter(setters).collect();
            report.flag = Some(FlagReport { mpbs: outline.name, line: line as usize });
            report.further_channels = waited.unnamed;
        }
        for word in waited.beside {
            add_beside(context, rank, word, &mut report);
        }
        report.peers.sort_unstable();
        report.peers.dedup();
        return report;
    }
    for word in waited.beside {
        add_beside(context, rank, word, &mut report);
    }
    for channel in waited.channels {
        if let Ok(callers) = outline_of_callers(context, channel) {
            let callers = callers_report(context, callers);
            report.peers.extend(&callers.senders);
            report.channels.push(callers);
            continue;
        }
        // A channel that can't be read was probably freed just now.
        let Ok(outline) = outline_of(context, channel) else {
            report.further_channels += 1;
            continue;
        };
        let (senders, receivers) = (&outline.senders, &outline.receivers);
        // A select can contain ends that wait for room.
        let sends = match waited.operation {
            Operation::Send => true,
            Operation::Select => !receivers.members.contains(&(rank as u32)),
            _ => false,
        };
        let others = if sends { receivers } else { senders };
        report.peers.extend(ranks(context, &others.present));
        report.channels.push(channel_report(context, &outline));
    }
    report.peers.sort_unstable();
    report.peers.dedup();
    // A rank that is at both ends of a shared channel can't free itself, because it is blocked at the other end, too.
    if report.peers.len() > 1 {
        report.peers.retain(|&peer| peer != rank);
    }
    report
}

/// Adds an operation beside the wait, and the ranks that can advance it, because it may end the wait as well.
fn add_beside(context: &Context, rank: usize, word: u64, report: &mut WaitReport) {
    let (place, setter) = beside_parts(word);
    if let Ok(outline) = mpb_outline(context, place) {
        let setters = |&other: &usize| setter.map_or(other != rank, |setter| other == setter);
        let senders: Vec<_> =
            ranks(context, &outline.present).into_iter().filter(setters).collect();
        report.peers.extend(&senders);
        let (name, receivers) = (outline.name, vec![rank]);
        report.beside.push(ChannelReport { name, senders, receivers, ring: None });
    } else if let Ok(callers) = outline_of_callers(context, place) {
        let callers = callers_report(context, callers);
        report.peers.extend(&callers.senders);
        report.beside.push(callers);
    } else if let Ok(outline) = outline_of(context, place) {
        let sends = !outline.receivers.members.contains(&(rank as u32));
        let others = if sends { &outline.receivers } else { &outline.senders };
        report.peers.extend(ranks(context, &others.present));
        report.beside.push(channel_report(context, &outline));
    } else {
        // A channel or MPBs that can't be read were probably freed just now.
        report.further_channels += 1;
    }
}

/// Returns those of `ranks` that can be ranks of the world.
fn ranks(context: &Context, ranks: &[u32]) -> Vec<usize> {
    ranks
        .iter()
        .map(|&rank| rank as usize)
        .filter(|&rank| rank < context.begun() as usize)
        .collect()
}

fn channel_report(context: &Context, outline: &Outline) -> ChannelReport {
    ChannelReport {
        name: outline.name.clone(),
        senders: ranks(context, &outline.senders.members),
        receivers: ranks(context, &outline.receivers.members),
        ring: outline.ring,
    }
}

fn callers_report(
    context: &Context,
    (name, receiver, awaited): (String, u32, Vec<u32>),
) -> ChannelReport {
    let (senders, receivers) = (ranks(context, &awaited), ranks(context, &[receiver]));
    ChannelReport { name, senders, receivers, ring: None }
}

fn mpb_outline(context: &Context, mpbs: u64) -> Result<mpb::Outline, SegmentError> {
    let segment = &context.segment;
    let payload = segment.heap().payload_of(mpbs, BlockKind::Mpbs)?;
    Ok(segment.at(Offset::<mpb::Descriptor>::new(payload))?.outline())
}
