//! Asynchronous broadcasts on simulated machines of all sizes: every rank gets every message once, in order, and in
//! bounded memory.
#![cfg(not(loom))]

use std::collections::{BTreeMap, VecDeque};

use mp_collectives::broadcast::Leaves;
use mp_collectives::broadcast::asynchronous::{
    AsyncError, AsyncOptions, AsyncOptionsError, Delivery, Member, Order, Progress, Sending,
};
use mp_core::mpb::{Interrupts, Line, MpbAccess};
use mp_model::Time;
use mp_model::tree::TreeError;
use onchip_research::served::Served;
use onchip_research::sim::{Core, InterruptCosts, Layout, Machine, Misfit, WaitForInterrupt, run};
use proptest::prelude::*;

const LINE_BYTES: usize = 16;
const CHUNK_LINES: usize = 3;
const CHUNK: usize = LINE_BYTES * CHUNK_LINES;

/// Returns a machine of any number of cores.
fn machine(cores: usize) -> Machine {
    let layout = match cores {
        48 => Machine::scc().layout,
        _ => Layout::shared(cores),
    };
    let interrupts = InterruptCosts::FITTED;
    Machine { layout, lines: 96, line_bytes: LINE_BYTES, interrupts, ..Machine::scc() }
}

fn options(degree: usize) -> AsyncOptions {
    AsyncOptions {
        degree,
        chunk_lines: CHUNK_LINES,
        window: 4,
        leaves: Leaves::ByMpb,
        order: Order::PerSource,
        first_line: 5,
    }
}

