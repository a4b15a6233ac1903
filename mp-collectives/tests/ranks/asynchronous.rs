//! Asynchronous broadcasts between real ranks, with both ways to wake a rank.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, mpsc},
    thread::sleep,
    time::{Duration, Instant},
};

use mp_collectives::broadcast::asynchronous::{AsyncBroadcast, AsyncSettings, Order};
use mp_core::{Cause, Error, ErrorKind, Rank, Result, World, mpb::Notifier};

use crate::support::{
    Random, Watchdog, on_all, processor::processor_time, run_on_all_with, scenarios,
};

const CHUNK: usize = 128;
const NOTIFIERS: [Notifier; 2] = [Notifier::Futex, Notifier::Signal];

fn settings(notifier: Notifier) -> AsyncSettings {
    AsyncSettings { chunk_bytes: CHUNK, window: 4, notifier, ..AsyncSettings::default() }
}

/// Returns the message of a rank. All ranks compute the same numbers.
fn message(source: usize, number: usize) -> Vec<u8> {
    let mut random = Random::new((source as u64) << 32 | number as u64);
    let longest = [3, CHUNK as u64 + 2, CHUNK as u64 + 2, 20 * CHUNK as u64][number % 4];
    let length = match number {
        0 => 0,
        1 => 10 * CHUNK as u64 + 3,
        2 => CHUNK as u64,
        _ => random.below(longest),
    };
    (0..length).map(|_| random.next() as u8).collect()
}

/// The received messages in their order, as (source, number).
type Log = Vec<(usize, usize)>;

/// Every rank broadcasts so many messages, with pauses. Checks their contents, and returns the log.
fn storm(rank: &Rank, settings: AsyncSettings, messages: usize, pauses: u64) -> Result<Log> {
    let (sender, news) = mpsc::channel();
    let mut random = Random::new(rank.id() as u64);
    let broadcasts = AsyncBroadcast::open(rank, "storm", settings, move |source, message| {
        if pauses > 0 && random.below(8) == 0 {
            sleep(Duration::from_micros(random.below(pauses)));
        }
        sender.send((source, message.to_vec())).unwrap_or_default();
    })?;
    let mut random = Random::new(1000 + rank.id() as u64);
    let bound = rank.size() * (4 * CHUNK + 2 * 20 * CHUNK) + 4 * 4 * rank.size();
    for number in 0..messages {
        if pauses > 0 && random.below(4) == 0 {
            sleep(Duration::from_micros(random.below(pauses)));
        }
        broadcasts.broadcast(&message(rank.id(), number))?;
        let kept = broadcasts.kept_bytes();
        ensure!(kept <= bound, "{kept} bytes kept, of at most {bound}");
    }
    broadcasts.finish()?;
    let mut next = vec![0; rank.size()];
    let mut log = Log::new();
    for (source, got) in news.iter() {
        let number = next[source];
        ensure!(got == message(source, number), "message {number} of {source} is another");
        next[source] += 1;
        log.push((source, number));
    }
    let own = if settings.order == Order::Total { messages } else { 0 };
    for (source, &count) in next.iter().enumerate() {
        let sent = if source == rank.id() { own } else { messages };
        ensure!(count == sent, "{count} messages of {source}, which sent {sent}");
    }
    Ok(log)
}

/// Returns the error of the world, if that was the cause.
fn kind(ended: &Result<()>) -> Option<&ErrorKind> {
    ended.as_ref().err().map(Error::kind)
}

#[test]
fn storms_woken_by_the_futex() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| storm(rank, settings(Notifier::Futex), 60, 300).map(drop));
    }
}

#[test]
fn storms_woken_by_signals() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| storm(rank, settings(Notifier::Signal), 60, 300).map(drop));
    }
}

#[test]
fn all_ranks_at_once_on_trees_of_every_degree() {
    for ranks in [2, 3, 5, 8] {
        for degree in 1..ranks {
            on_all(ranks, |rank| {
                // The ranks of one world use both ways.
                let notifier = NOTIFIERS[(rank.id() + degree) % 2];
                let degree = Some(degree);
                let settings = AsyncSettings { degree, window: 1, ..settings(notifier) };
                storm(rank, settings, 25, 0).map(drop)
            });
        }
    }
}

