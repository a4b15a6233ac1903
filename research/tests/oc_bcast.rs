//! OC-Bcast on simulated machines of all sizes: every rank must get the message.

use mp_collectives::broadcast::{
    BroadcastError, Completion, Leaves, OcBcast, Options, OptionsError,
};
use mp_model::Time;
use mp_model::tree::TreeError;
use onchip_research::sim::{Core, Layout, Machine, Misfit, SimError, run};
use proptest::prelude::*;

const LINE_BYTES: usize = 16;
const CHUNK_LINES: usize = 3;
const CHUNK: usize = LINE_BYTES * CHUNK_LINES;

/// Returns a machine of any number of cores, with room for any degree.
fn machine(cores: usize) -> Machine {
    let layout = match cores {
        48 => Machine::scc().layout,
        _ => Layout::shared(cores),
    };
    Machine { layout, lines: 96, line_bytes: LINE_BYTES, ..Machine::scc() }
}

fn options(degree: usize) -> Options {
    let leaves = Leaves::ByMpb;
    Options {
        degree,
        chunk_lines: CHUNK_LINES,
        buffers: 2,
        leaves,
        completion: Completion::Received,
        first_line: 5,
    }
}

/// One broadcast of a series.
#[derive(Clone, Copy, Debug)]
struct Message {
    root: usize,
    bytes: usize,
}

/// Returns numbers that look random, but are the same every time.
fn noise(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

fn byte(series: usize, index: usize) -> u8 {
    noise((series as u64) << 32 | index as u64) as u8
}

/// Spends the time between two broadcasts: usually none, sometimes much.
fn dawdle(core: &mut Core, rank: usize, series: usize) {
    let random = noise((rank as u64) << 40 ^ series as u64);
    if random.is_multiple_of(3) {
        core.spend(Time::from_nanos(random % 50_000));
    }
}

/// Runs a series on all cores, and checks the messages of each.
fn check(cores: usize, options: Options, before: u32, series: &[Message]) -> Result<(), SimError> {
    use mp_core::mpb::MpbAccess;
    let run = run(machine(cores), async |core| {
        let rank = core.rank();
        let mut broadcasts = OcBcast::numbered_from(core, options, before).unwrap();
        for (number, &Message { root, bytes }) in series.iter().enumerate() {
            dawdle(core, rank, number);
            let message = |_| (0..bytes).map(|index| byte(number, index)).collect::<Vec<_>>();
            let mut got = if rank == root { message(()) } else { vec![0; bytes] };
            broadcasts.broadcast(core, &mut got, root).await.unwrap();
            if got != message(()) {
                return Err((rank, number));
            }
        }
        Ok(())
    })?;
    let wrong: Vec<_> = run.outputs.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{cores} ranks, {options:?}: wrong (rank, number): {wrong:?}");
    Ok(())
}

const LENGTHS: [usize; 6] = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK + 3];

#[test]
fn all_sizes_roots_degrees_and_lengths() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let mut degrees = vec![1, 2, 3, 7, (cores - 1).max(1)];
        degrees.retain(|&degree| degree < cores.max(2));
        degrees.dedup();
        for degree in degrees {
            for (leaves, completion) in [
                (Leaves::ByMpb, Completion::Received),
                (Leaves::Direct, Completion::Received),
                (Leaves::ByMpb, Completion::Buffered),
                (Leaves::Direct, Completion::Buffered),
            ] {
                let roots = (0..cores).map(|root| (root * 5 + root / 5) % cores);
                let series: Vec<_> =
                    roots.flat_map(|root| LENGTHS.map(|bytes| Message { root, bytes })).collect();
                let options = Options { leaves, completion, ..options(degree) };
                check(cores, options, 0, &series).unwrap();
            }
        }
    }
}

#[test]
fn any_number_of_buffers() {
    let series: Vec<_> =
        (0..12).map(|n| Message { root: n / 3, bytes: LENGTHS[n % 6] + n * CHUNK }).collect();
    for buffers in [1, 2, 3, 7] {
        for degree in [1, 3, 7] {
            for completion in [Completion::Received, Completion::Buffered] {
                let options = Options { buffers, completion, ..options(degree) };
                check(8, options, 0, &series).unwrap();
            }
        }
    }
}

#[test]
fn ten_thousand_in_a_row_while_the_numbers_come_round() {
    let series: Vec<_> = (0..10_000)
        .map(|number| {
            let random = noise(number);
            // The root usually stays the same for some broadcasts, and then changes.
            Message { root: (noise(number / 7) % 6) as usize, bytes: (random % 150) as usize }
        })
        .collect();
    for completion in [Completion::Received, Completion::Buffered] {
        let options = Options { completion, ..options(2) };
        check(6, options, u32::MAX - 5_000, &series).unwrap();
    }
}

