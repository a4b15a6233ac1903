//! Broadcasts by the best algorithm for each message, and line by line.

use mp_collectives::{
    Members,
    broadcast::{Broadcast, Broadcasts, Fan, LineBcast, LineOptions, Shape},
    collectives::{Algorithm, Settings},
    complete,
    near::Near,
};
use mp_core::{Bind, Error, Rank, Result, World, mpb::Mpbs};

use crate::{
    broadcasts::{Message, same},
    support::{Random, on_all},
};

const PAYLOAD: usize = 56;
const CHUNK: usize = 2 * 64;
/// Lengths around a line, around the longest short message, around a chunk, and many chunks.
const LENGTHS: [usize; 13] = [
    0,
    1,
    8,
    PAYLOAD - 1,
    PAYLOAD,
    PAYLOAD + 1,
    8 * PAYLOAD - 1,
    8 * PAYLOAD,
    8 * PAYLOAD + 1,
    5 * CHUNK - 1,
    5 * CHUNK,
    5 * CHUNK + 1,
    20 * CHUNK + 3,
];

fn small() -> Settings {
    Settings { chunk_lines: Some(2), buffers: Some(3), slots: Some(3), ..Settings::default() }
}

fn all(rank: &Rank, settings: Settings, series: impl IntoIterator<Item = Message>) -> Result<()> {
    let mut broadcasts = Broadcasts::open(rank, "chosen", settings)?;
    for (number, message) in series.into_iter().enumerate() {
        let mut got = message.start(rank.id(), number);
        broadcasts.broadcast(&mut got, message.root)?;
        same(&got, message, number)?;
    }
    Ok(())
}

#[test]
fn all_roots_and_lengths() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let series =
                || (0..ranks).flat_map(|root| LENGTHS.map(|bytes| Message { root, bytes }));
            all(rank, small(), series())?;
            all(rank, Settings::default(), series())
        });
    }
}

#[test]
fn forced_algorithms_and_degrees() {
    on_all(4, |rank| {
        for algorithm in [Broadcast::Lines, Broadcast::OcBcast] {
            // Five children are more than there are ranks.
            for degree in [1, 2, 3, 5] {
                let settings = Settings {
                    broadcast: Some(algorithm),
                    tree: Some(Shape::of_degree(degree)),
                    ..small()
                };
                let series = (0..26).map(|n| Message { root: n / 7, bytes: LENGTHS[n % 13] });
                all(rank, settings, series)?;
            }
        }
        Ok(())
    });
}

/// All trees that can be forced, from all roots, with full groups and others.
#[test]
fn forced_trees() {
    for ranks in [1, 2, 3, 5, 8, 13] {
        on_all(ranks, |rank| {
            for (number, size) in [1, 2, 3, 5, 20].into_iter().enumerate() {
                for near in [Near::All, Near::Caches, Near::Packages, Near::Blocks(size)] {
                    let between = [Fan::Lambda(1 + number), Fan::Degree(2)][number % 2];
                    let within = [Fan::Lambda(size), Fan::Degree(1 + number)][number / 2 % 2];
                    let tree = Some(Shape { near, between, within });
                    let lengths = [1, PAYLOAD + 1, 8 * PAYLOAD + 1, 20 * CHUNK + 3];
                    let roots = (0..ranks).chain([0, 0]);
                    let series =
                        roots.flat_map(|root| lengths.map(|bytes| Message { root, bytes }));
                    all(rank, Settings { tree, ..small() }, series)?;
                }
            }
            Ok(())
        });
    }
}

