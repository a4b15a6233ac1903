//! All ranks get the message.

use mp_collectives::{
    broadcast::{Completion, Leaves, OcBcast, Options},
    complete,
};
use mp_core::{Error, Rank, Result, mpb::Mpbs};
use onchip_research::two_sided::{TwoSided, binomial, scatter_allgather};

use crate::support::{Random, on_all};

const CHUNK_LINES: usize = 2;
const CHUNK: usize = CHUNK_LINES * 64;
const LENGTHS: [usize; 6] = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK + 3];

const WAYS: [(Leaves, Completion); 4] = [
    (Leaves::ByMpb, Completion::Received),
    (Leaves::Direct, Completion::Received),
    (Leaves::ByMpb, Completion::Buffered),
    (Leaves::Direct, Completion::Buffered),
];

fn options(degree: usize, way: usize) -> Options {
    let (leaves, completion) = WAYS[way % WAYS.len()];
    Options { degree, chunk_lines: CHUNK_LINES, buffers: 2, leaves, completion, first_line: 3 }
}

/// Returns the degrees 1, 2, 3, 7 and P − 1, if there are such trees.
fn degrees(ranks: usize) -> Vec<usize> {
    let mut degrees = vec![1, 2, 3, 7, ranks.max(2) - 1];
    degrees.retain(|&degree| degree < ranks.max(2));
    degrees.sort_unstable();
    degrees.dedup();
    degrees
}

/// One broadcast of a series.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub root: usize,
    pub bytes: usize,
}

impl Message {
    fn content(self, number: usize) -> Vec<u8> {
        (0..self.bytes).map(|index| (index * 7 + index / 256 + number * 31 + 1) as u8).collect()
    }

    /// Returns the rank's buffer before the broadcast.
    pub fn start(self, rank: usize, number: usize) -> Vec<u8> {
        if rank == self.root { self.content(number) } else { vec![0; self.bytes] }
    }
}

pub fn same(got: &[u8], message: Message, number: usize) -> Result<()> {
    ensure!(got == message.content(number), "broadcast {number} arrived broken: {message:?}");
    Ok(())
}

/// Runs a series in separate MPBs.
fn oc_bcast(
    rank: &Rank,
    options: Options,
    before: u32,
    series: impl IntoIterator<Item = Message>,
) -> Result<()> {
    let mut mpb = rank.mpb("oc-bcast", Mpbs::lines(80))?;
    let mut broadcasts = OcBcast::numbered_from(&mpb, options, before)?;
    for (number, message) in series.into_iter().enumerate() {
        let mut got = message.start(rank.id(), number);
        complete(broadcasts.broadcast(&mut mpb, &mut got, message.root))?;
        same(&got, message, number)?;
    }
    Ok(())
}

#[test]
fn all_roots_degrees_and_lengths() {
    for ranks in 1..=6 {
        on_all(ranks, |rank| {
            for degree in degrees(ranks) {
                for way in 0..WAYS.len() {
                    let series =
                        (0..ranks).flat_map(|root| LENGTHS.map(|bytes| Message { root, bytes }));
                    oc_bcast(rank, options(degree, way), 0, series)?;
                }
            }
            Ok(())
        });
    }
}

/// All roots, all degrees and all lengths, but not all combinations.
#[test]
fn many_ranks() {
    for ranks in (7..=12).chain([16, 33, 48]) {
        on_all(ranks, |rank| {
            for (turn, degree) in degrees(ranks).into_iter().enumerate() {
                let roots = (turn..ranks).step_by(degrees(ranks).len());
                let series = roots.flat_map(|root| {
                    let length = LENGTHS[(root / 5 + turn) % LENGTHS.len()];
                    [length, LENGTHS[root % LENGTHS.len()]].map(|bytes| Message { root, bytes })
                });
                oc_bcast(rank, options(degree, turn + ranks), 0, series)?;
            }
            Ok(())
        });
    }
}

#[test]
fn ten_thousand_in_a_row_while_the_numbers_come_round() {
    on_all(4, |rank| {
        let mut random = Random::new(7);
        let mut root = 0;
        let series: Vec<_> = (0..10_000)
            .map(|_| {
                // The root usually stays the same for some broadcasts, and then changes.
                if random.below(7) == 0 {
                    root = random.below(4) as usize;
                }
                Message { root, bytes: random.below(600) as usize }
            })
            .collect();
        oc_bcast(rank, options(2, 0), u32::MAX - 5_000, series.clone())?;
        oc_bcast(rank, options(2, 3), u32::MAX - 5_000, series)
    });
}

#[test]
fn any_number_of_buffers() {
    on_all(5, |rank| {
        for buffers in [1, 3, 7] {
            for degree in [1, 4] {
                let series =
                    (0..30).map(|n| Message { root: n / 7, bytes: LENGTHS[n % 6] + n * CHUNK });
                oc_bcast(rank, Options { buffers, ..options(degree, buffers) }, 0, series)?;
            }
        }
        Ok(())
    });
}

#[test]
fn two_sided_broadcasts() {
    for ranks in [1, 2, 3, 5, 8, 16] {
        on_all(ranks, |rank| {
            let mut mpb = rank.mpb("two-sided", Mpbs::default())?;
            let mut messages = TwoSided::new(&mpb, 7, CHUNK_LINES)?;
            for (number, root) in (0..ranks).flat_map(|root| [root; 6]).enumerate() {
                let message = Message { root, bytes: LENGTHS[number % 6] + number % 3 * ranks };
                let mut got = message.start(rank.id(), number);
                complete(binomial(&mut messages, &mut mpb, &mut got, root))?;
                same(&got, message, number)?;
                let mut got = message.start(rank.id(), number);
                complete(scatter_allgather(&mut messages, &mut mpb, &mut got, root))?;
                same(&got, message, number)?;
            }
            Ok(())
        });
    }
}

#[test]
fn misfits_are_errors_of_the_world() {
    on_all(2, |rank| {
        let mut mpb = rank.mpb("short", Mpbs::lines(8))?;
        let refused = OcBcast::new(&mpb, options(1, 0)).map_err(Error::from).err();
        let refused = refused.map(|error| error.to_string()).unwrap_or_default();
        ensure!(refused.contains("do not fit into an MPB of 8 lines"), "{refused}");
        let mut messages = TwoSided::new(&mpb, 0, 1)?;
        let missing = complete(binomial(&mut messages, &mut mpb, &mut [1], 2));
        let missing = missing.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(missing == "rank 2 of 2", "{missing}");
        let missing = complete(messages.send(&mut mpb, &[1], 2));
        ensure!(missing.is_err(), "sent to nobody");
        Ok(())
    });
}
