//! Reductions on simulated machines.

mod support;

use mp_collectives::reduce::{
    BlockOptions, BlockReduce, Blocks, ChunkOptions, ChunkReduce, Cut, LineReduce, Meeting, Parts,
    Prefix, ReduceError, ReduceOptionsError, Sum, packed,
};
use mp_core::mpb::MpbAccess;
use onchip_research::sim::{Layout, Machine, run};
use proptest::{collection, prelude::*};

use support::Erratic;

fn machine(cores: usize, lines: usize) -> Machine {
    Machine { layout: Layout::shared(cores), lines, ..Machine::scc() }
}

/// Returns an element of a rank at an index. Elements that list the ranks would be longer.
fn element(rank: usize, index: usize, number: usize) -> u16 {
    (rank * rank + 3 * index + 7 * number) as u16
}

/// All algorithms in turn, on cores that are sometimes late, before any operation.
#[test]
fn all_algorithms_on_all_numbers_of_cores() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let slots = 4;
        let first = LineReduce::lines(slots, cores).unwrap();
        let blocks = BlockOptions { block_lines: 2, first_line: first };
        let first = first + blocks.lines(cores).unwrap();
        let chunks = ChunkOptions { chunk_lines: 2, buffers: 3, first_line: first };
        let lines = first + chunks.lines(cores).unwrap();
        let run = run(machine(cores, lines), async |core| {
            let me = core.rank();
            let core = &mut Erratic::new(core);
            let mut by_lines = LineReduce::new(core, slots, 0).unwrap();
            let mut by_blocks = BlockReduce::new(core, blocks).unwrap();
            let mut by_chunks = ChunkReduce::new(core, chunks).unwrap();
            let lengths = [0, 1, 11, 12, 13, 24, 33, 200, 1_003];
            for number in 0..6 * lengths.len() {
                let (count, root) = (lengths[number / 6], (number * 5) % cores);
                let short = count.min(24);
                let count = if number % 6 < 3 { short } else { count };
                let own = (0..count).map(|index| element(me, index, number));
                let (mut got, sum) = (own.collect::<Vec<_>>(), u16::wrapping_add);
                let to_one = match number % 6 {
                    0 | 1 => {
                        let meeting = [Meeting::Doubling, Meeting::FirstRank][number % 2];
                        by_lines.all_reduce(core, &mut got, &sum, meeting).await.unwrap();
                        false
                    }
                    2 => {
                        by_lines.reduce(core, &mut got, &sum, root).await.unwrap();
                        true
                    }
                    3 => {
                        by_blocks.whole(core, &mut got, &sum).await.unwrap();
                        false
                    }
                    4 => {
                        let root = number.is_multiple_of(4).then_some(root);
                        by_blocks.scattered(core, &mut got, &sum, root).await.unwrap();
                        root.is_some()
                    }
                    _ => {
                        by_chunks.reduce(core, &mut got, &sum, root).await.unwrap();
                        true
                    }
                };
                if !to_one || me == root {
                    let place = |index| {
                        let of = |rank| element(rank, index, number);
                        (0..cores).map(of).fold(0, u16::wrapping_add)
                    };
                    let expected: Vec<_> = (0..count).map(place).collect();
                    assert_eq!(got, expected, "{cores} cores, rank {me}, number {number}");
                }
            }
        });
        run.unwrap();
    }
}

/// Composes maps x ↦ ax + b. The result depends on the order.
fn after([a, b]: [u16; 2], [c, d]: [u16; 2]) -> [u16; 2] {
    [a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b)]
}

#[test]
fn trees_on_all_numbers_of_cores() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let first = LineReduce::lines(4, cores).unwrap();
        let chunks = ChunkOptions { chunk_lines: 2, buffers: 2, first_line: first };
        let lines = first + chunks.lines(cores).unwrap();
        let run = run(machine(cores, lines), async |core| {
            let me = core.rank();
            let core = &mut Erratic::new(core);
            let mut by_lines = LineReduce::new(core, 4, 0).unwrap();
            let mut by_chunks = ChunkReduce::new(core, chunks).unwrap();
            for number in 0..60 {
                let (lambda, root) = ([1, 2, 3, 7, cores][number / 2 % 5], (number * 5) % cores);
                let count = [[0, 1, 5, 6, 7, 12], [0, 1, 15, 16, 17, 100]][number % 2][number % 6];
                let place = |rank: usize, index: usize| {
                    [2 * index, 2 * index + 1].map(|index| element(rank, index, number) | 1)
                };
                let own: Vec<_> = (0..count).map(|index| place(me, index)).collect();
                let mut got = own.clone();
                match number % 2 {
                    0 => by_lines.reduce_along(core, &mut got, &after, lambda, root).await.unwrap(),
                    _ => {
                        by_chunks.reduce_along(core, &mut got, &after, lambda, root).await.unwrap()
                    }
                }
                let expected =
                    |index| (1..cores).map(|rank| place(rank, index)).fold(place(0, index), after);
                let expected = if me == root { (0..count).map(expected).collect() } else { own };
                assert_eq!(got, expected, "{cores} cores, rank {me}, number {number}");
            }
        });
        run.unwrap();
    }
}

