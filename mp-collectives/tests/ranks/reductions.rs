//! All ranks must get the result, with the same bits.

use std::fmt::Debug;

use mp_collectives::collectives::{At, Collective, InPlace, Settings};
use mp_collectives::{
    complete,
    reduce::{
        AllReduce, BitXor, ChunkOptions, ChunkReduce, Cut, LineReduce, Located, LogicalAnd, Max,
        MaxLocation, Meeting, Min, MinLocation, Operation, Order, Parts, Product, Reduce,
        ReduceError, ReduceScatter, Reductions, Scan, Sum, packed,
    },
};
use mp_core::{Error, ErrorKind, Plain, Rank, Result, World, mpb::Mpbs};

use crate::{
    mortal::{self, Mortal},
    support::{Random, Watchdog, on_all},
};

const PAYLOAD: usize = 56;
const BLOCK: usize = 2 * 64;

/// Bytes around a line, around the longest short vector, around a block, and many blocks.
const LENGTHS: [usize; 14] = [
    0,
    1,
    8,
    PAYLOAD - 1,
    PAYLOAD,
    PAYLOAD + 1,
    3 * PAYLOAD,
    3 * PAYLOAD + 1,
    BLOCK - 1,
    BLOCK,
    BLOCK + 1,
    5 * BLOCK - 1,
    10 * BLOCK + 3,
    70 * BLOCK + 5,
];

fn small() -> Settings {
    Settings { chunk_lines: Some(2), slots: Some(8), ..Settings::default() }
}

const ALL_REDUCE: [AllReduce; 4] =
    [AllReduce::Doubling, AllReduce::FirstRank, AllReduce::Whole, AllReduce::Scattered];
const REDUCE: [Reduce; 5] = [
    Reduce::Lines,
    Reduce::ChunkTree { lambda: 1 },
    Reduce::LineTree { lambda: 1 },
    Reduce::Scattered,
    Reduce::Chunks,
];

fn bytes(number: usize, rank: usize, index: usize) -> u8 {
    (index * 7 + index / 256 + number * 31 + rank * 101 + rank * rank + 1) as u8
}

/// Returns ((0 ∘ 1) ∘ 2) ∘ 3 and so on.
fn reference<T: Copy>(
    ranks: usize,
    count: usize,
    element: impl Fn(usize, usize) -> T,
    operation: &impl Operation<T>,
) -> Vec<T> {
    let of_place = |index| {
        let elements = (0..ranks).map(|rank| element(rank, index));
        elements.reduce(|left, right| operation.combine(left, right)).expect("there are ranks")
    };
    (0..count).map(of_place).collect()
}

fn check<T: Plain + PartialEq + Debug>(got: &[T], expected: &[T], what: impl Debug) -> Result<()> {
    let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
    if let Some(index) = wrong {
        let (got, expected) = (&got[index], &expected[index]);
        return Err(Error::other(format!("{what:?}: {got:?} at {index}, not {expected:?}")));
    }
    Ok(())
}

/// Runs both reductions with each of these lengths, one after the other.
fn series(
    rank: &Rank,
    settings: Settings,
    series: impl IntoIterator<Item = (usize, usize)>,
) -> Result<()> {
    let (me, ranks) = (rank.id(), rank.size());
    let mut reductions = Reductions::open(rank, "series", settings.clone())?;
    for (number, (length, root)) in series.into_iter().enumerate() {
        let own = || (0..length).map(|index| bytes(number, me, index)).collect::<Vec<_>>();
        let what = &(&settings, number, length, root);
        let expected = |operation: &dyn Fn(u8, u8) -> u8| {
            reference(ranks, length, |rank, index| bytes(number, rank, index), &operation)
        };
        let too_long = length > 4 * PAYLOAD;
        let by_lines =
            matches!(settings.all_reduce, Some(AllReduce::Doubling | AllReduce::FirstRank));
        if !(by_lines && too_long) {
            let mut got = own();
            reductions.all_reduce(&mut got, Sum)?;
            check(&got, &expected(&u8::wrapping_add), what)?;
            // To another place: the elements of the lowest rank, and then the sum.
            let (from, mut got) = (own(), vec![0; length]);
            reductions.all_reduce_from(&from, &mut got, |left, _| left)?;
            check(&got, &expected(&|left, _| left), what)?;
            reductions.all_reduce_from(&from, &mut got, Sum)?;
            check(&got, &expected(&u8::wrapping_add), what)?;
            check(&from, &own(), what)?;
        }
        let by_lines = matches!(settings.reduce, Some(Reduce::Lines | Reduce::LineTree { .. }));
        if !(by_lines && too_long) {
            let mut got = own();
            reductions.reduce(&mut got, BitXor, root)?;
            if me == root {
                check(&got, &expected(&|left, right| left ^ right), what)?;
            }
            // To another place, which only the root has: those of the highest rank, and then the sum.
            let (from, mut got) = (own(), vec![0; if me == root { length } else { 0 }]);
            reductions.reduce_from(&from, &mut got, |_, right| right, root)?;
            check(&got, &expected(&|_, right| right), what)?;
            reductions.reduce_from(&from, &mut got, Sum, root)?;
            check(&got, &expected(&u8::wrapping_add), what)?;
            check(&from, &own(), what)?;
        }
    }
    Ok(())
}

