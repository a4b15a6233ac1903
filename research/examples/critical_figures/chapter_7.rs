//! Figures 7.5 to 7.11: several sockets, prefetchers, streaming stores.

use mp_delegate::critical::{Backoff, Scheme, Section};
use onchip_research::critical::{Chip, Experiment, Task, Time, Way};

use crate::{
    draw::{CLIENTS, Curve, INCREMENTS, MOPS, NANOS, curves, draw, latency, throughput},
    figure::{Figure, Result},
    machines::{combiner, experiment, slots, sockets},
};

/// Up to 1000 cycles of 2.13 GHz (T 7.2.1).
pub const PAUSE: Time = Time::from_nanos(470);
const CLIENTS_AT: [u64; 15] = [1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 78];
const FEW_AT: [u64; 11] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20];
const INCREMENTS_AT: [u64; 10] = [0, 1, 2, 5, 10, 20, 50, 100, 150, 200];

fn on(chip: &Chip, way: impl Into<Way>, clients: u64, task: Task) -> Experiment {
    experiment(chip, way, clients as usize, task).between(PAUSE)
}

fn object(section: Section, task: Task) -> impl Fn(u64) -> Result<Experiment> {
    move |clients| Ok(on(&sockets()?, section, clients, task))
}

fn counter(section: Section) -> impl Fn(u64) -> Result<Experiment> {
    object(section, Task::Counter)
}

/// Returns a slot server with so many pauses of 5 ns.
fn backoff(pauses: u32) -> Section {
    slots().backoff(Backoff::Fixed(pauses))
}

fn tuned() -> Section {
    slots().backoff(Backoff::Tuned)
}

pub fn figures(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    optimizations(show)?;
    both(show)?;
    objects(show)
}

fn optimizations(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let backoffs = [slots(), backoff(25), backoff(100), backoff(400), tuned()].map(counter);
    // The server reads lines in another order than that in memory.
    let shuffled = [slots(), backoff(100)].map(|section| counter(section.shuffled(true)));
    let mut a = curves(&["srv-base", "B 125 ns", "B 500 ns", "B 2 µs", "B tuned"], &backoffs);
    a.extend(curves(&["base-shuf", "B 500 ns-shuf"], &shuffled));
    let title = "Backoff, 8 sockets";
    show(draw(("figure-7-5", title), (CLIENTS, MOPS), &CLIENTS_AT, &a, throughput)?)?;
    let streaming = |section: Section| section.streaming(true);
    let streams = [
        slots(),
        streaming(slots()),
        streaming(backoff(25)),
        streaming(backoff(100)),
        streaming(backoff(400)),
    ];
    let streams = streams.map(counter);
    let b = curves(&["srv-base", "SS", "B 125 ns-SS", "B 500 ns-SS", "B 2 µs-SS"], &streams);
    let title = "Streaming stores (SS), 8 sockets";
    show(draw(("figure-7-6", title), (CLIENTS, MOPS), &CLIENTS_AT, &b, throughput)?)
}

fn both(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let servers =
        [slots(), backoff(100), tuned(), slots().streaming(true), backoff(100).streaming(true)];
    let names = ["srv-base", "B 500 ns", "B tuned", "SS", "B 500 ns-SS"];
    let by_clients = servers.map(counter);
    let a = curves(&names, &by_clients);
    let title = "Latency, 8 sockets";
    show(draw(("figure-7-7", title), (CLIENTS, NANOS), &FEW_AT, &a, latency)?)?;
    let by_times = servers.map(|section| {
        move |times| {
            let task = Task::Counters { times: times as u32 };
            Ok(on(&sockets()?, section, 79, task))
        }
    });
    let b = curves(&names, &by_times);
    let title = "79 clients, 8 sockets";
    show(draw(("figure-7-8", title), (INCREMENTS, MOPS), &INCREMENTS_AT, &b, throughput)?)
}

fn objects(show: &mut impl FnMut(Figure) -> Result<()>) -> Result<()> {
    let schemes = [
        slots(),
        backoff(100),
        slots().streaming(true),
        combiner(Scheme::CcSynch),
        combiner(Scheme::HSynch),
        Section::new(Scheme::Mcs),
    ];
    let [.., cc_synch, h_synch, mcs] = schemes.map(|section| section.scheme().name());
    let names = ["srv-base", "srv-B 500 ns", "srv-SS", cc_synch, h_synch, mcs];
    let counters = schemes.map(counter);
    let fetch_add = |clients| Ok(on(&sockets()?, Way::FetchAdd, clients, Task::Counter));
    let mut a = curves(&names, &counters);
    a.push(Curve("fetch-and-add", &fetch_add));
    let title = "Counters, 8 sockets";
    show(draw(("figure-7-9", title), (CLIENTS, MOPS), &CLIENTS_AT, &a, throughput)?)?;

    let stacks = schemes.map(|section| object(section, Task::Stack));
    let treiber = |clients| Ok(on(&sockets()?, Way::Treiber, clients, Task::Stack));
    let mut b = curves(&names, &stacks);
    b.push(Curve("Treiber", &treiber));
    let title = "Stacks, 8 sockets";
    show(draw(("figure-7-10", title), (CLIENTS, MOPS), &CLIENTS_AT, &b, throughput)?)?;

    // One critical section, or one at each end. Streaming would not keep the order between two (T 7.1.3).
    let queues = [
        object(slots(), Task::TwoLockQueue),
        object(backoff(100), Task::Queue),
        object(backoff(100), Task::TwoLockQueue),
        object(slots().streaming(true), Task::Queue),
        object(combiner(Scheme::CcSynch), Task::TwoLockQueue),
        object(combiner(Scheme::HSynch), Task::TwoLockQueue),
    ];
    let [combined, grouped] = [cc_synch, h_synch].map(|name| format!("{name}-2"));
    let names = ["srv-base-2", "srv-B-1", "srv-B-2", "srv-SS-1", &combined, &grouped];
    let mut c = curves(&names, &queues);
    let rings = |clients| Ok(on(&sockets()?, Way::Rings, clients, Task::Queue));
    c.push(Curve("ring", &rings));
    let title = "Queues, 8 sockets";
    show(draw(("figure-7-11", title), (CLIENTS, MOPS), &CLIENTS_AT, &c, throughput)?)
}
