//! A rank dies in the middle of a broadcast. The others hear of it, and no memory is left in use.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use mp_collectives::{
    broadcast::{Completion, Leaves, OcBcast, Options},
    complete,
};
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World, mpb::Mpbs};
use onchip_research::two_sided::{TwoSided, binomial, scatter_allgather};

use crate::{
    mortal::{self, Mortal},
    support::{Random, Watchdog, on_all, scenarios},
};

/// This MPB has more bytes than everything else in the world.
const MPB_LINES: usize = 2_000;
const REST: u64 = 100 << 10;

#[derive(Clone, Copy, Debug)]
enum Algorithm {
    OcBcast { degree: usize, leaves: Leaves },
    Binomial,
    ScatterAllgather,
}

/// The rank that dies, when it dies, the number of ranks, and the operation.
#[derive(Clone, Copy, Debug)]
struct Fate {
    ranks: usize,
    victim: usize,
    operations: u64,
    algorithm: Algorithm,
    roots: u64,
}

impl Fate {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(5) as usize;
        let algorithm = match seed % 6 {
            0 => Algorithm::Binomial,
            1 => Algorithm::ScatterAllgather,
            _ => Algorithm::OcBcast {
                degree: 1 + random.below(ranks as u64 - 1) as usize,
                leaves: if seed.is_multiple_of(2) { Leaves::ByMpb } else { Leaves::Direct },
            },
        };
        let victim = random.below(ranks as u64) as usize;
        let roots = 1 + random.below(ranks as u64);
        Self { ranks, victim, operations: random.below(150), algorithm, roots }
    }
}

/// Broadcasts until a rank is lost. The victim dies at the operation that `fate` names.
fn until_death(rank: &Rank, fate: Fate, death: fn()) -> Result<()> {
    let Fate { victim, operations, algorithm, roots, .. } = fate;
    let mpb = rank.mpb("mortal", Mpbs::lines(MPB_LINES))?;
    let left = if rank.id() == victim { operations } else { u64::MAX };
    let mut mpb = Mortal { mpb, left, death };
    let degree = match algorithm {
        Algorithm::OcBcast { degree, .. } => degree,
        _ => 1,
    };
    let leaves = match algorithm {
        Algorithm::OcBcast { leaves, .. } => leaves,
        _ => Leaves::ByMpb,
    };
    let options = Options {
        degree,
        chunk_lines: 2,
        buffers: 2,
        leaves,
        completion: Completion::Received,
        first_line: 50,
    };
    let mut oc_bcast = OcBcast::new(&mpb, options)?;
    let mut two_sided = TwoSided::new(&mpb, 0, 2)?;
    for number in 0u64.. {
        let root = (number / 3 % roots) as usize;
        let content = vec![number as u8; (number * 97 % 1_000) as usize];
        let mut got = if rank.id() == root { content.clone() } else { vec![0; content.len()] };
        let done = match algorithm {
            Algorithm::OcBcast { .. } => {
                complete(oc_bcast.broadcast(&mut mpb, &mut got, root)).map_err(Error::from)
            }
            Algorithm::Binomial => complete(binomial(&mut two_sided, &mut mpb, &mut got, root)),
            Algorithm::ScatterAllgather => {
                let done = scatter_allgather(&mut two_sided, &mut mpb, &mut got, root);
                complete(done)
            }
        };
        match done.map_err(Error::into_kind) {
            Ok(()) => ensure!(got == content, "broadcast {number} arrived broken"),
            Err(ErrorKind::PeerLost { rank, .. }) if rank == victim => break,
            Err(error) => return Err(error.into()),
        }
    }
    drop(mpb);
    // Waits until all ranks have closed their MPBs, and the dead rank's were freed.
    let started = Instant::now();
    while rank.memory().in_use > REST {
        let left = rank.memory();
        ensure!(started.elapsed() < Duration::from_secs(20), "nobody is left, but {left:?}");
        sleep(Duration::from_micros(100));
    }
    Ok(())
}

