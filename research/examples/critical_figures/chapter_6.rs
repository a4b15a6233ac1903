//! Figures 6.4 to 6.8: a chip with message passing hardware.

use mp_delegate::critical::{Scheme, Section};
use onchip_research::critical::{Experiment, Task, Time, Way};

use crate::{
    draw::{CLIENTS, Curve, INCREMENTS, MOPS, NANOS, Value, curves, draw, latency, throughput},
    figure::{Figure, Result},
    machines::{combiner, experiment, slots, tiles},
};

/// Up to 50 empty iterations at 1.2 GHz (T 6.2.2).
const PAUSE: Time = Time::from_nanos(42);
const CLIENTS_AT: [u64; 15] = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 35];
const INCREMENTS_AT: [u64; 11] = [0, 1, 2, 3, 4, 5, 8, 10, 15, 20, 25];
const MOST_AT: [u64; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

fn on(way: impl Into<Way>, clients: u64, task: Task) -> Result<Experiment> {
    Ok(experiment(&tiles()?, way, clients as usize, task).between(PAUSE))
}

fn counter(section: Section) -> impl Fn(u64) -> Result<Experiment> {
    move |clients| on(section, clients, Task::Counter)
}

fn object(section: Section, task: Task) -> impl Fn(u64) -> Result<Experiment> {
    move |clients| on(section, clients, task)
}

fn long(section: Section, clients: u64) -> impl Fn(u64) -> Result<Experiment> {
    move |times| on(section, clients, Task::Counters { times: times as u32 })
}

pub fn figures(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    locks(show)?;
    delegation(show)?;
    combining(show)?;
    objects(show)
}

fn locks(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let locks = [Scheme::Tas, Scheme::Mcs, Scheme::Clh, Scheme::HybLock];
    let names = locks.map(Scheme::name);
    let locks = locks.map(Section::new);
    let by_clients = locks.map(counter);
    let a = curves(&names, &by_clients);
    let title = "Locks: a counter, tiles";
    show(draw(("figure-6-4a", title), (CLIENTS, MOPS), &CLIENTS_AT, &a, throughput)?)?;
    let title = "Locks: latency, tiles";
    show(draw(("figure-6-4b", title), (CLIENTS, NANOS), &CLIENTS_AT, &a, latency)?)?;
    let by_times = locks.map(|lock| long(lock, 36));
    let c = curves(&names, &by_times);
    let title = "Locks: 36 threads, tiles";
    show(draw(("figure-6-4c", title), (INCREMENTS, MOPS), &INCREMENTS_AT, &c, throughput)?)
}

/// The schemes of figure 6.5, in its order. SHM-SERVER is the slot server.
fn schemes() -> [Section; 4] {
    let server = Section::new(Scheme::MpServer(0));
    [server, combiner(Scheme::HybComb), slots(), combiner(Scheme::CcSynch)]
}

fn names() -> [&'static str; 4] {
    schemes().map(|section| section.scheme().name())
}

fn delegation(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let by_clients = schemes().map(counter);
    let a = curves(&names(), &by_clients);
    let title = "Delegation: a counter, tiles";
    show(draw(("figure-6-5a", title), (CLIENTS, MOPS), &CLIENTS_AT, &a, throughput)?)?;
    let title = "Delegation: latency, tiles";
    show(draw(("figure-6-5b", title), (CLIENTS, NANOS), &CLIENTS_AT, &a, latency)?)?;
    let by_times = schemes().map(|section| long(section, 35));
    let c = curves(&names(), &by_times);
    let title = "Delegation: 35 clients, tiles";
    show(draw(("figure-6-5c", title), (INCREMENTS, MOPS), &INCREMENTS_AT, &c, throughput)?)?;
    let stalled: Value = |run| {
        let serving = run.sections.serving;
        100.0 * serving.counts.stalled.as_nanos() / serving.time.as_nanos().max(1.0)
    };
    let title = "Stalls between operations, tiles";
    let percent = "% of the servicing core's time";
    show(draw(("figure-6-6b", title), (CLIENTS, percent), &[8, 16, 24, 35], &a, stalled)?)
}

fn combining(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let schemes = [Scheme::HybComb, Scheme::CcSynch];
    let names = schemes.map(Scheme::name);
    let by_most = schemes.map(|scheme| {
        move |most: u64| on(Section::new(scheme).max_ops(most as usize), 36, Task::Counter)
    });
    let a = curves(&names, &by_most);
    let title = "Combining: 36 threads, tiles";
    show(draw(("figure-6-6a", title), ("MAX_OPS", MOPS), &MOST_AT, &a, throughput)?)?;
    let by_clients = schemes.map(|scheme| counter(combiner(scheme)));
    let c = curves(&names, &by_clients);
    let title = "Combining rate, tiles";
    let rate: Value = |run| run.sections.in_a_row();
    let unit = "operations of a combiner";
    show(draw(("figure-6-6c", title), (CLIENTS, unit), &CLIENTS_AT, &c, rate)?)
}

fn objects(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let lock = Section::new(Scheme::HybLock);
    let [server, hyb_comb, slots, cc_synch] = schemes();
    let queues = [
        (server, Task::Queue),
        (hyb_comb, Task::Queue),
        (slots, Task::Queue),
        (cc_synch, Task::Queue),
        (lock, Task::TwoLockQueue),
        (server, Task::TwoLockQueue),
    ];
    // The number of critical sections follows the name.
    let names = queues.map(|(section, task)| {
        let sections = if task == Task::TwoLockQueue { 2 } else { 1 };
        format!("{}-{sections}", section.scheme())
    });
    let queues = queues.map(|(section, task)| object(section, task));
    let mut a = curves(&names.each_ref().map(String::as_str), &queues);
    let rings = |clients| on(Way::Rings, clients, Task::Queue);
    a.push(Curve("ring", &rings));
    // Two of the cores are servers.
    let mut clients = CLIENTS_AT;
    clients[clients.len() - 1] = 34;
    let title = "Queues, tiles";
    show(draw(("figure-6-8a", title), (CLIENTS, MOPS), &clients, &a, throughput)?)?;
    let stacks = [server, hyb_comb, slots, cc_synch, lock];
    let names = stacks.map(|section| section.scheme().name());
    let stacks = stacks.map(|section| object(section, Task::Stack));
    let treiber = |clients| on(Way::Treiber, clients, Task::Stack);
    let mut b = curves(&names, &stacks);
    b.push(Curve("Treiber", &treiber));
    let title = "Stacks, tiles";
    show(draw(("figure-6-8b", title), (CLIENTS, MOPS), &CLIENTS_AT, &b, throughput)?)
}