/// Measures the virtual time until the root has the result.
#[test]
fn trees_are_faster_than_a_root_that_takes_all() {
    for cores in [33, 48] {
        let first = LineReduce::lines(4, cores).unwrap();
        let chunks = ChunkOptions { chunk_lines: 32, buffers: 4, first_line: first };
        let lines = first + chunks.lines(cores).unwrap();
        let took = |bytes: usize, lambda: Option<usize>| {
            let run = run(machine(cores, lines), async |core| {
                let mut by_lines = LineReduce::new(core, 4, 0).unwrap();
                let mut by_chunks = ChunkReduce::new(core, chunks).unwrap();
                let mut vector = vec![1_u8; bytes];
                let done = match (bytes > 24, lambda) {
                    (false, None) => by_lines.reduce(core, &mut vector, &Sum, 0).await,
                    (false, Some(lambda)) => {
                        by_lines.reduce_along(core, &mut vector, &Sum, lambda, 0).await
                    }
                    (true, None) => by_chunks.reduce(core, &mut vector, &Sum, 0).await,
                    (true, Some(lambda)) => {
                        by_chunks.reduce_along(core, &mut vector, &Sum, lambda, 0).await
                    }
                };
                done.unwrap();
            });
            run.unwrap().finished[0]
        };
        for bytes in [24, 4 << 10] {
            let flat = took(bytes, None);
            let [binomial, postal] = [1, 2].map(|lambda| took(bytes, Some(lambda)));
            println!("{cores} cores, {bytes} bytes: {flat} to the root, {binomial}, {postal}");
            assert!(flat > 3 * binomial && flat > 3 * postal, "{flat}, {binomial}, {postal}");
        }
    }
}

#[test]
fn scans_on_all_numbers_of_cores() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let first = LineReduce::lines(2, cores).unwrap();
        let chunks = ChunkOptions { chunk_lines: 1, buffers: 2, first_line: first };
        let lines = first + chunks.lines(cores).unwrap();
        let run = run(machine(cores, lines), async |core| {
            let me = core.rank();
            let core = &mut Erratic::new(core);
            let mut by_lines = LineReduce::new(core, 2, 0).unwrap();
            let mut by_chunks = ChunkReduce::new(core, chunks).unwrap();
            for number in 0..24 {
                let prefix = [Prefix::Inclusive, Prefix::Exclusive][number / 2 % 2];
                let count = if number % 2 == 0 { number / 2 } else { number * 9 };
                let own = (0..count).map(|index| element(me, index, number));
                let (mut got, sum) = (own.collect::<Vec<_>>(), u16::wrapping_add);
                match number % 2 {
                    0 => by_lines.scan(core, &mut got, &sum, prefix).await.unwrap(),
                    _ => by_chunks.scan(core, &mut got, &sum, prefix).await.unwrap(),
                }
                let end = if prefix == Prefix::Exclusive && me > 0 { me } else { me + 1 };
                let place = |index| (0..end).map(|rank| element(rank, index, number)).fold(0, sum);
                let expected: Vec<_> = (0..count).map(place).collect();
                assert_eq!(got, expected, "{cores} cores, rank {me}, number {number}");
            }
        });
        run.unwrap();
    }
}

