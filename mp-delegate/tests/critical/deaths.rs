//! Ranks that die outside of operations, in the middle of one, or with some in flight.

use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mp_core::{Channel, Error, ErrorKind, Rank, Receiver, Result, Sender, World};
use mp_delegate::critical::{
    Object, Protected, Scheme, Section, Server, TryApplyError,
    objects::{Entry, Table},
};

use crate::{
    objects::{Counter, expect},
    support::{
        Random, Together, Watchdog, parts,
        scenarios::{self, die},
    },
};

thread_local! {
    /// The ranks that are told when a fatal operation begins.
    static BEGUN: RefCell<Option<Vec<Sender<u8>>>> = const { RefCell::new(None) };
}

/// Adds. If the highest bit is set, it kills its executor in the middle.
struct Fatal;

const KILL: u64 = 1 << 63;

impl Object for Fatal {
    type State = [u64; 2];
    type Op = u64;
    type Ret = u64;

    fn apply(pair: &mut [u64; 2], by: u64) -> u64 {
        pair[0] += by & !KILL;
        if by & KILL != 0 {
            if let Some(mut others) = BEGUN.take() {
                others.iter_mut().for_each(|other| other.send(&0).unwrap());
                // Meanwhile the others join the queue.
                std::thread::sleep(Duration::from_millis(50));
            }
            die();
        }
        pair[1] += by;
        pair[0]
    }
}

fn run(ranks: usize, victim: usize, code: impl Fn(&Rank) -> Result<()> + Sync) {
    let _watchdog = Watchdog::start();
    scenarios::check(World::processes(ranks).run(code), victim).unwrap();
}

fn lost(result: Result<u64, Error>, rank: usize) -> Result<()> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::PeerLost { rank: lost, .. }) if lost == rank => Ok(()),
        other => expect(format!("{other:?}"), "lost".to_owned()),
    }
}

fn unknown(result: Result<u64, Error>) -> Result<()> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::OutcomeUnknown { .. }) => Ok(()),
        other => expect(format!("{other:?}"), "unknown".to_owned()),
    }
}

fn own_schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server())
}

#[test]
fn a_death_outside_of_operations_disturbs_nobody() {
    run(3, 0, |rank| {
        let mut counters = own_schemes()
            .map(|scheme| Protected::<Counter>::open(rank, "counter", scheme, |_| ()))
            .collect::<Result<Vec<_>, _>>()?;
        for counter in &mut counters {
            (0..50).try_for_each(|_| counter.apply(1).map(drop))?;
        }
        let mut others = Together::new(rank)?;
        others.wait()?;
        if rank.id() == 0 {
            match die() {}
        }
        for counter in &mut counters {
            for _ in 0..50 {
                expect(counter.apply(1)? >= 150, true)?;
            }
        }
        Ok(())
    });
}

/// Returns when both ranks have called it.
fn meet(rank: &Rank, peer: usize, what: &str) -> Result<()> {
    let one = Channel::degree(1);
    rank.sender::<u8>(what, peer, one)?.send(&0)?;
    drop(rank.receiver::<u8>(what, peer, one)?.receive()?);
    Ok(())
}

/// The dead rank has the lock, or combines. The object can't be repaired, so the others are told if they asked for
/// that, and go on after one of them has cleared the poison.
#[test]
fn a_death_within_an_operation_is_told_to_all() {
    for (scheme, poison) in own_schemes().flat_map(|scheme| [(scheme, false), (scheme, true)]) {
        run(3, 0, |rank| {
            let section = Section::new(scheme).poison(poison);
            let fatal = Protected::<Fatal>::open(rank, "fatal", section, |_| ())?;
            (0..20).try_for_each(|_| fatal.apply(1).map(drop))?;
            Together::new(rank)?.wait()?;
            let one = Channel::degree(1);
            if rank.id() == 0 {
                // The others do nothing meanwhile, so this rank executes its own operation.
                let others = [1, 2].map(|other| rank.sender("begun", other, one));
                BEGUN.set(Some(others.into_iter().collect::<Result<_>>()?));
                fatal.apply(KILL | 5)?;
            }
            drop(rank.receiver::<u8>("begun", 0, one)?.receive()?);
            let mut added = 0;
            if poison {
                for _ in 0..2 {
                    match fatal.apply(1).map_err(Error::into_kind) {
                        Err(ErrorKind::Poisoned { .. }) => {}
                        other => return expect(format!("{other:?}"), "poisoned".to_owned()),
                    }
                }
                meet(rank, 3 - rank.id(), "poisoned")?;
                fatal.clear_poison();
                meet(rank, 3 - rank.id(), "cleared")?;
            } else {
                added = 1;
                fatal.apply(1)?;
            }
            expect(fatal.is_poisoned(), false)?;
            for _ in added..100 {
                fatal.apply(1)?;
            }
            meet(rank, 3 - rank.id(), "added")?;
            // The first half of the fatal operation was executed.
            expect(fatal.apply(0)?, 60 + 5 + 200)
        });
    }
}

