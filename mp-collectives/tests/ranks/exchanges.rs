//! Every block must come to its place, and nothing else may be written anywhere.

use std::time::Duration;

use mp_collectives::collectives::{At, Collective, InPlace, Settings};
use mp_collectives::{
    complete,
    exchange::{
        AllGather, AllToAll, Blocks, ChunkExchange, ChunkOptions, Cut, Exchanges, Gather,
        LineExchange, Scatter, SharedAllGather, Way, WayToAll, packed,
    },
};
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World, mpb::Mpbs};

use crate::{
    mortal::{self, Mortal},
    support::{Random, Watchdog, on_all},
    transcript::{Buffer, OPERATIONS, Operation, Step},
};

const PAYLOAD: usize = 56;
/// Four lines, half of the slots, in [`small`].
const SHORT: usize = 4 * PAYLOAD;
const CHUNK: usize = 2 * 64;

/// Bytes around a line, around a round of lines, around a chunk and all buffers, and many chunks.
const LENGTHS: [usize; 15] = [
    0,
    1,
    8,
    PAYLOAD - 1,
    PAYLOAD,
    PAYLOAD + 1,
    CHUNK,
    SHORT - 1,
    SHORT,
    SHORT + 1,
    2 * CHUNK,
    4 * CHUNK - 1,
    4 * CHUNK + 1,
    10 * CHUNK + 3,
    30 * CHUNK + 5,
];

fn small() -> Settings {
    Settings { chunk_lines: Some(2), slots: Some(8), ..Settings::default() }
}

fn same(got: &[u8], expected: &[u8], step: Step) -> Result<()> {
    let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
    if let Some(index) = wrong {
        let (got, expected) = (got[index], expected[index]);
        return Err(Error::other(format!("{step:?}: {got} at {index}, not {expected}")));
    }
    ensure!(got.len() == expected.len(), "{step:?}: {} bytes", got.len());
    Ok(())
}

fn exchange(all: &mut Exchanges, ranks: usize, step: Step) -> Result<()> {
    let Step { operation, varying, in_place, root, .. } = step;
    let me = all.rank();
    let here = me == root || matches!(operation, Operation::AllGather | Operation::AllToAll);
    let receiving = if here { step.receiving(me, ranks) } else { Buffer::default() };
    let (mut to, blocks) = (receiving.before, &receiving.blocks);
    let own = step.own(me);
    match operation {
        Operation::Gather if in_place => {
            let mut buffer = if here { to } else { own.clone() };
            match varying {
                false => all.gather(InPlace, &mut buffer, root)?,
                true => all.gather(InPlace, At(&mut buffer, blocks), root)?,
            }
            same(&buffer, if here { &receiving.after } else { &own }, step)
        }
        Operation::Gather => {
            match varying {
                false => all.gather(&own, &mut to, root)?,
                true => all.gather(&own, At(&mut to, blocks), root)?,
            }
            same(&to, &receiving.after, step)
        }
        Operation::Scatter => {
            let from = if here { step.sending(me, ranks) } else { Buffer::default() };
            let (mut own, after) = step.scattered(me);
            if in_place {
                let mut buffer = if here { from.before } else { own };
                match varying {
                    false => all.scatter(&mut buffer, InPlace, root)?,
                    true => all.scatter(At(&mut buffer, &from.blocks), InPlace, root)?,
                }
                return same(&buffer, if here { &from.after } else { &after }, step);
            }
            match varying {
                false => all.scatter(&from.before, &mut own, root)?,
                true => all.scatter(At(&from.before, &from.blocks), &mut own, root)?,
            }
            same(&own, &after, step)
        }
        Operation::AllGather => {
            match (in_place, varying) {
                (false, false) => all.all_gather(&own, &mut to)?,
                (false, true) => all.all_gather(&own, At(&mut to, blocks))?,
                (true, false) => all.all_gather(InPlace, &mut to)?,
                (true, true) => all.all_gather(InPlace, At(&mut to, blocks))?,
            }
            same(&to, &receiving.after, step)
        }
        Operation::AllToAll => {
            let from = step.sending(me, ranks);
            match (in_place, varying) {
                (false, false) => all.all_to_all(&from.before, &mut to)?,
                (false, true) => {
                    all.all_to_all(At(&from.before, &from.blocks), At(&mut to, blocks))?;
                }
                (true, false) => all.all_to_all(InPlace, &mut to)?,
                (true, true) => all.all_to_all(InPlace, At(&mut to, blocks))?,
            }
            same(&to, &receiving.after, step)
        }
    }
}

fn series(rank: &Rank, settings: Settings, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let mut all = Exchanges::open(rank, "series", settings)?;
    steps.into_iter().try_for_each(|step| exchange(&mut all, rank.size(), step))
}