/// All ranks know the same about the binding of all ranks, of each kind. The same holds for some of them.
#[test]
fn members_of_a_world_that_is_bound() {
    let cores = World::threads(1).run(|rank| Ok(rank.cores())).expect("a world")[0];
    let ranks = cores.min(6);
    for world in [World::threads(ranks), World::threads_on_heap(ranks)] {
        let told = world.bind(Bind::Auto).run(|rank| {
            let seats: Vec<_> = (0..ranks).map(|of| rank.seat(of)).collect();
            ensure!(seats.iter().all(Option::is_some), "{seats:?}");
            let even: Vec<usize> = (0..ranks).step_by(2).collect();
            if even.contains(&rank.id()) {
                let members = Members::of(rank, &even);
                let mut broadcasts = Broadcasts::open(members, "even", small())?;
                for number in 0..20 {
                    let message =
                        Message { root: number % even.len(), bytes: LENGTHS[number % 13] };
                    let mut got = message.start(broadcasts.rank(), number);
                    broadcasts.broadcast(&mut got, message.root)?;
                    same(&got, message, number)?;
                }
            }
            all(
                rank,
                small(),
                (0..26).map(|n| Message { root: n % ranks, bytes: LENGTHS[n % 13] }),
            )?;
            Ok(format!("{seats:?}"))
        });
        let told = told.expect("broadcasts");
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    }
}

/// Roots go ahead of the others, and change.
#[test]
fn thousands_in_a_row() {
    on_all(3, |rank| {
        let mut random = Random::new(11);
        let mut root = 0;
        let series: Vec<_> = (0..6_000)
            .map(|_| {
                if random.below(5) == 0 {
                    root = random.below(3) as usize;
                }
                Message { root, bytes: LENGTHS[random.below(13) as usize] }
            })
            .collect();
        all(rank, small(), series)
    });
}

#[test]
fn any_type_and_what_is_told_of_the_choice() {
    on_all(2, |rank| {
        let mut broadcasts = Broadcasts::open(rank, "typed", Settings::default())?;
        let mut numbers = if rank.id() == 1 { [1.5, -2.5, 1e300] } else { [0.0; 3] };
        broadcasts.broadcast(&mut numbers, 1)?;
        ensure!(numbers == [1.5, -2.5, 1e300], "{numbers:?}");
        let told = broadcasts.explain(24);
        let by_lines = matches!(told.algorithm, Algorithm::Broadcast(Broadcast::Lines, ..));
        ensure!(by_lines, "{told}");
        let told = broadcasts.explain(1 << 20).algorithm.to_string();
        ensure!(told.contains("OC-Bcast"), "{told}");
        let nobody = broadcasts.broadcast(&mut numbers, 2).map_err(|error| error.to_string());
        ensure!(
            nobody == Err("there is no rank 2: there are 2, numbered from 0".into()),
            "{nobody:?}"
        );
        Ok(())
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    on_all(2, |rank| {
        for settings in [
            Settings { chunk_lines: Some(0), ..small() },
            Settings { buffers: Some(0), ..small() },
            Settings { slots: Some(0), ..small() },
            Settings { tree: Some(Shape::of_degree(0)), ..small() },
            Settings {
                tree: Some(Shape { between: Fan::Lambda(0), ..Shape::of_degree(1) }),
                ..small()
            },
            Settings { slots: Some(usize::MAX), ..small() },
            Settings { chunk_lines: Some(usize::MAX / 2), ..small() },
        ] {
            let opened = Broadcasts::open(rank, "senseless", settings.clone());
            ensure!(opened.is_err(), "{settings:?}");
        }
        Ok(())
    });
}

#[test]
fn lines_alone() {
    for ranks in [1, 2, 3, 5, 8, 16] {
        on_all(ranks, |rank| {
            for (slots, degree) in [(1, 1), (2, ranks.max(2) - 1), (5, 2.min(ranks.max(2) - 1))] {
                let mut mpb = rank.mpb("lines", Mpbs::lines(2 + 11 * ranks))?;
                let options = LineOptions { degree, slots, first_line: 2 };
                let mut lines = LineBcast::new(&mpb, options).map_err(Error::other)?;
                for (number, root) in (0..ranks).flat_map(|root| [root; 4]).enumerate() {
                    let message = Message { root, bytes: LENGTHS[number % 10] };
                    let mut got = message.start(rank.id(), number);
                    complete(lines.broadcast(&mut mpb, &mut got, root))?;
                    same(&got, message, number)?;
                }
            }
            Ok(())
        });
    }
}