/// Returns numbers that look random, but are the same every time.
fn noise(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

/// The messages of all ranks, and the ranks' behaviour.
#[derive(Clone, Debug)]
struct Storm {
    /// The lengths of each rank's messages.
    lengths: Vec<Vec<usize>>,
    /// The longest time that a rank may be away between two messages, in nanoseconds.
    pause: u64,
    /// The longest time that a handler may take.
    handling: u64,
}

impl Storm {
    fn message(&self, source: usize, number: usize) -> Vec<u8> {
        let seed = (source as u64) << 48 | (number as u64) << 24;
        (0..self.lengths[source][number]).map(|index| noise(seed | index as u64) as u8).collect()
    }

    fn random(ranks: usize, messages: usize, longest: usize, seed: u64) -> Storm {
        let length = |source: usize, number: usize| {
            let random = noise(seed << 32 | (source as u64) << 16 | number as u64);
            // Some messages are short, some have about one chunk, and some are long.
            let most = [2, CHUNK + 2, CHUNK + 2, longest][random as usize % 4];
            (random >> 8) as usize % (most + 1)
        };
        let lengths =
            (0..ranks).map(|source| (0..messages).map(|number| length(source, number)).collect());
        Storm { lengths: lengths.collect(), pause: 60_000, handling: 20_000 }
    }

    fn longest(&self) -> usize {
        self.lengths.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Returns the most bytes that a rank keeps, according to the module's documentation.
    fn bound(&self, options: AsyncOptions) -> usize {
        let chunk = options.chunk_lines * LINE_BYTES;
        let of_one = options.window as usize * chunk + 2 * self.longest();
        // In addition, an order of rank 0, which only rank 0 sends.
        let order = self.lengths.len() * options.window as usize * 4;
        self.lengths.len() * of_one + order
    }
}

fn dawdle(core: &mut Core, most: u64, seed: u64) {
    let random = noise(seed ^ (core.rank() as u64) << 40);
    if most > 0 && random.is_multiple_of(3) {
        core.spend(Time::from_nanos(random % most));
    }
}

/// The messages that a rank has handled, in this order: their sources, and their numbers.
type Log = Vec<(usize, usize)>;

/// Runs a storm. All ranks check their messages, and their logs are returned.
fn rage(storm: &Storm, options: AsyncOptions, before: u32) -> Vec<Log> {
    let ranks = storm.lengths.len();
    let run = run(machine(ranks), async |core| {
        let member = Member::new(core, options).unwrap().counted_from(core, before).await.unwrap();
        let mut served = Served::of(member);
        let me = core.rank();
        // The flags are there before any rank reads them.
        core.sleep_until(Time::from_nanos(1_000_000));
        let mut log = Log::new();
        let mut next = vec![0; ranks];
        let mut handler = async |core: &mut Core, source: usize, message: &[u8]| {
            assert!(next[source] < storm.lengths[source].len(), "{me}: too many of {source}");
            assert_eq!(message, storm.message(source, next[source]), "rank {me} of {source}");
            log.push((source, next[source]));
            next[source] += 1;
            dawdle(core, storm.handling, log.len() as u64);
        };
        for number in 0..storm.lengths[me].len() {
            dawdle(core, storm.pause, number as u64);
            served.broadcast(core, &storm.message(me, number), &mut handler).await.unwrap();
            let kept = served.member().kept_bytes();
            assert!(kept <= storm.bound(options), "{kept} bytes, {}", storm.bound(options));
        }
        served.finish(core, &mut handler).await.unwrap();
        log
    });
    let logs = run.unwrap().outputs;
    for (rank, log) in logs.iter().enumerate() {
        let mut expected: Vec<(usize, usize)> = Vec::new();
        for (source, lengths) in storm.lengths.iter().enumerate() {
            if source != rank || options.order == Order::Total {
                expected.extend((0..lengths.len()).map(|number| (source, number)));
            }
        }
        // Each message is in the log once. The handler has checked that the messages of one source were in order.
        let mut sorted = log.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "rank {rank}");
        if options.order == Order::Total {
            assert_eq!(*log, logs[0], "rank {rank}");
        }
    }
    logs
}

fn degrees(ranks: usize) -> impl Iterator<Item = usize> {
    1..=(ranks - 1).max(1)
}

#[test]
fn storms_of_all_sizes_and_degrees() {
    for ranks in 1..=12 {
        for degree in degrees(ranks) {
            for order in [Order::PerSource, Order::Total] {
                let storm = Storm::random(ranks, 12, 10 * CHUNK + 3, degree as u64);
                rage(&storm, AsyncOptions { order, ..options(degree) }, 0);
            }
        }
    }
}

#[test]
fn storms_on_many_cores() {
    for ranks in [16, 33, 48] {
        for degree in [1, 2, 3, 7, ranks - 1] {
            let storm = Storm::random(ranks, 4, 5 * CHUNK, degree as u64);
            rage(&storm, options(degree), 0);
            rage(&storm, AsyncOptions { order: Order::Total, ..options(degree) }, 0);
        }
    }
}

#[test]
fn every_degree_on_the_scc() {
    for degree in degrees(48) {
        rage(&Storm::random(48, 1, 2 * CHUNK, degree as u64), options(degree), 0);
    }
}

#[test]
fn all_at_once_with_the_narrowest_window() {
    for ranks in [2, 3, 5, 8] {
        for degree in degrees(ranks) {
            for leaves in [Leaves::ByMpb, Leaves::Direct] {
                for order in [Order::PerSource, Order::Total] {
                    let storm = Storm { pause: 0, ..Storm::random(ranks, 10, 9 * CHUNK, 7) };
                    rage(&storm, AsyncOptions { window: 1, leaves, order, ..options(degree) }, 0);
                }
            }
        }
    }
}

#[test]
fn lengths_around_a_chunk_and_a_window() {
    let window = 4 * CHUNK;
    let lengths =
        [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, window - 1, window, window + 1, 10 * CHUNK + 3, 0, 0];
    for order in [Order::PerSource, Order::Total] {
        for ranks in [1, 2, 4] {
            let storm = Storm { lengths: vec![lengths.to_vec(); ranks], pause: 0, handling: 0 };
            rage(&storm, AsyncOptions { order, ..options(1) }, 0);
        }
    }
}

#[test]
fn counts_come_round() {
    for order in [Order::PerSource, Order::Total] {
        for before in [u32::MAX, u32::MAX - 7, u32::MAX - 40] {
            let storm = Storm::random(5, 20, 6 * CHUNK, 3);
            rage(&storm, AsyncOptions { order, ..options(2) }, before);
        }
    }
}

#[test]
fn ten_thousand_in_a_row_across_the_counts_end() {
    let lengths = vec![vec![3; 10_000], vec![], vec![]];
    let storm = Storm { lengths, pause: 0, handling: 0 };
    rage(&storm, options(1), u32::MAX - 5_000);
}

#[test]
fn sources_wait_for_a_slow_handler() {
    // Rank 2 is interrupted and passes messages on, but handles none for a long time.
    const MESSAGES: u32 = 20;
    let at_rest = Time::from_nanos(50_000_000);
    let options = options(1);
    let run = run(machine(4), async |core| {
        let mut member = Member::new(core, options).unwrap();
        let mut sources = Vec::new();
        let mut sent_early = 0;
        let mut unhandled = VecDeque::new();
        let mut sending = Sending::default();
        let mut sent = 0;
        loop {
            core.take_interrupts(&mut sources).await.unwrap();
            for parent in sources.drain(..) {
                member.receive(core, parent).await.unwrap();
            }
            member.progress(core).await.unwrap();
            while let Some(delivery) = member.next_delivery() {
                unhandled.push_back(delivery);
            }
            if core.rank() != 2 || core.now() > at_rest {
                for delivery in unhandled.drain(..) {
                    member.handled(core, delivery).await.unwrap();
                }
            }
            if core.now() < at_rest {
                sent_early = sent;
            }
            let most = options.window as usize * CHUNK * 3;
            let bytes = |delivery: &Delivery| delivery.message().len();
            assert!(unhandled.iter().map(bytes).sum::<usize>() <= most, "rank {}", core.rank());
            if sent < MESSAGES && core.rank() != 3 {
                let message = vec![sent as u8; CHUNK];
                if let Progress::Done = member.send(core, &message, &mut sending).await.unwrap() {
                    sending = Sending::default();
                    sent += 1;
                }
            } else {
                member.say_farewell();
            }
            if member.is_over() {
                return sent_early;
            }
            core.spend(Time::from_nanos(3_000));
        }
    });
    let sent_early = run.unwrap().outputs;
    // Ranks 0 and 1 sent as many messages as their windows allow. Rank 2 itself does not have to wait.
    assert_eq!(sent_early, [options.window, options.window, MESSAGES, 0]);
}

#[test]
fn a_replicated_map() {
    // Every rank writes its own mark under the same keys. All ranks must agree at every step which mark was last.
    for (ranks, degree) in [(2, 1), (5, 2), (12, 3), (48, 7)] {
        let options = AsyncOptions { order: Order::Total, ..options(degree) };
        let run = run(machine(ranks), async |core| {
            let me = core.rank() as u8;
            let mut served = Served::new(core, options).unwrap();
            let mut map = BTreeMap::new();
            let mut history = Vec::new();
            let mut handler = async |core: &mut Core, source: usize, message: &[u8]| {
                let &[key, value] = message else { panic!("{message:?}") };
                assert_eq!(usize::from(value >> 2), source);
                map.insert(key, value);
                let digest = map.iter().fold(0, |digest, (&key, &value)| {
                    noise(digest ^ u64::from(key) << 8 ^ u64::from(value))
                });
                history.push(digest);
                dawdle(core, 30_000, digest);
            };
            for number in 0..3 {
                dawdle(core, 100_000, number);
                let key = noise(number ^ u64::from(me) << 20) as u8 % 4;
                let value = me << 2 | number as u8;
                served.broadcast(core, &[key, value], &mut handler).await.unwrap();
            }
            served.finish(core, &mut handler).await.unwrap();
            history
        });
        let histories = run.unwrap().outputs;
        assert_eq!(histories[0].len(), 3 * ranks);
        assert!(histories.iter().all(|history| *history == histories[0]));
    }
}

#[test]
fn without_a_total_order_ranks_see_different_ones() {
    // If broadcasts were in the same order everywhere anyway, the test with the map would show nothing.
    let logs = rage(&Storm { pause: 0, ..Storm::random(8, 10, CHUNK, 1) }, options(2), 0);
    let order_of = |log: &Log, a: usize, b: usize| {
        let place = |source: usize| log.iter().position(|&entry| entry == (source, 5));
        place(a).zip(place(b)).map(|(a, b)| a < b)
    };
    let differ = (0..8).flat_map(|a| (0..a).map(move |b| (a, b))).any(|(a, b)| {
        let mut seen = logs.iter().filter_map(|log| order_of(log, a, b));
        let first = seen.next();
        seen.any(|other| Some(other) != first)
    });
    assert!(differ);
}

#[test]
fn one_thread_of_control_may_come_late() {
    // Rank 3 begins when all others have been waiting for a long time.
    let run = run(machine(6), async |core| {
        let mut served = Served::new(core, options(2)).unwrap();
        let mut got = 0;
        let mut handler = async |_: &mut Core, _: usize, message: &[u8]| {
            assert_eq!(message, [7; 5 * CHUNK]);
            got += 1;
        };
        if core.rank() == 3 {
            core.spend(Time::from_nanos(100_000_000));
        } else {
            served.broadcast(core, &[7; 5 * CHUNK], &mut handler).await.unwrap();
        }
        served.finish(core, &mut handler).await.unwrap();
        got
    });
    assert_eq!(run.unwrap().outputs, [4, 4, 4, 5, 4, 4]);
}

#[test]
fn nothing_after_a_farewell() {
    let run = run(machine(1), async |core| {
        let mut member = Member::new(core, options(1)).unwrap();
        member.say_farewell();
        let refused = member.send(core, &[1], &mut Sending::default()).await;
        assert_eq!(refused, Err(AsyncError::Farewell));
        member.progress(core).await.unwrap();
        assert!(member.is_over());
    });
    run.unwrap();
}

/// Returns the result of rank 1 for five bytes of rank 0 whose header was changed on the way.
fn after(change: impl Fn(&mut [u8])) -> Result<(), AsyncError<Misfit>> {
    let run = run(machine(3), async |core| {
        let mut member = Member::new(core, options(1)).unwrap();
        match core.rank() {
            0 => {
                member.send(core, &[1; 5], &mut Sending::default()).await.unwrap();
                let place = Line { rank: 0, line: 5 + 3 };
                let mut header = [0; 24];
                core.get(place, &mut header).await.unwrap();
                change(&mut header);
                core.put(&header, place).await.unwrap();
                Ok(())
            }
            1 => {
                core.wait_interrupt().await.unwrap();
                core.spend(Time::from_nanos(100_000));
                member.receive(core, 0).await
            }
            _ => Ok(()),
        }
    });
    run.unwrap().outputs[1]
}

fn after_header(kind: u8, source: u32, length: u64, offset: u64) -> Result<(), AsyncError<Misfit>> {
    after(|header| {
        header[0] = kind;
        header[4..8].copy_from_slice(&source.to_le_bytes());
        header[8..16].copy_from_slice(&length.to_le_bytes());
        header[16..].copy_from_slice(&offset.to_le_bytes());
    })
}

#[test]
fn what_no_rank_writes_is_an_error() {
    let corrupt = |what| Err(AsyncError::Corrupt { rank: 0, what });
    assert_eq!(after(|_| ()), Ok(()));
    assert_eq!(after_header(1, 0, 5, 0), Ok(()));
    assert_eq!(after_header(3, 0, 0, 0), Ok(()));
    assert_eq!(after(|header| header.fill(0)), corrupt("no header"));
    assert_eq!(after_header(9, 0, 5, 0), corrupt("no header"));
    for byte in 1..4 {
        assert_eq!(after(|header| header[byte] ^= 4), corrupt("it has other options"));
    }
    assert_eq!(after_header(1, 3, 5, 0), corrupt("no such source"));
    assert_eq!(after_header(1, 1, 5, 0), corrupt("not the parent in the source's tree"));
    let chunks = "chunks do not follow each other";
    assert_eq!(after_header(1, 0, 5, 5), corrupt(chunks));
    assert_eq!(after_header(1, 0, 5, u64::MAX), corrupt(chunks));
    assert_eq!(after_header(2, 0, 5, 0), corrupt("half a place in the order"));
    assert_eq!(after_header(2, 2, 4, 0), corrupt("an order that is not the sequencer's"));
    let memory = Err(AsyncError::OutOfMemory { bytes: usize::MAX });
    assert_eq!(after_header(1, 0, u64::MAX, 0), memory);
}

#[test]
fn misfits() {
    let run = run(machine(8), async |core| {
        let lines = core.lines();
        let new = |options| Member::new(core, options).map(|_| ());
        let too_many = TreeError::Degree { degree: 8, ranks: 8 };
        assert_eq!(new(options(8)), Err(AsyncOptionsError::Tree(too_many)));
        let none = AsyncOptions { chunk_lines: 0, ..options(2) };
        assert_eq!(new(none), Err(AsyncOptionsError::NoChunk));
        for window in [0, 1 << 31, u32::MAX] {
            let facts = AsyncOptionsError::Window { window };
            assert_eq!(new(AsyncOptions { window, ..options(2) }), Err(facts));
        }
        // Eight lines for answers, and two lines of 16 bytes for the header.
        let flags = 10;
        assert_eq!(new(AsyncOptions { chunk_lines: 86, first_line: 0, ..options(2) }), Ok(()));
        for (chunk_lines, first_line) in [(86, 1), (87, 0), (usize::MAX, 0), (1, usize::MAX)] {
            let facts = AsyncOptionsError::NoRoom { flags, chunk_lines, first_line, lines };
            assert_eq!(new(AsyncOptions { chunk_lines, first_line, ..options(2) }), Err(facts));
        }
    });
    run.unwrap();
}

fn any_storm() -> impl Strategy<Value = (Storm, AsyncOptions, u32)> {
    let sizes = (1_usize..=14).prop_flat_map(|ranks| (Just(ranks), 1..=(ranks - 1).max(1)));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, 1_u32..6, 1_usize..5, flags, 0_u64..100_000, 0_u64..100_000).prop_flat_map(
        |((ranks, degree), window, chunk_lines, (direct, total, wraps), pause, handling)| {
            let options = AsyncOptions {
                degree,
                chunk_lines,
                window,
                leaves: if direct { Leaves::Direct } else { Leaves::ByMpb },
                order: if total { Order::Total } else { Order::PerSource },
                first_line: 0,
            };
            let lengths = prop::collection::vec(0_usize..300, 0..8);
            let lengths = prop::collection::vec(lengths, ranks);
            let storm = lengths.prop_map(move |lengths| Storm { lengths, pause, handling });
            (storm, Just(options), Just(if wraps { u32::MAX - 10 } else { 0 }))
        },
    )
}

proptest! {
    #[test]
    fn any_series_of_broadcasts((storm, options, before) in any_storm()) {
        rage(&storm, options, before);
    }
}