#[test]
fn all_lengths_and_roots() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let all = || (0..ranks).flat_map(|root| LENGTHS.map(|length| (length, root)));
            series(rank, small(), all())?;
            series(rank, Settings { order: Order::Ranks, ..small() }, all())?;
            series(rank, Settings::default(), all())
        });
    }
}

/// Runs every reduction of elements of so many words.
fn large_elements<const N: usize>(rank: &Rank, settings: Settings) -> Result<()> {
    let (me, ranks) = (rank.id(), rank.size());
    let mut reductions = Reductions::open(rank, "large", settings)?;
    let of = |rank: usize, index: usize| -> [u64; N] {
        std::array::from_fn(|place| (rank * rank + 3 * index + 7 * place) as u64)
    };
    let add = |left: [u64; N], right: [u64; N]| -> [u64; N] {
        std::array::from_fn(|place| left[place].wrapping_mul(3).wrapping_add(right[place]))
    };
    let expected = |ranks: usize, count: usize| reference(ranks, count, of, &add);
    for count in [1, 2 * ranks] {
        let own = || (0..count).map(|index| of(me, index)).collect::<Vec<_>>();
        let all = expected(ranks, count);
        let mut got = own();
        reductions.all_reduce(&mut got, add)?;
        check(&got, &all, "all-reduce")?;
        let mut got = own();
        reductions.reduce(&mut got, add, ranks - 1)?;
        if me == ranks - 1 {
            check(&got, &all, "reduce")?;
        }
        let mut got = own();
        reductions.scan(&mut got, add)?;
        check(&got, &expected(me + 1, count), "scan")?;
        if count > 1 {
            let mut got = own();
            reductions.reduce_scatter(&mut got, InPlace, add)?;
            check(&got[2 * me..][..2], &all[2 * me..][..2], "reduce-scatter")?;
        }
    }
    Ok(())
}

#[test]
fn elements_longer_than_a_block() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| large_elements::<20>(rank, small()));
        // Elements that take more chunks than there are buffers, after those that take few.
        on_all(ranks, |rank| {
            let reduce = Some(Reduce::Chunks);
            let settings = Settings { buffers: Some(4), reduce, ..small() };
            large_elements::<20>(rank, settings.clone())?;
            large_elements::<200>(rank, settings)
        });
    }
    // With default settings, among few ranks, and among many ranks with smaller blocks.
    on_all(2, |rank| {
        // The elements are too large for the stack of a test.
        std::thread::scope(|scope| {
            let run = || large_elements::<9_000>(rank, Settings::default());
            let thread = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, run);
            thread.map_err(Error::other)?.join().map_err(|_| Error::other("it panicked"))?
        })
    });
    let _watchdog = Watchdog::start();
    World::threads(256).run(|rank| large_elements::<200>(rank, Settings::default())).unwrap();
}

#[test]
fn sixteen_ranks() {
    on_all(16, |rank| {
        let all = || LENGTHS.into_iter().zip((3..).step_by(5).map(|root| root % 16));
        series(rank, small(), all())?;
        series(rank, Settings { all_reduce: Some(AllReduce::Doubling), ..small() }, all())?;
        let scattered =
            Settings { reduce: Some(Reduce::Scattered), order: Order::Ranks, ..small() };
        series(rank, scattered, all())
    });
}

#[test]
fn forced_algorithms() {
    for ranks in [1, 2, 3, 4, 6, 7] {
        on_all(ranks, |rank| {
            for (all_reduce, reduce) in ALL_REDUCE.into_iter().cycle().zip(REDUCE) {
                let all_reduce = Some(all_reduce);
                let settings = Settings { all_reduce, reduce: Some(reduce), ..small() };
                let all = (0..28).map(|number| (LENGTHS[number % 14], number / 3 % ranks));
                series(rank, settings, all)?;
            }
            Ok(())
        });
    }
}

