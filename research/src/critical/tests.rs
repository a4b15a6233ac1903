//! Tests that simulations are right and the same every time, and that the thesis's claims hold as numbers.

use mp_delegate::critical::{
    Backoff, Scheme, Section,
    internals::{AnyWord, Site},
};
use proptest::prelude::*;

use super::{
    cores::{Core, Deadlock, Engine},
    watch::Watch,
    *,
};

const TASKS: [Task; 5] =
    [Task::Counter, Task::Counters { times: 9 }, Task::Stack, Task::Queue, Task::TwoLockQueue];

fn sandy() -> Chip {
    Chip::sandy_bridge(16).unwrap()
}

fn tiles() -> Chip {
    Chip::tiles(36).unwrap()
}

fn fetching(chip: Chip) -> Chip {
    chip.with_prefetcher(Prefetcher::default())
}

fn micros(micros: u64) -> Time {
    Time::from_nanos(1000 * micros)
}

fn slot_server() -> Section {
    Section::new(Scheme::SlotServer).in_flight(1)
}

fn measured(chip: Chip, way: impl Into<Way>, clients: usize) -> Measured {
    Experiment::new(chip, way, clients).time(micros(200)).run().unwrap()
}

fn near(value: f64, expected: f64, slack: f64) {
    assert!((value - expected).abs() <= slack, "{value} instead of {expected}");
}

/// Figure 6.4: waiting threads that write nothing make CLH as fast as MCS.
#[test]
fn the_published_clh_excludes_others_and_is_as_fast_as_mcs() {
    for task in TASKS {
        for clients in [1, 2, 14] {
            let experiment = Experiment::new(tiles(), Way::PublishedClh, clients).task(task);
            assert!(experiment.time(micros(20)).run().unwrap().operations() > 0, "{task:?}");
        }
    }
    let rate = |way: Way| measured(tiles(), way, 35).rate();
    let [published, mcs] = [Way::PublishedClh, Scheme::Mcs.into()].map(rate);
    near(published / mcs, 1.0, 0.1);
    assert!(rate(Scheme::Clh.into()) > 1.1 * published);
}

/// `run` checks that operations are executed one at a time, each once, on the state that the operations before it left.
#[test]
fn operations_exclude_each_other() {
    let chips = [sandy(), sandy().with_messages(), fetching(sandy()), tiles()];
    for chip in chips {
        for scheme in Scheme::ALL {
            for task in TASKS {
                for clients in [1, 2, 14] {
                    let experiment = Experiment::new(chip.clone(), scheme, clients).task(task);
                    let run = experiment.time(micros(20)).run();
                    let run = run.unwrap_or_else(|e| panic!("{scheme}, {task:?}, {clients}: {e}"));
                    assert!(run.operations() > 0, "{scheme}, {task:?}, {clients}: nothing done");
                }
            }
        }
        for (way, task) in [
            (Way::FetchAdd, Task::Counter),
            (Way::Treiber, Task::Stack),
            (Way::Rings, Task::Queue),
            (Way::Lcrq, Task::Queue),
            (Way::LcrqInGroups(micros(2)), Task::Queue),
        ] {
            let run = Experiment::new(chip.clone(), way, 15).task(task).run();
            assert!(run.is_ok_and(|run| run.operations() > 100), "{way:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn operations_exclude_each_other_however_they_meet(
        scheme in 0..Scheme::ALL.len(),
        task in 0..TASKS.len(),
        clients in 1..14_usize,
        (max_ops, window) in (1..5_usize, 1..6_usize),
        (backoff, streaming, shuffled) in (0..3_usize, any::<bool>(), any::<bool>()),
        (messages, prefetcher) in (any::<bool>(), any::<bool>()),
        (between, seed) in (0..400_u64, any::<u64>()),
    ) {
        let scheme = Scheme::ALL[scheme];
        let streaming = streaming && scheme == Scheme::SlotServer;
        let backoff = [Backoff::None, Backoff::Fixed(3), Backoff::Tuned][backoff];
        let section = Section::new(scheme)
            .max_ops(max_ops)
            .in_flight(window)
            .streaming(streaming)
            .shuffled(shuffled)
            .backoff(backoff);
        let mut chip = sandy();
        chip = if messages { chip.with_messages() } else { chip };
        chip = if prefetcher { fetching(chip) } else { chip };
        let experiment = Experiment::new(chip, section, clients)
            .task(TASKS[task])
            .window(window)
            .between(Time::from_nanos(between))
            .time(micros(20))
            .seed(seed);
        let run = experiment.run();
        prop_assert!(run.is_ok(), "{run:?}");
        // The result is the same every time.
        prop_assert_eq!(run, experiment.run());
    }
}

#[test]
fn a_run_is_the_same_every_time_and_another_seed_is_another_run() {
    for scheme in Scheme::ALL {
        let run = |seed| Experiment::new(sandy(), scheme, 12).seed(seed).run().unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2), "{scheme}");
    }
}

