//! Rank code for tests and soaks. A rank is killed during its work, at a time that a seed chooses. The code checks what
//! the other ranks see, and what is left.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use mp_core::{Cause, Channel, Endpoints, Error, ErrorKind, Rank, Receiver, Result, Select};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::Random;

/// Kills this process.
pub fn die() -> std::convert::Infallible {
    loop {
        let _ = kill(Pid::this(), Signal::SIGKILL);
    }
}

fn die_after(delay: Duration) {
    std::thread::spawn(move || {
        sleep(delay);
        die()
    });
}

/// Waits for ever in the rank that is to die, so that it does not end before its death.
fn await_death(dying: bool) {
    if dying {
        loop {
            sleep(Duration::from_secs(1));
        }
    }
}

/// Returns which of `ranks` ranks dies, and when.
fn fate(seed: u64, ranks: u64, within: Duration) -> (usize, Duration) {
    let mut random = Random::new(seed);
    let victim = random.below(ranks) as usize;
    (victim, Duration::from_nanos(random.below(within.as_nanos() as u64)))
}

/// Checks the result of a world in which this rank was killed.
pub fn check<T: std::fmt::Debug>(result: Result<Vec<T>>, victim: usize) -> Result<(), String> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::RanksFailed(failed))
            if failed.failures.len() == 1
                && failed.failures[0].rank == victim
                && failed.failures[0].cause == Cause::Signal(9) =>
        {
            Ok(())
        }
        other => Err(format!("rank {victim} was to be killed, and nothing else: {other:?}")),
    }
}

/// The largest number of bytes that a world's own blocks take when no buffer and no channel is left.
const REST: u64 = 100 << 10;
/// The number of elements of a buffer, which takes more than twice as many bytes as that.
const LEN: usize = 32 << 10;

