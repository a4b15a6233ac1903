//! A client: asks for operations as fast as it gets answers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::{CreationError, Histogram};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onchip::critical::objects::{Map, MapAnswer, MapOp};
use onchip::critical::{Protected, Request};
use onchip::prelude::*;
use serde::{Deserialize, Serialize};

use crate::check::{Account, Found};
use crate::data::{Key, Op, Value, key, stamp_of};
use crate::load::Load;
use crate::log::{Asked, Counts, Log};
use crate::mix::Kind;
use crate::plan::{Limit, Plan, Victim};

/// The store that clients share, in a critical section.
pub type Store<const N: usize> = Map<Key, Value<N>>;

/// The results of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fared {
    /// Its number.
    pub client: usize,
    /// Operations that were answered.
    pub operations: u64,
    /// The number of these that were answered after a rank was killed.
    pub afterwards: u64,
    /// The time that took, in seconds.
    pub seconds: f64,
    /// The numbers of operations by outcome.
    pub counts: Counts,
    /// Latencies in nanoseconds, each with the number of operations that took it.
    pub latencies: Vec<(u64, u64)>,
    /// The longest time between two answers, in seconds.
    pub pause: f64,
    /// The reason why it could not go on to the end.
    pub stopped: Option<String>,
    /// Its report about the store.
    pub account: Account,
    /// The content of the store at the end. Only the first client reports it.
    pub found: Option<Found>,
}

/// The longest latency that is distinguished from longer ones.
const LONGEST_LATENCY: Duration = Duration::from_secs(100);

/// Returns an empty histogram of latencies in nanoseconds, with three digits.
///
/// # Errors
/// Never fails, for these numbers.
pub fn latencies() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_max(LONGEST_LATENCY.as_nanos() as u64, 3)
}

/// Where all ranks begin together, and the clients end.
pub struct Together {
    first: bool,
    /// For the first client all other ranks; for those, the first client.
    peers: Vec<(Sender<u8>, Receiver<u8>)>,
    /// The first ones of them are no clients.
    others: usize,
}

impl Together {
    /// Opens the channels. Every rank does so, and the first client tells the others when to begin.
    pub fn open(rank: &Rank, plan: &Plan) -> onchip::Result<Self> {
        let lead = plan.others;
        let first = rank.id() == lead;
        let others = match first {
            true => (0..rank.size()).filter(|&other| other != lead).collect(),
            false => vec![lead],
        };
        let one = Channel::degree(1);
        let peer = |other| Ok((rank.sender("go", other, one)?, rank.receiver("go", other, one)?));
        let peers = others.into_iter().map(peer).collect::<onchip::Result<_>>()?;
        Ok(Self { first, peers, others: plan.others })
    }

    /// Returns when the first client has called it.
    pub fn begin(&mut self) -> onchip::Result<()> {
        for (tell, told) in &mut self.peers {
            if self.first {
                tell.send(&0)?;
            } else {
                told.receive()?;
            }
        }
        Ok(())
    }

    /// For the first client, returns when all other clients have called it or are gone.
    pub fn end(mut self) {
        if !self.first {
            // If the first client is gone, it does not wait.
            self.peers.iter_mut().for_each(|(tell, _)| drop(tell.send(&0)));
            return;
        }
        for (_, told) in self.peers.iter().skip(self.others) {
            let _ = told.receive();
        }
    }
}

struct Pending<'a, const N: usize> {
    asked: Asked,
    request: Request<'a, Store<N>>,
    since: Instant,
}

struct Client<'a, const N: usize> {
    plan: &'a Plan,
    store: &'a Protected<Store<N>>,
    load: Load,
    log: Log,
    window: VecDeque<Pending<'a, N>>,
    latencies: Histogram<u64>,
    /// When it asked last, and when it was last answered.
    asked: Instant,
    last: Instant,
    /// When a rank is killed.
    death: Option<Instant>,
    fared: Fared,
}

