//! Nonblocking operations that not all ranks call alike: the rank that differs is named, and no rank waits for ever.

use mp_collectives::collectives::{At, InPlace};
use mp_collectives::communicator::Communicator;
use mp_collectives::{
    collectives::{Check, Settings},
    reduce::{Max, Order, Sum},
};
use mp_core::{Error, ErrorKind, Rank, Result, World};

use crate::{
    ALL, By,
    support::{Together, Watchdog, on_all, scenarios, with_limit_enough},
};

type Called = fn(&Communicator) -> Result<()>;

/// The call that one rank makes instead of `nonblocking broadcast of 4 f64 with root 0`, and its description in errors.
const WRONG: [(&str, Called); 20] = [
    ("nonblocking broadcast of 4 f64 with root 1", |of| {
        begun(of.nonblocking()?.broadcast([0.0; 4], 1))
    }),
    ("nonblocking broadcast of 3 f64 with root 0", |of| {
        begun(of.nonblocking()?.broadcast([0.0; 3], 0))
    }),
    ("nonblocking broadcast of 4 f32 with root 0", |of| {
        begun(of.nonblocking()?.broadcast([0f32; 4], 0))
    }),
    ("nonblocking broadcast of 4 u64 with root 0", |of| {
        begun(of.nonblocking()?.broadcast([0u64; 4], 0))
    }),
    ("nonblocking barrier", |of| begun(of.nonblocking()?.barrier())),
    ("nonblocking reduce of 4 f64 with Sum and root 0", |of| {
        begun(of.nonblocking()?.reduce([0.0; 4], Sum, 0))
    }),
    ("nonblocking all_reduce of 4 f64 with Max", |of| {
        begun(of.nonblocking()?.all_reduce([0.0; 4], Max))
    }),
    ("nonblocking scan of 4 f64 with Sum", |of| begun(of.nonblocking()?.scan([0.0; 4], Sum))),
    ("nonblocking exclusive_scan of 1 i8 with Max", |of| {
        begun(of.nonblocking()?.exclusive_scan([0i8], Max))
    }),
    ("nonblocking gather of 2 u8 with root 0", |of| {
        let all = vec![0; 2 * of.size()];
        begun(of.nonblocking()?.gather([1u8; 2], all, 0))
    }),
    ("nonblocking scatter_varcount of u8 with root 1", |of| {
        begun(of.nonblocking()?.scatter(At([1u8], vec![]), InPlace, 1))
    }),
    ("nonblocking all_gather of 1 u8", |of| {
        begun(of.nonblocking()?.all_gather(InPlace, vec![0u8; of.size()]))
    }),
    ("nonblocking all_to_all of 0 u8", |of| {
        begun(of.nonblocking()?.all_to_all::<u8, _, _>([], []))
    }),
    ("nonblocking reduce_scatter of 0 u8 with Sum", |of| {
        begun(of.nonblocking()?.reduce_scatter::<u8, _, _, _>([], [], Sum))
    }),
    // Blocking calls instead of the nonblocking one.
    ("broadcast of 4 f64 with root 0", |of| of.broadcast(&mut [0.0; 4], 0)),
    ("barrier", |of| of.barrier()),
    ("arrive", |of| of.arrive().map(drop)),
    ("split", |of| of.split(None, 0).map(drop)),
    ("duplicate", |of| of.duplicate().map(drop)),
    ("cartesian", |of| of.cartesian(&[1], &[false]).map(drop)),
];

const RIGHT: &str = "called nonblocking broadcast of 4 f64 with root 0";

fn begun<B>(request: mp_collectives::nonblocking::CollectiveRequest<B>) -> Result<()> {
    Ok(request.wait().map(drop)?)
}

fn right(of: &Communicator) -> Result<()> {
    let mine = if of.rank() == 0 { [1.5; 4] } else { [0.0; 4] };
    let request = of.nonblocking()?.broadcast(mine, 0);
    match request.wait()? {
        got if got == [1.5; 4] => Ok(()),
        got => Err(Error::other(format!("{got:?}"))),
    }
}

fn differ(result: Result<()>) -> Result<String> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::CallsDiffer(calls)) => Ok(calls.to_string()),
        other => Err(Error::other(format!("{other:?}"))),
    }
}

fn checked(rank: &Rank, by: By) -> Result<Communicator> {
    let world = Communicator::world(rank);
    world.set_collectives(Settings { check: Check::On, ..Settings::default() })?;
    world.set_nonblocking(by.progress(rank)?)?;
    Ok(world)
}