/// The blocks have any length. Whole and scattered reductions in between use the same buffers.
#[test]
fn reduce_scatters_on_all_numbers_of_cores() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let first = LineReduce::lines(8, cores).unwrap();
        let blocks = BlockOptions { block_lines: 2, first_line: first };
        let lines = first + blocks.lines(cores).unwrap();
        let run = run(machine(cores, lines), async |core| {
            let me = core.rank();
            let core = &mut Erratic::new(core);
            let mut by_lines = LineReduce::new(core, 8, 0).unwrap();
            let mut by_blocks = BlockReduce::new(core, blocks).unwrap();
            for number in 0..30 {
                let most = if number % 3 == 0 { 48 } else { number * 11 };
                let cuts = packed((0..cores).map(|rank| match (rank + number) % 4 {
                    0 => 0,
                    1 => most / 2,
                    _ => most,
                }));
                let whole = cuts[cores - 1].end;
                let element = |rank: usize, index: usize| (element(rank, index, number)) as u8;
                let sum = u8::wrapping_add;
                let all: Vec<_> = (0..whole).map(|index| element(me, index)).collect();
                let expected = |index| (0..cores).map(|rank| element(rank, index)).fold(0, sum);
                let mut got = vec![0; cuts[me].len()];
                let mut parts =
                    Parts::new(core, Cut::Apart { all: &all, own: &mut got }, Blocks::At(&cuts))
                        .unwrap();
                match number % 3 {
                    0 => by_lines.reduce_scatter(core, &mut parts, &sum).await.unwrap(),
                    _ => by_blocks.reduce_scatter(core, &mut parts, &sum).await.unwrap(),
                }
                assert!(got.into_iter().eq(cuts[me].clone().map(expected)), "{cores}, {number}");
                let mut all = all;
                match number % 4 {
                    0 => by_blocks.whole(core, &mut all, &sum).await.unwrap(),
                    1 => by_blocks.scattered(core, &mut all, &sum, None).await.unwrap(),
                    _ => continue,
                }
                assert!(all.into_iter().eq((0..whole).map(expected)), "{cores}, {number}");
            }
        });
        run.unwrap();
    }
}

/// Applies [`after`] to each pair in an element.
fn all_after<const N: usize>(left: [u16; N], right: [u16; N]) -> [u16; N] {
    std::array::from_fn(|place| {
        let pair = |of: &[u16; N]| [of[place / 2 * 2], of[place / 2 * 2 + 1]];
        after(pair(&left), pair(&right))[place % 2]
    })
}

/// Runs every operation by chunks, one after the other, on elements of so many words.
async fn in_chunks<const N: usize, M: MpbAccess<Error: std::fmt::Debug>>(
    core: &mut M,
    chunks: &mut ChunkReduce,
    series: std::ops::Range<usize>,
) {
    let (me, cores) = (core.rank(), core.ranks());
    for number in series {
        let (count, root) = ([1, 3, 0, 9][number % 4], (number * 5) % cores);
        let of = |rank: usize, index: usize| -> [u16; N] {
            std::array::from_fn(|place| element(rank, index * N + place, number) | 1)
        };
        let reference = |ranks: std::ops::Range<usize>, index: usize| {
            ranks.map(|rank| of(rank, index)).reduce(all_after).expect("a rank at least")
        };
        let own = |count: usize| (0..count).map(|index| of(me, index)).collect::<Vec<_>>();
        let mut got = own(count);
        let ranks = match number % 6 {
            0 => {
                chunks.reduce(core, &mut got, &all_after, root).await.unwrap();
                if me == root { 0..cores } else { me..me + 1 }
            }
            1 => {
                let lambda = [1, 2, cores][number / 6 % 3];
                chunks.reduce_along(core, &mut got, &all_after, lambda, root).await.unwrap();
                if me == root { 0..cores } else { me..me + 1 }
            }
            2 => {
                chunks.all_reduce(core, &mut got, &all_after).await.unwrap();
                0..cores
            }
            3 => {
                let prefix = Prefix::Inclusive;
                chunks.scan(core, &mut got, &all_after, prefix).await.unwrap();
                0..me + 1
            }
            4 => {
                let prefix = Prefix::Exclusive;
                chunks.scan(core, &mut got, &all_after, prefix).await.unwrap();
                0..me.max(1)
            }
            _ => {
                // Some ranks have no elements.
                let cuts = packed((0..cores).map(|rank| (rank + number) % 3));
                let whole = own(cuts.last().map_or(0, |cut| cut.end));
                let mut result = vec![[0; N]; cuts[me].len()];
                let blocks = Blocks::At(&cuts);
                let mut parts =
                    Parts::new(core, Cut::Apart { all: &whole, own: &mut result }, blocks).unwrap();
                chunks.reduce_scatter(core, &mut parts, &all_after).await.unwrap();
                let expected = cuts[me].clone().map(|index| reference(0..cores, index));
                assert!(result.into_iter().eq(expected), "{N}, {cores}, {number}");
                continue;
            }
        };
        let expected = (0..count).map(|index| reference(ranks.clone(), index));
        assert!(got.into_iter().eq(expected), "{N} words, {cores} cores, rank {me}, {number}");
    }
}

