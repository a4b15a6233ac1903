//! Critical sections: how many operations on a value get done, by each scheme, beside locks.

use onchip::critical::{Object, Protected, Scheme, Section, Server};
use onchip::prelude::*;
use onchip_benches::load::{self, Counter, Done, INTEGERS, Increments, Load};

use crate::busy;
use crate::meet::Start;
use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::party::BOTH;
use crate::plan::{Critical, Guarded};
use crate::rivals::failed;
use crate::rivals::locks::Lock;
use crate::rivals::robust;
use crate::row::{Bound, Row, Side, Unit};
use crate::rows::pingpong;

/// The most that a client may get done of what another does.
const FAIR: f64 = 1.3;
/// Windows for that, two seconds where clients share CPUs: within half of one, what each of them gets
/// differs by as much without any lock, as the operating system lets them run.
const LONG: usize = 25;
const CROWD: usize = 8;
/// Processes of another program.
const BUSY: usize = 2;

const HYB: Scheme = Scheme::HybLock;
const SLOT: Scheme = Scheme::SlotServer;
const MP: Scheme = Scheme::MpServer(0);

fn in_flight(load: Load) -> Load {
    Load { in_flight: Critical::IN_FLIGHT, ..load }
}

/// With as much in flight as the scheme allows.
fn best(scheme: Scheme, load: Load) -> Load {
    if scheme.needs_server() { in_flight(load) } else { load }
}

fn critical(scheme: Scheme, guarded: Guarded, load: Load) -> Critical {
    let scheme = Scheme::ALL.iter().position(|&one| one == scheme).unwrap_or(0);
    Critical { scheme, guarded, load }
}

fn ours(
    ranks: Ranks,
    task: Task,
    plan: Critical,
    figure: impl Fn(&[Done]) -> f64 + 'static,
) -> Side {
    let one = if plan.guarded == Guarded::Increments { INTEGERS as u64 } else { 1 };
    ours::judged(ranks, task, move |results| {
        let clients = results.iter().filter_map(|rank| rank.split_last_chunk());
        let (done, highest): (Vec<Done>, Vec<f64>) = clients
            .map(|(windows, &[all, highest])| {
                let windows = windows.iter().map(|&count| count as u64).collect();
                (Done { windows, all: all as u64 }, highest)
            })
            .unzip();
        let all: u64 = done.iter().map(|done| done.all).sum();
        let wanted = if one == 1 { all } else { load::last_of(all, one) };
        match highest.into_iter().fold(0.0, f64::max) as u64 {
            highest if highest == wanted => Ok(figure(&done)),
            highest => Err(failed(format!("{all} operations made {highest} of {wanted}"))),
        }
    })
}

fn rate(load: Load) -> impl Fn(&[Done]) -> f64 + 'static {
    move |clients| load.rate(clients)
}

/// Nanoseconds of an operation, where each waits for the one before.
fn each(load: Load) -> impl Fn(&[Done]) -> f64 + 'static {
    move |clients| 1e9 / load.rate(clients)
}

/// As many clients as CPUs, or one and the server.
fn two(ranks: Ranks, scheme: Scheme, guarded: Guarded, load: Load) -> Side {
    let plan = critical(scheme, guarded, load);
    ours(ranks, Task::pinned(Waits::Spin, Job::Critical(plan)), plan, rate(load))
}

/// Processes that share CPUs.
fn processes(clients: usize, waits: Waits, scheme: Scheme, load: Load) -> Side {
    let plan = critical(scheme, Guarded::Counter, load);
    let task = Task::sharing(clients, Job::Critical(plan)).waiting(waits);
    ours(Ranks::Processes, task, plan, rate(load))
}

/// Clients that share CPUs; a server has one of them for itself.
fn sharing(
    clients: usize,
    scheme: Scheme,
    load: Load,
    figure: impl Fn(&[Done]) -> f64 + 'static,
) -> Side {
    let plan = critical(scheme, Guarded::Counter, load);
    let task = if scheme.needs_server() {
        Task::served(clients + 1, Job::Critical(plan))
    } else {
        Task::sharing(clients, Job::Critical(plan))
    };
    ours(Ranks::Threads, task, plan, figure)
}

/// Returns the side in which one client adds 1 to a counter that it does not share: nanoseconds of an operation.
pub fn uncontended() -> Side {
    alone(HYB, Guarded::Counter)
}

/// Returns the side in which one client has several operations in flight at a server: nanoseconds of an operation.
pub fn submitted() -> Side {
    let load = in_flight(Critical::USUAL);
    let plan = critical(SLOT, Guarded::Counter, load);
    ours(Ranks::Threads, Task::pinned(Waits::Spin, Job::Critical(plan)), plan, each(load))
}

/// Returns the side in which one client has operations executed that nobody else wants: nanoseconds of one.
pub fn applied_alone(scheme: Scheme) -> Side {
    alone(scheme, Guarded::Counter)
}

