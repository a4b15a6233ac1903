//! Messages between ranks in virtual time.
//!
//! An algorithm is a sequence of rounds. In a round, a rank sends messages and then receives some, mostly one of each. A
//! message to another node occupies the sender's core for o, and then its node's interface for g + kG. L after it has
//! begun to leave, it begins to pass the interface of the other node, which it also occupies for g + kG. When all its
//! bytes have passed, it occupies the receiver's core for o. An interface sends and receives at the same time. Messages
//! of one direction pass it one after the other: those of an earlier round first, and those of one round in the order
//! in which they come. Within a node, messages go through buffers of the sender, and cost what they cost in
//! [`search`](crate::cla::search).
//!
//! **Nodes that do the same.** In many algorithms, each node does what every other one does, at the same time. It is
//! then enough to simulate one node: what it sends to another is what it receives from a third. That is exact. So is
//! what [`Simulation::rounds`] and [`Simulation::repeat`] leave out: as soon as all clocks have advanced by the same time
//! during as many rounds as there are ranks on a node, they will do so again and again.

use super::Network;
use super::leaders::Round;
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
}

/// Messages that are on their way, each with the time at which it is at the next place.
#[derive(Default)]
pub(super) struct Sent {
    within: Vec<(Time, Message)>,
    across: Vec<(Time, Message)>,
}

impl<'a> Simulation<'a> {
    /// Begins with all ranks at time 0.
    pub(super) fn of_all(world: World<'a>) -> Simulation<'a> {
        Simulation::of(world, world.nodes)
    }

    /// Begins with all ranks, or with one node if all do the same in the rounds of [`doubling`](super::leaders::doubling).
    pub(super) fn of_doubling(world: World<'a>) -> Simulation<'a> {
        match world.ranks().is_power_of_two() {
            true => Simulation::of_one(world),
            false => Simulation::of_all(world),
        }
    }

    /// Begins with one node, which stands for all.
    pub(super) fn of_one(world: World<'a>) -> Simulation<'a> {
        Simulation::of(world, 1)
    }

    fn of(world: World<'a>, nodes: usize) -> Simulation<'a> {
        let clocks = vec![Time::ZERO; nodes * world.per_node];
        let (out, into) = (vec![Time::ZERO; nodes], vec![Time::ZERO; nodes]);
        Simulation { world, clocks, out, into }
    }

    /// Returns how many ranks are simulated, from rank 0 on. A round has the messages that these send.
    pub(super) fn simulated(&self) -> usize {
        self.clocks.len()
    }

    /// Returns when the last rank is done.
    pub(super) fn end(&self) -> Time {
        self.clocks.iter().copied().max().unwrap_or_default()
    }

    /// Lets all simulated ranks do something for a time.
    pub(super) fn work(&mut self, time: Time) {
        self.clocks.iter_mut().for_each(|clock| *clock += time);
    }

    pub(super) fn round(
        &mut self,
        arriving: Arriving,
        messages: impl IntoIterator<Item = Message>,
    ) {
        let sent = self.send(messages);
        self.receive(arriving, sent);
    }

    /// Sends what goes out in a round among all ranks.
    pub(super) fn send_in(&mut self, round: Round, bytes: u64) -> Sent {
        let to = |from| Some(Message { from, to: round.to(from)?, bytes });
        self.send((0..self.simulated()).filter_map(to))
    }

    /// Receives what came in a round.
    pub(super) fn receive_in(&mut self, round: Round, sent: Sent) {
        self.receive(if round.combines() { Arriving::Combined } else { Arriving::Kept }, sent);
    }

    pub(super) fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Sent {
        let (world, ranks, nodes) = (self.world, self.clocks.len(), self.out.len());
        let network = world.network;
        let Sent { mut within, mut across } = Sent::default();
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
        across.sort_by_key(|&(handed_over, _)| handed_over);
        for (at, Message { from, bytes, .. }) in &mut across {
            let out = &mut self.out[world.node(*from) % nodes];
            *at = pass(out, *at, network.busy(*bytes)) + network.latency;
        }
        Sent { within, across }
    }

    pub(super) fn receive(&mut self, arriving: Arriving, Sent { within, mut across }: Sent) {
        let (world, ranks, nodes) = (self.world, self.clocks.len(), self.into.len());
        let network = world.network;
        for (sent, Message { from, to, bytes }) in within {
            let clock = &mut self.clocks[to % ranks];
            *clock = sent.max(*clock) + world.take(from, to, bytes);
        }
        across.sort_by_key(|&(arrived, _)| arrived);
        for (arrived, Message { to, bytes, .. }) in across {
            let into = &mut self.into[world.node(to) % nodes];
            let there = pass(into, arrived, network.busy(bytes)) + network.bytes(bytes);
            let clock = &mut self.clocks[to % ranks];
            *clock = there.max(*clock) + network.overhead;
            if arriving == Arriving::Combined {
                *clock += world.combine(bytes);
            }
        }
    }

    /// Goes through the same round several times.
    pub(super) fn rounds<M: IntoIterator<Item = Message>>(
        &mut self,
        times: usize,
        arriving: Arriving,
        messages: impl Fn() -> M,
    ) {
        self.repeat(times, self.simulated(), |simulation| simulation.round(arriving, messages()));
    }

    /// Does the same several times. Each of a period of times may affect the next ones in another way.
    pub(super) fn repeat(
        &mut self,
        times: usize,
        period: usize,
        mut once: impl FnMut(&mut Simulation<'a>),
    ) {
        let mut left = times;
        while left > 0 {
            let before = self.state();
            (0..period.min(left)).for_each(|_| once(self));
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