#[test]
fn the_same_order_at_all_ranks() {
    for ranks in [1, 2, 3, 5, 8] {
        let run = run_on_all_with(
            ranks,
            |world| world,
            |rank| {
                let settings = AsyncSettings {
                    order: Order::Total,
                    degree: Some(2.min(rank.size() - 1).max(1)),
                    ..settings(NOTIFIERS[rank.id() % 2])
                };
                storm(rank, settings, 40, 100)
            },
        );
        for (kind, logs) in run.each() {
            let logs = logs.unwrap_or_else(|error| panic!("{ranks} {kind}: {error}"));
            assert!(logs.iter().all(|log| *log == logs[0]), "{ranks} {kind}");
        }
    }
}

#[test]
fn a_replicated_map() {
    let run = run_on_all_with(
        4,
        |world| world,
        |rank| {
            let map = Arc::new(Mutex::new(BTreeMap::new()));
            let replica = Arc::clone(&map);
            let settings = AsyncSettings { order: Order::Total, ..settings(Notifier::Futex) };
            let broadcasts =
                AsyncBroadcast::open(rank, "map", settings, move |source, message| {
                    let mut map = replica.lock().unwrap();
                    let value = map.entry(message[0]).or_insert(0_u64);
                    // The result depends on the order.
                    *value = value.wrapping_mul(31).wrapping_add(source as u64 + 1);
                })?;
            for number in 0..50 {
                broadcasts.broadcast(&[number % 3])?;
            }
            broadcasts.finish()?;
            let map = map.lock().unwrap();
            Ok(map.clone().into_iter().collect::<Vec<_>>())
        },
    );
    for (kind, maps) in run.each() {
        let maps = maps.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(maps[0].len(), 3);
        assert!(maps.iter().all(|map| *map == maps[0]), "{kind}: {maps:?}");
    }
}

/// A handler that waits closes the windows of the sources. Memory stays bounded meanwhile.
#[test]
fn a_slow_handler_slows_down_its_sources() {
    on_all(3, |rank| {
        let (sender, news) = mpsc::channel();
        let slow = rank.id() == 2;
        let broadcasts = AsyncBroadcast::open(rank, "slow", settings(Notifier::Futex), {
            move |source, message| {
                if slow {
                    sleep(Duration::from_millis(2));
                }
                sender.send((source, message.to_vec())).unwrap_or_default();
            }
        })?;
        let started = Instant::now();
        for number in 0..30_u8 {
            broadcasts.broadcast(&[number; CHUNK])?;
            let kept = broadcasts.kept_bytes();
            ensure!(kept <= 3 * (4 + 2) * CHUNK, "{kept} bytes kept");
        }
        let took = started.elapsed();
        broadcasts.finish()?;
        // Except for the last windows, ranks 0 and 1 wait for rank 2, which has 60 messages to handle.
        if !slow {
            ensure!(took > Duration::from_millis(2 * (60 - 4 * 4)), "not slowed down: {took:?}");
        }
        ensure!(news.iter().count() == 60, "not all messages");
        Ok(())
    });
}

/// A handler that takes long must not prevent its rank from passing messages on.
#[test]
fn a_rank_whose_handler_runs_passes_messages_on() {
    on_all(3, |rank| {
        let (sender, news) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let blocks = rank.id() == 1;
        let chain = AsyncSettings { degree: Some(1), ..settings(Notifier::Futex) };
        let broadcasts = AsyncBroadcast::open(rank, "through", chain, move |_, message| {
            if blocks {
                wait.recv().unwrap_or_default();
            }
            sender.send(message.len()).unwrap_or_default();
        })?;
        let one = mp_core::Channel::degree(1);
        match rank.id() {
            0 => (0..4).try_for_each(|number| broadcasts.broadcast(&vec![0; number]))?,
            // Until rank 2 has all four messages, which this rank passes on.
            1 => {
                rank.receiver::<u8>("through", 2, one)?.receive()?;
                (0..4).for_each(|_| go.send(()).unwrap_or_default());
            }
            _ => {
                let all: Vec<_> = news.iter().take(4).collect();
                ensure!(all == [0, 1, 2, 3], "{all:?}");
                rank.sender::<u8>("through", 1, one)?.send(&0)?;
            }
        }
        drop(go);
        broadcasts.finish()
    });
}

