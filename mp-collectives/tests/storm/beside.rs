//! Operations outside of communicators: channels to other ranks, used by the rank or by a thread, and counters in
//! critical sections.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use mp_core::{Channel, Rank, Receiver, Result, Sender};
use mp_delegate::{
    critical::{self, Protected, Section, Server, objects::Counter},
    threads::{CommThreads, Delegated},
};

use super::{
    program::{Added, BESIDE_LONGEST, Beside, IN_FLIGHT, Program, Put},
    requests::Request,
    run::content,
};

/// Longer than any test takes, so the limit is never reached.
const FOREVER: Duration = Duration::from_secs(600);

enum Way {
    Plain(Box<Sender<[u8]>>),
    Delegated(Delegated<[u8]>),
}

/// The rank's ends of channels, by the channel's number.
pub struct Channels {
    ways: BTreeMap<usize, Way>,
    receivers: BTreeMap<usize, Receiver<[u8]>>,
    /// The threads of the delegated channels.
    _threads: Option<CommThreads>,
}

/// Returns a message of a channel.
fn message(channel: usize, number: usize) -> Vec<u8> {
    let all = channel * 1000 + number;
    content(all, if all.is_multiple_of(3) { all * 37 % (BESIDE_LONGEST + 1) } else { all % 90 })
}

impl Channels {
    pub fn open(rank: &Rank, program: &Program) -> Result<Self> {
        let (mut ways, mut receivers) = (BTreeMap::new(), BTreeMap::new());
        let me = rank.id();
        let delegates = |beside: &Beside| beside.from == me && beside.delegated;
        let threads = program.channels.iter().any(delegates).then(|| CommThreads::start(1));
        let threads = threads.transpose()?;
        for (number, &beside) in program.channels.iter().enumerate() {
            let Beside { from, to, degree, delegated, .. } = beside;
            let name = format!("beside {number}");
            let channel = Channel::degree(degree).max_len(BESIDE_LONGEST);
            if from == me {
                let sender = rank.sender::<[u8]>(&name, to, channel)?;
                let way = match &threads {
                    Some(threads) if delegated => Way::Delegated(threads.delegate(sender)),
                    _ => Way::Plain(Box::new(sender)),
                };
                ways.insert(number, way);
            }
            if to == me {
                receivers.insert(number, rank.receiver::<[u8]>(&name, from, channel)?);
            }
        }
        Ok(Self { ways, receivers, _threads: threads })
    }

    /// Sends a message. If a thread sends it, returns the request and its number.
    pub fn put<'a>(
        &mut self,
        channel: usize,
        number: usize,
        how: Put,
    ) -> Result<Option<(usize, Request<'a>)>> {
        let bytes = message(channel, number);
        match (self.ways.get_mut(&channel), how) {
            (Some(Way::Plain(sender)), _) => sender.send(&bytes)?,
            (Some(Way::Delegated(way)), Put::Here) => {
                let back = way.send_here(bytes.clone())?;
                ensure!(back == bytes, "another message came back");
            }
            (Some(Way::Delegated(way)), Put::Delegated(request)) => {
                return Ok(Some((request, Request::Put(way.send(bytes.clone()), bytes))));
            }
            (Some(Way::Delegated(way)), Put::Again(request)) => {
                let again = match way.send(bytes.clone()).cancel() {
                    Ok(back) => {
                        ensure!(back == bytes, "another message came back");
                        way.send(back)
                    }
                    Err(sent) => sent,
                };
                return Ok(Some((request, Request::Put(again, bytes))));
            }
            (None, _) => ensure!(false, "the channel is another rank's"),
        }
        Ok(None)
    }

    pub fn take(&mut self, channel: usize, number: usize) -> Result<()> {
        let Some(receiver) = self.receivers.get(&channel) else {
            return Err(mp_core::Error::other("the channel is another rank's"));
        };
        let wanted = message(channel, number);
        let is_right = match number % 3 {
            0 => *receiver.receive()? == wanted[..],
            1 => *receiver.receive_timeout(FOREVER)? == wanted[..],
            _ => *receiver.receive_buffer()? == wanted[..],
        };
        ensure!(is_right, "message {number} of channel {channel} is another one");
        Ok(())
    }
}

/// A rank's handles for the counters.
pub struct Handles {
    /// `None` for the server of a message server.
    counters: Vec<Option<Protected<Counter>>>,
    /// Rank 0 serves in threads.
    servers: Vec<JoinHandle<mp_core::Result<()>>>,
}

