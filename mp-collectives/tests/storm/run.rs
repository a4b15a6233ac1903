//! One rank's part of a program.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mp_collectives::communicator::{
    ANY_SOURCE, ANY_TAG, Agreement, Communicator, PersistentReceive, PersistentSend, Source, Start,
    Status, Tag, start_all, test_all, test_any, test_some, wait_all, wait_any, wait_some,
};
use mp_collectives::{
    collectives::{Check, Settings},
    reduce::Sum,
};
use mp_core::{Error, ErrorKind, Rank, Result};
use mp_delegate::threads::{CommThreads, Progress};

use super::{
    beside::{Channels, Counters, Handles},
    program::{
        ANY_LONGEST, Act, Blocking, Collective, Heard, Kind, Later, Message, Posted, Program,
        Receive, Taken, Waited,
    },
    requests::{Done, Request, awaited},
};

/// Longer than any test takes, so the limit is never reached.
const FOREVER: Duration = Duration::from_secs(600);
/// A tag that no message has.
const NO_TAG: u32 = 99;
/// The tag of messages that no posted receive names.
const HEARING: u32 = 98;

/// The limit on the bytes of unexpected messages: the default, none, a few, or a different number on each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Usual,
    Bytes(usize),
    Different,
}

/// All limits to try.
pub const LIMITS: [Limit; 5] =
    [Limit::Usual, Limit::Bytes(0), Limit::Bytes(1000), Limit::Bytes(40_000), Limit::Different];
/// The largest limit that is set.
const LARGEST: usize = 40_000;
/// Returns a little more than the channels from one rank to another hold.
fn channels(rank: &Rank) -> Result<usize> {
    const CHUNK: usize = 32 << 10;
    let all = 4 * rank.cache_for_rings()? / CHUNK;
    Ok((all / (rank.size() - 1).max(1)).clamp(8, 64) * CHUNK + (8 << 10))
}

/// Runs this rank's part of the program of this seed.
pub fn run(rank: &Rank, seed: u64, limit: Limit) -> Result<()> {
    let program = Program::new(seed, rank.size());
    let me = rank.id();
    let within = |what: &str| {
        let what = format!("seed {seed}, {limit:?}, rank {me}, {what}");
        move |error: mp_core::Error| mp_core::Error::other(format!("{what}: {error}"))
    };
    let world = Communicator::world(rank);
    let second = Communicator::world(rank);
    for set in [&world, &second] {
        match limit {
            Limit::Usual => {}
            Limit::Bytes(bytes) => set.set_unexpected_limit(bytes),
            Limit::Different => set.set_unexpected_limit([0, 500, LARGEST][me % 3]),
        }
    }
    // In some worlds ranks compare all their calls. In some they have a thread that makes progress between their calls,
    // for everything or only for nonblocking operations.
    let check = if seed.is_multiple_of(2) { Check::On } else { Check::Off };
    let progress: Progress = match seed % 4 {
        2 => Progress::InCalls,
        _ => CommThreads::start(1)?.into(),
    };
    if seed % 4 < 2 {
        for set in [&world, &second] {
            set.set_progress(progress.clone())?;
        }
    }
    let handles = Handles::open(rank, &program)?;
    let comms: Vec<OnceCell<Communicator>> =
        program.comms.iter().map(|_| OnceCell::new()).collect();
    let mut part = Part {
        rank,
        program: &program,
        comms: &comms,
        check,
        progress,
        requests: BTreeMap::new(),
        void: BTreeSet::new(),
        idle: Vec::new(),
        got: BTreeMap::new(),
        channels: Channels::open(rank, &program)?,
        counters: Counters::new(&handles),
    };
    // The duplicates are made after all ranks have opened the counters, because all ranks take part in this call.
    let copies = [world.duplicate()?, second.duplicate()?];
    for (number, comm) in copies.into_iter().chain([second, world]).enumerate() {
        part.put_comm(number, comm)?;
    }
    for (place, act) in program.acts[me].iter().enumerate() {
        part.perform(act).map_err(within(&format!("act {place}, {act:?}")))?;
    }
    part.check_order().map_err(within("at the end"))?;
    let mut end = || -> Result<()> {
        let mut sums = part.counters.sums()?;
        // The first communicator contains all ranks, and so does the one that has replaced it at the end.
        let all = &comms[program.last_of_all()];
        let all = all.get().ok_or_else(|| mp_core::Error::other("no communicator of all ranks"))?;
        all.all_reduce(&mut sums, Sum)?;
        part.counters.check(&program, &sums)?;
        for (number, comm) in comms.iter().enumerate() {
            let Some(unexpected) = comm.get().map(Communicator::unexpected) else { continue };
            let from_each = LARGEST / 8 + channels(rank)?;
            ensure!(
                matches!(limit, Limit::Usual)
                    || unexpected.most_bytes <= unexpected.limit + (rank.size() - 1) * from_each,
                "communicator {number}: {unexpected:?}"
            );
            let left = (unexpected.messages, unexpected.bytes);
            ensure!(left == (0, 0), "communicator {number}: {unexpected:?} left");
        }
        Ok(())
    };
    end().map_err(within("at the end"))?;
    drop(part);
    handles.close().map_err(within("at the end"))
}

