//! Ranks die at any moment, in the middle of any operation. The remaining ranks go on together, and compute right
//! results.

use std::time::Duration;

use mp_collectives::communicator::{ANY_SOURCE, Communicator};
use mp_collectives::reduce::{Max, Sum};
use mp_core::{Cause, Error, ErrorKind, Place, Rank, Result, World};

use crate::support::{Random, Watchdog, on_all, scenarios::die};

/// Returns a rank's element in a step. All ranks can compute it.
fn element(rank: usize, step: u64, place: usize) -> u64 {
    (rank as u64 + 1) * 1_000_003 + step * 1_009 + place as u64
}

fn vector(rank: usize, step: u64, len: usize) -> Vec<u64> {
    (0..len).map(|place| element(rank, step, place)).collect()
}

fn check(is_so: bool, what: &str) -> Result<()> {
    if is_so { Ok(()) } else { Err(Error::other(format!("{what} is wrong"))) }
}

/// Executes a random operation of all ranks, and checks it.
fn work(of: &Communicator, seed: u64, step: u64) -> Result<()> {
    let mut random = Random::new(seed ^ step.wrapping_mul(0x9e37_79b9));
    let (me, ranks) = (of.rank(), of.size());
    let len = [1, 7, 1_000, 40_000][random.below(4) as usize];
    let root = random.below(ranks as u64) as usize;
    let sum = |place: usize| (0..ranks).map(|rank| element(rank, step, place)).sum::<u64>();
    match random.below(9) {
        0 => of.barrier(),
        1 => {
            let mut message = if me == root { vector(root, step, len) } else { vec![0; len] };
            of.broadcast(&mut message, root)?;
            check(message == vector(root, step, len), "a broadcast")
        }
        2 => {
            let mut vector = vector(me, step, len);
            of.all_reduce(&mut vector, Sum)?;
            check((0..len).all(|place| vector[place] == sum(place)), "a sum")
        }
        3 => {
            let mut all = vec![0; len * ranks];
            of.all_gather(vector(me, step, len), &mut all)?;
            let right =
                all.chunks(len).enumerate().all(|(rank, got)| *got == vector(rank, step, len));
            check(right, "a gather")
        }
        4 => {
            let mut got = vec![0; ranks];
            of.all_to_all(vector(me, step, ranks), &mut got)?;
            let right = got.iter().enumerate().all(|(rank, &got)| got == element(rank, step, me));
            check(right, "an exchange")
        }
        5 => {
            let first = of.nonblocking()?.all_reduce(vector(me, step, len), Sum);
            let second = of.nonblocking()?.broadcast(vector(me, step, 3), root);
            let first = first.wait();
            let second = second.wait()?;
            check(second == vector(root, step, 3), "a nonblocking broadcast")?;
            check(first?[len - 1] == sum(len - 1), "a nonblocking sum")
        }
        6 => {
            // All ranks send to all others, in any order.
            let sent: Vec<_> = (0..ranks)
                .filter(|&other| other != me)
                .map(|other| of.nonblocking_send(vector(me, step, len), other, step as u32))
                .collect();
            for _ in 1..ranks {
                let (got, status) = of.receive_vec::<u64>(ANY_SOURCE, step as u32)?;
                check(got == vector(status.source, step, len), "a message")?;
            }
            sent.into_iter().try_for_each(|sent| sent.wait().map(drop).map_err(Error::from))
        }
        7 => {
            let half = of.split(Some(me as u64 % 2), 0);
            // After a death in the middle, the split may fail at some ranks only, and the others would wait for these
            // in the half.
            if half.is_err() {
                of.revoke()?;
            }
            if of.agree(half.is_ok().into())?.flag == 0 {
                return half.and(Err(ErrorKind::Revoked { place: Place::Communicator }.into()));
            }
            let half = half?;
            let half = half.ok_or_else(|| Error::other("no half"))?;
            let mut greatest = [me as u64];
            // A rank that fails here tells the ranks in the other communicator.
            let done = half.all_reduce(&mut greatest, Max);
            if done.is_err() {
                half.revoke()?;
            }
            done?;
            check(greatest[0] as usize == me + (ranks - 1 - me) / 2 * 2, "the greatest")
        }
        _ => {
            let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
            let mut got = vec![0; len];
            let mine = vector(me, step, len);
            of.send_receive(&mine, right, 1, &mut got, left, 1)?;
            check(got == vector(left, step, len), "a neighbour's")
        }
    }
}