/// Returns all operations in all forms, with each of these lengths, and all roots in turn.
fn all_forms(ranks: usize, lengths: &[usize]) -> impl Iterator<Item = Step> {
    let forms = lengths.iter().flat_map(|&count| (0..16).map(move |form| (count, form)));
    forms.enumerate().map(move |(number, (count, form))| Step {
        number,
        operation: OPERATIONS[form / 4],
        varying: form % 2 == 1,
        in_place: form / 2 % 2 == 1,
        root: (number / 3 + form) % ranks,
        count,
    })
}

fn random_steps(seed: u64, ranks: usize, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut root = 0;
    let step = |number| {
        if random.below(3) == 0 {
            root = random.below(ranks as u64) as usize;
        }
        Step {
            number,
            operation: OPERATIONS[random.below(4) as usize],
            varying: random.below(2) == 0,
            in_place: random.below(2) == 0,
            root,
            count: LENGTHS[random.below(13) as usize],
        }
    };
    (0..count).map(step).collect()
}

#[test]
fn all_operations_forms_and_lengths() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            series(rank, small(), all_forms(ranks, &LENGTHS))?;
            series(rank, Settings::default(), all_forms(ranks, &[1, 56, 447, 448, 449, 5_000]))
        });
    }
}

#[test]
fn forced_ways() {
    let ways = [Some(Way::Lines), Some(Way::Chunks), None];
    let to_all = [WayToAll::Lines, WayToAll::Chunks, WayToAll::Shared];
    for ranks in [1, 2, 3, 4, 6] {
        on_all(ranks, |rank| {
            for (exchange, to_all) in ways.into_iter().zip(to_all) {
                let settings = Settings { exchange, all_gather: Some(to_all), ..small() };
                series(rank, settings, all_forms(ranks, &[0, 1, 57, 224, 225, 4 * CHUNK + 9]))?;
            }
            Ok(())
        });
    }
}

#[test]
fn sixteen_ranks() {
    on_all(16, |rank| series(rank, small(), all_forms(16, &[1, 57, 225, 10 * CHUNK + 3])));
}

/// A rank that has nothing to wait for goes ahead into other operations under other roots.
#[test]
fn thousands_in_a_row() {
    for ranks in [2, 3, 4] {
        on_all(ranks, |rank| {
            series(rank, small(), random_steps(5, ranks, 1_000))?;
            let least = Settings { slots: Some(1), chunk_lines: Some(1), ..small() };
            series(rank, least, random_steps(6, ranks, 500))
        });
    }
}

/// Lengths around the default chunks.
#[test]
fn long_blocks() {
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            let lengths = [(32 << 10) - 1, 32 << 10, (32 << 10) + 1, 10 * (32 << 10) + 3];
            series(rank, Settings::default(), all_forms(ranks, &lengths))
        });
    }
}

#[test]
fn elements_of_all_types() {
    on_all(3, |rank| {
        let me = rank.id();
        let mut all = Exchanges::open(rank, "types", Settings::default())?;
        let mut wide = [[0_u64; 9]; 3];
        all.all_gather([[me as u64; 9]], &mut wide)?;
        ensure!(wide == [[0; 9], [1; 9], [2; 9]], "{wide:?}");
        let mut floats = [me as f64, 10.0 + me as f64, 20.0 + me as f64];
        all.all_to_all(InPlace, &mut floats)?;
        let ten = 10.0 * me as f64;
        ensure!(floats == [ten, ten + 1.0, ten + 2.0], "{floats:?}");
        let mut odd = [[0_u8; 3]; 5];
        let own = vec![[me as u8 + 1; 3]; 2 - me];
        let blocks = packed([2, 1, 0]);
        all.all_gather(&own, At(&mut odd, &blocks))?;
        ensure!(odd == [[1; 3], [1; 3], [2; 3], [0; 3], [0; 3]], "{odd:?}");
        let mut nothing = [(); 6];
        all.all_gather([(); 2], &mut nothing)?;
        all.all_to_all(InPlace, &mut nothing)?;
        all.gather([(); 2], &mut nothing, 1)?;
        all.all_to_all([(); 3], &mut [(); 3])
    });
}