/// Composes maps x ↦ ax + b, and carries something else along. Elements have 4 bytes, or 6 bytes, which extend across
/// the ends of lines.
fn after([a, b]: [u16; 2], [c, d]: [u16; 2]) -> [u16; 2] {
    [a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b)]
}

fn after_and_last([a, b, _]: [u16; 3], [c, d, last]: [u16; 3]) -> [u16; 3] {
    let [a, b] = after([a, b], [c, d]);
    [a, b, last]
}

/// Reduces along trees of some λ: to all roots, with all lengths around lines and chunks. Only the vector of the root
/// may change.
fn along<T: Plain + PartialEq + Debug>(
    rank: &Rank,
    of: impl Fn(usize, usize, usize) -> T,
    operation: impl Operation<T>,
) -> Result<()> {
    let (me, ranks) = (rank.id(), rank.size());
    let lines = LineReduce::lines(8, ranks).unwrap_or(0);
    let options = ChunkOptions { chunk_lines: 2, buffers: 2, first_line: lines };
    let all = lines + options.lines(ranks).unwrap_or(0);
    let mut mpb = rank.mpb("along", Mpbs::lines(all))?;
    let mut lines = LineReduce::new(&mpb, 8, 0).map_err(Error::other)?;
    let mut chunks = ChunkReduce::new(&mpb, options).map_err(Error::other)?;
    let (line, chunk) = (PAYLOAD / size_of::<T>(), BLOCK / size_of::<T>());
    let in_lines = [0, 1, line - 1, line, line + 1, 4 * line];
    let in_chunks = [0, 1, chunk - 1, chunk, chunk + 1, 5 * chunk - 1, 5 * chunk, 9 * chunk + 2];
    for lambda in [1, 2, 3, ranks] {
        for (root, number) in (0..ranks).zip(0..) {
            let counts = in_lines.map(|count| (count, true)).into_iter();
            for (count, by_lines) in counts.chain(in_chunks.map(|count| (count, false))) {
                let own: Vec<T> = (0..count).map(|index| of(number, me, index)).collect();
                let (mut got, what) = (own.clone(), (lambda, root, count, by_lines));
                let mpb = &mut mpb;
                match by_lines {
                    true => complete(lines.reduce_along(mpb, &mut got, &operation, lambda, root))?,
                    false => {
                        complete(chunks.reduce_along(mpb, &mut got, &operation, lambda, root))?
                    }
                }
                if me == root {
                    let element = |rank, index| of(number, rank, index);
                    check(&got, &reference(ranks, count, element, &operation), what)?;
                    // The next reduction goes straight to the root, and uses the same flags.
                    got.copy_from_slice(&own);
                }
                match by_lines {
                    true => complete(lines.reduce(mpb, &mut got, &operation, root))?,
                    false => complete(chunks.reduce(mpb, &mut got, &operation, root))?,
                }
                if me == root {
                    let element = |rank, index| of(number, rank, index);
                    check(&got, &reference(ranks, count, element, &operation), what)?;
                } else {
                    check(&got, &own, what)?;
                }
            }
        }
    }
    let nobody = complete(lines.reduce_along(&mut mpb, &mut [of(0, 0, 0)], &operation, 1, ranks));
    ensure!(matches!(nobody, Err(ReduceError::Root { .. })), "{nobody:?}");
    let nobody = complete(chunks.reduce_along(&mut mpb, &mut [], &operation, 1, ranks));
    ensure!(matches!(nobody, Err(ReduceError::Root { .. })), "{nobody:?}");
    Ok(())
}

#[test]
fn along_trees() {
    for ranks in [1, 2, 3, 5, 8, 12] {
        on_all(ranks, |rank| {
            let entry = |number, rank, index| u16::from(bytes(number, rank, index)) + 256;
            let of = |number, rank, index| [0, 1].map(|of| entry(number, rank, 2 * index + of));
            along(rank, of, after)?;
            let of = |number, rank, index| [0, 1, 2].map(|of| entry(number, rank, 3 * index + of));
            along(rank, of, after_and_last)
        });
    }
}

/// All lengths, so that all algorithms follow each other, and ranks go ahead.
#[test]
fn thousands_in_a_row() {
    // Two ranks exchange lines without acknowledgements. In between there are other operations with acknowledgements.
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            let mut random = Random::new(11);
            let mut root = 0;
            let all: Vec<_> = (0..3_000)
                .map(|_| {
                    if random.below(4) == 0 {
                        root = random.below(ranks as u64) as usize;
                    }
                    (LENGTHS[random.below(13) as usize], root)
                })
                .collect();
            series(rank, small(), all.clone())?;
            series(rank, Settings { slots: Some(1), chunk_lines: Some(1), ..small() }, all)
        });
    }
}