/// The same of a thread with parking_lot's Mutex.
pub fn locked_alone() -> Side {
    let load = Load { every: 1024, ..Critical::USUAL };
    Lock::ParkingLot.side(1, load, each(load))
}

/// Returns the side in which two ranks want one operation after the other, or one of a server as many as it may:
/// nanoseconds of one.
pub fn applied_by_two(scheme: Scheme) -> Side {
    let plan = critical(scheme, Guarded::Counter, best(scheme, Critical::USUAL));
    ours(Ranks::Threads, Task::pinned(Waits::Spin, Job::Critical(plan)), plan, each(plan.load))
}

fn alone(scheme: Scheme, guarded: Guarded) -> Side {
    let plan = critical(scheme, guarded, Load { every: 1024, ..Critical::USUAL });
    ours(Ranks::Threads, Task::alone(Job::Critical(plan)), plan, each(plan.load))
}

pub fn rows() -> Vec<Row> {
    let row = |name: String, what, unit, ours, reference, bound| Row {
        name: format!("critical.{name}"),
        what,
        unit,
        ours,
        reference,
        bound,
        by_distance: true,
    };
    let any = |row: Row| Row { by_distance: false, ..row };
    let usual = Critical::USUAL;
    let mut rows = Vec::new();

    for scheme in [SLOT, MP] {
        rows.extend(BOTH.map(|ranks| {
            let plan = critical(scheme, Guarded::Counter, usual);
            let task = Task::pinned(Waits::Spin, Job::Critical(plan));
            row(
                format!("request.{}.{}", scheme.name(), ranks.name()),
                "an operation executed by a server, half of the time until its result is there, beside the raw cache line",
                Unit::Nanoseconds,
                ours(ranks, task, plan, move |clients| each(usual)(clients) / 2.0),
                pingpong::floor(),
                Bound::at_most(1.1),
            )
        }));
    }
    for scheme in [SLOT, MP] {
        rows.extend(BOTH.map(|ranks| {
            row(
                format!("in-flight.{}.{}", scheme.name(), ranks.name()),
                "a counter by a client with 32 operations in flight and a server, beside 2 threads with parking_lot's Mutex",
                Unit::Rate,
                two(ranks, scheme, Guarded::Counter, in_flight(usual)),
                Lock::ParkingLot.side(2, usual, rate(usual)),
                if scheme == SLOT { Bound::Ahead { near: 2.0, far: 1.0 } } else { Bound::Context },
            )
        }));
    }
    for scheme in [SLOT, MP] {
        rows.extend(BOTH.map(|ranks| {
            row(
                format!("increments.{}.{}", scheme.name(), ranks.name()),
                "the same with operations of 64 increments",
                Unit::Rate,
                two(ranks, scheme, Guarded::Increments, in_flight(usual)),
                Lock::ParkingLotIncrements.side(2, usual, rate(usual)),
                if scheme == SLOT { Bound::ahead(1.3) } else { Bound::Context },
            )
        }));
    }

    rows.push(any(row(
        "uncontended.hyb-lock".into(),
        "taking a lock that nobody else wants, adding 1, and giving it up, beside parking_lot's Mutex",
        Unit::Nanoseconds,
        alone(HYB, Guarded::Locked),
        locked_alone(),
        Bound::at_most(1.2),
    )));
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        rows.push(any(row(
            format!("uncontended.{}.apply", scheme.name()),
            "an operation that adds 1 to what nobody else wants, beside parking_lot's Mutex",
            Unit::Nanoseconds,
            alone(scheme, Guarded::Counter),
            locked_alone(),
            Bound::Context,
        )));
    }

    for scheme in Scheme::ALL {
        rows.push(row(
            format!("two.{}", scheme.name()),
            "a counter by 2 threads that ask for one operation after the other (servers: by one of them), beside 2 threads with parking_lot's Mutex",
            Unit::Rate,
            two(Ranks::Threads, scheme, Guarded::Counter, usual),
            Lock::ParkingLot.side(2, usual, rate(usual)),
            Bound::Context,
        ));
    }
    for lock in [Lock::Std, Lock::Spin, Lock::FetchAdd] {
        rows.push(row(
            format!("two.{}", lock.name().replace(' ', "-")),
            "for comparison: 2 threads with another lock, or none, beside 2 threads with parking_lot's Mutex",
            Unit::Rate,
            lock.side(2, usual, rate(usual)),
            Lock::ParkingLot.side(2, usual, rate(usual)),
            Bound::Context,
        ));
    }

    for scheme in Scheme::ALL {
        let load = best(scheme, Critical::CROWD);
        rows.push(any(row(
            format!("8on2.{}", scheme.name()),
            "a counter by 8 clients on 2 cores (one for the server, and 32 operations in flight), beside 8 threads with parking_lot's Mutex",
            Unit::Rate,
            sharing(CROWD, scheme, load, rate(load)),
            Lock::ParkingLot.side(CROWD, Critical::CROWD, rate(load)),
            Bound::ahead(if scheme.needs_server() { 1.2 } else { 0.9 }),
        )));
    }
    for scheme in [SLOT, MP] {
        let load = Critical::CROWD;
        rows.push(any(row(
            format!("8on2.{}.one", scheme.name()),
            "the same with one operation after the other",
            Unit::Rate,
            sharing(CROWD, scheme, load, rate(load)),
            Lock::ParkingLot.side(CROWD, load, rate(load)),
            Bound::Context,
        )));
    }

    for (clients, waits) in
        [(2, Waits::Spin), (2, Waits::Adaptive), (4, Waits::Spin), (4, Waits::Adaptive)]
    {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
            let load = Critical::LOADED;
            rows.push(any(row(
                format!("loaded.{clients}.{}.{}", waits.name(), scheme.name()),
                "a counter by processes on 2 cores on which 2 processes of another program compute, beside as many processes with a robust pthread mutex",
                Unit::Rate,
                busy::beside(BUSY, processes(clients, waits, scheme, load)),
                busy::beside(BUSY, robust::mutex(clients, load)),
                Bound::ahead(0.7),
            )));
        }
    }

    for scheme in Scheme::ALL {
        let load = best(scheme, usual);
        rows.push(row(
            format!("processes.{}", scheme.name()),
            "a counter by 2 processes (servers: by one of them, with 32 operations in flight), beside 2 threads",
            Unit::Rate,
            two(Ranks::Processes, scheme, Guarded::Counter, load),
            two(Ranks::Threads, scheme, Guarded::Counter, load).named("threads"),
            Bound::at_most(1.1),
        ));
    }

    for clients in [2, CROWD] {
        for scheme in Scheme::ALL {
            let load = if clients == 2 && !scheme.needs_server() { usual } else { Critical::CROWD };
            let load = Load { windows: LONG, ..load };
            let side = if clients == 2 && !scheme.needs_server() {
                let plan = critical(scheme, Guarded::Counter, load);
                let task = Task::pinned(Waits::Spin, Job::Critical(plan));
                ours(Ranks::Threads, task, plan, load::unfairness)
            } else {
                sharing(clients, scheme, load, load::unfairness)
            };
            rows.push(any(row(
                format!("fair.{clients}.{}", scheme.name()),
                "the highest number of operations that a client gets done over the lowest",
                Unit::Times,
                side,
                Side::stated(1.0),
                Bound::at_most(FAIR),
            )));
        }
        let load = if clients == 2 { usual } else { Load { windows: LONG, ..Critical::CROWD } };
        rows.push(any(row(
            format!("fair.{clients}.parking_lot"),
            "for comparison: the same of threads with parking_lot's Mutex",
            Unit::Times,
            Lock::ParkingLot.side(clients, load, load::unfairness),
            Side::stated(1.0),
            Bound::Context,
        )));
    }
    rows
}