/// Does a client's part. `leave` writes the report of a client that is going to be killed.
///
/// # Errors
/// The errors of the world, and those of the store if no rank was to be killed.
pub fn run<const N: usize>(
    plan: &Plan,
    number: usize,
    is_victim: bool,
    store: Protected<Store<N>>,
    mut together: Together,
    leave: impl FnOnce(Fared) -> onchip::Result<()>,
) -> onchip::Result<Fared> {
    let mut client = Client {
        plan,
        store: &store,
        load: Load::new(plan, number),
        log: Log::new(number, plan.keys, plan.value_bytes),
        window: VecDeque::with_capacity(plan.in_flight),
        latencies: latencies().map_err(onchip::Error::other)?,
        asked: Instant::now(),
        last: Instant::now(),
        death: None,
        fared: Fared { client: number, ..Fared::default() },
    };
    if number == 0 {
        client.fill()?;
    }
    together.begin()?;
    let until = match (plan.limit, is_victim) {
        (Limit::Time(time), true) => Limit::Time(time / 2),
        (limit, _) => limit,
    };
    client.work(until)?;
    if is_victim {
        return client.die(leave);
    }
    client.fared.account = client.account();
    together.end();
    if number == 0 && client.fared.stopped.is_none() {
        match client.find() {
            Ok(found) => client.fared.found = Some(found),
            Err(error) => client.fared.stopped = Some(client.stops(error)?),
        }
    }
    Ok(client.fared)
}