/// Elements that take several chunks, between other elements.
#[test]
fn elements_longer_than_a_chunk() {
    for cores in [1, 2, 3, 5, 8, 13] {
        for buffers in [1, 2, 4] {
            let options = ChunkOptions { chunk_lines: 2, buffers, first_line: 0 };
            let lines = options.lines(cores).unwrap();
            let run = run(machine(cores, lines), async |core| {
                let core = &mut Erratic::new(core);
                let chunks = &mut ChunkReduce::new(core, options).unwrap();
                in_chunks::<2, _>(core, chunks, 0..12).await;
                in_chunks::<34, _>(core, chunks, 0..24).await;
                in_chunks::<32, _>(core, chunks, 0..12).await;
                in_chunks::<200, _>(core, chunks, 0..24).await;
                in_chunks::<2, _>(core, chunks, 0..12).await;
            });
            run.unwrap();
        }
    }
}

proptest! {
    /// Short and long elements, vectors and operations in any order.
    #[test]
    fn elements_of_all_lengths_in_any_order(
        cores in 1_usize..9,
        buffers in 1_usize..9,
        steps in collection::vec((0..4, 0_usize..24), 1..40),
    ) {
        let options = ChunkOptions { chunk_lines: 2, buffers, first_line: 0 };
        let lines = options.lines(cores).unwrap();
        let run = run(machine(cores, lines), async |core| {
            let core = &mut Erratic::new(core);
            let chunks = &mut ChunkReduce::new(core, options).unwrap();
            for &(length, number) in &steps {
                let one = number..number + 1;
                match length {
                    0 => in_chunks::<2, _>(core, chunks, one).await,
                    1 => in_chunks::<32, _>(core, chunks, one).await,
                    2 => in_chunks::<34, _>(core, chunks, one).await,
                    _ => in_chunks::<200, _>(core, chunks, one).await,
                }
            }
        });
        run.unwrap();
    }
}

#[test]
fn what_can_not_be() {
    let run = run(machine(2, 20), async |core| {
        let blocks = |block_lines, first_line| {
            BlockReduce::new(core, BlockOptions { block_lines, first_line }).err()
        };
        let no_room = |first_line| Some(ReduceOptionsError::NoRoom { first_line, lines: 20 });
        assert_eq!((blocks(2, 4), blocks(2, 5), blocks(3, 0)), (None, no_room(5), no_room(0)));
        assert_eq!(blocks(usize::MAX, 0), no_room(0));
        assert_eq!(blocks(0, 0), Some(ReduceOptionsError::NoBuffer));
        let chunks = |chunk_lines, buffers, first_line| {
            ChunkReduce::new(core, ChunkOptions { chunk_lines, buffers, first_line }).err()
        };
        assert_eq!((chunks(2, 8, 0), chunks(2, 8, 1)), (None, no_room(1)));
        assert_eq!(chunks(2, 0, 0), Some(ReduceOptionsError::NoBuffer));
        assert_eq!(chunks(0, 2, 0), Some(ReduceOptionsError::NoBuffer));
        let options = BlockOptions { block_lines: 1, first_line: 0 };
        let mut blocks = BlockReduce::new(core, options).unwrap();
        let large = blocks.whole(core, &mut [[0_u8; 48]], &|a, _| a).await;
        assert_eq!(large, Err(ReduceError::ElementTooLong { bytes: 48, most: 32 }));
        let mut lines = LineReduce::new(core, 4, 0).unwrap();
        let long = lines.reduce(core, &mut [0_u8; 49], &Sum, 0).await;
        assert_eq!(long, Err(ReduceError::TooLong { bytes: 49, most: 48 }));
        let nobody = lines.reduce(core, &mut [0_u8], &Sum, 2).await;
        assert_eq!(nobody, Err(ReduceError::Root { root: 2, ranks: 2 }));
    });
    run.unwrap();
}