fn named(rank: &Rank, by: By) -> Result<()> {
    let (me, size) = (rank.id(), rank.size());
    let world = checked(rank, by)?;
    for (number, (what, wrong)) in WRONG.iter().enumerate() {
        let odd = number % size;
        let told = differ(if me == odd { wrong(&world) } else { right(&world) })?;
        let wanted = match (size, odd) {
            (2, 0) => format!("rank 0 called {what}, rank 1 {RIGHT}"),
            (2, _) => format!("rank 0 {RIGHT}, rank 1 called {what}"),
            _ => format!("rank {odd} called {what}; the others {RIGHT}"),
        };
        if told != wanted {
            return Err(Error::other(format!("{by:?}: {told:?}, {wanted:?}")));
        }
        // No rank has gone on in the operation, so the next one works.
        right(&world)?;
        world.barrier()?;
    }
    Ok(())
}

#[test]
fn who_calls_something_else_is_named() {
    for size in [2, 3, 5] {
        on_all(size, |rank| ALL.into_iter().try_for_each(|by| named(rank, by)));
    }
}

/// A wrong call among many requests that no rank has waited for yet.
#[test]
fn one_of_many_is_named() {
    on_all(3, |rank| {
        for by in ALL {
            let world = checked(rank, by)?;
            let mut requests = Vec::new();
            for number in 0..100usize {
                let root = if rank.id() == 1 && number == 60 { 2 } else { 0 };
                requests.push(world.nonblocking()?.broadcast([rank.id() + number], root));
            }
            for (number, request) in requests.into_iter().enumerate() {
                match (request.wait().map_err(|failed| failed.error.into_kind()), number) {
                    (Err(ErrorKind::CallsDiffer(calls)), 60) => {
                        ensure!(calls.odd()[0].ranks == [1], "{calls}");
                    }
                    (Ok([got]), _) if number != 60 => ensure!(got == number, "{got}, {number}"),
                    (other, _) => return Err(Error::other(format!("{number}: {other:?}"))),
                }
            }
        }
        Ok(())
    });
}

/// Each rank calls operations of different communicators in its own order, and messages between the calls decide which
/// rank comes first. Everything that is allowed without checks works with them.
#[test]
fn what_is_right_stays_right() {
    on_all(3, |rank| {
        for by in ALL {
            let (me, world) = (rank.id(), checked(rank, by)?);
            let twin = world.duplicate()?;
            for round in 0..50 {
                let sum = |of: &Communicator| -> Result<_> {
                    Ok(of.nonblocking()?.all_reduce(vec![me + round; 5], Sum))
                };
                let (first, second) = match me {
                    // No other rank has made its call when this rank goes on.
                    0 => {
                        let both = (sum(&world)?, sum(&twin)?);
                        world.send(&[round], 1, 7)?;
                        world.send(&[round], 2, 7)?;
                        both
                    }
                    1 => {
                        world.receive::<usize>(0, 7)?;
                        let twin = sum(&twin)?;
                        (sum(&world)?, twin)
                    }
                    _ => {
                        world.receive::<usize>(0, 7)?;
                        (sum(&world)?, sum(&twin)?)
                    }
                };
                ensure!(second.wait()? == [3 + 3 * round; 5], "{by:?}, round {round}");
                ensure!(first.wait()? == [3 + 3 * round; 5], "{by:?}, round {round}");
                // A request is pending during blocking calls.
                let request = sum(&world)?;
                twin.barrier()?;
                world.barrier()?;
                ensure!(request.wait()? == [3 + 3 * round; 5], "{by:?}, round {round}");
            }
        }
        Ok(())
    });
}

/// The order of blocking and nonblocking calls must be the same as well, as in MPI.
#[test]
fn orders_that_differ_are_told() {
    on_all(2, |rank| {
        let world = checked(rank, By::Calls)?;
        let (first, second) = match rank.id() {
            0 => {
                let request = world.nonblocking()?.all_reduce([1], Sum);
                (world.barrier(), request.wait().map(drop).map_err(Error::from))
            }
            _ => {
                let barrier = world.barrier();
                (barrier, begun(world.nonblocking()?.all_reduce([1], Sum)))
            }
        };
        for told in [differ(first)?, differ(second)?] {
            ensure!(told.contains("nonblocking all_reduce of 1 i32 with Sum"), "{told}");
            ensure!(told.contains("called barrier"), "{told}");
        }
        Ok(())
    });
}

