//! One rank's part of a program.

use std::{collections::BTreeMap, time::Duration};

use mp_collectives::{
    collectives::{Check, Collectives, Settings},
    immediate::{self, CollectiveRequest, ImmediateCollectives},
    reduce::Sum,
};
use mp_comm::{
    ANY_SOURCE, ANY_TAG, Communicator, Pending, PersistentReceive, PersistentSend, ReceiveRequest,
    SendRequest, Source, Status, Tag, test_all, wait_all, wait_any, wait_some,
};
use mp_core::{Rank, Result};
use mp_delegate::comm::{CommThreads, Progress};

use super::program::{
    ANY_LONGEST, Act, Blocking, COMMUNICATORS, Collective, DIRECT, Later, Message, Program,
    Receive, Taken, Waited,
};

/// Longer than any test: a limit that is never reached.
const FOREVER: Duration = Duration::from_secs(600);
/// A tag that nothing is sent with.
const NO_TAG: u32 = 99;

/// Bytes of unexpected messages that ranks keep: as usual, none, a few, and on each rank another number.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    Usual,
    Bytes(usize),
    Different,
}

/// All that are to be tried.
pub const LIMITS: [Limit; 5] =
    [Limit::Usual, Limit::Bytes(0), Limit::Bytes(1000), Limit::Bytes(40_000), Limit::Different];
/// The largest of those that are set.
const LARGEST: usize = 40_000;
/// What two channels between two ranks hold, or somewhat more.
const CHANNELS: usize = 264 << 10;

/// Runs this rank's part of the program of this seed.
pub fn run(rank: &Rank, seed: u64, limit: Limit) -> Result<()> {
    let program = Program::new(seed, rank.size());
    let world = Communicator::world(rank);
    let second = Communicator::world(rank);
    for set in [&world, &second] {
        match limit {
            Limit::Usual => {}
            Limit::Bytes(bytes) => set.set_unexpected_limit(bytes),
            Limit::Different => set.set_unexpected_limit([0, 500, LARGEST][rank.id() % 3]),
        }
    }
    let mut comms = Vec::new();
    for comm in 2..COMMUNICATORS {
        comms.push(if comm % 2 == 0 { &world } else { &second }.duplicate()?);
    }
    comms.extend([second, world]);
    // Some compare all that they call, some have a thread that carries immediate operations on.
    let check = if seed.is_multiple_of(2) { Check::On } else { Check::Off };
    let progress: Progress = match seed % 3 {
        0 => CommThreads::start(1)?.into(),
        _ => Progress::InCalls,
    };
    for comm in &comms {
        comm.set_collectives(Settings { check, ..Settings::default() })?;
        comm.set_immediate(progress.clone(), immediate::Settings::default())?;
    }
    let mut part = Part {
        rank,
        program: &program,
        comms: &comms,
        requests: BTreeMap::new(),
        idle: Vec::new(),
        got: BTreeMap::new(),
    };
    for (place, act) in program.acts[rank.id()].iter().enumerate() {
        part.perform(act).map_err(|error| {
            let me = rank.id();
            let what = format!("seed {seed}, {limit:?}, rank {me}, act {place}, {act:?}");
            mp_core::Error::other(format!("{what}: {error}"))
        })?;
    }
    part.check_order()?;
    let from_each = LARGEST / 8 + CHANNELS;
    for comm in &comms {
        let unexpected = comm.unexpected();
        ensure!(
            matches!(limit, Limit::Usual)
                || unexpected.most_bytes <= unexpected.limit + (rank.size() - 1) * from_each,
            "seed {seed}, {limit:?}: {unexpected:?}"
        );
        let left = (unexpected.messages, unexpected.bytes);
        ensure!(left == (0, 0), "seed {seed}: {unexpected:?} left");
    }
    Ok(())
}