/// The error contains both numbers and is returned at the rank that is wrong, before anything was sent. After that, all
/// ranks can go on.
#[test]
fn what_is_refused() {
    on_all(3, |rank| {
        let me = rank.id();
        let mut all = Exchanges::open(rank, "refused", Settings::default())?;
        let check = |what: mp_core::Result<()>, expected: &str| {
            let what = what.map_err(|error| error.to_string());
            ensure!(what == Err(expected.to_owned()), "{what:?} instead of {expected}");
            Ok(())
        };
        let (mut five, mut six) = ([0_u16; 5], [0_u16; 6]);
        let root = "there is no rank 3: there are 3, numbered from 0";
        check(all.gather([0_u16], &mut six, 3), root)?;
        check(all.gather(InPlace, &mut six, 3), root)?;
        check(all.scatter(&six, &mut [0], 3), root)?;
        check(all.scatter(&mut six, InPlace, 3), root)?;
        if me == 1 {
            let short =
                "this call is not possible: the buffer has 5 elements where this call needs 6";
            check(all.gather([0_u16; 2], &mut five, 1), short)?;
            check(all.scatter(&five, &mut [0; 2], 1), short)?;
            let uneven = "this call is not possible: a buffer of 5 elements can\'t be divided into equal blocks for 3 ranks: use a multiple, or name the blocks";
            check(all.gather(InPlace, &mut five, 1), uneven)?;
            check(all.scatter(&mut five, InPlace, 1), uneven)?;
        }
        check(
            all.all_gather([0_u16; 2], &mut five),
            "this call is not possible: the buffer has 5 elements where this call needs 6",
        )?;
        let uneven = "this call is not possible: a buffer of 5 elements can\'t be divided into equal blocks for 3 ranks: use a multiple, or name the blocks";
        check(all.all_gather(InPlace, &mut five), uneven)?;
        check(all.all_to_all(InPlace, &mut five), uneven)?;
        check(all.all_to_all(five, &mut six), uneven)?;
        let short = "this call is not possible: the buffer has 3 elements where this call needs 6";
        check(all.all_to_all(six, &mut [0; 3]), short)?;
        let blocks = packed([2, 2, 2]);
        let outside = "this call is not possible: the block of rank 2, elements 4 to 6, is not within the buffer of 5 elements";
        check(all.all_gather([0_u16; 2], At(&mut five, &blocks)), outside)?;
        check(all.all_to_all(InPlace, At(&mut five, &blocks)), outside)?;
        let count =
            "this call is not possible: there are 2 blocks for 3 ranks: give one for each rank";
        check(all.all_gather(InPlace, At(&mut six, &blocks[..2])), count)?;
        let own = "this call is not possible: the buffer has 1 elements where this call needs 2";
        check(all.all_gather([0_u16], At(&mut six, &blocks)), own)?;
        // A rank's block for itself differs between its two buffers.
        let other = packed([1, 1, 1]);
        check(all.all_to_all(At(&six, &blocks), At(&mut five, &other)), own)?;
        for _ in 0..3 {
            all.all_gather([me as u16; 2], &mut six)?;
            ensure!(six == [0, 0, 1, 1, 2, 2], "{six:?}");
        }
        for settings in [
            Settings { chunk_lines: Some(0), ..small() },
            Settings { slots: Some(0), ..small() },
            Settings { slots: Some(usize::MAX), ..small() },
            Settings { chunk_lines: Some(usize::MAX / 2), ..small() },
        ] {
            ensure!(Exchanges::open(rank, "senseless", settings.clone()).is_err(), "{settings:?}");
        }
        Ok(())
    });
}

#[test]
fn what_is_told_of_the_choice() {
    on_all(2, |rank| {
        let all = Exchanges::open(rank, "told", Settings::default())?;
        for collective in [Collective::Gather, Collective::Scatter, Collective::AllToAll] {
            let told = [448, 449].map(|bytes| all.explain(collective, bytes));
            ensure!(told[0].algorithm == Way::Lines.into(), "{}", told[0]);
            ensure!(told[1].algorithm == Way::Chunks.into(), "{}", told[1]);
        }
        let told = all.explain(Collective::AllGather, 449);
        ensure!(told.algorithm == WayToAll::Shared.into(), "{told}");
        let all = Exchanges::open(rank, "small", small())?;
        let told = all.explain(Collective::Gather, 225);
        ensure!(told.algorithm == Way::Chunks.into(), "{told}");
        Ok(())
    });
}

#[test]
fn an_exchange_has_its_limit() {
    on_all(2, |rank| {
        let mut all = Exchanges::open(rank, "limited", Settings::default())?;
        all.set_wait(Duration::from_millis(10));
        let over = Channel::degree(1);
        if rank.id() == 1 {
            // Rank 1 calls nothing while the other rank waits.
            rank.receiver::<u8>("over", 0, over)?.receive()?;
            return Ok(());
        }
        for count in [1, 1_000] {
            let never = all.all_gather(vec![0_u8; count], &mut vec![0; 2 * count]);
            ensure!(
                matches!(never.as_ref().map_err(Error::kind), Err(ErrorKind::Timeout { .. })),
                "{never:?}"
            );
        }
        rank.sender::<u8>("over", 1, over)?.send(&0)
    });
}