impl Handles {
    /// Opens everything. All ranks must have returned from this before any rank uses what it has opened, because a rank
    /// must not ask a server that does not exist yet.
    pub fn open(rank: &Rank, program: &Program) -> Result<Self> {
        let (mut counters, mut servers) = (Vec::new(), Vec::new());
        for (number, &(scheme, _)) in program.counters.iter().enumerate() {
            let section = Section::new(scheme).max_ops(1 + number).in_flight(IN_FLIGHT);
            let counter = Counter::open(rank, &format!("counter {number}"), section)?;
            if !scheme.needs_server() || rank.id() > 0 {
                counters.push(Some(counter));
                continue;
            }
            counters.push(counter.another().ok());
            let (ready, is_ready) = mpsc::channel();
            servers.push(std::thread::spawn(move || {
                let mut server = Server::new();
                server.add(counter)?;
                let _ = ready.send(());
                server.serve()
            }));
            ensure!(is_ready.recv().is_ok(), "counter {number} has no server");
        }
        Ok(Self { counters, servers })
    }

    /// Closes the handles, and waits until the servers have ended.
    pub fn close(self) -> Result<()> {
        let Self { counters, servers } = self;
        drop(counters);
        for server in servers {
            match server.join() {
                Ok(served) => served?,
                Err(_) => return Err(mp_core::Error::other("a server panicked")),
            }
        }
        Ok(())
    }
}

/// A rank's operations on the counters, and their results.
pub struct Counters<'a> {
    handles: &'a [Option<Protected<Counter>>],
    /// The pending operations of each counter.
    pending: Vec<VecDeque<critical::Request<'a, Counter>>>,
    /// The results for each counter, in the order of the calls: the values before the additions.
    before: Vec<Vec<u64>>,
}

impl<'a> Counters<'a> {
    pub fn new(handles: &'a Handles) -> Self {
        let handles = &handles.counters[..];
        let pending = handles.iter().map(|_| VecDeque::new()).collect();
        Self { handles, pending, before: vec![Vec::new(); handles.len()] }
    }

    pub fn add(&mut self, counter: usize, how: Added) -> Result<()> {
        let Some(handle) = &self.handles[counter] else {
            return Err(mp_core::Error::other("the server has no way to itself"));
        };
        match how {
            Added::Submitted => {
                let pending = &mut self.pending[counter];
                pending.push_back(handle.submit(1)?);
                if pending.len() < IN_FLIGHT {
                    return Ok(());
                }
                self.collect(counter, 1)
            }
            _ => {
                self.collect(counter, self.pending[counter].len())?;
                let before = if matches!(how, Added::Locked) && handle.section().scheme().is_lock()
                {
                    let mut count = handle.lock()?;
                    std::thread::yield_now();
                    *count += 1;
                    *count - 1
                } else {
                    handle.fetch_add(1)?
                };
                self.got(counter, before)
            }
        }
    }

    /// Waits for the `results` oldest results.
    fn collect(&mut self, counter: usize, results: usize) -> Result<()> {
        for _ in 0..results {
            let Some(request) = self.pending[counter].pop_front() else { return Ok(()) };
            let before = request.wait()?;
            self.got(counter, before)?;
        }
        Ok(())
    }

    fn got(&mut self, counter: usize, before: u64) -> Result<()> {
        let all = &mut self.before[counter];
        ensure!(all.last().is_none_or(|&last| last < before), "{before} after {all:?}");
        all.push(before);
        Ok(())
    }

    /// Waits for all results. Returns for each counter their sum, and the sum of their squares.
    pub fn sums(&mut self) -> Result<Vec<u64>> {
        for counter in 0..self.handles.len() {
            self.collect(counter, IN_FLIGHT)?;
        }
        let sums = |all: &Vec<u64>| [all.iter().sum(), all.iter().map(|n| n * n).sum::<u64>()];
        Ok(self.before.iter().flat_map(sums).collect())
    }

    /// Compares the sums of all ranks with the expected sums. Each value must have been returned once.
    pub fn check(&self, program: &Program, sums: &[u64]) -> Result<()> {
        for (number, (&(_, count), sums)) in program.counters.iter().zip(sums.chunks(2)).enumerate()
        {
            let wanted = [(0..count).sum(), (0..count).map(|n| n * n).sum::<u64>()];
            ensure!(sums == wanted, "counter {number}: {sums:?} instead of {wanted:?}");
            if let Some(handle) = &self.handles[number] {
                let last = handle.fetch_add(0)?;
                ensure!(last == count, "counter {number} is {last} after {count}");
            }
        }
        Ok(())
    }
}
