//! Ranks that call something else without the full comparison. The headers that are sent anyway show the difference.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

use mp_collectives::collectives::{At, InPlace};
use mp_collectives::communicator::Communicator;
use mp_collectives::{
    collectives::{Check, Settings},
    exchange,
    nonblocking::Nonblocking,
    reduce::{self, Sum},
};
use mp_core::{Error, ErrorKind, Failed, Rank, Result, World};

use mp_delegate::threads::Progress;

use crate::support::on_all;

type Called = fn(&Communicator) -> mp_core::Result<()>;

/// The call that one rank makes instead of `broadcast of 4 f64 with root 0`, and its description in errors.
const WRONG: [(&str, Called); 11] = [
    ("broadcast of 4 f64 with root 1", |of| of.broadcast(&mut [0.0; 4], 1)),
    ("broadcast of 3 f64 with root 0", |of| of.broadcast(&mut [0.0; 3], 0)),
    ("broadcast of 4 u64 with root 0", |of| of.broadcast(&mut [0u64; 4], 0)),
    ("reduce of 4 f64 with root 0", |of| of.reduce(&mut [0.0; 4], Sum, 0)),
    ("all_reduce of 4 f64", |of| of.all_reduce(&mut [0.0; 4], Sum)),
    ("barrier", |of| of.barrier()),
    ("gather of 2 u8 with root 0", |of| of.gather([1u8; 2], &mut vec![0; 2 * of.size()], 0)),
    ("all_gather of 1 u8", |of| of.all_gather(InPlace, &mut vec![0u8; of.size()])),
    ("all_to_all of 0 u8", |of| of.all_to_all::<u8>(&[], &mut [])),
    ("scan of 300 u16", |of| of.scan(&mut [0u16; 300], Sum)),
    ("reduce_scatter of 0 u8", |of| of.reduce_scatter(&[0u8; 0], &mut [], Sum)),
];

fn unchecked(world: &Communicator, settings: Settings) -> mp_core::Result<Communicator> {
    let of = world.duplicate()?;
    of.set_collectives(Settings { check: Check::Off, ..settings })?;
    Ok(of)
}

/// Makes the call, and others until one fails. Returns the description of the difference.
fn told(
    of: &Communicator,
    call: impl FnOnce(&Communicator) -> mp_core::Result<()>,
) -> Result<String> {
    let mut result = call(of);
    for _ in 0..5 {
        if result.is_err() {
            break;
        }
        result = of.barrier();
    }
    let text = match result.map_err(Error::into_kind) {
        Err(ErrorKind::CallsDiffer(calls)) => calls.to_string(),
        other => return Err(Error::other(format!("{other:?}"))),
    };
    match of.broadcast(&mut [0u8], 0).map_err(Error::into_kind) {
        Err(ErrorKind::CallsDiffer(_)) => Ok(text),
        other => Err(Error::other(format!("goes on: {other:?}"))),
    }
}

fn both_named(told: &str, one: &str, other: &str) -> Result<()> {
    let named = [one, other].iter().all(|call| told.contains(&format!("called {call}")));
    ensure!(named, "{told}\n  instead of {one} and {other}");
    Ok(())
}

#[test]
fn all_ranks_end_when_one_calls_something_else() {
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            for (number, (what, wrong)) in WRONG.iter().enumerate() {
                let of = unchecked(&world, Settings::default())?;
                for root in 0..size {
                    of.broadcast(&mut [1u8, 2], root)?;
                }
                of.barrier()?;
                let told = match rank.id() == number % size {
                    true => told(&of, wrong)?,
                    false => told(&of, |of| of.broadcast(&mut [1.0; 4], 0))?,
                };
                both_named(&told, what, "broadcast of 4 f64 with root 0")?;
            }
            Ok(())
        });
    }
}

fn types_differ(rank: &Rank) -> Result<()> {
    let world = Communicator::world(rank);
    for count in [1, 2, 40, 300, 1_500] {
        let of = unchecked(&world, Settings::default())?;
        let odd = rank.id() == rank.size() - 1;
        let told = told(&of, |of| match odd {
            true => of.all_reduce(&mut vec![1u32; count], Sum),
            false => of.all_reduce(&mut vec![1f32; count], Sum),
        })?;
        let of = |element| format!("all_reduce of {count} {element}");
        both_named(&told, &of("f32"), &of("u32"))?;
    }
    Ok(())
}

#[test]
fn other_types_are_told_apart_by_every_algorithm() {
    for size in [2, 3, 5, 8] {
        on_all(size, types_differ);
    }
}

/// The root has returned long before the others compare.
#[test]
fn lengths_are_compared_after_the_root_has_gone_on() {
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            for count in [4, 100, 2_000] {
                let of = unchecked(&world, Settings::default())?;
                let shorter = usize::from(rank.id() == 0);
                let told = told(&of, |of| of.broadcast(&mut vec![7u8; count - shorter], 0))?;
                let of = |count| format!("broadcast of {count} u8 with root 0");
                both_named(&told, &of(count), &of(count - 1))?;
            }
            Ok(())
        });
    }
}