/// Whole and scattered reductions, and reductions to a root, share buffers.
#[test]
fn blocks_of_all_kinds_in_turn() {
    for ranks in [2, 3, 4] {
        on_all(ranks, |rank| {
            use mp_collectives::reduce::{BlockOptions, BlockReduce, Blocks};
            let options = BlockOptions { block_lines: 1, first_line: 1 };
            let lines = 1 + options.lines(ranks).unwrap_or(0);
            let mut mpb = rank.mpb("blocks", Mpbs::lines(lines))?;
            let mut blocks = BlockReduce::new(&mpb, options).map_err(Error::other)?;
            let mut random = Random::new(3);
            for number in 0..1_500 {
                let count = random.below(60) as usize;
                let root = random.below(ranks as u64) as usize;
                let element =
                    |rank, index| [u32::from(bytes(number, rank, index)), 1, index as u32];
                let sum = |a: [u32; 3], b: [u32; 3]| [0, 1, 2].map(|i| a[i] + b[i]);
                let mut got: Vec<_> = (0..count).map(|index| element(rank.id(), index)).collect();
                let way = random.below(4);
                match way {
                    0 => complete(blocks.whole(&mut mpb, &mut got, &sum))?,
                    1 => complete(blocks.scattered(&mut mpb, &mut got, &sum, None))?,
                    2 => {
                        let cuts =
                            (0..ranks).map(|rank| count * rank / ranks..count * (rank + 1) / ranks);
                        let cuts: Vec<_> = cuts.collect();
                        let mut parts =
                            Parts::new(&mpb, Cut::InPlace(&mut got), Blocks::At(&cuts))?;
                        complete(blocks.reduce_scatter(&mut mpb, &mut parts, &sum))?;
                        let own = cuts[rank.id()].clone();
                        let of_place = |rank, index| element(rank, own.start + index);
                        let expected = reference(ranks, own.len(), of_place, &sum);
                        check(&got[own.clone()], &expected, (number, count))?;
                    }
                    _ => complete(blocks.scattered(&mut mpb, &mut got, &sum, Some(root)))?,
                }
                if way < 2 || way == 3 && rank.id() == root {
                    check(&got, &reference(ranks, count, element, &sum), (number, count, root))?;
                }
            }
            Ok(())
        });
    }
}

/// A block's result is sent on while it is combined. This is tested with elements whose size divides a line, and with
/// others.
fn scattered<T: Plain + PartialEq + Debug>(
    rank: &Rank,
    of: impl Fn(u64) -> T,
    operation: impl Operation<T> + Copy,
) -> Result<()> {
    let (all_reduce, reduce) = (Some(AllReduce::Scattered), Some(Reduce::Scattered));
    // The blocks are in one piece, or in several.
    for chunk_lines in [2, 1_100] {
        let chunk_lines = Some(chunk_lines);
        let settings = Settings { all_reduce, reduce, chunk_lines, ..small() };
        let mut reductions = Reductions::open(rank, "scattered", settings)?;
        let large = 3 * 1_100 * 64 / size_of::<T>();
        let small = (0..70).chain([131, 400]);
        for (number, count) in small.chain([large - 1, large + 7]).enumerate() {
            let element = |rank: usize, index: usize| {
                of(((number + index) as u64 * 0x9e37_79b9) ^ (rank as u64 * 0x51_7cc1))
            };
            let own = || (0..count).map(|index| element(rank.id(), index)).collect::<Vec<_>>();
            let expected = reference(rank.size(), count, element, &operation);
            let mut got = own();
            reductions.all_reduce(&mut got, operation)?;
            check(&got, &expected, (chunk_lines, count))?;
            let (mut got, root) = (own(), number % rank.size());
            reductions.reduce(&mut got, operation, root)?;
            if rank.id() == root {
                check(&got, &expected, (chunk_lines, count, root))?;
            }
        }
    }
    Ok(())
}

#[test]
fn results_of_blocks_of_all_types() {
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            scattered(
                rank,
                |number| number as u8,
                |a: u8, b: u8| a.wrapping_mul(3).wrapping_sub(b),
            )?;
            scattered(
                rank,
                |number| number as i16,
                |a: i16, b: i16| a.wrapping_mul(3).wrapping_sub(b),
            )?;
            scattered(rank, |number| number as f32, |a: f32, b: f32| a / 3.0 - b)?;
            scattered(rank, |number| number as f64, |a: f64, b: f64| a / 3.0 - b)?;
            scattered(rank, u128::from, |a: u128, b: u128| a.wrapping_mul(3).wrapping_sub(b))?;
            scattered(
                rank,
                |number| [number as u8, 1, 2],
                |a: [u8; 3], b: [u8; 3]| [a[0].wrapping_sub(b[0]), a[2], b[1]],
            )?;
            scattered(rank, |number| [0, 1, 2, 3].map(|n| (number >> n) as u16), product)
        });
    }
}