/// One rank's part: a client gives its windows, how many operations they were altogether, and the
/// highest result.
#[inline(never)]
pub fn perform(rank: &Rank, plan: Critical) -> onchip::Result<Vec<f64>> {
    match plan.guarded {
        Guarded::Counter => by_operations::<Counter>(rank, plan, 1),
        Guarded::Increments => by_operations::<Increments>(rank, plan, INTEGERS as u64),
        Guarded::Locked => by_locks(rank, plan),
    }
}

fn open<O: Object>(rank: &Rank, plan: Critical) -> onchip::Result<Protected<O>> {
    let scheme = *Scheme::ALL.get(plan.scheme).ok_or_else(|| onchip::Error::other("no scheme"))?;
    let section = Section::new(scheme).in_flight(plan.load.in_flight.max(Critical::IN_FLIGHT));
    Protected::open(rank, "measured", section, |_| ())
}

fn figures(done: Done, highest: u64) -> Vec<f64> {
    done.windows.into_iter().chain([done.all, highest]).map(|count| count as f64).collect()
}

#[inline(never)]
fn by_operations<O: Object<Op = u64, Ret = u64>>(
    rank: &Rank,
    plan: Critical,
    op: u64,
) -> onchip::Result<Vec<f64>> {
    let object = open::<O>(rank, plan)?;
    let begin = Start::open(rank)?.together_at()?;
    if object.section().scheme().needs_server() && rank.id() == 0 {
        let mut server = Server::new();
        server.add(object)?;
        server.serve()?;
        return Ok(Vec::new());
    }
    let mut highest = 0;
    let done = load::client(plan.load, &object, begin, || op, |result| highest = result)?;
    Ok(figures(done, highest))
}

#[inline(never)]
fn by_locks(rank: &Rank, plan: Critical) -> onchip::Result<Vec<f64>> {
    let object = open::<Counter>(rank, plan)?;
    let begin = Start::open(rank)?.together_at()?;
    let mut highest = 0;
    let done = plan.load.run(begin, || -> onchip::Result<()> {
        let mut count = object.lock()?;
        *count += 1;
        highest = *count;
        Ok(())
    })?;
    Ok(figures(done, highest))
}