/// Adds, and sleeps before that if the highest bit is set.
struct Slow;

const SLEEP: u64 = 1 << 63;

impl Object for Slow {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, by: u64) -> u64 {
        if by & SLEEP != 0 {
            std::thread::sleep(Duration::from_millis(300));
        }
        *sum += by & !SLEEP;
        *sum
    }
}

/// The rank that has the lock, or combines, lives. A rank that waits for it dies, and the other waiting ranks pass over
/// it: those that were asleep before the death, and those that come later. The object is not poisoned, although it
/// can't be repaired.
#[test]
fn who_dies_in_a_queue_is_gone_past() {
    const TIMES: u64 = 200;
    for scheme in own_schemes() {
        run(4, 2, |rank| {
            let slow = Protected::<Slow>::open(rank, "slow", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            others.wait()?;
            let mut sum = 0;
            if rank.id() == 0 {
                sum = slow.apply(SLEEP)?;
            } else {
                std::thread::sleep(Duration::from_millis(50));
            }
            if rank.id() == 2 {
                std::thread::spawn(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    match die() {}
                });
            }
            for _ in 0..TIMES {
                sum = slow.apply(1)?;
                if rank.id() == 2 {
                    // Rank 2 does not end before it dies.
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            expect(sum >= TIMES, true)?;
            // All surviving ranks have added by then.
            let peers: Vec<usize> = [0, 1, 3].into_iter().filter(|&p| p != rank.id()).collect();
            peers.into_iter().try_for_each(|peer| meet(rank, peer, "done"))?;
            let sum = slow.apply(0)?;
            expect(sum == 3 * TIMES || sum == 3 * TIMES + 1, true)
        });
    }
}

/// The argument says who asks, and whether the operation may be executed again. The value counts how many operations
/// were begun, and how many were completed.
struct Steps;

const AGAIN: u64 = 1 << 62;
/// For this operation, the answer to whether it may be executed again is a panic.
const PUZZLE: u64 = 1 << 61;

thread_local! {
    /// How many requests of others this thread executes before the one in which it dies.
    static LEFT: RefCell<Option<u64>> = const { RefCell::new(None) };
}

impl Object for Steps {
    type State = [u64; 2];
    type Op = u64;
    type Ret = u64;

    fn apply(steps: &mut [u64; 2], op: u64) -> u64 {
        steps[0] += 1;
        let is_own = op & !(AGAIN | PUZZLE) == 0;
        LEFT.with_borrow_mut(|left| match left {
            None => {}
            // The others join meanwhile.
            Some(_) if is_own => std::thread::sleep(Duration::from_millis(2)),
            Some(0) => drop(die()),
            Some(left) => *left -= 1,
        });
        steps[1] += 1;
        steps[0]
    }

    fn repair(steps: &mut [u64; 2]) -> bool {
        steps[1] = steps[0];
        true
    }

    fn is_idempotent(op: &u64) -> bool {
        assert!(op & PUZZLE == 0, "a puzzle");
        op & AGAIN != 0
    }
}

/// Rank 0 combines, or serves, and is killed in the middle of another rank's operation. A waiter takes over, or a
/// server that stands by. The rank that asked for the operation gets `Unknown`, unless the object says, without a
/// panic, that it can be executed again.
#[test]
fn what_was_under_way_is_unknown_or_executed_again() {
    let schemes = Scheme::ALL
        .into_iter()
        .filter(|scheme| !scheme.is_lock() && !matches!(scheme, Scheme::MpServer(_)));
    for (scheme, seed) in schemes.flat_map(|scheme| (0..6).map(move |seed| (scheme, seed))) {
        let again = [AGAIN, 0, PUZZLE][seed as usize % 3];
        run(4, 0, |rank| {
            let section = Section::new(scheme);
            let steps = Protected::<Steps>::open(rank, "steps", section, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                LEFT.set(Some(seed));
            }
            if rank.id() < 2 && scheme.needs_server() {
                let mut server = Server::new();
                server.add(steps)?;
                if rank.id() == 0 {
                    server.round()?;
                }
                others.wait()?;
                let one = Channel::degree(1);
                let _alive = if rank.id() == 0 {
                    Some([2, 3].map(|other| rank.sender::<u8>("alive", other, one)))
                } else {
                    None
                };
                server.serve()?;
                return expect(server.cut_short(), 1);
            }
            others.wait()?;
            let (mut unknown, one) = (0, Channel::degree(1));
            if rank.id() == 0 {
                let _alive = [1, 2, 3].map(|other| rank.sender::<u8>("alive", other, one));
                loop {
                    steps.apply(again)?;
                }
            }
            let alive = rank.receiver::<u8>("alive", 0, one)?;
            while alive.try_receive().is_ok() {
                match steps.apply(rank.id() as u64 | again).map_err(Error::into_kind) {
                    Ok(_) => {}
                    Err(ErrorKind::OutcomeUnknown { .. }) => unknown += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            expect(steps.is_poisoned(), false)?;
            if rank.id() != 2 {
                return rank.sender::<u64>("unknown", 2, one)?.send(&unknown);
            }
            for other in [1, 3].into_iter().filter(|&other| other > 1 || !scheme.needs_server()) {
                unknown += *rank.receiver::<u64>("unknown", other, one)?.receive()?;
            }
            expect(unknown, u64::from(again != AGAIN))
        });
    }
}

/// The dead client's requests are executed once, and the others go on.
#[test]
fn a_client_dies_with_requests_pending() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        run(3, 1, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            match rank.id() {
                0 => {
                    let mut server = Server::new();
                    server.add(counter)?;
                    others.wait()?;
                    // The server begins after the death.
                    std::thread::sleep(Duration::from_millis(100));
                    Ok(server.serve()?)
                }
                1 => {
                    others.wait()?;
                    let _pending = (0..20).map(|_| counter.submit(1)).collect::<Vec<_>>();
                    counter.flush()?;
                    match die() {}
                }
                _ => {
                    others.wait()?;
                    let mut last = 0;
                    for _ in 0..100_000 {
                        last = counter.apply(0)?;
                        if last == 20 {
                            break;
                        }
                    }
                    expect(last, 20)?;
                    expect(counter.apply(5)?, 20)
                }
            }
        });
    }
}

/// Rank 0 serves and is killed in an operation of rank 2, which is in a line with others. Rank 1 stands by. For every
/// operation except that one it is known whether it was executed.
#[test]
fn a_server_that_dies_is_followed_by_another() {
    for poison in [false, true] {
        run(4, 0, |rank| {
            let section = Section::new(Scheme::SlotServer).poison(poison);
            let fatal = Protected::<Fatal>::open(rank, "fatal", section, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() < 2 {
                let mut server = Server::new();
                server.add(fatal)?;
                if rank.id() == 1 {
                    // Waits until rank 0 serves.
                    let begun = rank.receiver::<u8>("begun", 0, Channel::degree(1))?;
                    drop(begun.receive()?);
                } else {
                    server.round()?;
                    rank.sender::<u8>("begun", 1, Channel::degree(1))?.send(&0)?;
                }
                others.wait()?;
                return server.serve();
            }
            others.wait()?;
            if rank.id() == 3 {
                // This rank goes on during the whole test.
                let mut refused = 0;
                for _ in 0..2000 {
                    match fatal.apply(0).map_err(Error::into_kind) {
                        Ok(_) => {}
                        Err(ErrorKind::Poisoned { .. }) if poison => refused += 1,
                        Err(error) => return Err(error.into()),
                    }
                }
                return expect(refused > 0 && !poison, false);
            }
            for _ in 0..100 {
                fatal.apply(1)?;
            }
            // The first line holds only the first operation, the second one the next seven.
            let ops = [1, 1, 1, 1, KILL | 1, 1, 1, 1, 1, 1];
            let requests =
                ops.map(|op| fatal.submit(op)).into_iter().collect::<Result<Vec<_>, _>>()?;
            let mut sum = 100;
            for (at, request) in requests.into_iter().enumerate() {
                match (at, request.wait().map_err(Error::into_kind)) {
                    (0..4, Ok(result)) => {
                        sum += 1;
                        expect(result, sum)?;
                    }
                    (4, Err(ErrorKind::OutcomeUnknown { .. })) => {}
                    (5.., Err(ErrorKind::Poisoned { .. })) if poison => {}
                    // The first half of the unknown operation was executed.
                    (5.., Ok(result)) if !poison => {
                        expect(result, sum + 2)?;
                        sum += 1;
                    }
                    (at, other) => return expect(format!("{at}: {other:?}"), String::new()),
                }
            }
            fatal.clear_poison();
            expect(fatal.apply(0)?, sum + 1)
        });
    }
}

/// The same with messages: operations that were under way to the dead server are unknown. A client that comes later
/// finds the server that has taken over.
#[test]
fn a_server_of_messages_that_dies_is_followed_by_another() {
    for poison in [false, true] {
        run(4, 0, |rank| {
            let section = Section::new(Scheme::MpServer(0)).poison(poison);
            let mut others = Together::new(rank)?;
            if rank.id() == 3 {
                others.wait()?;
                drop(rank.receiver::<u8>("begun", 2, Channel::degree(1))?.receive()?);
                let late = Protected::<Fatal>::open(rank, "fatal", section, |_| ())?;
                expect(late.apply(1)?, 104)?;
                return expect(late.apply(0)?, 104);
            }
            let fatal = Protected::<Fatal>::open(rank, "fatal", section, |_| ())?;
            if rank.id() < 2 {
                let mut server = Server::new();
                server.add(fatal)?;
                others.wait()?;
                return server.serve();
            }
            others.wait()?;
            (0..100).try_for_each(|_| fatal.apply(1).map(drop))?;
            let requests = [1, 1, KILL | 1, 1, 1].map(|op| fatal.submit(op));
            for (at, request) in requests.into_iter().enumerate() {
                match (at, request.and_then(|request| request.wait())) {
                    (0..2, Ok(sum)) => expect(sum, 101 + at as u64)?,
                    (_, result) => unknown(result)?,
                }
            }
            // The first half of the fatal operation was executed, and nothing after it.
            let mut sum = fatal.apply(0);
            if poison {
                expect(
                    matches!(sum.as_ref().map_err(Error::kind), Err(ErrorKind::Poisoned { .. })),
                    true,
                )?;
                fatal.clear_poison();
                sum = fatal.apply(0);
            }
            expect(sum?, 103)?;
            rank.sender::<u8>("begun", 3, Channel::degree(1))?.send(&0)
        });
    }
}

/// A table whose only operation moves its keys until its executor is killed.
struct Restless;

const KEYS: u32 = 40;
const CHURN: u64 = 1;
const LOOK: u64 = 2;

/// Whether this process is moving keys.
static CHURNS: AtomicBool = AtomicBool::new(false);

/// Returns the value of a key. It has several words, of which all or none are in the table.
fn value_of(key: u32) -> [u64; 5] {
    [u64::from(key) * 7 + 1; 5]
}

impl Object for Restless {
    type State = [Entry<u32, [u64; 5]>];
    type Op = u64;
    /// The number of keys by the count, the number of keys found, and the number of wrong entries.
    type Ret = [u32; 3];

    fn apply(state: &mut [Entry<u32, [u64; 5]>], op: u64) -> [u32; 3] {
        let mut table = Table::new(state);
        if op != LOOK {
            let mut random = Random::new(op);
            CHURNS.store(true, Ordering::Release);
            loop {
                let key = random.below(KEYS.into()) as u32;
                table.remove(key);
                table.insert(key, value_of(key)).unwrap();
            }
        }
        let whole = |key: u32| table.get(key) == Some(value_of(key));
        let found = (0..KEYS).filter(|&key| whole(key)).count();
        let all = table.iter().count();
        [table.len() as u32, found as u32, (all - found) as u32]
    }

    fn repair(state: &mut [Entry<u32, [u64; 5]>]) -> bool {
        Table::new(state).repair();
        true
    }
}

/// Rank 0 is killed while it moves keys. Rank 1 takes over, and finds all keys except at most one before any other rank
/// looks. The object is not poisoned.
#[test]
fn who_follows_repairs_the_object_first() {
    for (scheme, seed) in [Scheme::SlotServer, Scheme::MpServer(0)]
        .into_iter()
        .flat_map(|scheme| (0..12).map(move |seed| (scheme, seed)))
    {
        let delay = Duration::from_nanos(Random::new(seed).below(3_000_000));
        run(4, 0, |rank| {
            let section = Section::new(scheme).len(KEYS as usize + 2);
            let restless = Protected::<Restless>::open(rank, "restless", section, |state| {
                let mut table = Table::new(state);
                (0..KEYS).for_each(|key| assert!(table.insert(key, value_of(key)).is_ok()));
            })?;
            let mut others = Together::new(rank)?;
            if rank.id() < 2 {
                let mut server = Server::new();
                server.add(restless)?;
                if rank.id() == 0 {
                    server.round()?;
                }
                others.wait()?;
                if rank.id() == 0 {
                    std::thread::spawn(move || {
                        while !CHURNS.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                        std::thread::sleep(delay);
                        die()
                    });
                }
                server.serve()?;
                return expect(server.cut_short(), 1);
            }
            others.wait()?;
            if rank.id() == 2 {
                match restless.apply(CHURN + 2 + seed).map_err(Error::into_kind) {
                    Err(ErrorKind::OutcomeUnknown { .. }) => {}
                    other => return expect(format!("{other:?}"), "unknown".to_owned()),
                }
            }
            for _ in 0..20 {
                let looked = match restless.apply(LOOK).map_err(Error::into_kind) {
                    // The operation was on its way to the killed server.
                    Err(ErrorKind::OutcomeUnknown { .. }) if scheme != Scheme::SlotServer => {
                        continue;
                    }
                    looked => looked?,
                };
                let [count, found, wrong] = looked;
                expect((count, wrong, found + 1 >= KEYS), (found, 0, true))?;
            }
            expect(restless.is_poisoned(), false)
        });
    }
}

/// Rank 0 has the lock or combines, and is killed while it moves keys. The next rank finds all keys except at most one
/// before any other rank looks.
#[test]
fn who_comes_next_repairs_the_object_first() {
    for (scheme, seed) in own_schemes().flat_map(|scheme| (0..8).map(move |seed| (scheme, seed))) {
        let delay = Duration::from_nanos(Random::new(seed).below(3_000_000));
        run(3, 0, |rank| {
            let section = Section::new(scheme).len(KEYS as usize + 2);
            let restless = Protected::<Restless>::open(rank, "restless", section, |state| {
                let mut table = Table::new(state);
                (0..KEYS).for_each(|key| assert!(table.insert(key, value_of(key)).is_ok()));
            })?;
            Together::new(rank)?.wait()?;
            let one = Channel::degree(1);
            if rank.id() == 0 {
                let others = [1, 2].map(|other| rank.sender("begun", other, one));
                let mut others = others.into_iter().collect::<Result<Vec<Sender<u8>>>>()?;
                std::thread::spawn(move || {
                    while !CHURNS.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    others.iter_mut().for_each(|other| other.send(&0).unwrap());
                    std::thread::sleep(delay);
                    die()
                });
                return restless.apply(CHURN + 2 + seed).map(drop);
            }
            // Otherwise one of these ranks might execute the operation.
            drop(rank.receiver::<u8>("begun", 0, one)?.receive()?);
            for _ in 0..200 {
                let [count, found, wrong] = restless.apply(LOOK)?;
                expect((count, wrong, found + 1 >= KEYS), (found, 0, true))?;
            }
            expect(restless.is_poisoned(), false)
        });
    }
}

#[test]
fn clients_of_a_dead_server_are_told() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        run(3, 0, |rank| {
            let fatal = Protected::<Fatal>::open(rank, "fatal", scheme, |_| ())?;
            if rank.id() == 0 {
                let mut server = Server::new();
                server.add(fatal)?;
                return server.serve();
            }
            (0..50).try_for_each(|_| fatal.apply(1).map(drop))?;
            let (peer, one) = (3 - rank.id(), Channel::degree(1));
            rank.sender::<u8>("done", peer, one)?.send(&0)?;
            drop(rank.receiver::<u8>("done", peer, one)?.receive()?);
            if rank.id() == 1 {
                fatal.submit(KILL).map(drop)?;
            }
            loop {
                match fatal.apply(1).map_err(Error::into_kind) {
                    Ok(_) => {}
                    Err(ErrorKind::OutcomeUnknown { .. }) => return Ok(()),
                    other => return expect(format!("{other:?}"), "unknown".to_owned()),
                }
            }
        });
    }
}