/// Messages that the rank had sent before arrive. Ranks that wait for more get an error.
#[test]
fn a_rank_leaves_between_two_exchanges() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(4) as usize;
        let (leaver, last) = (random.below(ranks as u64) as usize, random.below(20) as usize);
        on_all(ranks, |rank| {
            let mut all = Exchanges::open(rank, "left", small())?;
            for step in random_steps(seed, ranks, 200) {
                if rank.id() == leaver && step.number == last {
                    break;
                }
                match exchange(&mut all, ranks, step).map_err(Error::into_kind) {
                    Err(ErrorKind::Disconnected { .. }) => break,
                    done => done?,
                }
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
        Self { ranks, victim, operations: random.below(150), way: seed % 3 }
    }
}

/// Exchanges until a rank is lost.
fn until_death(rank: &Rank, fate: Fate, death: fn()) -> Result<()> {
    let Fate { ranks, victim, operations, way } = fate;
    let (me, mpb) = (rank.id(), rank.mpb("mortal", Mpbs::lines(300))?);
    let left = if me == victim { operations } else { u64::MAX };
    let mut mpb = Mortal { mpb, left, death };
    let mut lines = LineExchange::new(&mpb, 4, 0).map_err(Error::other)?;
    let options = ChunkOptions { chunk_lines: 2, buffers: 2, first_line: 100 };
    let mut chunks = ChunkExchange::new(&mpb, options).map_err(Error::other)?;
    let options = ChunkOptions { first_line: 200, ..options };
    let mut shared = SharedAllGather::new(&mpb, options).map_err(Error::other)?;
    for number in 0.. {
        let (root, count) = (number / 3 % ranks, number * 7 % 60 + 1);
        let of = |rank: usize| (rank * 1_000 + number) as u64;
        let (own, mut all) = (vec![of(me); count], vec![0; ranks * count]);
        let expected = || (0..ranks).flat_map(|rank| vec![of(rank); count]);
        let mpb = &mut mpb;
        let (done, whole) = match (number + way as usize) % 4 {
            0 => {
                let mut gather = Gather::new(mpb, Some(&own), &mut all, Blocks::Equal, root)?;
                let done = match way {
                    0 => complete(lines.exchange(mpb, &mut gather)),
                    _ => complete(chunks.exchange(mpb, &mut gather)),
                };
                (done, me == root)
            }
            1 => {
                let from: Vec<_> = expected().collect();
                let mut got = vec![0; count];
                let cut = Cut::Apart { all: &from, own: &mut got };
                let mut scatter = Scatter::new(mpb, cut, Blocks::Equal, root)?;
                let done = match way {
                    0 => complete(lines.exchange(mpb, &mut scatter)),
                    _ => complete(chunks.exchange(mpb, &mut scatter)),
                };
                ensure!(done.is_err() || got == own, "{number}: {got:?}");
                (done, false)
            }
            2 => {
                let mut traffic = AllGather::new(mpb, Some(&own), &mut all, Blocks::Equal)?;
                let done = match way {
                    0 => complete(lines.exchange(mpb, &mut traffic)),
                    1 => complete(chunks.exchange(mpb, &mut traffic)),
                    _ => complete(shared.all_gather(mpb, &mut traffic)),
                };
                (done, true)
            }
            _ => {
                all.fill(of(me));
                let mut traffic = AllToAll::new(mpb, None, (&mut all, Blocks::Equal))?;
                let done = match way {
                    0 => complete(lines.exchange(mpb, &mut traffic)),
                    _ => complete(chunks.exchange(mpb, &mut traffic)),
                };
                (done, true)
            }
        };
        match done.map_err(Error::into_kind) {
            Ok(()) => ensure!(!whole || expected().eq(all), "{number}"),
            Err(ErrorKind::PeerLost { rank, .. }) if rank == victim => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[test]
fn a_rank_dies_in_the_middle_of_an_exchange() {
    let _watchdog = Watchdog::start();
    for seed in 0..50 {
        let fate = Fate::of(seed);
        let on_heap = World::threads_on_heap(fate.ranks).segment_size(8 << 20);
        for world in [World::threads(fate.ranks), on_heap] {
            mortal::panics(world, fate.victim, fate, |rank, death| until_death(rank, fate, death));
        }
    }
}

#[test]
fn a_rank_is_killed_in_the_middle_of_an_exchange() {
    for seed in 0..25 {
        let _watchdog = Watchdog::start();
        let fate = Fate::of(seed);
        let until_death = |rank: &Rank, death| until_death(rank, fate, death);
        mortal::is_killed(fate.ranks, fate.victim, fate, until_death);
    }
}