enum Request<'a> {
    Send(SendRequest<Vec<u8>>, usize),
    Receive(ReceiveRequest<Vec<u8>>, usize),
    PersistentSend(PersistentSend<'a, Vec<u8>>, usize),
    PersistentReceive(PersistentReceive<'a, Vec<u8>>, usize),
    Barrier(CollectiveRequest<()>),
    /// With what must come of it.
    Elements(CollectiveRequest<Vec<u64>>, Vec<u64>),
}

impl Request<'_> {
    fn pending(&mut self) -> &mut dyn Pending {
        match self {
            Self::Send(request, _) => request,
            Self::Receive(request, _) => request,
            Self::PersistentSend(request, _) => request,
            Self::PersistentReceive(request, _) => request,
            Self::Barrier(request) => request,
            Self::Elements(request, _) => request,
        }
    }

    /// Whether it is done, after at most so long.
    fn is_done(&mut self, limit: Duration) -> Result<bool> {
        Ok(match self {
            Self::Send(request, _) if limit.is_zero() => request.test()?,
            Self::Send(request, _) => request.wait_timeout(limit)?,
            Self::Receive(request, _) if limit.is_zero() => request.test()?,
            Self::Receive(request, _) => request.wait_timeout(limit)?,
            Self::Barrier(request) => request.wait_timeout(limit)?,
            Self::Elements(request, _) => request.wait_timeout(limit)?,
            Self::PersistentSend(request, _) => mp_comm::test_any(&mut [request])?.is_some(),
            Self::PersistentReceive(request, _) => mp_comm::test_any(&mut [request])?.is_some(),
        })
    }
}

struct Part<'a> {
    rank: &'a Rank,
    program: &'a Program,
    comms: &'a [Communicator],
    /// Those that are not done, by number.
    requests: BTreeMap<usize, Request<'a>>,
    /// Persistent ones that are, and can be started again.
    idle: Vec<Request<'a>>,
    /// The messages of those receives of which the model does not say which they get.
    got: BTreeMap<usize, usize>,
}

/// What a message is made of. The first bytes say which it is.
fn content(number: usize, len: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..len).map(|i| (i * 7 + number * 13) as u8).collect();
    let first = len.min(8);
    content[..first].copy_from_slice(&(number as u64).to_le_bytes()[..first]);
    content
}

impl<'a> Part<'a> {
    fn message(&self, number: usize) -> (&'a Communicator, Message, Vec<u8>) {
        let message = self.program.messages[number];
        (&self.comms[message.comm], message, content(number, message.len))
    }

    fn receive(&self, number: usize) -> (&'a Communicator, Source, Tag, Vec<u8>) {
        let Receive { comm, source, tag, gets, .. } = self.program.receives[number];
        let len = gets.map_or(ANY_LONGEST, |message| self.program.messages[message].len);
        let room = if number.is_multiple_of(3) { len + 5 } else { len };
        let (source, tag) =
            (source.map_or(ANY_SOURCE, Source::from), tag.map_or(ANY_TAG, Tag::from));
        (&self.comms[comm], source, tag, vec![0; room])
    }

    fn perform(&mut self, act: &Act) -> Result<()> {
        match *act {
            Act::Delay(micros) if micros < 100 => std::thread::yield_now(),
            Act::Delay(micros) => std::thread::sleep(Duration::from_micros(micros)),
            Act::SendLater { message, how, request } => self.send_later(message, how, request)?,
            Act::Send { message, how } => {
                let (comm, Message { to, tag, .. }, content) = self.message(message);
                match how {
                    Blocking::Send => comm.send(&content, to, tag)?,
                    Blocking::Synchronous => comm.synchronous_send(&content, to, tag)?,
                    Blocking::Moved => {
                        comm.send_buffer(self.rank.buffer_from(&content)?, to, tag)?;
                    }
                }
            }
            Act::Post { receive, persistent, request } => {
                let (comm, source, tag, buffer) = self.receive(receive);
                let posted = match persistent {
                    true => {
                        let mut posted = match self.idle_receive(receive) {
                            Some(posted) => posted,
                            None => comm.persistent_receive(Vec::new(), source, tag),
                        };
                        *posted.buffer_mut()? = buffer;
                        posted.start()?;
                        Request::PersistentReceive(posted, receive)
                    }
                    false => Request::Receive(comm.immediate_receive(buffer, source, tag), receive),
                };
                self.requests.insert(request, posted);
            }
            Act::Receive { receive, how } => self.receive_now(receive, how)?,
            Act::Together { comm, operation } => self.together(comm, operation)?,
            Act::Begin { comm, operation, request } => {
                let begun = self.begin(comm, operation)?;
                self.requests.insert(request, begun);
            }
            Act::Exchange { ref sends, ref receives } => self.exchange(sends, receives)?,
            Act::Wait { how, ref sure, ref more } => self.wait(how, sure, more)?,
            Act::Cancel { source } => {
                let posted = self.comms[0].immediate_receive(vec![0u8], source, NO_TAG);
                ensure!(posted.cancel().is_ok(), "a receive of nothing can't be taken back");
            }
        }
        Ok(())
    }