struct Part<'a> {
    rank: &'a Rank,
    program: &'a Program,
    /// By number: the communicators of this rank, as soon as it has them.
    comms: &'a [OnceCell<Communicator>],
    check: Check,
    progress: Progress,
    /// The pending requests, by number.
    requests: BTreeMap<usize, Request<'a>>,
    /// Those requests that may fail because their communicator was revoked.
    void: BTreeSet<usize>,
    /// Persistent requests that are done, and can be started again.
    idle: Vec<Request<'a>>,
    /// The messages of receives whose message the model does not predict.
    got: BTreeMap<usize, usize>,
    channels: Channels,
    counters: Counters<'a>,
}

/// Returns the content of a message. Its first bytes are its number.
pub fn content(number: usize, len: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..len).map(|i| (i * 7 + number * 13) as u8).collect();
    let first = len.min(8);
    content[..first].copy_from_slice(&(number as u64).to_le_bytes()[..first]);
    content
}

/// Checks that a call failed because its communicator is revoked, and for no other reason.
fn revoked<T>(ended: std::result::Result<T, impl Into<Error>>) -> Result<()> {
    match ended.map_err(Into::into).map_err(Error::into_kind) {
        Err(ErrorKind::Revoked { .. }) => Ok(()),
        Err(error) => Err(mp_core::Error::other(format!("in a revoked communicator: {error:?}"))),
        Ok(_) => Err(mp_core::Error::other("a call went well in a revoked communicator")),
    }
}

