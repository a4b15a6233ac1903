//! Ranks of a critical section are killed, at points that a seed chooses. The others must end, and the effect of each
//! operation must be what its client was told.
//!
//! A log in the segment has two words for each operation of each client: how often the operation was begun, which its
//! executor counts, and how it ended for the client.

use std::{cell::RefCell, collections::VecDeque, time::Duration};

use mp_core::{
    Channel, Error, ErrorKind, Rank, Result, WaitPolicy, World, memory::Region, names::Namespace,
};
use mp_delegate::critical::{Object, Protected, Scheme, Section, Server};

use crate::support::{
    Random, Together,
    scenarios::{self, die},
};

/// The number of ranks. The last one observes the others.
const RANKS: usize = 5;
const OBSERVER: usize = RANKS - 1;
/// The operations of each client.
const OPERATIONS: u32 = 400;

/// How an operation ended.
const DONE: u64 = 1;
const UNKNOWN: u64 = 2;
const NOT_EXECUTED: u64 = 3;

/// The choices of a seed.
struct Plan {
    section: Section,
    policy: WaitPolicy,
    victim: usize,
    end: End,
    /// The requests that a client has in flight.
    window: usize,
    /// Whether the object can be repaired.
    repairs: bool,
}

#[derive(Clone, Copy)]
enum End {
    After(Duration),
    /// In the middle of an operation, after it has executed this number.
    Within(u64),
}

impl Plan {
    fn new(seed: u64) -> Self {
        let scheme = Scheme::ALL[(seed % Scheme::ALL.len() as u64) as usize];
        let mut random = Random::new(seed);
        let mut below = |bound: u64| random.below(bound);
        let in_flight = 1 + below(32);
        let mut section = Section::new(scheme)
            .poison(below(2) == 0)
            .max_ops(1 + below(6) as usize)
            .in_flight(in_flight as usize);
        if scheme == Scheme::HSynch {
            section = section.groups(1 + below(3) as usize);
        }
        Self {
            section,
            policy: [WaitPolicy::Adaptive, WaitPolicy::Park][below(2) as usize],
            victim: below(OBSERVER as u64) as usize,
            end: match below(3) {
                0 => End::Within(below(600)),
                _ => End::After(Duration::from_nanos(below(6_000_000))),
            },
            window: 1 + below(in_flight) as usize,
            repairs: below(2) == 0,
        }
    }
}

/// The log, as used in this process.
struct Log {
    region: Region,
    /// How many operations this process executes before the one in which it dies.
    left: Option<u64>,
}

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl Log {
    fn word(&self, client: u32, id: u32, which: usize) -> &mp_core::memory::Word {
        &self.region.words()[2 * (client * (OPERATIONS + 1) + id) as usize + which]
    }
}

/// For each client: its last operation, and the number of its operations. `REPAIRS` says whether the object can be
/// repaired.
struct Ledger<const REPAIRS: bool>;

impl<const REPAIRS: bool> Object for Ledger<REPAIRS> {
    type State = [[u64; 2]; OBSERVER];
    /// The client, and the number of its operation. The number 0 reads.
    type Op = [u32; 2];
    /// The number of the client's operations, or `u64::MAX` for an operation out of order.
    type Ret = u64;

    fn apply(clients: &mut Self::State, [client, id]: [u32; 2]) -> u64 {
        let [last, count] = &mut clients[client as usize];
        if id == 0 {
            return *count;
        }
        LOG.with_borrow_mut(|log| {
            let Some(log) = log else { return };
            log.word(client, id, 0).fetch_add(1);
            match &mut log.left {
                Some(0) => drop(die()),
                Some(left) => *left -= 1,
                None => {}
            }
        });
        if u64::from(id) <= *last {
            return u64::MAX;
        }
        *last = id.into();
        *count += 1;
        *count
    }

    /// An operation may have been begun without a change of the value.
    fn repair(_: &mut Self::State) -> bool {
        REPAIRS
    }
}

/// Runs a world in which one rank is killed. Consecutive seeds try all schemes in turn.
pub fn check(seed: u64, configure: impl Fn(World) -> World) -> Result<(), String> {
    let plan = Plan::new(seed);
    let world = configure(World::processes(RANKS).wait(plan.policy));
    let result =
        world.run(
            |rank| {
                if plan.repairs { run::<true>(rank, &plan) } else { run::<false>(rank, &plan) }
            },
        );
    scenarios::check(result, plan.victim).map_err(|error| {
        let scheme = plan.section.scheme();
        format!("{scheme}, seed {seed}: {error}")
    })
}