/// Runs the code of each of several cores.
fn on_cores(
    count: usize,
    program: impl Fn(Core<'_>) + Sync + Copy + Send,
) -> Result<Vec<Time>, Deadlock> {
    let engine = Engine::new(Chip::sandy_bridge(count).unwrap(), 64).unwrap();
    let words = engine.words();
    let programs = (0..count).map(|number| {
        let core = Core::new(&engine, &words, number, Time::from_nanos(5));
        Box::new(move || program(core)) as Box<dyn FnOnce() + Send>
    });
    engine.run(programs.collect())?;
    Ok((0..count).map(|core| engine.clock(core)).collect())
}

#[test]
fn who_does_not_exclude_others_is_found_out() {
    let watch = Watch::new(Time::ZERO);
    let all = || watch.sections().overlaps;
    on_cores(2, |core| {
        let increment = || core.at(0).store(core.at(0).load() + 1);
        watch.operation(&core, increment);
    })
    .unwrap();
    assert_eq!(all(), 1);
}

#[test]
fn who_waits_for_nobody_is_named() {
    let deadlock = on_cores(3, |core| {
        if core.number != 1 {
            let word = core.at(0);
            core.wait(0, None, word, || (word.load() == 7).then_some(())).unwrap();
        }
    });
    assert_eq!(deadlock.map_err(|Deadlock(cores)| cores), Err(vec![0, 2]));
}

/// A ping-pong computed by hand. Each leg consists of a store that takes the line from the polling core, R_R, and that
/// core's next read, R_R.
#[test]
fn a_ping_pong_takes_two_transfers_for_each_leg() {
    let rounds = 10;
    let clocks = on_cores(2, |core| {
        let word = core.at(0);
        for round in 0..rounds {
            let turn = 2 * round + core.number as u64;
            core.wait(0, None, word, || (word.load() == turn).then_some(())).unwrap();
            word.store(turn + 1);
        }
    })
    .unwrap();
    // R_I and R_R are for the first reads, which happen at the same time.
    let begin = 70.0;
    let legs = (2 * rounds - 1) as f64;
    near(clocks[1].as_nanos(), begin + 70.0 * legs + 35.0, 40.0);
}

/// A core's computation takes its time, and so does a pause between reads.
#[test]
fn computing_takes_time_and_memory_goes_by_times() {
    let clocks = on_cores(2, |core| match core.number {
        0 => {
            core.engine.compute(Time::from_nanos(300));
            assert_eq!(core.at(8).swap(1), 2, "the other was here before");
        }
        _ => {
            core.pause(20);
            assert_eq!(core.at(8).fetch_add(2), 0);
            assert_eq!(core.at(8).compare_exchange(3, 4), Err(2));
        }
    })
    .unwrap();
    assert_eq!(clocks, [335, 170].map(Time::from_nanos));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let run = |experiment: Experiment| experiment.run().unwrap_err().to_string();
    let counter = |clients| Experiment::new(sandy(), Scheme::SlotServer, clients);
    assert_eq!(run(counter(16)), "17 cores are needed, and there are 16");
    assert!(counter(15).run().is_ok());
    let two_servers = counter(15).task(Task::TwoLockQueue);
    assert_eq!(run(two_servers), "17 cores are needed, and there are 16");
    let locks = Experiment::new(sandy(), Scheme::Mcs, 16);
    assert!(locks.clone().run().is_ok());
    assert!(run(Experiment::new(sandy(), Scheme::Mcs, 0)).contains("without clients"));
    assert!(run(locks.window(0)).contains("in flight"));
    assert!(run(counter(3).window(2)).contains("window"));
    assert!(run(Experiment::new(sandy(), Way::FetchAdd, 1).task(Task::Stack)).contains("counter"));
    assert!(run(Experiment::new(sandy(), Way::Treiber, 1)).contains("Treiber"));
    for way in [Way::Rings, Way::Lcrq, Way::LcrqInGroups(micros(1))] {
        assert!(run(Experiment::new(sandy(), way, 1)).contains("rings"));
    }
    let many = Experiment::new(Chip::xeon(255).unwrap(), Way::Lcrq, 255).task(Task::Queue);
    assert!(run(many).contains("32 bits"));
    let none = Chip { write_buffers: 0, ..sandy() };
    assert!(run(Experiment::new(none, Scheme::Mcs, 1)).contains("streaming stores"));
}

/// T 5.3.1: a queue lock's hand-over has two RMRs. T 6.1.1: HYBLOCK's has none, with messages.
#[test]
fn hyblock_hands_over_with_two_transfers_less_than_queue_locks() {
    for chip in [sandy().with_messages(), tiles(), Chip::xeon_phi(60).unwrap().with_messages()] {
        let clients = chip.cores();
        let handing = |scheme| {
            let experiment = Experiment::new(chip.clone(), scheme, clients).time(micros(1000));
            experiment.run().unwrap().sections.handing_over
        };
        let [mcs, clh, hyb] = [Scheme::Mcs, Scheme::Clh, Scheme::HybLock].map(handing);
        near(hyb.remote(), 0.0, 0.01);
        near(clh.remote() - hyb.remote(), 2.0, 0.05);
        near(mcs.remote() - hyb.remote(), 2.0, 0.05);
        // The hand-over is a message instead.
        assert!(hyb.times > 100 && hyb.nanos() < 0.7 * mcs.nanos(), "{hyb:?} {mcs:?}");
    }
    // If messages are lines of memory, it is a queue lock like the others.
    let handing = |scheme| measured(sandy(), scheme, 16).sections.handing_over.remote();
    near(handing(Scheme::Mcs), 2.0, 0.05);
    near(handing(Scheme::Clh), 2.0, 0.05);
    near(handing(Scheme::HybLock), 2.0, 0.05);
}

/// T 5.3.2, 7.1.2: one RMR to read a request, one to write the response.
#[test]
fn a_request_takes_two_transfers_on_the_executing_side() {
    let xeon = Chip { prefetcher: None, ..Chip::xeon(80).unwrap() };
    for chip in [sandy(), Chip::xeon_phi(60).unwrap(), xeon] {
        let clients = chip.cores() - 1;
        let serving = |scheme| {
            let run = Experiment::new(chip.clone(), scheme, clients).time(micros(1000)).run();
            run.unwrap().sections
        };
        for scheme in [Scheme::CcSynch, Scheme::HybComb, Scheme::SlotServer] {
            let sections = serving(scheme);
            near(sections.serving.remote(), 2.0, 0.1);
            // The value stays in the cache of the executing core.
            assert!(sections.inside.remote() < 0.06, "{scheme}: {sections:?}");
        }
        // A lock moves the value as well: it is read, and then written.
        near(serving(Scheme::Mcs).inside.remote(), 2.0, 0.01);
    }
}

/// T 6.1.2, 6.1.3: with messages, no RMR is left on the executing side.
#[test]
fn messages_leave_no_transfer_on_the_executing_side() {
    let run = |scheme| measured(tiles(), scheme, 35);
    let server = run(Scheme::MpServer(0));
    near(server.sections.serving.remote(), 0.0, 0.001);
    let combiner = run(Scheme::HybComb);
    assert!(combiner.sections.serving.remote() < 0.2, "{combiner:?}");
    let baseline = run(Scheme::SlotServer);
    assert!(server.rate() > 3.0 * baseline.rate(), "{} {}", server.rate(), baseline.rate());
    assert!(combiner.rate() > 1.2 * run(Scheme::CcSynch).rate());
}

/// T 7.1.3: if responses are not read in between, a prefetcher has the lines there in time, and streaming stores are
/// not waited for. A prefetcher alone fetches the requests, which have separate lines here, so one RMR is left.
#[test]
fn backoff_and_streaming_remove_transfers() {
    let chip = Chip::xeon(80).unwrap();
    let server = |section| measured(chip.clone(), Way::Section(section), 79);
    let base = server(slot_server());
    near(base.sections.serving.remote(), 1.0, 0.25);
    for better in [
        slot_server().backoff(Backoff::Fixed(400)),
        slot_server().streaming(true),
        slot_server().streaming(true).backoff(Backoff::Fixed(400)),
    ] {
        let run = server(better);
        assert!(run.sections.serving.remote() < 0.3, "{better:?}: {run:?}");
        assert!(run.rate() > 1.5 * base.rate(), "{better:?}: {} {}", run.rate(), base.rate());
    }
    // Streaming removes the response's RMR without a prefetcher.
    let chip = Chip { prefetcher: None, ..Chip::xeon(80).unwrap() };
    let run = measured(chip, Way::Section(slot_server().streaming(true)), 79);
    near(run.sections.serving.remote(), 1.0, 0.05);
}

/// T 7.2.2, figure 7.5: shuffling takes away most of the prefetcher's gain for a server with backoff, but not all of
/// it, because some lines are at equal distances by chance.
#[test]
fn shuffled_lines_are_seldom_fetched_ahead() {
    let chip = Chip::xeon(80).unwrap();
    let server = |section| measured(chip.clone(), Way::Section(section), 79);
    let backoff = slot_server().backoff(Backoff::Fixed(400));
    let (in_order, shuffled) = (server(backoff), server(backoff.shuffled(true)));
    assert!(in_order.sections.serving.remote() < 0.3, "{in_order:?}");
    assert!(shuffled.sections.serving.remote() > 0.9, "{shuffled:?}");
    assert!(in_order.rate() > 1.5 * shuffled.rate(), "{} {}", in_order.rate(), shuffled.rate());
}

/// With a single client nothing is taken by other cores: a lock is in its cache, while a request and its response take
/// two transfers each.
#[test]
fn a_lock_wins_alone_and_delegation_among_many() {
    let rate = |scheme, clients| measured(Chip::xeon_phi(60).unwrap(), scheme, clients).rate();
    assert!(rate(Scheme::HybLock, 1) > 2.0 * rate(Scheme::SlotServer, 1));
    assert!(rate(Scheme::SlotServer, 59) > 1.2 * rate(Scheme::Mcs, 59));
    assert!(rate(Scheme::CcSynch, 59) > 1.2 * rate(Scheme::Mcs, 59));
}

/// T 6.2.3, figure 6.6a: with few operations for each combiner, most of the time goes into the change of the combiner.
/// The gain is greater if everything else takes little time.
#[test]
fn a_combiner_with_more_operations_is_faster() {
    let run = |scheme, max_ops| measured(tiles(), Section::new(scheme).max_ops(max_ops), 36);
    let gain = |scheme| {
        let [few, some, many] = [1, 16, 200].map(|max_ops| run(scheme, max_ops));
        near(few.sections.in_a_row(), 2.0, 0.1);
        near(some.sections.in_a_row(), 16.0, 1.5);
        assert!(few.rate() < some.rate() && some.rate() < many.rate());
        many.rate() / few.rate()
    };
    let (baseline, with_messages) = (gain(Scheme::CcSynch), gain(Scheme::HybComb));
    assert!(baseline > 1.2 && with_messages > 5.0, "{baseline} {with_messages}");
}

/// Cores near each other get the section first, group by group (T 7.2.3).
#[test]
fn h_synch_keeps_to_a_group() {
    let run = |scheme| {
        let run = Experiment::new(Chip::xeon(80).unwrap(), scheme, 80).time(micros(1000));
        run.run().unwrap().rate()
    };
    assert!(run(Scheme::HSynch) > 1.3 * run(Scheme::CcSynch));
}

#[test]
fn queue_locks_and_servers_are_fair() {
    for scheme in [Scheme::Mcs, Scheme::Clh, Scheme::HybLock, Scheme::SlotServer] {
        let run = Experiment::new(sandy(), scheme, 15).time(micros(2000)).run().unwrap();
        assert!(run.unfairness() < 1.1, "{scheme}: {}", run.unfairness());
    }
}

/// With several operations in flight, a client waits less for each of them.
#[test]
fn a_window_hides_the_way() {
    let with = |window| {
        let section = Section::new(Scheme::SlotServer).in_flight(32);
        let experiment = Experiment::new(sandy(), section, 2).window(window).between(Time::ZERO);
        experiment.run().unwrap().rate()
    };
    assert!(with(32) > 3.0 * with(1), "{} {}", with(32), with(1));
}