/// Executes so many steps in the ranks that are left.
fn survive(rank: &Rank, seed: u64, is_process: bool) -> mp_core::Result<()> {
    const STEPS: u64 = 12;
    let mut current = Communicator::world(rank);
    let ranks = current.size();
    let mut all = Random::new(seed);
    let victims = 1 + all.below(ranks as u64 - 1) as usize;
    let first = all.below(ranks as u64) as usize;
    let is_victim = (rank.id() + ranks - first) % ranks < victims;
    let mut own = Random::new(seed * 1000 + rank.id() as u64);
    if is_victim && is_process && own.below(3) > 0 {
        let delay = Duration::from_micros(own.below(15_000));
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            die()
        });
    }
    let last = own.below(STEPS);
    let mut step = 0;
    while step < STEPS || current.size() > ranks - victims {
        if is_victim && step >= last {
            if !is_process {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            die();
        }
        let went = work(&current, seed, step);
        match went.as_ref().map_err(Error::kind) {
            Ok(()) => {}
            Err(ErrorKind::PeerLost { .. } | ErrorKind::Revoked { .. }) => current.revoke()?,
            Err(error) => {
                return Err(mp_core::Error::other(format!(
                    "step {step} of {current:?}: {error:?}"
                )));
            }
        }
        let agreed = current.agree(went.is_ok().into())?;
        ensure!(agreed.flag == 0 || went.is_ok(), "{agreed:?}");
        if agreed.flag == 1 && agreed.unacknowledged.is_empty() {
            step += 1;
        } else {
            current = current.shrink()?;
        }
    }
    ensure!(!is_victim, "{current:?} has a rank that was to die");
    Ok(())
}

fn survivors_go_on(seeds: std::ops::Range<u64>, is_process: bool) {
    for seed in seeds {
        let _watchdog = Watchdog::start();
        let ranks = 2 + (seed % 7) as usize;
        let world = if is_process { World::processes(ranks) } else { World::threads(ranks) };
        let failed = match world
            .run(|rank| survive(rank, seed, is_process))
            .map_err(mp_core::Error::into_kind)
        {
            Err(mp_core::ErrorKind::RanksFailed(failed)) => failed.failures,
            other => panic!("seed {seed}: {other:?}"),
        };
        for failure in failed {
            let is_death = match &failure.cause {
                Cause::Signal(9) => true,
                Cause::Panic(text) => text == "on purpose",
                _ => false,
            };
            assert!(is_death, "seed {seed}, {ranks} ranks: {failure:?}");
        }
    }
}

#[test]
fn survivors_of_kills_go_on() {
    survivors_go_on(0..28, true);
}

#[test]
fn survivors_of_panics_go_on() {
    survivors_go_on(0..28, false);
}

/// When one rank gives up an operation, its revocation alone ends the operations of the others.
#[test]
fn a_revocation_ends_collective_operations() {
    for how in 0..6 {
        on_all(3, |rank| {
            let world = Communicator::world(rank);
            let copy = world.duplicate()?;
            copy.barrier()?;
            let mut one = [1u64];
            if how % 2 == 1 {
                // In half of the cases, the operations are already open.
                world.barrier()?;
                world.all_reduce(&mut one, Sum)?;
                world.nonblocking()?.barrier().wait()?;
            }
            if rank.id() == 2 {
                std::thread::sleep(Duration::from_millis(10));
                world.revoke()?;
            } else {
                let waited = match how / 2 {
                    0 => world.barrier(),
                    1 => world.all_reduce(&mut one, Sum),
                    _ => world
                        .nonblocking()
                        .and_then(|mut nonblocking| Ok(nonblocking.barrier().wait().map(drop)?)),
                };
                ensure!(
                    matches!(waited.as_ref().map_err(Error::kind), Err(ErrorKind::Revoked { .. })),
                    "{how}: {waited:?}"
                );
            }
            for _ in 0..2 {
                let refused = [world.barrier(), world.broadcast(&mut one, 0)];
                ensure!(
                    refused.iter().all(|all| matches!(
                        all.as_ref().map_err(Error::kind),
                        Err(ErrorKind::Revoked { .. })
                    )),
                    "{refused:?}"
                );
                ensure!(
                    matches!(
                        world.nonblocking().map(drop).as_ref().map_err(Error::kind),
                        Err(ErrorKind::Revoked { .. })
                    ),
                    "nonblocking"
                );
            }
            copy.barrier()?;
            let again = world.shrink()?;
            again.barrier()?;
            let mut count = [1u64];
            again.all_reduce(&mut count, Sum)?;
            ensure!(count == [3], "{count:?}");
            Ok(())
        });
    }
}
