//! Messages between ranks in virtual time.
//!
//! An algorithm is a sequence of rounds. In a round, a rank sends at most one message and then receives at most one. A
//! message to another node occupies the sender's core for o, and then its node's interface for g + kG. L after it has
//! begun to leave, it begins to pass the interface of the other node, which it also occupies for g + kG. When all its
//! bytes have passed, it occupies the receiver's core for o. An interface sends and receives at the same time. Messages
//! of one direction pass it one after the other: those of an earlier round first, and those of one round in the order
//! in which they come. Within a node, messages go through buffers of the sender, and cost what they cost in
//! [`search`](crate::cla::search).
//!
//! **Nodes that do the same.** In many algorithms, each node does what every other one does, at the same time. It is
//! then enough to simulate one node: what it sends to another is what it receives from a third. That is exact. So is
//! what [`Simulation::rounds`] leaves out: as soon as all clocks have advanced by the same time during as many rounds
//! as there are ranks on a node, they will do so again and again.

use std::mem;

use super::Network;
use crate::Time;
use crate::cla::Machine;

/// Ranks on equal nodes. Those of a node are numbered one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'a> {
    pub(super) machine: &'a Machine,
    pub(super) network: &'a Network,
    pub(super) nodes: usize,
    /// All ranks of the machine, or only one of them: the leader.
    pub(super) per_node: usize,
}

impl World<'_> {
    pub(super) fn ranks(&self) -> usize {
        self.nodes * self.per_node
    }

    fn node(&self, rank: usize) -> usize {
        rank / self.per_node
    }

    /// How long a rank is busy with sending to another one of its node.
    fn send(&self, bytes: u64) -> Time {
        let parameters = &self.machine.parameters;
        lines(bytes) * parameters.local + parameters.near.memory + parameters.more_to_write()
    }

    /// How long a rank is busy with what another one of its node has sent. Combining costs what copying does.
    fn take(&self, from: usize, to: usize, bytes: u64) -> Time {
        let near = self.machine.placement.near(from % self.per_node, to % self.per_node);
        let link = self.machine.parameters.link(near);
        link.transfer
            + match lines(bytes) {
                1 => self.machine.parameters.local,
                lines => link.lines.cost(1, lines),
            }
    }

    /// How long it takes to combine what has come from another node.
    fn combine(&self, bytes: u64) -> Time {
        let near = &self.machine.parameters.near;
        match lines(bytes) {
            1 => near.memory,
            lines => near.lines.cost(1, lines),
        }
    }
}

/// Returns how many cache lines bytes take, with the flag that goes with them.
pub(super) fn lines(bytes: u64) -> u64 {
    bytes.div_ceil(64).max(1)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
}

/// What happens to messages where they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arriving {
    /// They are combined with what is there.
    Combined,
    /// They are put where they belong.
    Kept,
}

pub(super) struct Simulation<'a> {
    world: World<'a>,
    /// By rank: when it is done with what it has done.
    clocks: Vec<Time>,
    /// By node: when its interface can send and receive again.
    out: Vec<Time>,
    into: Vec<Time>,
    /// The messages of a round, each with the time at which it is at the next place.
    within: Vec<(Time, Message)>,
    across: Vec<(Time, Message)>,
}

impl<'a> Simulation<'a> {
    /// Begins with all ranks at time 0.
    pub(super) fn of_all(world: World<'a>) -> Simulation<'a> {
        Simulation::of(world, world.nodes)
    }

    /// Begins with one node, which stands for all.
    pub(super) fn of_one(world: World<'a>) -> Simulation<'a> {
        Simulation::of(world, 1)
    }

    fn of(world: World<'a>, nodes: usize) -> Simulation<'a> {
        let clocks = vec![Time::ZERO; nodes * world.per_node];
        let (out, into) = (vec![Time::ZERO; nodes], vec![Time::ZERO; nodes]);
        Simulation { world, clocks, out, into, within: Vec::new(), across: Vec::new() }
    }

    /// Returns how many ranks are simulated, from rank 0 on. A round has the messages that these send.
    pub(super) fn simulated(&self) -> usize {
        self.clocks.len()
    }

    /// Returns when the last rank is done.
    pub(super) fn end(&self) -> Time {
        self.clocks.iter().copied().max().unwrap_or_default()
    }

    pub(super) fn round(
        &mut self,
        arriving: Arriving,
        messages: impl IntoIterator<Item = Message>,
    ) {
        let (world, ranks, nodes) = (self.world, self.clocks.len(), self.out.len());
        let network = world.network;
        let (mut within, mut across) = (mem::take(&mut self.within), mem::take(&mut self.across));
        for message in messages {
            let clock = &mut self.clocks[message.from % ranks];
            if world.node(message.from) == world.node(message.to) {
                *clock += world.send(message.bytes);
                within.push((*clock, message));
            } else {
                *clock += network.overhead;
                across.push((*clock, message));
            }
        }
        for (sent, Message { from, to, bytes }) in within.drain(..) {
            let clock = &mut self.clocks[to % ranks];
            *clock = sent.max(*clock) + world.take(from, to, bytes);
        }
        across.sort_by_key(|&(handed_over, _)| handed_over);
        for (at, Message { from, bytes, .. }) in &mut across {
            let out = &mut self.out[world.node(*from) % nodes];
            *at = pass(out, *at, network.busy(*bytes)) + network.latency;
        }
        across.sort_by_key(|&(arrived, _)| arrived);
        for (arrived, Message { to, bytes, .. }) in across.drain(..) {
            let into = &mut self.into[world.node(to) % nodes];
            let there = pass(into, arrived, network.busy(bytes)) + network.bytes(bytes);
            let clock = &mut self.clocks[to % ranks];
            *clock = there.max(*clock) + network.overhead;
            if arriving == Arriving::Combined {
                *clock += world.combine(bytes);
            }
        }
        (self.within, self.across) = (within, across);
    }

    /// Goes through the same round several times.
    pub(super) fn rounds<M: IntoIterator<Item = Message>>(
        &mut self,
        times: usize,
        arriving: Arriving,
        messages: impl Fn() -> M,
    ) {
        let (period, mut left) = (self.simulated(), times);
        while left > 0 {
            let before = self.state();
            for _ in 0..period.min(left) {
                self.round(arriving, messages());
            }
            left = left.saturating_sub(period);
            let after = self.state();
            let step = after[0] - before[0];
            if before.iter().zip(&after).all(|(&before, &after)| before + step == after) {
                let skipped = (left / period) as u64 * step;
                let all = self.clocks.iter_mut().chain(&mut self.out).chain(&mut self.into);
                all.for_each(|time| *time += skipped);
                left %= period;
            }
        }
    }

    /// Returns all that what follows depends on. It makes no difference since when an interface that waits has done so.
    fn state(&self) -> Vec<Time> {
        let first = self.clocks.iter().copied().min().unwrap_or_default();
        let interfaces = self.out.iter().chain(&self.into).map(|&free| free.max(first));
        self.clocks.iter().copied().chain(interfaces).collect()
    }
}

/// Lets a message that comes at a time pass an interface, as soon as that is free, and returns when it begins to.
fn pass(free: &mut Time, at: Time, busy: Time) -> Time {
    let begins = at.max(*free);
    *free = begins + busy;
    begins
}