#[test]
fn handlers_broadcast_without_waiting() {
    on_all(3, |rank| {
        let (sender, news) = mpsc::channel();
        let broadcasts = Arc::new(OnceLock::<AsyncBroadcast>::new());
        let within = Arc::downgrade(&broadcasts);
        // Rank 1 repeats every message, as far as it can.
        let echoes = rank.id() == 1;
        let opened = AsyncBroadcast::open(rank, "echo", settings(Notifier::Futex), {
            move |source, message| {
                let broadcasts = within.upgrade();
                if let Some(broadcasts) = broadcasts.as_ref().and_then(|b| b.get())
                    && echoes
                {
                    match broadcasts.broadcast(message) {
                        Err(error) if !matches!(error.kind(), ErrorKind::BadCall { .. }) => {
                            panic!("{error}")
                        }
                        _ => {}
                    }
                    let too_long = broadcasts.broadcast(&[0; 5 * CHUNK]);
                    let in_handler = matches!(kind(&too_long), Some(ErrorKind::BadCall { .. }));
                    assert!(in_handler, "{too_long:?}");
                }
                sender.send((source, message.to_vec())).unwrap_or_default();
            }
        })?;
        ensure!(broadcasts.set(opened).is_ok(), "set twice");
        let one = mp_core::Channel::degree(1);
        if rank.id() == 0 {
            rank.receiver::<u8>("ready", 1, one)?.receive()?;
            broadcasts.get().map_or(Ok(()), |b| b.broadcast(b"hello"))?;
        } else if rank.id() == 1 {
            rank.sender::<u8>("ready", 0, one)?.send(&0)?;
        }
        // Rank 1 hears rank 0, rank 0 hears the echo, and rank 2 hears both.
        let expected = [vec![1], vec![0], vec![0, 1]][rank.id()].clone();
        let mut heard = Vec::new();
        for _ in 0..expected.len() {
            let (source, text) = news.recv().map_err(Error::other)?;
            ensure!(text == b"hello", "{text:?}");
            heard.push(source);
        }
        heard.sort_unstable();
        ensure!(heard == expected, "{heard:?} instead of {expected:?}");
        // The handler may still hold it for a moment.
        let mut shared = broadcasts;
        let opened = loop {
            match Arc::try_unwrap(shared) {
                Ok(cell) => break cell.into_inner(),
                Err(again) => shared = again,
            }
            std::thread::yield_now();
        };
        opened.map_or(Ok(()), AsyncBroadcast::finish)
    });
}