#[test]
fn settings_and_places_of_blocks_are_told() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let order = if rank.id() == 2 { Order::Ranks } else { Order::Algorithm };
        world.set_collectives(Settings { order, check: Check::On, ..Settings::default() })?;
        world.set_nonblocking(By::Threads(1).progress(rank)?)?;
        let told = differ(begun(world.nonblocking()?.all_reduce([1u8], Sum)))?;
        ensure!(told.starts_with("rank 2 called nonblocking all_reduce of 1 u8"), "{told}");
        ensure!(told.contains("order: Ranks") && told.contains("order: Algorithm"), "{told}");
        let world = checked(rank, By::Mixed)?;
        let blocks = if rank.id() == 0 { [0..1, 1..2, 2..3] } else { [0..1, 1..1, 1..3] };
        let result = vec![0; blocks[rank.id()].len()];
        let request =
            world.nonblocking()?.reduce_scatter(At(vec![1; 3], blocks.to_vec()), result, Sum);
        let told = differ(begun(request))?;
        ensure!(
            told.contains("[0..1, 1..2, 2..3]") && told.contains("[0..1, 1..1, 1..3]"),
            "{told}"
        );
        // Whether the buffer is in place makes no difference.
        let request = match rank.id() {
            1 => world.nonblocking()?.gather(InPlace, vec![1u8; 6], 1),
            _ => world.nonblocking()?.gather(InPlace, vec![rank.id() as u8; 2], 1),
        };
        let got = request.wait()?;
        ensure!(rank.id() != 1 || got.1 == [0, 0, 1, 1, 2, 2], "{got:?}");
        Ok(())
    });
}

/// A rank that is too late for a blocking call also finds requests of the others.
#[test]
fn who_does_not_come_is_named() {
    let attempt = |rank: &Rank, limit| {
        let world = Communicator::world(rank);
        let mut together = Together::new(rank)?;
        let check = Check::Within(limit);
        world.set_collectives(Settings { check, ..Settings::default() })?;
        if rank.id() == 1 {
            together.wait()?;
        }
        let request = world.nonblocking()?.all_reduce([rank.id()], Sum);
        let named = match world.barrier().map_err(Error::into_kind) {
            Err(ErrorKind::RankMissing { rank, .. }) => rank,
            other => return Err(Error::other(format!("{other:?}"))),
        };
        if rank.id() != 1 {
            together.wait()?;
        }
        // A request has its own time limit.
        ensure!(request.wait()? == [3], "the request");
        // If another rank is named, that rank was late by chance.
        together.all(named == 1)
    };
    on_all(3, |rank| with_limit_enough(|limit| attempt(rank, limit)));
}

/// Rank 1 has gone before it made the call that the others wait for, which is the second or the `first`.
fn without_one(rank: &Rank, by: By, first: bool, end: impl Fn()) -> Result<()> {
    let world = checked(rank, by)?;
    if !first {
        right(&world)?;
    }
    if rank.id() == 1 {
        end();
        return Ok(());
    }
    let ended = right(&world);
    match ended.as_ref().map_err(Error::kind) {
        Err(
            ErrorKind::PeerLost { rank: 1, .. }
            | ErrorKind::PeerEnded { rank: 1 }
            | ErrorKind::Disconnected { .. },
        ) => Ok(()),
        _ => Err(Error::other(format!("{by:?}: {ended:?}"))),
    }
}

/// Rank 1 drops a communicator before its first call in it, and keeps the world's.
#[test]
fn who_has_dropped_only_this_communicator_is_an_error() {
    for by in ALL {
        on_all(3, |rank| {
            let world = checked(rank, by)?;
            let again = world.duplicate()?;
            let mut together = Together::new(rank)?;
            if rank.id() == 1 {
                drop(again);
                return together.wait();
            }
            let ended = right(&again);
            let kind = ended.as_ref().map_err(Error::kind);
            ensure!(matches!(kind, Err(ErrorKind::PeerEnded { rank: 1 })), "{by:?}: {ended:?}");
            together.wait()
        });
    }
}

#[test]
fn who_is_gone_is_an_error() {
    for by in ALL {
        for first in [false, true] {
            on_all(3, |rank| without_one(rank, by, first, || ()));
            let _watchdog = Watchdog::start();
            let result = World::processes(3)
                .run(|rank| without_one(rank, by, first, || match scenarios::die() {}));
            scenarios::check(result, 1).unwrap();
        }
    }
}