impl<'a> Part<'a> {
    fn comm(&self, number: usize) -> Result<&'a Communicator> {
        let missing = || mp_core::Error::other(format!("there is no communicator {number} here"));
        self.comms[number].get().ok_or_else(missing)
    }

    /// Keeps a new communicator.
    fn put_comm(&self, number: usize, comm: Communicator) -> Result<()> {
        let members = &self.program.comms[number].members;
        let world: Result<Vec<usize>, _> =
            (0..comm.size()).map(|rank| comm.world_rank(rank)).collect();
        ensure!(world? == *members, "communicator {number}, {comm:?}, has others than {members:?}");
        comm.set_collectives(Settings { check: self.check, ..Settings::default() })?;
        comm.set_nonblocking(self.progress.clone())?;
        ensure!(self.comms[number].set(comm).is_ok(), "communicator {number} is made twice");
        Ok(())
    }

    /// Returns the number in a communicator for a rank of the world.
    fn local(&self, comm: usize, world: usize) -> usize {
        let members = &self.program.comms[comm].members;
        members.iter().position(|&member| member == world).unwrap_or(usize::MAX)
    }

    fn is_direct(&self, comm: usize) -> bool {
        self.program.comms[comm].kind == Kind::Direct
    }

    /// Returns the communicator of a message, its destination, its tag, and its content.
    fn message(&self, number: usize) -> Result<(&'a Communicator, usize, u32, Vec<u8>)> {
        let Message { comm, to, tag, len, .. } = self.program.messages[number];
        Ok((self.comm(comm)?, self.local(comm, to), tag, content(number, len)))
    }

    fn receive(&self, number: usize) -> Result<(&'a Communicator, Source, Tag, Vec<u8>)> {
        let Receive { comm, source, tag, gets, .. } = self.program.receives[number];
        let len = gets.map_or(ANY_LONGEST, |message| self.program.messages[message].len);
        let room = if number.is_multiple_of(3) { len + 5 } else { len };
        let source = source.map_or(ANY_SOURCE, |source| Source::from(self.local(comm, source)));
        Ok((self.comm(comm)?, source, tag.map_or(ANY_TAG, Tag::from), vec![0; room]))
    }

    fn perform(&mut self, act: &Act) -> Result<()> {
        match *act {
            Act::Delay(micros) if micros < 100 => std::thread::yield_now(),
            Act::Delay(micros) => std::thread::sleep(Duration::from_micros(micros)),
            Act::SendLater { message, how, request } => self.send_later(message, how, request)?,
            Act::Send { message, how } => {
                let (comm, to, tag, content) = self.message(message)?;
                match how {
                    Blocking::Send => comm.send(&content, to, tag)?,
                    Blocking::Synchronous => comm.synchronous_send(&content, to, tag)?,
                    Blocking::Moved => {
                        comm.send_buffer(self.rank.buffer_from(&content)?, to, tag)?;
                    }
                }
            }
            Act::Post { receive, how, request } => self.post(receive, how, request)?,
            Act::Start { ref sends, ref receives } => self.start(sends, receives)?,
            Act::Receive { receive, how } => self.receive_now(receive, how)?,
            Act::Together { comm, operation } => self.together(comm, operation)?,
            Act::Begin { comm, operation, request } => {
                let begun = self.begin(comm, operation)?;
                self.requests.insert(request, begun);
            }
            Act::Exchange { ref sends, ref receives } => self.exchange(sends, receives)?,
            Act::Wait { how, ref sure, ref more } => self.wait(how, sure, more)?,
            Act::Cancel { comm, source } => {
                let source = self.local(comm, source);
                let posted = self.comm(comm)?.nonblocking_receive(vec![0u8], source, NO_TAG);
                ensure!(posted.cancel().is_ok(), "a receive of nothing can't be taken back");
            }
            Act::Duplicate { comm, to } => {
                let copy = self.comm(comm)?.duplicate()?;
                match to {
                    Some(to) => self.put_comm(to, copy)?,
                    None => use_once(&copy)?,
                }
            }
            Act::Split { comm, color, key, to } => {
                match (self.comm(comm)?.split(color, key)?, to) {
                    (Some(part), Some(to)) => self.put_comm(to, part)?,
                    (part, to) => ensure!(part.is_none() && to.is_none(), "{part:?} as {to:?}"),
                }
            }
            Act::Agree { comm, flag, together } => {
                let agreed = self.comm(comm)?.agree(flag)?;
                let wanted = Agreement { flag: together, unacknowledged: Vec::new() };
                ensure!(agreed == wanted, "{agreed:?} instead of {wanted:?}");
            }
            Act::Acknowledge { comm } => {
                let comm = self.comm(comm)?;
                let lost = [comm.acknowledge(), comm.failed_ranks()];
                ensure!(lost.iter().all(Vec::is_empty), "{lost:?} are said to be lost");
                ensure!(!comm.is_revoked(), "{comm:?} is said to be revoked");
            }
            Act::Revoke { comm, heard, to, ref void } => {
                self.void.extend(void);
                self.revoke(comm, heard, to)?;
            }
            Act::Put { channel, number, how } => {
                if let Some((request, sent)) = self.channels.put(channel, number, how)? {
                    self.requests.insert(request, sent);
                }
            }
            Act::Take { channel, number } => self.channels.take(channel, number)?,
            Act::Add { counter, how } => self.counters.add(counter, how)?,
        }
        Ok(())
    }

    fn post(&mut self, number: usize, how: Posted, request: usize) -> Result<()> {
        let (comm, source, tag, buffer) = self.receive(number)?;
        let posted = match how {
            Posted::Persistent => {
                let mut posted = self.persistent_receive(number)?;
                posted.start()?;
                Request::PersistentReceive(posted, number)
            }
            Posted::Nonblocking => {
                Request::Receive(comm.nonblocking_receive(buffer, source, tag), number)
            }
            Posted::Again => {
                let again = match comm.nonblocking_receive(buffer, source, tag).cancel() {
                    Ok(back) => comm.nonblocking_receive(back, source, tag),
                    Err(posted) => posted,
                };
                Request::Receive(again, number)
            }
        };
        self.requests.insert(request, posted);
        Ok(())
    }

    fn start(&mut self, sends: &[(usize, usize)], receives: &[(usize, usize)]) -> Result<()> {
        let mut receiving = Vec::new();
        for &(number, _) in receives {
            receiving.push(self.persistent_receive(number)?);
        }
        let mut sending = Vec::new();
        for &(number, _) in sends {
            sending.push(self.persistent_send(number)?);
        }
        let receives_first = receiving.iter_mut().map(|receive| receive as &mut dyn Start);
        let then_sends = sending.iter_mut().map(|send| send as &mut dyn Start);
        let mut all: Vec<_> = receives_first.chain(then_sends).collect();
        start_all(&mut all)?;
        drop(all);
        for (receive, &(number, request)) in receiving.into_iter().zip(receives) {
            self.requests.insert(request, Request::PersistentReceive(receive, number));
        }
        for (send, &(number, request)) in sending.into_iter().zip(sends) {
            self.requests.insert(request, Request::PersistentSend(send, number));
        }
        Ok(())
    }

    /// Revokes a communicator when all ranks have come here, or learns of the revocation. Goes on in another one.
    fn revoke(&mut self, number: usize, heard: Heard, to: usize) -> Result<()> {
        let comm = self.comm(number)?;
        comm.agree(u64::MAX)?;
        let other = (comm.rank() + 1) % comm.size();
        match heard {
            Heard::Revokes => comm.revoke()?,
            Heard::Receive => revoked(comm.receive_into(&mut [0u8], other, NO_TAG))?,
            Heard::Send => {
                let send = || comm.synchronous_send::<u8>(&[], other, HEARING);
                // The send succeeds as often as the other rank has receives of any tag there.
                let failed = (0..=self.program.receives.len()).find_map(|_| send().err());
                revoked(failed.map_or(Ok(()), Err))?;
            }
            Heard::Probe => revoked(comm.probe(other, NO_TAG))?,
            Heard::Barrier => revoked(comm.barrier())?,
            Heard::Split => revoked(comm.split(Some(1), 0))?,
            Heard::Asks => {
                while !comm.is_revoked() {
                    self.rank.progress(0);
                    std::thread::yield_now();
                }
            }
            Heard::Shrink => {}
        }
        let all = comm.shrink()?;
        ensure!(comm.is_revoked(), "{comm:?} is not revoked");
        revoked(comm.try_probe(other, NO_TAG))?;
        revoked(comm.nonblocking_send([0u8], other, NO_TAG).wait())?;
        self.put_comm(to, all)
    }

    fn send_later(&mut self, number: usize, how: Later, request: usize) -> Result<()> {
        let (comm, to, tag, content) = self.message(number)?;
        let sent = match how {
            Later::Buffered => return comm.buffered_send(&content, to, tag),
            Later::Dropped => {
                drop(comm.nonblocking_send(content, to, tag));
                return Ok(());
            }
            Later::Nonblocking => Request::Send(comm.nonblocking_send(content, to, tag), number),
            Later::Synchronous => {
                Request::Send(comm.nonblocking_synchronous_send(content, to, tag), number)
            }
            Later::Again => {
                let wanted = content.clone();
                let again = match comm.nonblocking_send(content, to, tag).cancel() {
                    Ok(back) => {
                        ensure!(back == wanted, "another buffer came back");
                        comm.nonblocking_send(back, to, tag)
                    }
                    Err(sent) => sent,
                };
                Request::Send(again, number)
            }
            Later::Persistent => {
                let mut send = self.persistent_send(number)?;
                send.start()?;
                Request::PersistentSend(send, number)
            }
        };
        self.requests.insert(request, sent);
        Ok(())
    }

    /// Returns a persistent send of this message that can be started. Uses one from before, if there is one to the same
    /// rank with the same tag.
    fn persistent_send(&mut self, number: usize) -> Result<PersistentSend<'a, Vec<u8>>> {
        let of = |number: usize| {
            let Message { comm, to, tag, .. } = self.program.messages[number];
            (comm, to, tag)
        };
        let alike = |idle: &Request<'_>| matches!(idle, Request::PersistentSend(_, before) if of(*before) == of(number));
        let place = self.idle.iter().position(alike);
        let (comm, to, tag, content) = self.message(number)?;
        let mut send = match place.map(|place| self.idle.swap_remove(place)) {
            Some(Request::PersistentSend(send, _)) => send,
            _ => comm.persistent_send(Vec::new(), to, tag),
        };
        *send.buffer_mut()? = content;
        Ok(send)
    }

    /// Returns a persistent receive that can be started. Uses one from before, if there is one for the same source and
    /// tag.
    fn persistent_receive(&mut self, number: usize) -> Result<PersistentReceive<'a, Vec<u8>>> {
        let of = |number: usize| {
            let Receive { comm, source, tag, .. } = self.program.receives[number];
            (comm, source, tag)
        };
        let alike = |idle: &Request<'_>| matches!(idle, Request::PersistentReceive(_, before) if of(*before) == of(number));
        let place = self.idle.iter().position(alike);
        let (comm, source, tag, buffer) = self.receive(number)?;
        let mut receive = match place.map(|place| self.idle.swap_remove(place)) {
            Some(Request::PersistentReceive(receive, _)) => receive,
            _ => comm.persistent_receive(Vec::new(), source, tag),
        };
        *receive.buffer_mut()? = buffer;
        Ok(receive)
    }

    fn receive_now(&mut self, number: usize, how: Taken) -> Result<()> {
        let (comm, source, tag, mut into) = self.receive(number)?;
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
        let comm = self.comm(match sends.is_empty() {
            true => self.program.receives[first].comm,
            false => self.program.messages[first].comm,
        })?;
        let contents: Result<Vec<_>> = sends.iter().map(|&number| self.message(number)).collect();
        let into: Result<Vec<_>> = receives.iter().map(|&number| self.receive(number)).collect();
        let (contents, mut into) = (contents?, into?);
        let statuses = if let ([(_, to, tag, content)], [(_, source, from_tag, into)]) =
            (&contents[..], &mut into[..])
            && sends[0].is_multiple_of(2)
        {
            vec![comm.send_receive(content, *to, *tag, into, *source, *from_tag)?]
        } else {
            let mut exchange = comm.exchange();
            for (_, to, tag, content) in &contents {
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
            Waited::Awaited => {
                let asked = |number: &usize| Some((*number, self.requests.remove(number)?));
                let requests = sure.iter().filter_map(asked).collect();
                let done = awaited(self.rank, requests)?;
                return done.into_iter().try_for_each(|(number, done)| self.look(number, done));
            }
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
        // If a request that is sure to be done has gone, an earlier call for some requests has finished it.
        if how.for_some() && sure.iter().any(|number| !self.requests.contains_key(number)) {
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
            Waited::TestedAny => loop {
                match test_any(&mut pending)? {
                    Some(done) => break vec![done],
                    None => std::thread::yield_now(),
                }
            },
            Waited::TestedSome => loop {
                let done = test_some(&mut pending)?;
                if !done.is_empty() {
                    break done;
                }
                std::thread::yield_now();
            },
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

    /// Returns this rank's vector in a collective operation, and the expected result.
    fn elements(comm: &Communicator, operation: Collective) -> (Vec<u64>, Vec<u64>) {
        let of = |rank: usize, len: usize, number: usize| -> Vec<u64> {
            (0..len).map(|place| (place * (rank + 1) + number) as u64).collect()
        };
        let (me, ranks) = (comm.rank(), comm.size());
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
        let comm = self.comm(comm)?;
        let (mut mine, wanted) = Self::elements(comm, operation);
        match operation {
            Collective::Barrier => comm.barrier()?,
            Collective::Broadcast { root, .. } => comm.broadcast(&mut mine, root)?,
            Collective::AllReduce { .. } => comm.all_reduce(&mut mine, Sum)?,
        }
        ensure!(mine == wanted, "{operation:?} gave something else");
        Ok(())
    }

    fn begin(&mut self, comm: usize, operation: Collective) -> Result<Request<'a>> {
        let comm = self.comm(comm)?;
        let (mine, wanted) = Self::elements(comm, operation);
        let mut front = comm.nonblocking()?;
        Ok(match operation {
            Collective::Barrier => Request::Barrier(front.barrier()),
            Collective::Broadcast { root, .. } => {
                Request::Elements(front.broadcast(mine, root), wanted)
            }
            Collective::AllReduce { .. } => Request::Elements(front.all_reduce(mine, Sum), wanted),
        })
    }

    /// Waits for a request, and checks its result.
    fn finish(&mut self, number: usize) -> Result<()> {
        match self.requests.remove(&number) {
            Some(request) => self.look(number, request.wait()),
            None => Ok(()),
        }
    }

    /// Checks the result of a request.
    fn look(&mut self, request: usize, done: Done<'a>) -> Result<()> {
        let void = self.void.remove(&request);
        // A request of a revoked communicator may have failed.
        let survived = |ended: &Result<(), Error>| match ended.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Revoked { .. }) if void => Ok(false),
            Err(error) => Err(mp_core::Error::other(format!("request {request}: {error:?}"))),
            Ok(()) => Ok(true),
        };
        let back = |number: usize, buffer: &[u8]| {
            let len = self.program.messages[number].len;
            ensure!(buffer == content(number, len), "another buffer came back");
            Ok(())
        };
        match done {
            Done::Send(buffer, ended, number) => {
                survived(&ended)?;
                back(number, &buffer)
            }
            Done::PersistentSend(mut send, ended, number) => {
                survived(&ended)?;
                back(number, send.buffer_mut()?)?;
                self.idle.push(Request::PersistentSend(send, number));
                Ok(())
            }
            Done::Barrier(ended) => survived(&ended).map(drop),
            Done::Elements(ended, wanted) => {
                let is_right = ended.as_ref().is_ok_and(|elements| *elements == wanted);
                let ended = ended.map(drop);
                ensure!(!survived(&ended)? || is_right, "a collective request gave something else");
                Ok(())
            }
            Done::Put(ended, content) => {
                let back = ended?;
                ensure!(back == content, "another message came back");
                Ok(())
            }
            // A message of a rank that learns of the revocation by a send.
            Done::Receive(Ok((_, status)), _) if void && status.tag == HEARING => Ok(()),
            Done::Receive(Ok((into, status)), number) => self.check(number, &into, status),
            Done::Receive(Err(error), _) => survived(&Err(error)).map(drop),
            Done::PersistentReceive(mut receive, ended, number) => {
                let into = std::mem::take(receive.buffer_mut()?);
                self.idle.push(Request::PersistentReceive(receive, number));
                match ended {
                    Ok(status) if void && status.tag == HEARING => Ok(()),
                    Ok(status) => self.check(number, &into, status),
                    Err(error) => survived(&Err(error)).map(drop),
                }
            }
        }
    }

    /// Compares the received message with the expected one.
    fn check(&mut self, number: usize, into: &[u8], status: Status) -> Result<()> {
        let receive = self.program.receives[number];
        let got = into.get(..status.count).unwrap_or(into);
        let wanted = match receive.gets {
            Some(message) => message,
            None if self.is_direct(receive.comm) => {
                return Err(mp_core::Error::other(format!("receive {number} got a message")));
            }
            None => {
                let first = got
                    .first_chunk::<8>()
                    .map_or(usize::MAX, |first| u64::from_le_bytes(*first) as usize);
                ensure!(first < self.program.messages.len(), "no message of that: {status:?}");
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
            (status.source, status.tag, status.count, status.bytes)
                == (self.local(comm, from), tag, len, len),
            "{status:?} of message {wanted}, {message:?}"
        );
        ensure!(got == content(wanted, len), "message {wanted}, {message:?}, came damaged");
        Ok(())
    }

    /// Checks receives from any source: every message came once, and messages of one source that match the same
    /// receives came in their order.
    fn check_order(&self) -> Result<()> {
        let me = self.rank.id();
        for (number, comm) in self.program.comms.iter().enumerate() {
            let here = |message: &usize| self.program.messages[*message].comm == number;
            let got: BTreeSet<usize> = self.got.values().copied().filter(here).collect();
            let sent =
                self.program.messages.iter().filter(|sent| (sent.comm, sent.to) == (number, me));
            let (wanted, receives) =
                (sent.count(), self.got.values().filter(|got| here(got)).count());
            ensure!(got.len() == receives, "a message came twice in communicator {number}");
            let all_came = got.len() == wanted || comm.revoked || self.is_direct(number);
            ensure!(all_came, "{} of {wanted} messages in communicator {number}", got.len());
        }
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

/// Lets all ranks of a communicator use it once.
fn use_once(comm: &Communicator) -> Result<()> {
    let (me, size) = (comm.rank(), comm.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let mut got = [0];
    comm.send_receive(&[me as u64], next, 1, &mut got, before, 1)?;
    ensure!(got == [before as u64], "{got:?} from {before}");
    Ok(())
}
