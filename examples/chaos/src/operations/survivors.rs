//! Ranks that go on without those that were lost: they acknowledge, revoke, agree and shrink, until all rounds
//! have gone well for those that are left.

use std::collections::BTreeMap;

use onchip::communicator::{ReceiveRequest, wait_any};
use onchip::prelude::*;
use onchip::reduce::Sum;
use onchip::{ANY_SOURCE, Error, ErrorKind, Result};

use super::Work;
use super::blocking::{LENGTHS, small};
use crate::content::wrong;
use crate::random::{Random, mix};
use crate::record::{Record, Told};
use crate::told::told;

/// Tags of a farm.
const TASK: u32 = 1;
const ANSWER: u32 = 2;
/// Sent in place of a task when there are no more.
const STOP: u64 = u64::MAX;

/// Returns what the last round comes to, for the ranks that are left.
pub fn result_of(group: &[usize]) -> u64 {
    group.iter().map(|&rank| 1 + rank as u64).sum()
}

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let (rounds, seed) = (1 + work.random.below(5), work.random.number());
    work.call()?;
    // Ranks that have left before they came here are not in it.
    let mut current = Communicator::world(work.rank).shrink()?;
    let (mut round, mut attempts, mut result) = (0, 0, 0);
    while round <= rounds {
        let mut random = Random::new(seed ^ mix(round));
        let number = attempts % 100;
        attempts += 1;
        work.call()?;
        let went = match round == rounds {
            true => last(&work, &current).map(|sum| result = sum),
            false => one(&work, &current, &mut random, number),
        };
        if let Err(error) = &went {
            if !matches!(told(error), Told::Lost(_) | Told::Closed | Told::Revoked) {
                return went;
            }
            work.call()?;
            current.revoke()?;
        }
        work.call()?;
        let agreed = current.agree(went.is_ok().into())?;
        if agreed.flag == 1 && went.is_err() {
            return wrong(format!(
                "all agreed that round {round} went well, which it did not here"
            ));
        }
        if agreed.flag == 1 && agreed.unacknowledged.is_empty() {
            round += 1;
        } else {
            work.call()?;
            current = current.shrink()?;
        }
    }
    let group: Result<Vec<usize>, _> =
        (0..current.size()).map(|rank| current.world_rank(rank)).collect();
    Record::Survived { step: work.step, rank: work.me(), group: group?, result }.tell();
    Ok(())
}

/// Adds up the numbers of all ranks that are left.
fn last(work: &Work<'_>, of: &Communicator) -> Result<u64> {
    let mut sum = [1 + work.me() as u64];
    of.all_reduce(&mut sum, Sum)?;
    Ok(sum[0])
}

/// Does one round, and checks it.
fn one(work: &Work<'_>, of: &Communicator, random: &mut Random, number: u64) -> Result<()> {
    let len = random.pick(&LENGTHS);
    match random.below(8) {
        0 => Ok(of.barrier()?),
        1 => all_reduce(of, number, len),
        2 => {
            let mut all = vec![0; len * of.size()];
            of.all_gather(&words(work, of, of.rank(), number, len)?, &mut all)?;
            let mut blocks = all.chunks_exact(len.max(1)).enumerate();
            blocks.try_for_each(|(from, block)| label(work, of, from, number)?.check(block, len))
        }
        3 => under_way(work, of, number, len),
        4 | 5 => farm(work, of, 1 + random.below(20)),
        6 => {
            let part = of.split(Some((of.rank() % 2) as u64), 0);
            in_part(work, of, part, number, len)
        }
        _ => {
            let copy = of.duplicate().map(Some);
            in_part(work, of, copy, number, len)
        }
    }
}

fn label(
    work: &Work<'_>,
    of: &Communicator,
    from: usize,
    number: u64,
) -> Result<crate::content::Label> {
    Ok(work.label(of.world_rank(from)?, number))
}

fn words(
    work: &Work<'_>,
    of: &Communicator,
    from: usize,
    number: u64,
    len: usize,
) -> Result<Vec<u64>> {
    Ok(label(work, of, from, number)?.words(len))
}

fn all_reduce(of: &Communicator, number: u64, len: usize) -> Result<()> {
    let mut vector = small(of.rank(), number, len);
    of.all_reduce(&mut vector, Sum)?;
    super::blocking::is_sum(&vector, 0..of.size(), number)
}

/// Uses a communicator that was made from another one, if all ranks agree that they have it. A rank that does not have
/// it does not come.
fn in_part(
    work: &Work<'_>,
    of: &Communicator,
    made: Result<Option<Communicator>>,
    number: u64,
    len: usize,
) -> Result<()> {
    if made.is_err() {
        of.revoke()?;
    }
    work.call()?;
    let agreed = of.agree(made.is_ok().into())?;
    let part = made?;
    let (1, Some(part)) = (agreed.flag, part) else {
        // Another rank does not have it, and has revoked the whole.
        return of.barrier();
    };
    work.call()?;
    let done = all_reduce(&part, number, len);
    if done.is_err() {
        // This ends the calls of the part's other ranks.
        part.revoke()?;
    }
    done
}