/// For each client: the number of its last operation, and how many operations before it are missing.
struct Ledger;

const CLIENTS: usize = 2;

impl Object for Ledger {
    type State = [[u64; 2]; CLIENTS];
    /// The client, and the number of the operation.
    type Op = [u32; 2];
    /// 0 if the operation is executed for the second time. Otherwise 1 + the number of missing operations.
    type Ret = u64;

    fn apply(clients: &mut Self::State, [client, number]: [u32; 2]) -> u64 {
        let [last, left_out] = &mut clients[client as usize];
        let number = u64::from(number);
        if number <= *last {
            return if number == 0 { 1 + *left_out } else { 0 };
        }
        *left_out += number - *last - 1;
        *last = number;
        1 + *left_out
    }
}

/// Rank 0 serves and is killed at some time, and rank 1 takes over. Clients have requests in flight all the time. Each
/// request is executed once, or is unknown.
#[test]
fn operations_are_executed_once_whenever_the_server_dies() {
    const OPERATIONS: u32 = 3000;
    for (scheme, seed) in [Scheme::SlotServer, Scheme::MpServer(0)]
        .into_iter()
        .flat_map(|scheme| (0..6).map(move |seed| (scheme, seed)))
    {
        let mut random = Random::new(seed);
        let delay = Duration::from_micros(random.below(4000));
        run(2 + CLIENTS, 0, |rank| {
            let section = Section::new(scheme).poison(false);
            let ledger = Protected::<Ledger>::open(rank, "ledger", section, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() < 2 {
                let mut server = Server::new();
                server.add(ledger)?;
                if rank.id() == 1 {
                    drop(rank.receiver::<u8>("begun", 0, Channel::degree(1))?.receive()?);
                } else {
                    server.round()?;
                    rank.sender::<u8>("begun", 1, Channel::degree(1))?.send(&0)?;
                }
                others.wait()?;
                if rank.id() == 0 {
                    std::thread::spawn(move || {
                        std::thread::sleep(delay);
                        die()
                    });
                }
                // Rank 0 does not end before it dies.
                return server.serve_while(|| true).map(|()| {
                    while rank.id() == 0 {
                        std::thread::sleep(Duration::from_secs(1));
                    }
                });
            }
            others.wait()?;
            let me = rank.id() as u32 - 2;
            let mut unknown = 0;
            let mut last = 0;
            let mut window = std::collections::VecDeque::new();
            for number in 1..=OPERATIONS + 20 {
                if number <= OPERATIONS {
                    window.push_back(ledger.submit([me, number])?);
                }
                if number > 20
                    && let Some(request) = window.pop_front()
                {
                    match request.wait().map_err(Error::into_kind) {
                        Ok(0) => return expect("executed twice", ""),
                        Ok(left_out) => last = left_out - 1,
                        Err(ErrorKind::OutcomeUnknown { .. }) => unknown += 1,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            // With messages, all operations on their way are unknown: the window, and one more.
            let most = if scheme == Scheme::SlotServer { 1 } else { 21 };
            expect((last <= unknown, unknown <= most), (true, true))
        });
    }
}

/// A rank whose thread panics is lost as well, although its process lives.
#[test]
fn a_thread_that_panics_within_a_lock_is_told_to_all() {
    let _watchdog = Watchdog::start();
    for scheme in own_schemes().filter(|scheme| scheme.is_lock()) {
        let result = World::threads(2).run(|rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            Together::new(rank)?.wait()?;
            if rank.id() == 0 {
                let guard = counter.lock()?;
                std::mem::forget(guard);
                panic!("with the lock");
            }
            let ended = loop {
                match counter.apply(1) {
                    Ok(_) => {}
                    ended => break ended,
                }
            };
            lost(ended, 0)
        });
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "rank 0 panicked: with the lock", "{scheme}");
    }
}

/// A short run of the test that `soak-critical` runs for any time.
#[test]
fn whoever_is_killed_the_others_come_to_an_end() {
    for seed in 0..4 * Scheme::ALL.len() as u64 {
        let _watchdog = Watchdog::start();
        crate::kills::check(seed, |world| world).unwrap();
    }
}

/// The rank that should be the first server dies when it has the object open, or is about to begin. One of the others
/// asks for nothing, and waits for the ranks that do.
#[test]
fn nobody_waits_for_a_first_server_that_dies() {
    for was_added in [false, true] {
        run(4, 0, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", Scheme::SlotServer, |_| ())?;
            let mut others = Together::new(rank)?;
            let one = Channel::degree(1);
            match rank.id() {
                0 => {
                    let mut server = Server::new();
                    if was_added {
                        server.add(counter)?;
                    }
                    others.wait()?;
                    match die() {}
                }
                3 => {
                    others.wait()?;
                    for other in [1, 2] {
                        drop(rank.receiver::<u8>("told", other, one)?.receive()?);
                    }
                    Ok(())
                }
                _ => {
                    others.wait()?;
                    unknown(counter.apply(1))?;
                    rank.sender::<u8>("told", 3, one)?.send(&0)
                }
            }
        });
    }
}

/// The rank is lost, but one of its threads has the lock, and unlocks it later. By then, some ranks have left their
/// places in the queue, and ranks that come later must hear of the loss as well.
#[test]
fn a_loss_that_some_are_told_of_blocks_nobody_who_comes_later() {
    let _watchdog = Watchdog::start();
    for scheme in own_schemes().filter(|scheme| scheme.is_lock()) {
        let result = World::threads(4).run(|rank| {
            let section = Section::new(scheme).seats(2);
            let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                let (tell, told) = std::sync::mpsc::channel();
                let another = counter.another()?;
                std::thread::spawn(move || {
                    let guard = another.lock().unwrap();
                    tell.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(300));
                    drop(guard);
                });
                let _ = told.recv();
                others.wait()?;
                panic!("with the lock");
            }
            others.wait()?;
            let (told, one) = ("told", Channel::degree(1));
            if rank.id() == 3 {
                for other in [1, 2] {
                    drop(rank.receiver::<u8>(told, other, one)?.receive()?);
                }
                // By then the lock was unlocked, and the handle is closed.
                std::thread::sleep(Duration::from_millis(500));
                return match counter.apply(1) {
                    // A lock without a queue has no places to leave.
                    Ok(_) if scheme == Scheme::Tas => Ok(()),
                    ended => lost(ended, 0),
                };
            }
            lost(counter.apply(1), 0)?;
            rank.sender::<u8>(told, 3, one)?.send(&0)
        });
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "rank 0 panicked: with the lock", "{scheme}");
    }
}