#[test]
fn what_flags_said_an_age_ago_is_forgotten() {
    use mp_core::mpb::MpbAccess;
    // There is one buffer of many lines. A root that does not wait fills it faster than leaves empty it.
    let leaves = Leaves::Direct;
    let options = Options { buffers: 1, chunk_lines: 30, leaves, ..options(5) };
    let bytes = 9 * 30 * LINE_BYTES;
    let run = run(machine(6), async |core| {
        let rank = core.rank();
        let mut got = vec![0; bytes];
        // The children of rank 0 leave flags there with the value: broadcast 5, chunk 9.
        let mut broadcasts = OcBcast::new(core, options).unwrap();
        for _ in 1..=5 {
            broadcasts.broadcast(core, &mut got, 0).await.unwrap();
        }
        // With another root the numbers go to their end, and to 5 again.
        let mut broadcasts = OcBcast::numbered_from(core, options, u32::MAX - 1).unwrap();
        for root in [1, 1, 1, 1, 1, 1, 0] {
            let number = usize::from(root == 0);
            let message: Vec<_> = (0..bytes).map(|index| byte(number, index)).collect();
            got = if rank == root { message.clone() } else { vec![0; bytes] };
            broadcasts.broadcast(core, &mut got, root).await.unwrap();
            if got != message {
                return Err((rank, number));
            }
        }
        Ok(())
    });
    assert_eq!(run.unwrap().outputs, [Ok(()); 6]);
}

#[test]
fn one_root_needs_no_barrier_but_where_the_numbers_come_round() {
    let end = |before, roots: [usize; 3]| {
        let run = run(machine(8), async |core| {
            let mut broadcasts = OcBcast::numbered_from(core, options(3), before).unwrap();
            for root in roots {
                broadcasts.broadcast(core, &mut [1; 20], root).await.unwrap();
            }
        });
        run.unwrap().end()
    };
    let (plain, other) = (end(0, [2, 2, 2]), end(7, [2, 2, 2]));
    assert_eq!(plain, other);
    assert!(end(u32::MAX - 1, [2, 2, 2]) > plain);
    assert!(end(0, [2, 2, 3]) > plain);
}

#[test]
fn misfits_are_errors() {
    use mp_core::mpb::MpbAccess;
    let run = run(machine(8), async |core| {
        let lines = core.lines();
        let new = |options| OcBcast::new(core, options).map(|_| ());
        let too_many = TreeError::Degree { degree: 8, ranks: 8 };
        assert_eq!(new(options(8)), Err(OptionsError::Tree(too_many)));
        let empty = OptionsError::NoBuffer { buffers: 2, chunk_lines: 0 };
        assert_eq!(new(Options { chunk_lines: 0, ..options(2) }), Err(empty));
        let empty = OptionsError::NoBuffer { buffers: 0, chunk_lines: CHUNK_LINES };
        assert_eq!(new(Options { buffers: 0, ..options(2) }), Err(empty));
        // The flags are one for notifications, two for children, and three for the barrier.
        let flags = 6;
        for (chunk_lines, buffers, first_line) in
            [(45, 2, 1), (usize::MAX, 2, 0), (usize::MAX, 1, 0), (1, 1, usize::MAX), (1, 1, 96)]
        {
            let large = Options { chunk_lines, buffers, first_line, ..options(2) };
            let facts = OptionsError::NoRoom { flags, buffers, chunk_lines, first_line, lines };
            assert_eq!(new(large), Err(facts));
        }
        assert_eq!(
            new(Options { chunk_lines: 45, buffers: 2, first_line: 0, ..options(2) }),
            Ok(())
        );
        let mut broadcasts = OcBcast::new(core, options(2)).unwrap();
        let root = broadcasts.broadcast(core, &mut [0; 5], 8).await;
        let missing = TreeError::NoSuchRank { rank: 8, ranks: 8 };
        assert_eq!(root, Err(BroadcastError::<Misfit>::Root(missing)));
    });
    run.unwrap();
}

fn any_series() -> impl Strategy<Value = (usize, Options, u32, Vec<Message>)> {
    let sizes = (1_usize..=20).prop_flat_map(|cores| (Just(cores), 1..=(cores - 1).max(1)));
    (sizes, 1_usize..4, 1_usize..5, any::<bool>(), any::<bool>()).prop_flat_map(
        |((cores, degree), buffers, chunk_lines, direct, wraps)| {
            let leaves = if direct { Leaves::Direct } else { Leaves::ByMpb };
            let options = Options {
                degree,
                chunk_lines,
                buffers,
                leaves,
                completion: Completion::Received,
                first_line: 0,
            };
            let message = (0..cores, 0_usize..300);
            let message = message.prop_map(|(root, bytes)| Message { root, bytes });
            let before = if wraps { u32::MAX - 4 } else { 0 };
            (Just(cores), Just(options), Just(before), prop::collection::vec(message, 1..20))
        },
    )
}

proptest! {
    #[test]
    fn any_series_of_broadcasts((cores, options, before, series) in any_series()) {
        check(cores, options, before, &series).unwrap();
    }
}