#[test]
fn forced_algorithms_compare_as_well() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let all = [
            (reduce::AllReduce::Doubling, exchange::Way::Lines),
            (reduce::AllReduce::FirstRank, exchange::Way::Chunks),
            (reduce::AllReduce::Whole, exchange::Way::Chunks),
            (reduce::AllReduce::Scattered, exchange::Way::Lines),
        ];
        for (all_reduce, way) in all {
            let (all_reduce, exchange) = (Some(all_reduce), Some(way));
            let settings = Settings { all_reduce, exchange, ..Settings::default() };
            let odd = rank.id() == 1;
            let of = unchecked(&world, settings.clone())?;
            let reduced = told(&of, |of| match odd {
                true => of.all_reduce(&mut [1u32; 2], Sum),
                false => of.all_reduce(&mut [1f32; 2], Sum),
            })?;
            both_named(&reduced, "all_reduce of 2 f32", "all_reduce of 2 u32")?;
            let of = unchecked(&world, settings)?;
            let exchanged = told(&of, |of| match odd {
                true => of.all_to_all([1i64; 9], &mut [0; 9]),
                false => of.all_to_all([1u64; 9], &mut [0; 9]),
            })?;
            both_named(&exchanged, "all_to_all of 9 u64", "all_to_all of 9 i64")?;
        }
        Ok(())
    });
}

#[test]
fn what_is_sent_and_what_is_expected_are_compared_in_full_checks() {
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            world.set_collectives(Settings { check: Check::On, ..Default::default() })?;
            let me = rank.id();
            let blocks = exchange::packed(vec![2; size]);
            let mut wrong = vec![2; size];
            if me == 1 {
                wrong[0] = 1;
            }
            let wrong = exchange::packed(wrong);
            let (send, mut receive) = (vec![7u8; 2 * size], vec![0; 2 * size]);
            world.all_to_all(At(&send, &blocks), At(&mut receive, &blocks))?;
            let error = match world
                .all_to_all(At(&send, &wrong), At(&mut receive, &blocks))
                .map_err(Error::into_kind)
            {
                Err(ErrorKind::CallsDiffer(calls)) => calls.to_string(),
                other => return Err(Error::other(format!("{other:?}"))),
            };
            let wanted = "rank 1 called all_to_all_varcount that sends 1 elements to rank 0 of u8, \
                 rank 0 called all_to_all_varcount that expects 2 elements from rank 1 of u8";
            ensure!(error == wanted, "{error}");
            // No rank has gone on in the operation, so the next one works.
            world.all_to_all(At(&send, &blocks), At(&mut receive, &blocks))?;
            ensure!(receive == send, "{receive:?}");
            Ok(())
        });
    }
}

type Begun = fn(&mut Nonblocking) -> mp_core::Result<()>;

/// The same as [`WRONG`] for nonblocking operations.
const WRONG_NONBLOCKING: [(&str, Begun); 6] = [
    ("broadcast of 4 f64 with root 1", |of| of.broadcast([0.0; 4], 1).wait().ended()),
    ("broadcast of 4 u64 with root 0", |of| of.broadcast([0u64; 4], 0).wait().ended()),
    ("all_reduce of 4 f64", |of| of.all_reduce([0.0; 4], Sum).wait().ended()),
    ("barrier", |of| of.barrier().wait().ended()),
    ("scan of 300 u16", |of| of.scan(vec![0u16; 300], Sum).wait().ended()),
    ("reduce of 4 f64 with root 0", |of| of.reduce([0.0; 4], Sum, 0).wait().ended()),
];

trait Ended {
    fn ended(self) -> mp_core::Result<()>;
}

impl<B> Ended for std::result::Result<B, Failed<B>> {
    fn ended(self) -> mp_core::Result<()> {
        Ok(self.map(drop)?)
    }
}

/// Makes the call, and others until one fails. Returns the description of the difference.
fn told_later(
    of: &mut Nonblocking,
    call: impl FnOnce(&mut Nonblocking) -> mp_core::Result<()>,
) -> Result<String> {
    let mut result = call(of);
    for _ in 0..5 {
        if result.is_err() {
            break;
        }
        result = of.barrier().wait().ended();
    }
    let told = |result: mp_core::Result<()>| match result.map_err(Error::into_kind) {
        Err(ErrorKind::CallsDiffer(calls)) => Ok(calls.to_string()),
        other => Err(Error::other(format!("{other:?}"))),
    };
    let text = told(result)?;
    told(of.broadcast([0u8], 0).wait().ended())?;
    Ok(text)
}

#[test]
fn nonblocking_operations_compare_as_well() {
    for size in [2, 3, 5] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            for progress in [Progress::InCalls, Progress::Automatic] {
                for (number, (what, wrong)) in WRONG_NONBLOCKING.iter().enumerate() {
                    let of = unchecked(&world, Settings::default())?;
                    of.set_nonblocking(progress.clone())?;
                    let mut of = of.nonblocking()?;
                    for root in 0..size {
                        of.broadcast([1u8, 2], root).wait()?;
                    }
                    of.barrier().wait()?;
                    let told = match rank.id() == number % size {
                        true => told_later(&mut of, wrong)?,
                        false => {
                            told_later(&mut of, |of| of.broadcast([1.0; 4], 0).wait().ended())?
                        }
                    };
                    both_named(&told, what, "broadcast of 4 f64 with root 0")?;
                }
            }
            Ok(())
        });
    }
}

/// The fronts belong to no communicator. Each rank sees the other's line.
#[test]
fn fronts_of_worlds_compare_too() {
    let ended = World::threads(2).run(|rank| {
        let mut all = reduce::Reductions::open(rank, "sums", reduce::Settings::default())?;
        match rank.id() {
            0 => all.all_reduce(&mut [1.5f32, 2.0], Sum),
            _ => all.all_reduce(&mut [1u32, 2], Sum),
        }
    });
    let told = ended.expect_err("both see it").to_string();
    both_named(&told, "all_reduce of 2 f32", "all_reduce of 2 u32").unwrap();
}