/// The ranks that are told when an operation has begun, and the channel that says when it may end.
struct Held(Vec<Sender<u8>>, Receiver<u8>);

thread_local! {
    /// For the next held operation of this thread.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Adds. In [`HOLD`], it waits until it may go on.
struct Holding;

const HOLD: u64 = 0;

impl Object for Holding {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, by: u64) -> u64 {
        if by == HOLD
            && let Some(Held(mut others, go_on)) = HELD.take()
        {
            others.iter_mut().for_each(|other| other.send(&0).unwrap());
            drop(go_on.receive().unwrap());
        }
        *sum += by;
        *sum
    }
}

/// Rank 0 is in an operation, and rank 1 waits for it and is killed. Rank 2 lets rank 0 go on only after its own tries
/// and waits with a limit have ended, so these must not wait until the queue is repaired. The next rank repairs the
/// queue that they leave.
#[test]
fn a_limit_holds_while_others_must_leave_a_queue_of_the_dead() {
    for (scheme, is_alone) in own_schemes().flat_map(|scheme| [(scheme, false), (scheme, true)]) {
        run(4, 1, |rank| {
            let holding = Protected::<Holding>::open(rank, "holding", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            let one = Channel::degree(1);
            match rank.id() {
                0 => {
                    let begun = [rank.sender("begun", 1, one)?, rank.sender("begun", 3, one)?];
                    HELD.set(Some(Held(Vec::from(begun), rank.receiver("go on", 2, one)?)));
                    others.wait()?;
                    expect(holding.apply(HOLD)?, 0)?;
                }
                1 => {
                    others.wait()?;
                    drop(rank.receiver::<u8>("begun", 0, one)?.receive()?);
                    std::thread::spawn(|| {
                        std::thread::sleep(Duration::from_millis(50));
                        match die() {}
                    });
                    holding.apply(1)?;
                }
                2 => {
                    let mut go_on = rank.sender::<u8>("go on", 0, one)?;
                    others.wait()?;
                    while !rank.is_lost(1) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    for _ in 0..3 {
                        let limit = Duration::from_millis(5);
                        let waited = holding.apply_with(1, limit);
                        expect(
                            matches!(
                                waited.as_ref().map_err(Error::kind),
                                Err(ErrorKind::Timeout { .. })
                            ),
                            true,
                        )?;
                        let tried = holding.try_apply(1);
                        expect(matches!(tried, Err(TryApplyError::Busy(1))), true)?;
                        if scheme.is_lock() {
                            let waited = holding.lock_with(limit);
                            expect(
                                matches!(
                                    waited.as_ref().map_err(Error::kind),
                                    Err(ErrorKind::Timeout { .. })
                                ),
                                true,
                            )?;
                            expect(holding.try_lock()?.is_none(), true)?;
                        }
                    }
                    go_on.send(&0)?;
                    if is_alone {
                        // No other rank waits, so this one repairs the queue.
                        while let Err(ErrorKind::Timeout { .. }) = holding
                            .apply_with(1, Duration::from_millis(5))
                            .map_err(Error::into_kind)
                        {}
                    } else {
                        holding.apply(1)?;
                    }
                }
                _ => {
                    others.wait()?;
                    drop(rank.receiver::<u8>("begun", 0, one)?.receive()?);
                    if !is_alone {
                        holding.apply(1)?;
                    }
                }
            }
            let peers: Vec<usize> = [0, 2, 3].into_iter().filter(|&p| p != rank.id()).collect();
            peers.into_iter().try_for_each(|peer| meet(rank, peer, "done"))?;
            let (sum, all) = (holding.apply(0)?, if is_alone { 1 } else { 2 });
            // The victim's operation may have been executed by another rank.
            expect(sum == all || sum == all + 1, true)
        });
    }
}

/// Rank 0 is in an operation, and rank 1 waits for it and is killed. Rank 2 also waits, and has a message pending
/// without which rank 0 does not go on. While it leaves the queue, it must make progress for that message.
#[test]
fn who_leaves_a_queue_of_the_dead_brings_on_what_it_has_under_way() {
    for scheme in own_schemes() {
        run(4, 1, |rank| {
            let holding = Protected::<Holding>::open(rank, "holding", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            let one = Channel::degree(1);
            let begun = || rank.receiver::<u8>("begun", 0, one)?.receive().map(drop);
            match rank.id() {
                0 => {
                    let begun = [
                        rank.sender("begun", 1, one)?,
                        rank.sender("begun", 2, one)?,
                        rank.sender("begun", 3, one)?,
                    ];
                    let go_on = rank.receiver("go on", 2, one)?;
                    HELD.set(Some(Held(Vec::from(begun), go_on)));
                    others.wait()?;
                    expect(holding.apply(HOLD)?, 0)?;
                }
                1 => {
                    others.wait()?;
                    begun()?;
                    std::thread::spawn(|| {
                        std::thread::sleep(Duration::from_millis(50));
                        match die() {}
                    });
                    holding.apply(1)?;
                }
                2 => {
                    let go_on = RefCell::new(Some(rank.sender::<u8>("go on", 0, one)?));
                    others.wait()?;
                    begun()?;
                    let (calls, here) = (Cell::new(0), rank.clone());
                    let part = parts::calling_again(move || {
                        std::thread::sleep(Duration::from_millis(1));
                        calls.set(calls.get() + u32::from(here.is_lost(1)));
                        // The message is sent late enough that rank 2 has left its wait in the queue.
                        if calls.get() == 30
                            && let Some(mut go_on) = go_on.take()
                        {
                            go_on.send(&0).unwrap();
                        }
                    });
                    parts::beside(rank, part, || holding.apply(1))?;
                }
                _ => {
                    others.wait()?;
                    begun()?;
                    holding.apply(1)?;
                }
            }
            let peers: Vec<usize> = [0, 2, 3].into_iter().filter(|&p| p != rank.id()).collect();
            peers.into_iter().try_for_each(|peer| meet(rank, peer, "done"))?;
            // The victim's operation may have been executed by another rank.
            expect([2, 3].contains(&holding.apply(0)?), true)
        });
    }
}