/// All ranks have messages to and from all others, and collective operations, pending when one dies.
fn under_way(work: &Work<'_>, of: &Communicator, number: u64, len: usize) -> Result<()> {
    let (me, size) = (of.rank(), of.size());
    let others = || (0..size).filter(|&other| other != me);
    work.call()?;
    let barrier = of.nonblocking()?.barrier();
    let sum = of.nonblocking()?.all_reduce(small(me, number, len), Sum);
    let mut receives: Vec<_> =
        others().map(|from| of.persistent_receive(vec![0u64; len], from, 3)).collect();
    let mut started: Result<()> = Ok(());
    for receive in &mut receives {
        started = started.and(receive.start());
    }
    let mut sends = Vec::new();
    for to in others() {
        work.call()?;
        let words = words(work, of, me, number, len)?;
        sends.push(match to % 2 {
            0 => of.nonblocking_send(words, to, 3),
            _ => of.nonblocking_synchronous_send(words, to, 3),
        });
    }
    started?;
    work.call()?;
    for (from, receive) in others().zip(&mut receives) {
        receive.wait()?;
        label(work, of, from, number)?.check(receive.buffer_mut()?, len)?;
    }
    for send in sends {
        let back = send.wait()?;
        label(work, of, me, number)?.check(&back, len)?;
    }
    work.call()?;
    super::blocking::is_sum(&sum.wait()?, 0..size, number)?;
    Ok(barrier.wait()?)
}

fn answer_to(task: u64) -> u64 {
    mix(task)
}

/// The first rank has the others do tasks, and gives those of a lost one to another. All acknowledge who was
/// lost, and go on without shrinking the communicator.
fn farm(work: &Work<'_>, of: &Communicator, tasks: u64) -> Result<()> {
    if of.rank() == 0 {
        // A receive from any source is not told of a rank that ends without being lost.
        if work.leaves { master_of_each(work, of, tasks)? } else { master_of_any(work, of, tasks)? }
    } else {
        loop {
            work.call()?;
            let (task, _) = of.receive::<u64>(0, TASK)?;
            if task == STOP {
                break;
            }
            work.call()?;
            of.send(&[task, answer_to(task)], 0, ANSWER)?;
        }
    }
    work.call()?;
    of.acknowledge();
    Ok(())
}

/// The state of a master.
struct Master<'a> {
    work: &'a Work<'a>,
    of: &'a Communicator,
    /// Tasks that are not done, and that no worker has been given.
    todo: Vec<u64>,
    idle: Vec<usize>,
    /// By worker.
    given: BTreeMap<usize, u64>,
    done: u64,
}

impl<'a> Master<'a> {
    fn new(work: &'a Work<'a>, of: &'a Communicator, tasks: u64) -> Self {
        let (todo, idle) = ((0..tasks).collect(), (1..of.size()).collect());
        Self { work, of, todo, idle, given: BTreeMap::new(), done: 0 }
    }

    /// Gives a task to each idle worker, and returns the workers that got one. If no worker is left, the master does
    /// the rest itself.
    fn give(&mut self) -> Result<Vec<usize>> {
        let mut busy = Vec::new();
        while !self.idle.is_empty()
            && let Some(task) = self.todo.pop()
        {
            let Some(worker) = self.idle.pop() else { break };
            self.work.call()?;
            match self.of.send(&[task], worker, TASK).map_err(Error::into_kind) {
                Ok(()) => {
                    self.given.insert(worker, task);
                    busy.push(worker);
                }
                Err(ErrorKind::PeerLost { .. } | ErrorKind::PeerEnded { .. }) => {
                    self.todo.push(task);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.given.is_empty() && self.idle.is_empty() {
            self.done += self.todo.len() as u64;
            self.todo.clear();
        }
        Ok(busy)
    }

    fn take(&mut self, worker: usize, [task, answer]: [u64; 2]) -> Result<()> {
        if self.given.remove(&worker) != Some(task) || answer != answer_to(task) {
            return wrong(format!("rank {worker} answers {answer} to task {task}"));
        }
        self.done += 1;
        self.idle.push(worker);
        Ok(())
    }

    /// Records that a worker is gone.
    fn lose(&mut self, worker: usize) {
        self.todo.extend(self.given.remove(&worker));
        self.idle.retain(|&idle| idle != worker);
    }

    fn stop(&self) -> Result<()> {
        for worker in 1..self.of.size() {
            self.work.call()?;
            // Others may be gone, too.
            if let Err(error) = self.of.send(&[STOP], worker, TASK)
                && matches!(error.kind(), ErrorKind::Revoked { .. })
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Receives from any source, and acknowledges those that are lost.
fn master_of_any(work: &Work<'_>, of: &Communicator, tasks: u64) -> Result<()> {
    let mut master = Master::new(work, of, tasks);
    while master.done < tasks {
        master.give()?;
        if master.given.is_empty() {
            continue;
        }
        work.call()?;
        let mut got = [0; 2];
        match of.receive_into(&mut got, ANY_SOURCE, ANSWER).map_err(Error::into_kind) {
            Ok(status) => master.take(status.source, got)?,
            Err(ErrorKind::PeerLost { .. } | ErrorKind::NobodyLeft) => {
                for lost in of.acknowledge() {
                    master.lose(lost);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    master.stop()
}

/// Keeps a receive posted for each worker that has a task.
fn master_of_each(work: &Work<'_>, of: &Communicator, tasks: u64) -> Result<()> {
    let mut master = Master::new(work, of, tasks);
    let mut posted: Vec<(usize, ReceiveRequest<[u64; 2]>)> = Vec::new();
    while master.done < tasks {
        for worker in master.give()? {
            posted.push((worker, of.nonblocking_receive([0; 2], worker, ANSWER)));
        }
        if posted.is_empty() {
            continue;
        }
        work.call()?;
        let mut requests: Vec<_> = posted.iter_mut().map(|(_, request)| request).collect();
        let place = wait_any(&mut requests)?;
        let (worker, request) = posted.swap_remove(place);
        match request.wait().map_err(|failed| failed.error.into_kind()) {
            Ok((got, _)) => master.take(worker, got)?,
            Err(ErrorKind::PeerLost { .. } | ErrorKind::PeerEnded { .. }) => {
                master.lose(worker);
            }
            Err(error) => return Err(error.into()),
        }
    }
    master.stop()
}