/// Returns the product of two 2 × 2 matrices, which does not commute.
fn product(left: [u16; 4], right: [u16; 4]) -> [u16; 4] {
    let entry = |row: usize, column: usize| {
        let sum = left[2 * row].wrapping_mul(right[column]);
        sum.wrapping_add(left[2 * row + 1].wrapping_mul(right[2 + column]))
    };
    [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
}

#[test]
fn operations_that_do_not_commute() {
    for ranks in [2, 3, 5, 7, 8] {
        on_all(ranks, |rank| {
            for (all_reduce, reduce) in ALL_REDUCE.into_iter().cycle().zip(REDUCE) {
                let (all_reduce, reduce) = (Some(all_reduce), Some(reduce));
                let settings = Settings { all_reduce, reduce, ..small() };
                let mut reductions = Reductions::open(rank, "matrices", settings.clone())?;
                for (number, count) in [1, 5, 20, 27].into_iter().enumerate() {
                    let element = |rank: usize, index: usize| {
                        [0, 1, 2, 3].map(|entry| u16::from(bytes(number, rank, index * 4 + entry)))
                    };
                    let own = || (0..count).map(|index| element(rank.id(), index));
                    let expected = reference(ranks, count, element, &product);
                    let mut got: Vec<_> = own().collect();
                    reductions.all_reduce(&mut got, product)?;
                    check(&got, &expected, &settings)?;
                    let (mut got, root) = (own().collect::<Vec<_>>(), number % ranks);
                    reductions.reduce(&mut got, product, root)?;
                    if rank.id() == root {
                        check(&got, &expected, &settings)?;
                    }
                }
            }
            Ok(())
        });
    }
}

/// Scans of matrices, inclusive and exclusive, with reductions in between.
#[test]
fn scans() {
    for ranks in [1, 2, 3, 5, 8, 16] {
        on_all(ranks, |rank| {
            let me = rank.id();
            for (scan, order) in [
                (Some(Scan::Doubling), Order::Algorithm),
                (Some(Scan::Chain), Order::Algorithm),
                (None, Order::Algorithm),
                (None, Order::Ranks),
            ] {
                let settings = Settings { scan, order, ..small() };
                let mut reductions = Reductions::open(rank, "scans", settings.clone())?;
                let counts = [0, 1, 7, 8, 20, 27];
                let long = [16, 17, 80 * 2 + 3];
                for (number, &count) in counts.iter().chain(&long).cycle().take(36).enumerate() {
                    if scan == Some(Scan::Doubling) && count > 27 {
                        continue;
                    }
                    let element = |rank: usize, index: usize| {
                        [0, 1, 2, 3].map(|entry| u16::from(bytes(number, rank, index * 4 + entry)))
                    };
                    let own: Vec<_> = (0..count).map(|index| element(me, index)).collect();
                    let mut got = own.clone();
                    reductions.scan(&mut got, product)?;
                    check(&got, &reference(me + 1, count, element, &product), &settings)?;
                    let mut got = own.clone();
                    reductions.exclusive_scan(&mut got, product)?;
                    let below = if me == 0 { own } else { reference(me, count, element, &product) };
                    check(&got, &below, &settings)?;
                    let mut all = [me; 40];
                    reductions.reduce(&mut all, Max, number % ranks)?;
                    ensure!(me != number % ranks || all == [ranks - 1; 40], "{all:?}");
                }
            }
            Ok(())
        });
    }
}

/// Reduce-scatters of matrices, of equal blocks and others, in place or not, with other reductions in between.
#[test]
fn reduce_scatters() {
    for ranks in [1, 2, 3, 5, 8, 16] {
        on_all(ranks, |rank| {
            let me = rank.id();
            for reduce_scatter in [None, Some(ReduceScatter::Blocks), Some(ReduceScatter::Lines)] {
                let settings = Settings { reduce_scatter, ..small() };
                let mut reductions = Reductions::open(rank, "parts", settings)?;
                let counts = [0_usize, 1, 6, 7, 16, 17, 10 * 16 + 3];
                for (number, &count) in counts.iter().cycle().take(28).enumerate() {
                    if reduce_scatter == Some(ReduceScatter::Lines) && count > 16 {
                        continue;
                    }
                    // Some ranks get nothing, and some more than others.
                    let varying = number % 4 > 1;
                    let length = |rank: usize| match (varying, (rank + number) % 3) {
                        (true, 0) => 0,
                        (true, 1) => count.div_ceil(2),
                        _ => count,
                    };
                    let mut blocks = packed((0..ranks).map(length));
                    let whole: usize = (0..ranks).map(length).sum();
                    if varying {
                        // The blocks are in reverse order.
                        blocks = blocks.iter().map(|b| whole - b.end..whole - b.start).collect();
                    }
                    let element = |rank: usize, index: usize| {
                        [0, 1, 2, 3].map(|entry| u16::from(bytes(number, rank, index * 4 + entry)))
                    };
                    let vector: Vec<_> = (0..whole).map(|index| element(me, index)).collect();
                    let own = blocks[me].clone();
                    let at = |rank, index| element(rank, own.start + index);
                    let expected = reference(ranks, own.len(), at, &product);
                    let what = (reduce_scatter, number, count);
                    if number % 2 == 0 {
                        let mut got = vec![[7; 4]; own.len()];
                        match varying {
                            false => reductions.reduce_scatter(&vector, &mut got, product)?,
                            true => {
                                let (all, to) = (&vector, &mut got);
                                reductions.reduce_scatter(At(all, &blocks), to, product)?;
                            }
                        }
                        check(&got, &expected, what)?;
                    } else {
                        let mut got = vector.clone();
                        match varying {
                            false => reductions.reduce_scatter(&mut got, InPlace, product)?,
                            true => {
                                let all = &mut got;
                                reductions.reduce_scatter(At(all, &blocks), InPlace, product)?;
                            }
                        }
                        check(&got[own.clone()], &expected, what)?;
                        got[own.clone()].copy_from_slice(&vector[own.clone()]);
                        ensure!(got == vector, "{what:?}: another block was touched");
                    }
                    let mut all = [me; 40];
                    reductions.reduce(&mut all, Max, number % ranks)?;
                    reductions.all_reduce(&mut all, Max)?;
                    ensure!(all == [ranks - 1; 40], "{all:?}");
                }
            }
            Ok(())
        });
    }
}

fn tenths(rank: usize, index: usize) -> f64 {
    0.1 * (1 + rank) as f64 + 1e15 / (index + 1) as f64 * [1.0, -1.0, 0.7][(rank + index) % 3]
}

/// The sum of floats depends on the order. All ranks get the same sums with every algorithm.
#[test]
fn the_order_of_ranks_whatever_the_number_and_the_length() {
    for ranks in [2, 3, 4, 5, 8] {
        let all = on_all(ranks, |rank| {
            let settings = Settings { order: Order::Ranks, ..small() };
            let mut reductions = Reductions::open(rank, "ordered", settings)?;
            let mut bits = Vec::new();
            for count in [1, 7, 8, 21, 22, 300, 3_001] {
                let expected = reference(ranks, count, tenths, &Sum);
                let own = || (0..count).map(|index| tenths(rank.id(), index)).collect::<Vec<_>>();
                let mut got = own();
                reductions.all_reduce(&mut got, Sum)?;
                check(&got, &expected, count)?;
                bits.extend(got.iter().map(|sum| sum.to_bits()));
                let (mut got, root) = (own(), count % ranks);
                reductions.reduce(&mut got, Sum, root)?;
                if rank.id() == root {
                    check(&got, &expected, count)?;
                }
            }
            Ok(bits)
        });
        assert!(all.iter().all(|bits| *bits == all[0]), "{ranks} ranks");
    }
}

#[test]
fn all_ranks_get_the_same_bits_by_each_algorithm() {
    for ranks in [4, 6, 8] {
        let all = on_all(ranks, |rank| {
            let mut bits = Vec::new();
            for all_reduce in ALL_REDUCE {
                let settings = Settings { all_reduce: Some(all_reduce), ..small() };
                let mut reductions = Reductions::open(rank, "bits", settings)?;
                let mut got: Vec<_> = (0..20).map(|index| tenths(rank.id(), index)).collect();
                reductions.all_reduce(&mut got, Sum)?;
                bits.extend(got.iter().map(|sum| sum.to_bits()));
            }
            Ok(bits)
        });
        assert!(all.iter().all(|bits| *bits == all[0]), "{ranks} ranks");
    }
}

fn one<T: Plain + PartialEq + Debug>(
    reductions: &mut Reductions,
    own: T,
    operation: impl Operation<T>,
    expected: T,
) -> Result<()> {
    let mut got = [own];
    reductions.all_reduce(&mut got, operation)?;
    check(&got, &[expected], "one")
}

#[test]
fn operations_and_types() {
    use half::{bf16, f16};
    on_all(3, |rank| {
        let mut all = Reductions::open(rank, "types", Settings::default())?;
        let me = rank.id();
        one(&mut all, me as i8 - 1, Sum, 0)?;
        one(&mut all, me as u128 + 2, Product, 24)?;
        one(&mut all, me as isize - 1, Min, -1)?;
        one(&mut all, me as f32 - 1.5, Max, 0.5)?;
        one(&mut all, f16::from_f32(me as f32), Sum, f16::from_f32(3.0))?;
        one(&mut all, bf16::from_f32(me as f32), Max, bf16::from_f32(2.0))?;
        one(&mut all, me as u64 * 6, LogicalAnd, 0)?;
        let at = |value: f64| Located::new(value, me as u64);
        one(&mut all, at([3.0, 1.0, 1.0][me]), MinLocation, Located::new(1.0, 1))?;
        one(&mut all, at([3.0, 1.0, 3.0][me]), MaxLocation, Located::new(3.0, 0))?;
        one(&mut all, me as u16, |_, right| right, 2)?;
        let mut nothing = [(); 5];
        all.all_reduce(&mut nothing, |(), ()| ())?;
        all.reduce(&mut nothing, |(), ()| (), 2)
    });
}

/// Fails unless a call was refused with this text.
fn refused(call: Result<()>, expected: &str) -> Result<()> {
    let told = call.map_err(|error| error.to_string());
    ensure!(told == Err(expected.to_owned()), "{told:?} instead of {expected}");
    Ok(())
}

#[test]
fn what_is_told_of_the_choice_and_what_is_refused() {
    on_all(2, |rank| {
        let mut all = Reductions::open(rank, "told", Settings::default())?;
        let told = all.explain(Collective::AllReduce, 8);
        ensure!(told.algorithm == AllReduce::Doubling.into(), "{told}");
        let told = all.explain(Collective::AllReduce, 1 << 20).algorithm.to_string();
        ensure!(told.contains("reduce-scatter"), "{told}");
        let told = all.explain(Collective::Scan, 8);
        ensure!(told.algorithm == Scan::Doubling.into(), "{told}");
        for bytes in [16 << 10, 1 << 20] {
            let told = all.explain(Collective::Reduce, bytes);
            ensure!(told.algorithm == Reduce::Chunks.into(), "{told}");
        }
        for count in [1, 100, 10_000] {
            let nobody = all.reduce(&mut vec![1_u8; count], Sum, 2);
            refused(nobody, "there is no rank 2: there are 2, numbered from 0")?;
        }
        for settings in [
            Settings { chunk_lines: Some(0), ..small() },
            Settings { slots: Some(0), ..small() },
            Settings { slots: Some(usize::MAX), ..small() },
            Settings { chunk_lines: Some(usize::MAX / 2), ..small() },
        ] {
            let opened = Reductions::open(rank, "senseless", settings.clone());
            ensure!(opened.is_err(), "{settings:?}");
        }
        let lines = Settings { all_reduce: Some(AllReduce::Doubling), ..small() };
        let mut all = Reductions::open(rank, "short", lines)?;
        refused(
            all.all_reduce(&mut [0_u8; 4 * PAYLOAD + 1], Sum),
            "this call is not possible: a vector of 225 bytes is too long for a reduction by lines, which takes up to 224: use another algorithm",
        )?;
        refused(
            all.reduce_scatter(&mut [0_u8; 3], InPlace, Sum),
            "this call is not possible: a buffer of 3 elements can't be divided into equal blocks for 2 ranks: use a multiple, or name the blocks",
        )?;
        refused(
            all.reduce_scatter(&[0_u8; 6], &mut [0; 2], Sum),
            "this call is not possible: the buffer has 6 elements where this call needs 4",
        )?;
        let length = "this call is not possible: the buffer has 2 elements where this call needs 3";
        refused(all.all_reduce_from(&[0; 3], &mut [0; 2], Sum), length)?;
        if rank.id() == 1 {
            refused(all.reduce_from(&[0; 3], &mut [0; 2], Sum, 1), length)?;
        }
        let blocks = Settings { all_reduce: Some(AllReduce::Whole), ..small() };
        let mut all = Reductions::open(rank, "large", blocks)?;
        refused(
            all.all_reduce(&mut [[0_u64; 20]], |left, _| left),
            "this call is not possible: an element of 160 bytes is longer than a buffer, which has 128 bytes: ask for longer buffers",
        )
    });
}

#[test]
fn lines_with_one_slot() {
    for ranks in [2, 5] {
        on_all(ranks, |rank| {
            let lines = LineReduce::lines(1, ranks).unwrap_or(0);
            let mut mpb = rank.mpb("lines", Mpbs::lines(lines))?;
            let mut all = LineReduce::new(&mpb, 1, 0).map_err(Error::other)?;
            for number in 0..500 {
                let meeting = [Meeting::Doubling, Meeting::FirstRank][number % 2];
                let mut got = [rank.id() + number];
                complete(all.all_reduce(&mut mpb, &mut got, &Max, meeting))?;
                ensure!(got == [ranks - 1 + number], "{got:?}");
                complete(all.reduce(&mut mpb, &mut got, &Sum, number % ranks))?;
            }
            Ok(())
        });
    }
}

#[derive(Clone, Copy, Debug)]
struct Fate {
    ranks: usize,
    victim: usize,
    operations: u64,
    way: u64,
}

impl Fate {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(5) as usize;
        let victim = random.below(ranks as u64) as usize;
        Self { ranks, victim, operations: random.below(200), way: seed % 9 }
    }
}