    fn send_later(&mut self, number: usize, how: Later, request: usize) -> Result<()> {
        let (comm, Message { to, tag, .. }, content) = self.message(number);
        let sent = match how {
            Later::Buffered => return Ok(comm.buffered_send(&content, to, tag)?),
            Later::Dropped => {
                drop(comm.immediate_send(content, to, tag));
                return Ok(());
            }
            Later::Immediate => Request::Send(comm.immediate_send(content, to, tag), number),
            Later::Synchronous => {
                Request::Send(comm.immediate_synchronous_send(content, to, tag), number)
            }
            Later::Persistent => {
                let mut send = match self.idle_send(number) {
                    Some(send) => send,
                    None => comm.persistent_send(Vec::new(), to, tag),
                };
                *send.buffer_mut()? = content;
                send.start()?;
                Request::PersistentSend(send, number)
            }
        };
        self.requests.insert(request, sent);
        Ok(())
    }

    /// One that was used before, to the same rank with the same tag.
    fn idle_send(&mut self, number: usize) -> Option<PersistentSend<'a, Vec<u8>>> {
        let of = |number: usize| {
            let Message { comm, to, tag, .. } = self.program.messages[number];
            (comm, to, tag)
        };
        let alike = |idle: &Request<'_>| matches!(idle, Request::PersistentSend(_, before) if of(*before) == of(number));
        let place = self.idle.iter().position(alike)?;
        match self.idle.swap_remove(place) {
            Request::PersistentSend(send, _) => Some(send),
            _ => None,
        }
    }

    /// One that was used before, for the same source and tag.
    fn idle_receive(&mut self, number: usize) -> Option<PersistentReceive<'a, Vec<u8>>> {
        let of = |number: usize| {
            let Receive { comm, source, tag, .. } = self.program.receives[number];
            (comm, source, tag)
        };
        let alike = |idle: &Request<'_>| matches!(idle, Request::PersistentReceive(_, before) if of(*before) == of(number));
        let place = self.idle.iter().position(alike)?;
        match self.idle.swap_remove(place) {
            Request::PersistentReceive(receive, _) => Some(receive),
            _ => None,
        }
    }

    fn receive_now(&mut self, number: usize, how: Taken) -> Result<()> {
        let (comm, source, tag, mut into) = self.receive(number);
        let status = match how {
            Taken::Into => comm.receive_into(&mut into, source, tag)?,
            Taken::Timeout => comm.receive_timeout(&mut into, source, tag, FOREVER)?,
            Taken::Vec => {
                let (got, status) = comm.receive_vec(source, tag)?;
                into = got;
                status
            }
            Taken::Buffer => {
                let (got, status) = comm.receive_buffer::<u8>(source, tag)?;
                into.clear();
                into.extend_from_slice(&got);
                status
            }
            Taken::Probed | Taken::TriedProbe => {
                let probed = match how {
                    Taken::Probed => comm.probe(source, tag)?,
                    _ => loop {
                        match comm.try_probe(source, tag)? {
                            Some(probed) => break probed,
                            None => std::thread::yield_now(),
                        }
                    },
                };
                into.resize(probed.count, 0);
                let status = comm.receive_into(&mut into, probed.source, probed.tag)?;
                ensure!(status == probed, "{status:?} after {probed:?} was probed");
                status
            }
        };
        self.check(number, &into, status)
    }

    fn exchange(&mut self, sends: &[usize], receives: &[usize]) -> Result<()> {
        let Some(&first) = sends.iter().chain(receives).next() else { return Ok(()) };
        let comm = match sends.is_empty() {
            true => &self.comms[self.program.receives[first].comm],
            false => &self.comms[self.program.messages[first].comm],
        };
        let contents: Vec<_> = sends.iter().map(|&number| self.message(number)).collect();
        let mut into: Vec<_> = receives.iter().map(|&number| self.receive(number)).collect();
        let statuses = if let ([(_, message, content)], [(_, source, tag, into)]) =
            (&contents[..], &mut into[..])
            && sends[0].is_multiple_of(2)
        {
            vec![comm.send_receive(content, message.to, message.tag, into, *source, *tag)?]
        } else {
            let mut exchange = comm.exchange();
            for (_, Message { to, tag, .. }, content) in &contents {
                exchange.send(content, *to, *tag);
            }
            for (_, source, tag, into) in &mut into {
                exchange.receive(into, *source, *tag);
            }
            exchange.run()?
        };
        ensure!(statuses.len() == receives.len(), "{} statuses", statuses.len());
        for ((&number, (.., into)), status) in receives.iter().zip(&into).zip(statuses) {
            self.check(number, into, status)?;
        }
        Ok(())
    }

    fn wait(&mut self, how: Waited, sure: &[usize], more: &[usize]) -> Result<()> {
        match how {
            Waited::Each => return sure.iter().try_for_each(|&number| self.finish(number)),
            Waited::Tested | Waited::Timed => {
                let limit = match how {
                    Waited::Timed => Duration::from_micros(50),
                    _ => Duration::ZERO,
                };
                for &number in sure {
                    while let Some(request) = self.requests.get_mut(&number)
                        && !request.is_done(limit)?
                    {
                        std::thread::yield_now();
                    }
                    self.finish(number)?;
                }
                return Ok(());
            }
            _ => {}
        }
        // One that was sure to be done was, in an earlier call for any.
        let any = matches!(how, Waited::Any | Waited::Some);
        if any && sure.iter().any(|number| !self.requests.contains_key(number)) {
            return Ok(());
        }
        let mut asked: Vec<(usize, &mut Request<'a>)> = self
            .requests
            .iter_mut()
            .filter(|(number, _)| sure.contains(number) || more.contains(number))
            .map(|(&number, request)| (number, request))
            .collect();
        let numbers: Vec<usize> = asked.iter().map(|(number, _)| *number).collect();
        let mut pending: Vec<_> = asked.iter_mut().map(|(_, request)| request.pending()).collect();
        let done = match how {
            Waited::Any => vec![wait_any(&mut pending)?],
            Waited::Some => wait_some(&mut pending)?,
            Waited::TestedAll => {
                while !test_all(&mut pending)? {
                    std::thread::yield_now();
                }
                (0..numbers.len()).collect()
            }
            _ => {
                wait_all(&mut pending)?;
                (0..numbers.len()).collect()
            }
        };
        ensure!(!done.is_empty() || numbers.is_empty(), "none is done");
        done.into_iter().try_for_each(|place| self.finish(numbers[place]))
    }

    /// What each rank's vector is in a collective operation, and what comes of them together.
    fn elements(&self, operation: Collective) -> (Vec<u64>, Vec<u64>) {
        let of = |rank: usize, len: usize, number: usize| -> Vec<u64> {
            (0..len).map(|place| (place * (rank + 1) + number) as u64).collect()
        };
        let (me, ranks) = (self.rank.id(), self.rank.size());
        match operation {
            Collective::Barrier => (Vec::new(), Vec::new()),
            Collective::Broadcast { root, len, number } => (
                if me == root { of(root, len, number) } else { vec![0; len] },
                of(root, len, number),
            ),
            Collective::AllReduce { len, number } => {
                let mut sum = vec![0; len];
                for rank in 0..ranks {
                    let vector = of(rank, len, number);
                    sum.iter_mut().zip(vector).for_each(|(sum, element)| *sum += element);
                }
                (of(me, len, number), sum)
            }
        }
    }

    fn together(&mut self, comm: usize, operation: Collective) -> Result<()> {
        let (mut mine, wanted) = self.elements(operation);
        let comm = &self.comms[comm];
        match operation {
            Collective::Barrier => comm.barrier()?,
            Collective::Broadcast { root, .. } => comm.broadcast(&mut mine, root)?,
            Collective::AllReduce { .. } => comm.all_reduce(&mut mine, Sum)?,
        }
        ensure!(mine == wanted, "{operation:?} gave something else");
        Ok(())
    }

    fn begin(&mut self, comm: usize, operation: Collective) -> Result<Request<'a>> {
        let (mine, wanted) = self.elements(operation);
        let mut front = self.comms[comm].immediate()?;
        Ok(match operation {
            Collective::Barrier => Request::Barrier(front.barrier()),
            Collective::Broadcast { root, .. } => {
                Request::Elements(front.broadcast(mine, root), wanted)
            }
            Collective::AllReduce { .. } => Request::Elements(front.all_reduce(mine, Sum), wanted),
        })
    }

    /// Waits for a request, and looks at what came of it.
    fn finish(&mut self, number: usize) -> Result<()> {
        let Some(request) = self.requests.remove(&number) else { return Ok(()) };
        let back = |number: usize, buffer: &[u8]| {
            let len = self.program.messages[number].len;
            ensure!(buffer == content(number, len), "another buffer came back");
            Ok(())
        };
        match request {
            Request::Send(request, number) => back(number, &request.wait()?),
            Request::PersistentSend(mut request, number) => {
                request.wait()?;
                back(number, request.buffer_mut()?)?;
                self.idle.push(Request::PersistentSend(request, number));
                Ok(())
            }
            Request::Barrier(request) => Ok(request.wait()?),
            Request::Elements(request, wanted) => {
                ensure!(request.wait()? == wanted, "a collective request gave something else");
                Ok(())
            }
            Request::Receive(request, number) => {
                let (into, status) = request.wait()?;
                self.check(number, &into, status)
            }
            Request::PersistentReceive(mut request, number) => {
                let status = request.wait()?;
                let into = std::mem::take(request.buffer_mut()?);
                self.idle.push(Request::PersistentReceive(request, number));
                self.check(number, &into, status)
            }
        }
    }

    /// Compares what a receive got with what it must get.
    fn check(&mut self, number: usize, into: &[u8], status: Status) -> Result<()> {
        let receive = self.program.receives[number];
        let got = into.get(..status.count).unwrap_or(into);
        let wanted = match receive.gets {
            Some(message) => message,
            None => {
                let first = got
                    .first_chunk::<8>()
                    .map_or(usize::MAX, |first| u64::from_le_bytes(*first) as usize);
                ensure!(first < self.program.messages.len(), "a message that nobody sent");
                self.got.insert(number, first);
                first
            }
        };
        let message = self.program.messages[wanted];
        let Message { comm, from, to, tag, len } = message;
        ensure!(
            (comm, to) == (receive.comm, self.rank.id())
                && receive.source.is_none_or(|source| source == from)
                && receive.tag.is_none_or(|wanted| wanted == tag),
            "message {wanted}, {message:?}, for {receive:?}"
        );
        ensure!(
            (status.source, status.tag, status.count, status.bytes) == (from, tag, len, len),
            "{status:?} of message {wanted}, {message:?}"
        );
        ensure!(got == content(wanted, len), "message {wanted}, {message:?}, came damaged");
        Ok(())
    }

    /// Where receives take any source: every message came once, and those of one source that the same
    /// receives take came in their order.
    fn check_order(&self) -> Result<()> {
        let me = self.rank.id();
        let mine = |message: &&Message| message.to == me && message.comm >= DIRECT;
        let wanted = self.program.messages.iter().filter(mine).count();
        ensure!(self.got.len() == wanted, "{} of {wanted} messages", self.got.len());
        let mut last = BTreeMap::new();
        for (&number, &message) in &self.got {
            let Receive { comm, tag, .. } = self.program.receives[number];
            let source = self.program.messages[message].from;
            let before = last.insert((comm, tag, source), message);
            ensure!(
                before.is_none_or(|before| before < message),
                "message {message} came after message {before:?}"
            );
        }
        Ok(())
    }
}