/// Waits for the ends of all other ranks, and until their memory is freed.
fn observe(rank: &Rank) -> Result<()> {
    let others: Vec<Receiver<u8>> = (0..rank.size() - 1)
        .map(|other| rank.receiver("alive", other, Channel::degree(1)))
        .collect::<Result<_>>()?;
    for (other, alive) in others.iter().enumerate() {
        match alive.receive().map_err(Error::into_kind) {
            Err(ErrorKind::Disconnected { .. }) => {}
            Err(ErrorKind::PeerLost { rank, .. }) if rank == other => {}
            other => return Err(Error::other(format!("{:?}", other.err()))),
        }
    }
    drop(others);
    let started = Instant::now();
    while rank.memory().in_use > REST {
        let left = rank.memory();
        ensure!(started.elapsed() < Duration::from_secs(20), "nobody is left, but {left:?}");
        sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Opens a channel to the observer, which stays open as long as the rank lives.
fn be_observed(rank: &Rank) -> Result<()> {
    let observer = rank.size() - 1;
    std::mem::forget(rank.sender::<u8>("alive", observer, Channel::degree(1))?);
    Ok(())
}

/// The number of ranks of [`farm`].
pub const FARM: usize = 5;
const TASKS: u64 = 400;

pub fn farm_victim(seed: u64) -> usize {
    farm_fate(seed).0
}

fn farm_fate(seed: u64) -> (usize, Duration) {
    fate(seed, FARM as u64 - 1, Duration::from_millis(6))
}

/// The ranks are an emitter, two workers on one queue, a collector, and an observer. Buffers move through the first
/// four, and one of the four is killed.
pub fn farm(rank: &Rank, seed: u64) -> Result<()> {
    let (victim, delay) = farm_fate(seed);
    if rank.id() == FARM - 1 {
        return observe(rank);
    }
    be_observed(rank)?;
    if rank.id() == victim {
        die_after(delay);
    }
    let queue = Endpoints::new([0], [1, 2]);
    let (tasks, results) = (Channel::degree(3), Channel::degree(2));
    // The peers of the victim see its death, and the other ranks see those peers leave.
    let ended = |error: Error| match error.into_kind() {
        ErrorKind::PeerLost { rank, .. } if rank == victim => Ok(()),
        ErrorKind::Disconnected { .. } => Ok(()),
        error => Err(error),
    };
    let done = match rank.id() {
        0 => {
            let mut tasks = rank.shared_sender::<[u64]>("tasks", &queue, tasks)?;
            (0..TASKS).try_for_each(|task| {
                let mut buffer = rank.buffer(LEN)?;
                buffer[0] = task;
                buffer[LEN - 1] = !task;
                Ok(tasks.send_buffer(buffer)?)
            })
        }
        1 | 2 => {
            let tasks = rank.shared_receiver::<[u64]>("tasks", &queue, tasks)?;
            let mut results = rank.sender::<[u64]>("results", 3, results)?;
            loop {
                let task = tasks.receive_buffer().and_then(|mut buffer| {
                    ensure!(buffer.len() == LEN, "{} elements", buffer.len());
                    ensure!(buffer[0] == !buffer[LEN - 1], "a task came broken");
                    buffer[1] = buffer[0] * 3;
                    Ok(results.send_buffer(buffer)?)
                });
                if task.is_err() {
                    break task;
                }
            }
        }
        _ => collect(rank, victim, results),
    };
    done.or_else(ended)?;
    await_death(rank.id() == victim);
    Ok(())
}

fn collect(rank: &Rank, victim: usize, results: Channel) -> Result<()> {
    let from: Vec<Receiver<[u64]>> =
        [1, 2].into_iter().map(|w| rank.receiver("results", w, results)).collect::<Result<_>>()?;
    let mut select = Select::new();
    for receiver in &from {
        select.add(receiver);
    }
    let mut seen = vec![false; TASKS as usize];
    let mut last = [None; 2];
    while !select.is_empty() {
        let which = select.ready()?;
        match from[which].try_receive_buffer().map_err(Error::into_kind) {
            Ok(Some(result)) => {
                let task = result[0];
                ensure!(result[1] == task * 3 && result[LEN - 1] == !task, "a result came broken");
                ensure!(last[which] < Some(task), "task {task} after {:?}", last[which]);
                last[which] = Some(task);
                ensure!(!std::mem::replace(&mut seen[task as usize], true), "{task} came twice");
            }
            Ok(None) => {}
            Err(ErrorKind::Disconnected { .. }) => select.remove(which),
            Err(ErrorKind::PeerLost { rank, .. }) if rank == victim && rank == which + 1 => {
                select.remove(which);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let missing = seen.iter().filter(|&&seen| !seen).count();
    match victim {
        // The tasks that were sent before the death arrive, without gaps.
        0 => ensure!(seen.is_sorted_by(|a, b| a >= b), "gaps before the emitter's death"),
        // The task on which the dead worker was at work may be missing.
        1 | 2 => ensure!(missing <= 1, "{missing} tasks are missing"),
        _ => {}
    }
    Ok(())
}

/// The number of ranks of [`churn`].
pub const CHURN: usize = 4;

pub fn churn_victim(seed: u64) -> usize {
    churn_fate(seed).0
}

fn churn_fate(seed: u64) -> (usize, Duration) {
    fate(seed, CHURN as u64 - 1, Duration::from_millis(3))
}

/// The ranks mainly open and close channels, and allocate and free buffers, so that the victim is mostly killed within
/// the heap's code.
pub fn churn(rank: &Rank, seed: u64) -> Result<()> {
    let (victim, delay) = churn_fate(seed);
    let me = rank.id();
    if me == CHURN - 1 {
        return observe(rank);
    }
    be_observed(rank)?;
    if me == victim {
        die_after(delay);
    }
    let mut random = Random::new(seed ^ (me as u64 + 1) << 32);
    let channel = Channel::degree(4).max_len(100);
    let mut held = Vec::new();
    let mut round = 0;
    while round < 150 || me == victim {
        round += 1;
        let name = ["a", "b", "c"][random.below(3) as usize];
        let mut sender = rank.sender::<[u64]>(name, me, channel)?;
        let receiver = rank.receiver::<[u64]>(name, me, channel)?;
        for _ in 0..random.below(4) {
            let mut buffer = rank.buffer::<u64>(1 + random.below(2000) as usize)?;
            buffer.fill(round);
            sender.send_buffer(buffer)?;
        }
        if let Some(buffer) = receiver.try_receive_buffer()? {
            held.push((round, buffer));
        }
        for (of, buffer) in &held {
            ensure!(buffer.iter().all(|element| element == of), "somebody wrote into a buffer");
        }
        held.truncate(random.below(5) as usize);
    }
    Ok(())
}

/// The number of ranks of [`crowd`].
pub const CROWD: usize = 7;
const CROWD_MESSAGES: u64 = 300;

pub fn crowd_victim(seed: u64) -> usize {
    crowd_fate(seed).0
}

fn crowd_fate(seed: u64) -> (usize, Duration) {
    fate(seed, CROWD as u64 - 1, Duration::from_millis(8))
}

/// The ranks are three senders and three receivers on one shared channel, and a rank that counts the messages at the
/// end. Senders give slots up, receivers hold guards, some messages are buffers and others copies, and some limits are
/// too short.
pub fn crowd(rank: &Rank, seed: u64) -> Result<()> {
    let (victim, delay) = crowd_fate(seed);
    let me = rank.id();
    let report = Channel::degree(1);
    if me == CROWD - 1 {
        let mut reports = Vec::new();
        for from in 3..6 {
            let from = rank.receiver::<[u64]>("report", from, report)?;
            reports.push(from.receive_buffer());
        }
        count(&reports, victim)?;
        drop(reports);
        return observe(rank);
    }
    be_observed(rank)?;
    if me == victim {
        die_after(delay);
    }
    let mut random = Random::new(seed ^ (me as u64 + 1) << 32);
    let endpoints = Endpoints::new([0, 1, 2], [3, 4, 5]);
    let channel = Channel::degree(1 + (seed % 6) as u32).max_len(4);
    if me < 3 {
        let mut sender = rank.shared_sender::<[u64]>("crowd", &endpoints, channel)?;
        for i in 0..CROWD_MESSAGES {
            let message = (me as u64) << 32 | i;
            loop {
                let limit = Duration::from_micros(random.below(300));
                let sent = match random.below(4) {
                    0 => sender.send_timeout(&[message; 4], limit),
                    1 => {
                        let mut buffer = rank.buffer(1 + random.below(900) as usize)?;
                        buffer.fill(message);
                        sender.send_buffer_with(buffer, limit).map_err(Error::from)
                    }
                    2 => sender.reserve_with(3, limit).and_then(|mut slot| {
                        slot.fill(message);
                        slot.publish()
                    }),
                    // The slot is given up.
                    _ => match sender.reserve_with(2, limit) {
                        Ok(mut slot) => {
                            slot.fill(u64::MAX);
                            continue;
                        }
                        Err(error) => Err(error),
                    },
                };
                match sent.map_err(Error::into_kind) {
                    Ok(()) => break,
                    Err(ErrorKind::Timeout { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    } else {
        let receiver = rank.shared_receiver::<[u64]>("crowd", &endpoints, channel)?;
        let mut received = Vec::new();
        let mut held = None;
        let mut select = Select::new();
        select.add(&receiver);
        loop {
            let limit = Duration::from_micros(random.below(300));
            if random.below(2) == 0 && select.ready_with(limit).is_err() {
                continue;
            }
            match receiver.receive_timeout(limit).map_err(Error::into_kind) {
                Ok(message) => {
                    ensure!(!message.is_empty(), "an empty message");
                    ensure!(message.iter().all(|m| *m == message[0]), "a message came broken");
                    received.push(message[0]);
                    // If three receivers each held a guard, a channel with few slots would stop for ever.
                    if channel != Channel::degree(1).max_len(4) && me == 3 {
                        held = Some(message);
                    }
                }
                Err(ErrorKind::Timeout { .. }) => {}
                Err(ErrorKind::Disconnected { .. }) => break,
                Err(ErrorKind::PeerLost { rank, .. }) if rank == victim => break,
                Err(error) => return Err(error.into()),
            }
            if random.below(2) == 0 {
                held = None;
            }
        }
        drop(held);
        let mut to = rank.sender::<[u64]>("report", CROWD - 1, report)?;
        to.send_buffer(rank.buffer_from(&received)?)?;
    }
    await_death(me == victim);
    Ok(())
}

/// Checks the reports of the three receivers together.
fn count(reports: &[Result<mp_core::SharedBuffer<u64>>], victim: usize) -> Result<()> {
    let mut all = Vec::new();
    for (i, report) in reports.iter().enumerate() {
        match report.as_ref().map_err(Error::kind) {
            Ok(report) => {
                for sender in 0..3 {
                    let in_order = report.iter().filter(|m| *m >> 32 == sender).is_sorted();
                    ensure!(in_order, "receiver {} got them out of order", i + 3);
                }
                all.extend_from_slice(report);
            }
            Err(ErrorKind::PeerLost { rank, .. }) if *rank == victim && victim == i + 3 => {}
            Err(error) => return Err(Error::other(format!("report {i}: {error}"))),
        }
    }
    all.sort_unstable();
    ensure!(all.windows(2).all(|pair| pair[0] < pair[1]), "a message came twice");
    // If a receiver died, the messages that it had received are missing.
    let complete = victim < 3 || reports[victim - 3].is_ok();
    for sender in 0..3u64 {
        let of: Vec<u64> =
            all.iter().filter(|m| *m >> 32 == sender).map(|m| m & 0xffff_ffff).collect();
        ensure!(
            of.last().is_none_or(|&last| last < CROWD_MESSAGES),
            "a slot given up was received"
        );
        if complete {
            ensure!(
                of.iter().copied().eq(0..of.len() as u64),
                "gaps in what {sender} sent: {of:?}"
            );
            let all_of_it = of.len() as u64 == CROWD_MESSAGES;
            ensure!(all_of_it || sender as usize == victim, "{} messages of {sender}", of.len());
        }
    }
    Ok(())
}