fn run<const REPAIRS: bool>(rank: &Rank, plan: &Plan) -> Result<()> {
    let me = rank.id();
    let words = 2 * OBSERVER * (OPERATIONS as usize + 1);
    let log =
        Log { region: Region::open(rank, Namespace::new("tests"), "log", words, 0)?, left: None };
    let object = Protected::<Ledger<REPAIRS>>::open(rank, "ledger", plan.section, |_| ())?;
    // One rank serves, and another one takes over.
    let (mut server, mut object) = (Server::new(), Some(object));
    if plan.section.scheme().needs_server() {
        if me < 2
            && let Some(object) = object.take()
        {
            server.add(object)?;
        }
        // Without this, there might not be a server yet that can take over.
        Together::new(rank)?.wait()?;
    }
    if me == OBSERVER {
        drop(object);
        return observe(rank, &log, plan);
    }
    // The channel stays open as long as the rank lives.
    std::mem::forget(rank.sender::<u8>("alive", OBSERVER, Channel::degree(1))?);
    let left = match plan.end {
        End::Within(operations) if me == plan.victim => Some(operations),
        _ => None,
    };
    LOG.set(Some(Log { left, ..log }));
    if let End::After(delay) = plan.end
        && me == plan.victim
    {
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            die()
        });
    }
    match object {
        Some(object) => ask(rank, object, plan.window)?,
        None => server.serve()?,
    }
    if me != plan.victim {
        return Ok(());
    }
    if let End::Within(_) = plan.end {
        // All operations are done, and this rank has executed fewer than the plan's number.
        die();
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Asks for all operations, and logs how they end.
fn ask<const REPAIRS: bool>(
    rank: &Rank,
    object: Protected<Ledger<REPAIRS>>,
    window: usize,
) -> Result<()> {
    let me = rank.id() as u32;
    let note = |id: u32, how: u64| {
        LOG.with_borrow(|log| {
            if let Some(log) = log {
                log.word(me, id, 1).store(how);
            }
        });
    };
    let look = |object: &Protected<Ledger<REPAIRS>>, id: u32, ended: Result<u64, Error>| match ended
        .map_err(Error::into_kind)
    {
        Ok(u64::MAX) => Err(Error::other(format!("operation {id} came out of order"))),
        Ok(_) => {
            note(id, DONE);
            Ok(())
        }
        Err(ErrorKind::OutcomeUnknown { .. }) => {
            note(id, UNKNOWN);
            Ok(())
        }
        Err(ErrorKind::Poisoned { .. }) if !REPAIRS => {
            note(id, NOT_EXECUTED);
            object.clear_poison();
            Ok(())
        }
        Err(error) => Err(error.into()),
    };
    let mut pending = VecDeque::new();
    let mut next = 1;
    loop {
        if next <= OPERATIONS && pending.len() < window {
            match object.submit([me, next]) {
                Ok(request) => pending.push_back((next, request)),
                Err(error) => look(&object, next, Err(error))?,
            }
            next += 1;
            continue;
        }
        let Some((id, request)) = pending.pop_front() else { break };
        let ended = request.wait();
        look(&object, id, ended)?;
    }
    // Reads the value itself.
    let counted = match object.apply([me, 0]).map_err(Error::into_kind) {
        Ok(counted) => counted,
        Err(ErrorKind::OutcomeUnknown { .. } | ErrorKind::Poisoned { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let begun = LOG.with_borrow(|log| {
        let begun = |log: &Log| (1..=OPERATIONS).map(|id| log.word(me, id, 0).load()).sum::<u64>();
        log.as_ref().map_or(0, begun)
    });
    // At most one operation may have been begun and not completed.
    ensure!(begun - counted <= 1, "{begun} operations were begun, {counted} are in the value");
    Ok(())
}

/// Waits for the end of the other ranks, and checks the log.
fn observe(rank: &Rank, log: &Log, plan: &Plan) -> Result<()> {
    for other in 0..OBSERVER {
        let alive = rank.receiver::<u8>("alive", other, Channel::degree(1))?;
        match alive.receive().map_err(Error::into_kind) {
            Err(mp_core::ErrorKind::Disconnected { .. } | mp_core::ErrorKind::PeerLost { .. }) => {}
            other => return Err(Error::other(format!("{:?}", other.err()))),
        }
    }
    let mut unsure = 0;
    for client in 0..OBSERVER {
        for id in 1..=OPERATIONS {
            let [begun, ended] = [0, 1].map(|which| log.word(client as u32, id, which).load());
            let fits = match ended {
                DONE => begun == 1,
                NOT_EXECUTED => begun == 0,
                _ => begun <= 1,
            };
            ensure!(
                fits,
                "operation {id} of {client} was begun {begun} times and ended as {ended}"
            );
            unsure += u32::from(ended == UNKNOWN);
        }
    }
    // Each client has this many operations in flight. It may notice the death as late as when it submits the next one.
    let most = match plan.section.scheme() {
        Scheme::MpServer(_) => OBSERVER as u32 * (plan.window as u32 + 1),
        // A rank that has a lock executes only its own operations.
        scheme if scheme.is_lock() => 0,
        _ => 1,
    };
    ensure!(unsure <= most, "nobody knows of {unsure} operations");
    Ok(())
}