/// Returns how many threads this process has.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// A thread that has ended and was joined may still be visible for a moment.
fn come_to_be(expected: usize) -> Result<()> {
    let started = Instant::now();
    while threads() != expected {
        let late = started.elapsed() > Duration::from_secs(20);
        ensure!(!late, "{} threads instead of {expected}", threads());
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn no_thread_is_left_and_nothing_runs_while_idle() {
    for notifier in NOTIFIERS {
        let result = World::processes(2).run(|rank| {
            let before = threads();
            let broadcasts = AsyncBroadcast::open(rank, "idle", settings(notifier), |_, _| ())?;
            broadcasts.broadcast(b"something")?;
            sleep(Duration::from_millis(50));
            come_to_be(before + 2)?;
            let used = processor_time();
            sleep(Duration::from_millis(300));
            let used = processor_time() - used;
            ensure!(used < Duration::from_millis(20), "{used:?} while idle");
            broadcasts.finish()?;
            come_to_be(before)
        });
        result.unwrap();
    }
}

/// The signal that wakes a rank is blocked only in the thread that waits for it.
#[test]
fn signals_leave_the_program_s_masks_alone() {
    let result = World::threads(2).run(|rank| {
        let mask = || nix::sys::signal::SigSet::thread_get_mask().map_err(Error::other);
        let line = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            status.lines().find(|line| line.starts_with("SigBlk")).map(str::to_owned)
        };
        let (before, blocked) = (mask()?, line());
        let (sender, news) = mpsc::channel();
        let broadcasts =
            AsyncBroadcast::open(rank, "masks", settings(Notifier::Signal), move |_, _| {
                sender.send(line()).unwrap_or_default();
            })?;
        broadcasts.broadcast(b"something")?;
        let within = news.recv().map_err(Error::other)?;
        ensure!(mask()? == before && line() == blocked, "changed");
        ensure!(within != blocked, "not blocked where it is waited for");
        broadcasts.finish()
    });
    result.unwrap();
}

/// The handler of rank 1 panics. The others hear of it in any call.
fn with_a_panic(rank: &Rank, notifier: Notifier, calls: u64) -> Result<()> {
    let broken = rank.id() == 1;
    let mut handled = 0;
    let broadcasts = AsyncBroadcast::open(rank, "panic", settings(notifier), move |_, _| {
        handled += 1;
        assert!(!broken || handled < 5, "the fifth");
    })?;
    let failure = (0..calls).find_map(|number| {
        sleep(Duration::from_micros(20));
        broadcasts.broadcast(&message(rank.id(), number as usize)).err()
    });
    let failure = match failure {
        Some(failure) => failure,
        None => match broadcasts.finish() {
            Err(failure) => failure,
            Ok(()) => return Err(Error::other("finished with a rank that panicked")),
        },
    };
    match (failure.kind(), broken) {
        (ErrorKind::OperationPanicked { message, .. }, true) if message == "the fifth" => Ok(()),
        // A rank that has heard of the loss and has ended is not taken for the lost one.
        (ErrorKind::PeerLost { rank: 1, .. }, false) => Ok(()),
        _ => Err(failure),
    }
}

#[test]
fn a_handler_that_panics_ends_the_broadcasts_of_all() {
    for notifier in NOTIFIERS {
        for calls in [10, 100] {
            on_all(3, |rank| with_a_panic(rank, notifier, calls));
        }
    }
}

#[test]
fn who_drops_its_part_leaves_the_others_alone() {
    on_all(3, |rank| {
        let broadcasts = AsyncBroadcast::open(rank, "left", settings(Notifier::Futex), |_, _| ())?;
        if rank.id() == 2 {
            return broadcasts.broadcast(b"farewell, or not");
        }
        let ended = broadcasts.finish();
        ensure!(matches!(kind(&ended), Some(ErrorKind::PeerLost { rank: 2, .. })), "{ended:?}");
        Ok(())
    });
}

#[test]
fn who_never_opens_them_is_missed() {
    on_all(3, |rank| {
        if rank.id() == 1 {
            return Ok(());
        }
        let broadcasts =
            AsyncBroadcast::open(rank, "missed", settings(Notifier::Futex), |_, _| ())?;
        let ended = broadcasts.finish();
        match kind(&ended) {
            Some(ErrorKind::PeerLost { .. } | ErrorKind::Disconnected { .. }) => Ok(()),
            _ => Err(Error::other(format!("{ended:?}"))),
        }
    });
}

#[test]
fn ranks_that_choose_differently_find_out() {
    on_all(2, |rank| {
        let window = 4 + rank.id() as u32;
        let settings = AsyncSettings { window, ..settings(Notifier::Futex) };
        let broadcasts = AsyncBroadcast::open(rank, "differ", settings, |_, _| ())?;
        let sent = broadcasts.broadcast(b"what window?");
        let ended = sent.and_then(|()| broadcasts.finish());
        let differs = matches!(kind(&ended), Some(ErrorKind::PeerBroken { .. }));
        let is_lost = matches!(kind(&ended), Some(ErrorKind::PeerLost { .. }));
        ensure!(differs || is_lost, "{ended:?}");
        Ok(())
    });
}

#[test]
fn misfits() {
    let run = World::threads(3).run(|rank| {
        for bad in [
            AsyncSettings { degree: Some(3), ..AsyncSettings::default() },
            AsyncSettings { degree: Some(0), ..AsyncSettings::default() },
            AsyncSettings { window: 0, ..AsyncSettings::default() },
        ] {
            let refused = AsyncBroadcast::open(rank, "misfit", bad, |_, _| ());
            let options =
                matches!(refused.as_ref().map_err(Error::kind), Err(ErrorKind::BadSettings { .. }));
            ensure!(options, "{bad:?}: {refused:?}");
        }
        Ok(())
    });
    run.unwrap();
}

/// Broadcasts until a rank is lost.
fn until_death(
    rank: &Rank,
    settings: AsyncSettings,
    victim: usize,
    die: impl Fn(u64),
) -> Result<()> {
    let broadcasts = AsyncBroadcast::open(rank, "mortal", settings, |_, _| ())?;
    for number in 0u64.. {
        if rank.id() == victim {
            die(number);
        }
        let sent = broadcasts.broadcast(&message(rank.id(), number as usize));
        match kind(&sent) {
            Some(ErrorKind::PeerLost { rank: lost, .. }) if *lost == victim => break,
            _ => sent?,
        }
    }
    Ok(())
}

fn of_seed(seed: u64) -> (usize, AsyncSettings, usize, u64) {
    let mut random = Random::new(seed);
    let ranks = 2 + random.below(5) as usize;
    let settings = AsyncSettings {
        degree: Some(1 + random.below(ranks as u64 - 1) as usize),
        order: if random.below(2) == 0 { Order::Total } else { Order::PerSource },
        ..settings(NOTIFIERS[seed as usize % 2])
    };
    (ranks, settings, random.below(ranks as u64) as usize, random.below(40))
}

#[test]
fn a_rank_panics_between_two_broadcasts() {
    let _watchdog = Watchdog::start();
    for seed in 0..30 {
        let (ranks, settings, victim, when) = of_seed(seed);
        let result = World::threads(ranks).run(|rank| {
            until_death(rank, settings, victim, |number| {
                assert!(number < when, "as it was to be");
            })
        });
        match result.map_err(Error::into_kind) {
            Err(ErrorKind::RanksFailed(failed))
                if failed.failures.len() == 1
                    && failed.failures[0].rank == victim
                    && failed.failures[0].cause == Cause::Panic("as it was to be".to_owned()) => {}
            other => panic!("{seed}: {other:?}"),
        }
    }
}

#[test]
fn a_rank_is_killed_at_any_time() {
    for seed in 0..40 {
        let _watchdog = Watchdog::start();
        let (ranks, settings, victim, _) = of_seed(seed);
        let delay = Duration::from_micros(Random::new(seed).below(8_000));
        let result = World::processes(ranks).run(|rank| {
            if rank.id() == victim {
                std::thread::spawn(move || {
                    sleep(delay);
                    match scenarios::die() {}
                });
            }
            until_death(rank, settings, victim, |_| ())
        });
        scenarios::check(result, victim).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// All other ranks are idle, or wait for the end.
#[test]
fn a_rank_is_killed_while_others_wait() {
    for notifier in NOTIFIERS {
        let _watchdog = Watchdog::start();
        let result = World::processes(3).run(|rank| {
            let broadcasts = AsyncBroadcast::open(rank, "idle", settings(notifier), |_, _| ())?;
            if rank.id() == 1 {
                sleep(Duration::from_millis(50));
                match scenarios::die() {}
            }
            let ended = broadcasts.finish();
            ensure!(matches!(kind(&ended), Some(ErrorKind::PeerLost { .. })), "{ended:?}");
            Ok(())
        });
        scenarios::check(result, 1).unwrap_or_else(|error| panic!("{error}"));
    }
}