/// Reduces until a rank is lost.
fn until_death(rank: &Rank, fate: Fate, death: fn()) -> Result<()> {
    use mp_collectives::reduce::{BlockOptions, BlockReduce, Blocks};
    let Fate { ranks, victim, operations, way } = fate;
    let mpb = rank.mpb("mortal", Mpbs::lines(300))?;
    let left = if rank.id() == victim { operations } else { u64::MAX };
    let mut mpb = Mortal { mpb, left, death };
    let mut lines = LineReduce::new(&mpb, 4, 0).map_err(Error::other)?;
    let options = BlockOptions { block_lines: 2, first_line: 100 };
    let mut blocks = BlockReduce::new(&mpb, options).map_err(Error::other)?;
    let options = ChunkOptions { chunk_lines: 2, buffers: 2, first_line: 200 };
    let mut chunks = ChunkReduce::new(&mpb, options).map_err(Error::other)?;
    for number in 0.. {
        let root = number / 3 % ranks;
        let count = match way {
            0 | 1 | 7 => 1 + number % 10,
            5 => ranks * (1 + number % 10),
            6 => ranks * (number * 7 % 60),
            _ => number * 37 % 300,
        };
        let mut got = vec![1_u64 + rank.id() as u64; count];
        let mpb = &mut mpb;
        let done = match way {
            0 => complete(lines.all_reduce(mpb, &mut got, &Sum, Meeting::Doubling)),
            1 => complete(lines.reduce(mpb, &mut got, &Sum, root)),
            2 => complete(blocks.whole(mpb, &mut got, &Sum)),
            3 => complete(blocks.scattered(mpb, &mut got, &Sum, None)),
            4 => complete(chunks.reduce(mpb, &mut got, &Sum, root)),
            7 => complete(lines.reduce_along(mpb, &mut got, &Sum, 1, root)),
            8 => complete(chunks.reduce_along(mpb, &mut got, &Sum, 2, root)),
            _ => {
                let mut parts = Parts::new(mpb, Cut::InPlace(&mut got), Blocks::Equal)?;
                let done = match way {
                    5 => complete(lines.reduce_scatter(mpb, &mut parts, &Sum)),
                    _ => complete(blocks.reduce_scatter(mpb, &mut parts, &Sum)),
                };
                let each = count / ranks;
                got = got[rank.id() * each..][..each].to_vec();
                done
            }
        };
        let mine = ![1, 4, 7, 8].contains(&way) || rank.id() == root;
        let sum = (ranks * (ranks + 1) / 2) as u64;
        match done.map_err(Error::from).map_err(Error::into_kind) {
            Ok(()) => ensure!(!mine || got.iter().all(|&got| got == sum), "{number}: {got:?}"),
            Err(ErrorKind::PeerLost { rank, .. }) if rank == victim => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[test]
fn a_rank_dies_in_the_middle_of_a_reduction() {
    let _watchdog = Watchdog::start();
    for seed in 0..50 {
        let fate = Fate::of(seed);
        for world in [World::threads(fate.ranks), World::threads_on_heap(fate.ranks)] {
            mortal::panics(world, fate.victim, fate, |rank, death| until_death(rank, fate, death));
        }
    }
}

#[test]
fn a_rank_is_killed_in_the_middle_of_a_reduction() {
    for seed in 0..25 {
        let _watchdog = Watchdog::start();
        let fate = Fate::of(seed);
        let until_death = |rank: &Rank, death| until_death(rank, fate, death);
        mortal::is_killed(fate.ranks, fate.victim, fate, until_death);
    }
}
