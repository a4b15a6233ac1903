//! The figures of critical sections with many cores, SIMULATED, beside what the thesis reports.
//!
//! ```text
//! cargo run --release --example critical_figures -- OUT_DIR
//! ```
//!
//! prints the machines, the thesis' claims as numbers, from which number of clients on a server or a
//! combiner beats a lock, and tables in the shape of figures 6.4 to 6.8 and 7.5 to 7.11; and writes
//! these into `OUT_DIR`, each as CSV and SVG. Without it, only the tables are printed.
//!
//! "Thesis", or T, is Petrović's; the costs of lines are those of Ramos and Hoefler, C.

mod figure;

use std::{env, error::Error, fs, path::Path};

use figure::Figure;
use mp_delegate::critical::{
    Backoff, Scheme, Section,
    simulated::{Chip, Experiment, Measured, Prefetcher, Task, Time, Way},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Of chapter 7: up to 1000 cycles of 2.13 GHz between requests (T 7.2.1).
const SERVER_PAUSE: Time = Time::from_nanos(470);
/// Of chapter 6: up to 50 empty iterations at 1.2 GHz (T 6.2.2).
const TILE_PAUSE: Time = Time::from_nanos(42);
const MAX_OPS: usize = 200;
const MILLION: f64 = 1e6;

fn main() -> Result<()> {
    println!("SIMULATED: the library's algorithms on simulated memory, in virtual time.\n");
    print!("{}", machines()?);
    print!("{}", claims()?);
    print!("{}", turning_points()?);
    let folder = env::args_os().nth(1);
    if let Some(folder) = &folder {
        fs::create_dir_all(folder)?;
    }
    for figure in figures()? {
        println!("{}", figure.table());
        if let Some(folder) = &folder {
            let file = Path::new(folder).join(figure.name);
            fs::write(file.with_extension("csv"), figure.csv())?;
            fs::write(file.with_extension("svg"), figure.svg()?)?;
        }
    }
    Ok(())
}

/// T 6.2.1, with messages in hardware.
fn tiles() -> Result<Chip> {
    Ok(Chip::tiles(36)?)
}

/// T 7.2.1, eight sockets of ten cores.
fn sockets() -> Result<Chip> {
    Ok(Chip::sockets(80, 8)?.with_prefetcher(Prefetcher::default()))
}

fn machines() -> Result<String> {
    let mut out = format!(
        "{:<34}{:>6}{:>8}{:>8}{:>8}{:>8}{:>8}{:>10}{:>9}{:>12}\n",
        "machine (ns)",
        "cores",
        "R_L",
        "R_R",
        "R_Q",
        "R_I",
        "c",
        "messages",
        "atomics",
        "prefetcher"
    );
    let all = [
        ("Sandy Bridge (C)", Chip::sandy_bridge(16)?),
        ("Xeon Phi (C)", Chip::xeon_phi(60)?),
        ("tiles, after TILE-Gx (T 6.2.1)", tiles()?),
        ("8 sockets, after Xeon (T 7.2.1)", sockets()?),
    ];
    for (name, chip) in all {
        let costs = chip.machine.parameters;
        let reader = costs.contention.map_or(0.0, |contention| contention.reader.as_nanos());
        let messages = chip.messages.map_or("none".to_owned(), |messages| {
            format!("{:.1}", (messages.send + messages.delivery).as_nanos())
        });
        let atomics = if chip.atomics_at_home.is_some() { "at home" } else { "cached" };
        let ahead =
            chip.prefetcher.map_or("none".to_owned(), |fetch| format!("{} ahead", fetch.ahead));
        let (near, far) = (costs.near, costs.far);
        let [local, near, far, memory] =
            [costs.local, near.transfer, far.transfer, near.memory].map(Time::as_nanos);
        out += &format!(
            "{name:<34}{:>6}{local:>8.1}{near:>8.1}{far:>8.1}{memory:>8.1}{reader:>8.1}{messages:>10}\
             {atomics:>9}{ahead:>12}\n",
            chip.cores()
        );
    }
    out += "The last two are the thesis' in shape; their lines cost what Sandy Bridge's do, for nobody has\n\
            measured theirs like this. c: of each further reader of a line at the same time.\n\n";
    Ok(out)
}

fn slots() -> Section {
    Section::new(Scheme::SlotServer).in_flight(1)
}

fn combiner(scheme: Scheme) -> Section {
    Section::new(scheme).max_ops(MAX_OPS)
}

fn run(chip: &Chip, way: impl Into<Way>, clients: usize) -> Result<Measured> {
    let time = time_of(chip, clients);
    Ok(Experiment::new(chip.clone(), way, clients).time(time).run()?)
}

/// Long enough for some tens of operations of each client.
fn time_of(chip: &Chip, clients: usize) -> Time {
    let transfer = chip.machine.parameters.far.transfer;
    Time::from_nanos(50_000).max(100 * clients as u64 * transfer)
}

/// What the thesis says, and what comes out.
fn claims() -> Result<String> {
    let mut out = format!("{:<78}{:>24}{:>14}\n", "claim", "thesis", "SIMULATED");
    let mut row = |claim: &str, thesis: &str, simulated: String| {
        out += &format!("{claim:<78}{thesis:>24}{simulated:>14}\n");
    };
    let two = |value: f64| format!("{value:.2}");
    let (tiles, sandy, phi) = (tiles()?, Chip::sandy_bridge(16)?, Chip::xeon_phi(60)?);
    let (plain, fetching) = (Chip::sockets(80, 8)?, sockets()?);

    let handing = |chip: &Chip, scheme| {
        Ok::<_, Box<dyn Error>>(run(chip, scheme, chip.cores())?.sections.handing_over)
    };
    for (scheme, thesis) in
        [(Scheme::Mcs, "2 (5.3.1)"), (Scheme::Clh, "2 (5.3.1)"), (Scheme::HybLock, "0 (6.1.1)")]
    {
        let costs = handing(&tiles, scheme)?;
        row(&format!("RMRs of a hand-over, {scheme:?}, tiles"), thesis, two(costs.remote()));
    }
    for scheme in [Scheme::Mcs, Scheme::HybLock] {
        let costs = handing(&sandy, scheme)?;
        row(
            &format!("  the same without messages, {scheme:?}, Sandy Bridge"),
            "",
            two(costs.remote()),
        );
    }
    for (name, chip) in [("Sandy Bridge", &sandy), ("Xeon Phi", &phi)] {
        for scheme in [Scheme::CcSynch, Scheme::HybComb, Scheme::SlotServer, Scheme::MpServer(0)] {
            let way: Way = match scheme {
                Scheme::CcSynch | Scheme::HybComb => combiner(scheme).into(),
                _ => scheme.into(),
            };
            let serving = run(chip, way, chip.cores() - 1)?.sections.serving;
            let thesis = if matches!(scheme, Scheme::CcSynch | Scheme::SlotServer) {
                "2 (5.3.2)"
            } else {
                ""
            };
            row(&format!("RMRs of a request, {scheme:?}, {name}"), thesis, two(serving.remote()));
        }
    }
    for scheme in [Scheme::HybComb, Scheme::MpServer(0)] {
        let serving = run(&tiles, combiner(scheme), 35)?.sections.serving;
        row(&format!("RMRs of a request, {scheme:?}, tiles"), "0 (6.1.2)", two(serving.remote()));
    }
    let backoff = Backoff::Fixed(400);
    for (name, section, thesis) in [
        ("no backoff", slots(), "1 to 2 (7.1.3)"),
        ("backoff of 2 µs", slots().backoff(backoff), "0 (7.1.3)"),
        ("backoff tuned", slots().backoff(Backoff::Tuned), ""),
        ("streaming", slots().streaming(true), "0 (7.1.3)"),
    ] {
        for (chip, with) in [(&fetching, "with"), (&plain, "without")] {
            let serving = run(chip, section, 79)?.sections.serving;
            let claim =
                format!("RMRs of a request, SlotServer, {name}, 8 sockets {with} prefetcher");
            row(&claim, if with == "with" { thesis } else { "" }, two(serving.remote()));
        }
    }

    let rate = |chip: &Chip, way: Way, clients| run(chip, way, clients).map(|run| run.rate());
    let tile = |section: Section, clients| rate(&tiles, section.into(), clients);
    let hyb = tile(Section::new(Scheme::HybLock), 36)? / tile(Section::new(Scheme::Mcs), 36)?;
    row("HybLock's throughput / Mcs', tiles", "1.35 (6.2.3)", two(hyb));
    let mp = tile(Section::new(Scheme::MpServer(0)), 35)?;
    row("MpServer / SlotServer, tiles", "4.3 (6.2.3)", two(mp / tile(slots(), 35)?));
    let comb = tile(combiner(Scheme::HybComb), 36)? / tile(combiner(Scheme::CcSynch), 36)?;
    row("HybComb / CcSynch, tiles", "2.5 (6.2.3)", two(comb));
    let server = |section: Section| {
        let experiment = Experiment::new(fetching.clone(), section, 79).between(SERVER_PAUSE);
        Ok::<_, Box<dyn Error>>(experiment.time(time_of(&fetching, 79)).run()?.rate())
    };
    let base = server(slots())?;
    let better = server(slots().backoff(Backoff::Fixed(100)))? / base;
    row("SlotServer: backoff of 500 ns / none, 8 sockets", "up to 6 (7.2.2)", two(better));
    row("  tuned / none", "", two(server(slots().backoff(Backoff::Tuned))? / base));
    let streaming = server(slots().streaming(true))? / base;
    row("SlotServer: streaming / ordinary stores, 8 sockets", "3.5 (7.2.2)", two(streaming));
    let numa = server(combiner(Scheme::HSynch))? / server(combiner(Scheme::CcSynch))?;
    row("HSynch / CcSynch, 8 sockets", "more (7.2.3)", two(numa));
    let fair = run(&tiles, combiner(Scheme::HybComb), 36)?.unfairness();
    row("HybComb: most / fewest operations of a thread, tiles", "1.2 (6.2.3)", two(fair));
    out.push('\n');
    Ok(out)
}

/// From how many clients on delegation is as fast as the best of the queue locks.
fn turning_points() -> Result<String> {
    let mut out = String::from(
        "Turning points: from how many clients on an object is served faster than by the best of Mcs, Clh\n\
         and HybLock; -: never. A server's core is not counted. Clients pause for up to 50 ns.\n",
    );
    let ways: [(&str, Section, usize); 6] = [
        ("SlotServer", slots(), 1),
        ("streaming", slots().streaming(true), 1),
        ("32 in flight", slots().in_flight(32), 32),
        ("MpServer", Section::new(Scheme::MpServer(0)), 1),
        ("CcSynch", combiner(Scheme::CcSynch), 1),
        ("HybComb", combiner(Scheme::HybComb), 1),
    ];
    for (machine, chip, most) in [
        ("Sandy Bridge", Chip::sandy_bridge(16)?, 15),
        ("Xeon Phi", Chip::xeon_phi(60)?, 59),
        ("tiles", tiles()?, 35),
    ] {
        out += &format!("{machine:<24}");
        out.extend(ways.iter().map(|(name, ..)| format!("{name:>14}")));
        out.push('\n');
        for times in [0, 1, 8, 64, 256] {
            out += &format!("{:<24}", format!("  {times} increments"));
            let rate = |section: Section, window, clients| {
                let experiment = Experiment::new(chip.clone(), section, clients)
                    .task(Task::Counters { times })
                    .window(window)
                    .time(time_of(&chip, clients));
                Ok::<_, Box<dyn Error>>(experiment.run()?.rate())
            };
            let counts: Vec<usize> =
                (1..=12).chain((14..).step_by(4)).take_while(|&clients| clients <= most).collect();
            let mut locks = Vec::new();
            for &clients in &counts {
                let mut best = 0.0_f64;
                for scheme in [Scheme::Mcs, Scheme::Clh, Scheme::HybLock] {
                    best = best.max(rate(Section::new(scheme), 1, clients)?);
                }
                locks.push(best);
            }
            for &(_, section, window) in &ways {
                // From there on, whatever was before.
                let mut point = None;
                for (&clients, &lock) in counts.iter().zip(&locks).rev() {
                    if rate(section, window, clients)? < lock {
                        break;
                    }
                    point = Some(clients);
                }
                out += &format!("{:>14}", point.map_or("-".to_owned(), |point| point.to_string()));
            }
            out.push('\n');
        }
    }
    out.push('\n');
    Ok(out)
}

/// A curve: its name, and how it is simulated at a place across.
struct Curve<'a>(&'a str, &'a dyn Fn(u64) -> Experiment);

/// What is drawn of a run.
type Value = fn(&Measured) -> f64;

fn throughput(run: &Measured) -> f64 {
    run.rate() / MILLION
}

fn latency(run: &Measured) -> f64 {
    run.latency()
}

const MOPS: &str = "million operations a second";
const NANOS: &str = "ns";
const CLIENTS: &str = "clients";
const ITERATIONS: &str = "increments in the critical section";

fn draw(
    name: &'static str,
    title: &'static str,
    (across, unit): (&'static str, &'static str),
    places: &[u64],
    curves: &[Curve<'_>],
    value: Value,
) -> Result<Figure> {
    let mut points = Vec::new();
    for &place in places {
        let values = curves.iter().map(|Curve(_, experiment)| Ok(value(&experiment(place).run()?)));
        points.push((place, values.collect::<Result<Vec<f64>>>()?));
    }
    let curves = curves.iter().map(|Curve(name, _)| (*name).to_owned()).collect();
    Ok(Figure { name, title, across, unit, curves, points })
}

fn figures() -> Result<Vec<Figure>> {
    let mut figures = chapter_6()?;
    figures.extend(chapter_7()?);
    Ok(figures)
}

fn chapter_6() -> Result<Vec<Figure>> {
    let chip = tiles()?;
    let on = |way: Way, clients: u64, task: Task| {
        let clients = clients as usize;
        let time = time_of(&chip, clients);
        Experiment::new(chip.clone(), way, clients).task(task).between(TILE_PAUSE).time(time)
    };
    let counter = |section: Section| move |clients| on(section.into(), clients, Task::Counter);
    let long = |section: Section, clients| {
        move |times| on(section.into(), clients, Task::Counters { times: times as u32 })
    };
    let clients = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 35];
    let short = [0, 1, 2, 3, 4, 5, 8, 10, 15, 20, 25];

    let locks = [Scheme::Tas, Scheme::Mcs, Scheme::Clh, Scheme::HybLock].map(Section::new);
    let names = ["Tas", "Mcs", "Clh", "HybLock"];
    let by_clients = locks.map(counter);
    let by_times = locks.map(|lock| long(lock, 36));
    let lock_clients: Vec<u64> = clients.iter().copied().chain([36]).collect();
    let a = curves(&names, &by_clients);
    let c = curves(&names, &by_times);
    let mut figures = vec![
        draw(
            "figure-6-4a",
            "Locks: a counter, tiles",
            (CLIENTS, MOPS),
            &lock_clients,
            &a,
            throughput,
        )?,
        draw("figure-6-4b", "Locks: latency, tiles", (CLIENTS, NANOS), &lock_clients, &a, latency)?,
        draw(
            "figure-6-4c",
            "Locks: 36 threads, tiles",
            (ITERATIONS, MOPS),
            &short,
            &c,
            throughput,
        )?,
    ];

    let server = Section::new(Scheme::MpServer(0));
    let delegation = [server, combiner(Scheme::HybComb), slots(), combiner(Scheme::CcSynch)];
    let names = ["MpServer", "HybComb", "SlotServer", "CcSynch"];
    let by_clients = delegation.map(counter);
    let by_times = delegation.map(|section| long(section, 35));
    let a = curves(&names, &by_clients);
    let c = curves(&names, &by_times);
    figures.extend([
        draw(
            "figure-6-5a",
            "Delegation: a counter, tiles",
            (CLIENTS, MOPS),
            &clients,
            &a,
            throughput,
        )?,
        draw("figure-6-5b", "Delegation: latency, tiles", (CLIENTS, NANOS), &clients, &a, latency)?,
        draw(
            "figure-6-5c",
            "Delegation: 35 clients, tiles",
            (ITERATIONS, MOPS),
            &short,
            &c,
            throughput,
        )?,
    ]);

    let combiners = [Scheme::HybComb, Scheme::CcSynch];
    let by_most = combiners.map(|scheme| {
        move |most: u64| on(Section::new(scheme).max_ops(most as usize).into(), 36, Task::Counter)
    });
    let names = ["HybComb", "CcSynch"];
    let most = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
    let a = curves(&names, &by_most);
    figures.push(draw(
        "figure-6-6a",
        "Combining: 36 threads, tiles",
        ("MAX_OPS", MOPS),
        &most,
        &a,
        throughput,
    )?);
    let stalled: Value = |run| {
        let serving = run.sections.serving;
        100.0 * serving.counts.stalled.as_nanos() / serving.time.as_nanos().max(1.0)
    };
    let names = ["MpServer", "HybComb", "SlotServer", "CcSynch"];
    let by_clients = delegation.map(counter);
    let b = curves(&names, &by_clients);
    let percent = "% of the time between operations that their core is stalled";
    figures.push(draw(
        "figure-6-6b",
        "Stalls, tiles",
        (CLIENTS, percent),
        &[8, 16, 24, 35],
        &b,
        stalled,
    )?);
    let by_clients = combiners.map(|scheme| counter(combiner(scheme)));
    let c = curves(&["HybComb", "CcSynch"], &by_clients);
    let rate: Value = |run| run.sections.in_a_row();
    figures.push(draw(
        "figure-6-6c",
        "Combining rate, tiles",
        (CLIENTS, "operations of a combiner"),
        &lock_clients,
        &c,
        rate,
    )?);

    let object = |section: Section, task| move |clients| on(section.into(), clients, task);
    let hyb = Section::new(Scheme::HybLock);
    let queues = [
        object(server, Task::Queue),
        object(combiner(Scheme::HybComb), Task::Queue),
        object(slots(), Task::Queue),
        object(combiner(Scheme::CcSynch), Task::Queue),
        object(hyb, Task::Queue),
        object(hyb, Task::TwoLockQueue),
        object(server, Task::TwoLockQueue),
    ];
    let names = [
        "MpServer-1",
        "HybComb-1",
        "SlotServer-1",
        "CcSynch-1",
        "HybLock-1",
        "HybLock-2",
        "MpServer-2",
    ];
    let a = curves(&names, &queues);
    // Two servers.
    let fewer: Vec<u64> =
        clients.iter().copied().filter(|&clients| clients < 35).chain([34]).collect();
    figures.push(draw("figure-6-8a", "Queues, tiles", (CLIENTS, MOPS), &fewer, &a, throughput)?);
    let stacks = [server, combiner(Scheme::HybComb), slots(), combiner(Scheme::CcSynch), hyb]
        .map(|section| object(section, Task::Stack));
    let treiber = |clients| on(Way::Treiber, clients, Task::Stack);
    let mut b = curves(&["MpServer", "HybComb", "SlotServer", "CcSynch", "HybLock"], &stacks);
    b.push(Curve("Treiber", &treiber));
    figures.push(draw("figure-6-8b", "Stacks, tiles", (CLIENTS, MOPS), &clients, &b, throughput)?);
    Ok(figures)
}

fn chapter_7() -> Result<Vec<Figure>> {
    let (fetching, plain) = (sockets()?, Chip::sockets(80, 8)?);
    let on = |chip: &Chip, way: Way, clients: u64, task: Task| {
        let clients = clients as usize;
        let time = time_of(chip, clients);
        Experiment::new(chip.clone(), way, clients).task(task).between(SERVER_PAUSE).time(time)
    };
    let with = |section: Section, task| {
        let fetching = &fetching;
        move |clients| on(fetching, section.into(), clients, task)
    };
    let clients = [1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 78];
    let backoff = |pauses| slots().backoff(Backoff::Fixed(pauses));
    let streaming = |section: Section| section.streaming(true);

    let backoffs =
        [slots(), backoff(25), backoff(100), backoff(400), slots().backoff(Backoff::Tuned)];
    let names = ["srv-base", "B 125 ns", "B 500 ns", "B 2 µs", "B tuned"];
    let by_clients = backoffs.map(|section| with(section, Task::Counter));
    let shuffled = [slots(), backoff(100)].map(|section| {
        let plain = &plain;
        move |clients| on(plain, section.into(), clients, Task::Counter)
    });
    let mut a = curves(&names, &by_clients);
    a.extend(curves(&["base-shuf", "B 500 ns-shuf"], &shuffled));
    let mut figures = vec![draw(
        "figure-7-5",
        "Backoff (shuf: no prefetcher), 8 sockets",
        (CLIENTS, MOPS),
        &clients,
        &a,
        throughput,
    )?];
    let streams = [
        slots(),
        streaming(slots()),
        streaming(backoff(25)),
        streaming(backoff(100)),
        streaming(backoff(400)),
    ];
    let by_clients = streams.map(|section| with(section, Task::Counter));
    let b = curves(&["srv-base", "SS", "B 125 ns-SS", "B 500 ns-SS", "B 2 µs-SS"], &by_clients);
    figures.push(draw(
        "figure-7-6",
        "Streaming stores, 8 sockets",
        (CLIENTS, MOPS),
        &clients,
        &b,
        throughput,
    )?);

    let both = [
        slots(),
        backoff(100),
        slots().backoff(Backoff::Tuned),
        streaming(slots()),
        streaming(backoff(100)),
    ];
    let names = ["srv-base", "B 500 ns", "B tuned", "SS", "B 500 ns-SS"];
    let by_clients = both.map(|section| with(section, Task::Counter));
    let few = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20];
    let c = curves(&names, &by_clients);
    figures.push(draw("figure-7-7", "Latency, 8 sockets", (CLIENTS, NANOS), &few, &c, latency)?);

    let by_times = both.map(|section| {
        let fetching = &fetching;
        move |times| {
            let task = Task::Counters { times: times as u32 };
            on(fetching, section.into(), 79, task)
        }
    });
    let d = curves(&names, &by_times);
    let long = [0, 1, 2, 5, 10, 20, 50, 100, 150, 200];
    figures.push(draw(
        "figure-7-8",
        "79 clients, 8 sockets",
        (ITERATIONS, MOPS),
        &long,
        &d,
        throughput,
    )?);

    let counters = [
        slots(),
        backoff(100),
        streaming(slots()),
        combiner(Scheme::CcSynch),
        combiner(Scheme::HSynch),
        Section::new(Scheme::Mcs),
    ];
    let names = ["srv-base", "srv-B 500 ns", "srv-SS", "CcSynch", "HSynch", "Mcs"];
    let by_clients = counters.map(|section| with(section, Task::Counter));
    let fetch_add = |clients| on(&fetching, Way::FetchAdd, clients, Task::Counter);
    let mut e = curves(&names, &by_clients);
    e.push(Curve("fetch-and-add", &fetch_add));
    figures.push(draw(
        "figure-7-9",
        "Counters, 8 sockets",
        (CLIENTS, MOPS),
        &clients,
        &e,
        throughput,
    )?);

    let by_clients = counters.map(|section| with(section, Task::Stack));
    let treiber = |clients| on(&fetching, Way::Treiber, clients, Task::Stack);
    let mut f = curves(&names, &by_clients);
    f.push(Curve("Treiber", &treiber));
    figures.push(draw(
        "figure-7-10",
        "Stacks, 8 sockets",
        (CLIENTS, MOPS),
        &clients,
        &f,
        throughput,
    )?);

    let queues = [
        with(slots(), Task::TwoLockQueue),
        with(backoff(100), Task::Queue),
        with(backoff(100), Task::TwoLockQueue),
        with(streaming(slots()), Task::Queue),
        with(combiner(Scheme::CcSynch), Task::TwoLockQueue),
        with(combiner(Scheme::HSynch), Task::TwoLockQueue),
    ];
    let names = ["srv-base-2", "srv-B-1", "srv-B-2", "srv-SS-1", "CcSynch-2", "HSynch-2"];
    let g = curves(&names, &queues);
    figures.push(draw(
        "figure-7-11",
        "Queues, 8 sockets",
        (CLIENTS, MOPS),
        &clients,
        &g,
        throughput,
    )?);
    Ok(figures)
}

fn curves<'a, F: Fn(u64) -> Experiment>(names: &[&'a str], experiments: &'a [F]) -> Vec<Curve<'a>> {
    names.iter().zip(experiments).map(|(name, experiment)| Curve(name, experiment)).collect()
}