impl<const N: usize> Client<'_, N> {
    /// Puts half of the keys into the store, so that there is something to begin with.
    fn fill(&mut self) -> onchip::Result<()> {
        for index in (0..self.plan.keys).step_by(2) {
            self.submit(Kind::Put, index)?;
            if self.window.len() == self.plan.in_flight {
                self.take()?;
            }
        }
        while !self.window.is_empty() {
            self.take()?;
        }
        self.log.counts = Counts::default();
        self.latencies.reset();
        self.fared = Fared { client: self.fared.client, ..Fared::default() };
        Ok(())
    }

    fn work(&mut self, until: Limit) -> onchip::Result<()> {
        let begun = Instant::now();
        (self.asked, self.last) = (begun, begun);
        self.death = match (self.plan.limit, self.plan.kill) {
            (Limit::Time(time), Some(_)) => Some(begun + time / 2),
            _ => None,
        };
        let mut asked = 0;
        while self.fared.stopped.is_none() {
            let enough = match until {
                Limit::Time(time) => self.asked - begun >= time,
                Limit::Operations(operations) => asked >= operations,
            };
            if enough {
                break;
            }
            let (kind, index) = self.load.pick();
            self.submit(kind, index)?;
            asked += 1;
            if self.window.len() == self.plan.in_flight {
                self.take()?;
            }
        }
        while !self.window.is_empty() {
            self.take()?;
        }
        self.fared.seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn submit(&mut self, kind: Kind, index: usize) -> onchip::Result<()> {
        let (asked, op) = self.log.ask(kind, index);
        let since = Instant::now();
        self.asked = since;
        match self.store.submit(op) {
            Ok(request) => self.window.push_back(Pending { asked, request, since }),
            Err(error) => self.ended(&asked, error)?,
        }
        Ok(())
    }

    /// Waits for the oldest operation in flight.
    fn take(&mut self) -> onchip::Result<()> {
        let Some(Pending { asked, request, since }) = self.window.pop_front() else {
            return Ok(());
        };
        match request.wait() {
            Ok(answer) => {
                let now = Instant::now();
                if self.log.was_repeated(&asked, &answer) {
                    self.fared.account.unknown.extend(asked.changes());
                }
                self.log.answered(&asked, &answer);
                self.latencies.saturating_record((now - since).as_nanos() as u64);
                self.fared.operations += 1;
                self.fared.afterwards += u64::from(self.death.is_some_and(|death| now >= death));
                self.fared.pause = self.fared.pause.max((now - self.last).as_secs_f64());
                self.last = now;
                Ok(())
            }
            Err(error) => self.ended(&asked, error),
        }
    }

    fn ended(&mut self, asked: &Asked, error: Error) -> onchip::Result<()> {
        match error.kind() {
            ErrorKind::OutcomeUnknown { .. } if self.plan.is_followed() => {
                self.fared.account.unknown.extend(asked.changes());
            }
            _ => {
                let why = self.stops(error)?;
                // The operation may have been executed nevertheless.
                self.fared.account.unknown.extend(asked.changes());
                self.fared.stopped.get_or_insert(why);
            }
        }
        Ok(())
    }

    /// Returns why it can't go on, if that was to be expected.
    fn stops(&self, error: Error) -> onchip::Result<String> {
        match error.kind() {
            ErrorKind::OutcomeUnknown { .. } | ErrorKind::PeerLost { .. }
                if self.plan.kill.is_some() =>
            {
                Ok(error.to_string())
            }
            _ => Err(error),
        }
    }

    /// Returns what it reports of the store.
    fn account(&mut self) -> Account {
        self.fared.counts = self.log.counts;
        self.fared.latencies = self
            .latencies
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
            .collect();
        let (sums, violation) = self.log.finish();
        Account { sums, unknown: std::mem::take(&mut self.fared.account.unknown), violation }
    }

    /// Looks at all keys.
    fn find(&mut self) -> onchip::Result<Found> {
        let len = self.store.apply(MapOp::len());
        let mut found =
            Found { entries: self.insist(len, MapOp::len())?.number(), ..Found::default() };
        let mut window = VecDeque::new();
        for asked in 0..self.plan.keys + self.plan.in_flight {
            if asked < self.plan.keys {
                window.push_back(self.store.submit(MapOp::get(key(asked)))?);
            }
            if asked + 1 < self.plan.in_flight {
                continue;
            }
            let Some(request) = window.pop_front() else { continue };
            let index = found.stamps.len();
            let answer = request.wait();
            let value = self.insist(answer, MapOp::get(key(index)))?.before();
            let stamp = value.map(|value| stamp_of(index, &value, self.plan.value_bytes));
            if let (Some(None), Some(value)) = (stamp, value) {
                found.torn.get_or_insert(format!("{:?}: its value is {value:?}", key(index)));
            }
            found.stamps.push(stamp.flatten().unwrap_or(0));
        }
        Ok(found)
    }

    /// Asks again while a successor follows the killed rank.
    fn insist(
        &mut self,
        mut answer: onchip::Result<MapAnswer<Value<N>>>,
        op: Op<N>,
    ) -> onchip::Result<MapAnswer<Value<N>>> {
        while self.plan.is_followed()
            && matches!(answer.as_ref().map_err(Error::kind), Err(ErrorKind::OutcomeUnknown { .. }))
        {
            std::thread::sleep(Duration::from_micros(50));
            answer = self.store.apply(op);
        }
        answer
    }

    /// Writes its report, and is killed while it changes some last keys.
    fn die(mut self, leave: impl FnOnce(Fared) -> onchip::Result<()>) -> onchip::Result<Fared> {
        let keys: Vec<usize> = (0..self.plan.in_flight.max(4)).map(|_| self.load.key()).collect();
        let mut account = self.account();
        account.unknown.extend(&keys);
        self.fared.account = account;
        leave(std::mem::take(&mut self.fared))?;
        let soon = Duration::from_micros(self.load.below(2000));
        std::thread::spawn(move || {
            std::thread::sleep(soon);
            die()
        });
        for index in keys.into_iter().cycle() {
            self.submit(Kind::Put, index)?;
            if self.window.len() == self.plan.in_flight
                && let Some(oldest) = self.window.pop_front()
            {
                // The result does not matter, because nothing asks for it.
                let _ = oldest.request.wait();
            }
        }
        Err(onchip::Error::other("it was to be killed"))
    }
}

/// Kills this process.
pub fn die() {
    while kill(Pid::this(), Signal::SIGKILL).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns whether this client is the one to be killed.
pub fn is_victim(plan: &Plan, rank: &Rank) -> bool {
    plan.kill == Some(Victim::Client) && rank.id() + 1 == rank.size()
}