#[test]
fn a_rank_panics_in_the_middle_of_a_broadcast() {
    let _watchdog = Watchdog::start();
    for seed in 0..60 {
        let fate = Fate::of(seed);
        let on_heap = World::threads_on_heap(fate.ranks).segment_size(8 << 20);
        for world in [World::threads(fate.ranks), on_heap] {
            mortal::panics(world, fate.victim, fate, |rank, death| until_death(rank, fate, death));
        }
    }
}

#[test]
fn a_rank_is_killed_in_the_middle_of_a_broadcast() {
    for seed in 0..40 {
        let _watchdog = Watchdog::start();
        let fate = Fate::of(seed);
        let until_death = |rank: &Rank, death| until_death(rank, fate, death);
        mortal::is_killed(fate.ranks, fate.victim, fate, until_death);
    }
}

/// A rank that stops and returns is not lost. Ranks that wait for it hear that it has ended, and then the ranks that
/// wait for those.
#[test]
fn a_rank_leaves_between_two_broadcasts() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(6) as usize;
        let (leaver, last) = (random.below(ranks as u64) as usize, random.below(30));
        let degree = 1 + random.below(ranks as u64 - 1) as usize;
        let leaves = if seed.is_multiple_of(2) { Leaves::ByMpb } else { Leaves::Direct };
        on_all(ranks, |rank| {
            let mut mpb = rank.mpb("left", Mpbs::lines(100))?;
            let options = Options {
                degree,
                chunk_lines: 2,
                buffers: 2,
                leaves,
                completion: Completion::Received,
                first_line: 0,
            };
            let mut broadcasts = OcBcast::new(&mpb, options)?;
            for number in 0..100 {
                if rank.id() == leaver && number == last {
                    break;
                }
                let root = (number / 5) as usize % ranks;
                let content = [number as u8 + 1; 1_000];
                let mut message = if rank.id() == root { content } else { [0; 1_000] };
                match complete(broadcasts.broadcast(&mut mpb, &mut message, root)) {
                    Ok(()) => ensure!(message == content, "broadcast {number}"),
                    Err(error) => match Error::from(error).into_kind() {
                        ErrorKind::Disconnected { .. } => break,
                        error => return Err(error.into()),
                    },
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_broadcast_has_its_limit() {
    on_all(3, |rank| {
        let mut mpb = rank.mpb("limited", Mpbs::default())?;
        mpb.set_wait(Duration::from_millis(10));
        let options = Options { chunk_lines: 20, ..Options::scc(2) };
        let mut broadcasts = OcBcast::new(&mpb, options)?;
        let over = Channel::degree(1);
        if rank.id() == 0 {
            // Rank 0 broadcasts nothing while the others wait.
            for other in [1, 2] {
                drop(rank.receiver::<u8>("over", other, over)?.receive()?);
            }
            return Ok(());
        }
        let never = complete(broadcasts.broadcast(&mut mpb, &mut [0; 9], 0));
        let never = never.map_err(Error::from).err();
        let limit = Duration::from_millis(10);
        let limited = match never.as_ref().map(Error::kind) {
            Some(ErrorKind::Timeout { limit: stated, .. }) => *stated == limit,
            _ => false,
        };
        ensure!(limited, "{never:?}");
        rank.sender::<u8>("over", 0, over)?.send(&0)
    });
}

/// The rank is killed at any instruction, not only between two operations.
#[test]
fn a_rank_is_killed_at_any_time() {
    for seed in 100..120 {
        let _watchdog = Watchdog::start();
        let fate = Fate { operations: u64::MAX, ..Fate::of(seed) };
        let delay = Duration::from_micros(Random::new(seed).below(5_000));
        let result = World::processes(fate.ranks).run(|rank| {
            if rank.id() == fate.victim {
                std::thread::spawn(move || {
                    sleep(delay);
                    match scenarios::die() {}
                });
            }
            until_death(rank, fate, || ())
        });
        scenarios::check(result, fate.victim).unwrap_or_else(|error| panic!("{fate:?}: {error}"));
    }
}
