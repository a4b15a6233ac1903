//! Panics in the program's code, ranks that die, ranks that end early.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::sleep,
    time::Duration,
};

use mp_collectives::{
    nonblocking::{Front, PolledMpb},
    reduce::Sum,
};
use mp_core::mpb::MpbAccess as _;
use mp_core::{
    Cause, Error, ErrorKind, Failed, Result, World,
    mpb::{Line, Mpbs},
};

use crate::{
    ALL, By, open,
    support::{Random, Watchdog, on_all, scenarios},
};

fn is_lost<B>(failed: &Result<B, Failed<B>>, victim: usize) -> bool {
    matches!(failed, Err(Failed { error, .. })
        if matches!(error.kind(), ErrorKind::PeerLost { rank, .. } if *rank == victim))
}

fn kind<B>(failed: Result<B, Failed<B>>) -> Option<ErrorKind> {
    failed.err().map(|failed| failed.error.into_kind())
}

/// Panics of these tests are not printed.
fn quiet() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload().downcast_ref::<String>();
        if said.is_none_or(|said| !said.starts_with("as it was to be")) {
            hook(panic);
        }
    }));
}

/// An operation panics in one rank: its request returns the panic as an error, the others lose that rank, and the other
/// operations of the same thread continue.
#[test]
fn a_panic_is_an_error() {
    quiet();
    on_all(3, |rank| {
        for by in ALL {
            for length in [1, 1000] {
                let progress = by.progress(rank)?;
                let mut bad = open(rank, "bad", &progress)?;
                let mut good = open(rank, "good", &progress)?;
                // Rank 0 combines elements with every algorithm.
                let victim = rank.id() == 0;
                let refuse = move |a: u64, b: u64| {
                    if victim { panic!("as it was to be {}", a + b) } else { a + b }
                };
                let failed = bad.all_reduce(vec![1u64; length], refuse).wait();
                let after = bad.barrier().wait();
                if victim {
                    ensure!(failed.as_ref().is_err_and(|f| f.buffer.len() == length), "its buffer");
                    let said = "as it was to be 2";
                    let (error, after) = (kind(failed), kind(after));
                    ensure!(
                        matches!(&error, Some(ErrorKind::OperationPanicked { message, .. }) if message == said),
                        "{by:?}: {error:?}"
                    );
                    ensure!(
                        matches!(&after, Some(ErrorKind::FailedBefore { reason }) if reason == said),
                        "{by:?}: {after:?}"
                    );
                } else {
                    // Rank 0 may have done its part of this operation before the panic.
                    ensure!(failed.is_ok() || is_lost(&failed, 0), "{by:?}: {failed:?}");
                    ensure!(is_lost(&after, 0), "{by:?}: {after:?}");
                }
                ensure!(good.all_reduce([1], Sum).wait()? == [3], "{by:?}");
            }
        }
        Ok(())
    });
}

/// Panics when it is dropped, which happens after its request was dropped.
struct Bomb(Vec<u64>);

impl AsRef<[u64]> for Bomb {
    fn as_ref(&self) -> &[u64] {
        &self.0
    }
}

impl AsMut<[u64]> for Bomb {
    fn as_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as it was to be {}", self.0.len());
    }
}

#[test]
fn a_buffer_that_can_not_be_dropped() {
    quiet();
    on_all(2, |rank| {
        for by in ALL {
            let mut front = open(rank, "bombs", &by.progress(rank)?)?;
            for length in [0, 1, 3000] {
                let request = front.all_reduce(Bomb(vec![1; length]), Sum);
                // If the operation is already done, the buffer is dropped here.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(request)));
                let sum = front.all_reduce([1], move |a: u64, b: u64| a + b).wait()?;
                ensure!(sum == [2], "{by:?}");
            }
        }
        Ok(())
    });
}

/// A rank panics with pending operations. The others hear of it, and the world ends.
#[test]
fn a_rank_panics() {
    for by in ALL {
        let _watchdog = Watchdog::start();
        let result = World::threads(3).run(|rank| {
            let mut front = open(rank, "panics", &by.progress(rank)?)?;
            let request = front.all_reduce(vec![1; 100_000], Sum);
            if rank.id() == 2 {
                panic!("as it was to be");
            }
            // The operation may have been done before the panic.
            drop(request);
            let end = (0..).map(|_| front.all_reduce([1], Sum).wait()).find(Result::is_err);
            ensure!(end.as_ref().is_some_and(|end| is_lost(end, 2)), "{by:?}: {end:?}");
            Ok(())
        });
        match result.map_err(Error::into_kind) {
            Err(ErrorKind::RanksFailed(failed))
                if failed.failures.len() == 1
                    && failed.failures[0].rank == 2
                    && failed.failures[0].cause == Cause::Panic("as it was to be".to_owned()) => {}
            other => panic!("{by:?}: {other:?}"),
        }
    }
}

/// A rank is killed at any time, in any of several operations. All others get their buffers back.
#[test]
fn a_rank_is_killed() {
    for seed in 0..24 {
        let _watchdog = Watchdog::start();
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(4) as usize;
        let victim = random.below(ranks as u64) as usize;
        let delay = Duration::from_micros(random.below(6_000));
        let by = ALL[seed as usize % ALL.len()];
        let result = World::processes(ranks).run(|rank| {
            if rank.id() == victim {
                std::thread::spawn(move || {
                    sleep(delay);
                    match scenarios::die() {}
                });
            }
            let progress = by.progress(rank)?;
            let mut fronts = [open(rank, "one", &progress)?, open(rank, "two", &progress)?];
            loop {
                let long = fronts[0].all_reduce(vec![1u64; 30_000], Sum);
                let short = fronts[1].broadcast(vec![rank.id(); 10], 0);
                let come = fronts[1].barrier();
                let (long, short, come) = (long.wait(), short.wait(), come.wait());
                for (buffer, length) in [
                    (long.as_ref().map_or_else(|f| f.buffer.len(), Vec::len), 30_000),
                    (short.as_ref().map_or_else(|f| f.buffer.len(), Vec::len), 10),
                ] {
                    ensure!(buffer == length, "{buffer} of {length} elements back");
                }
                if is_lost(&long, victim) || is_lost(&come, victim) {
                    return Ok(());
                }
                if let (Err(failed), _) | (_, Err(failed)) =
                    (long.map(drop).map_err(Error::from), come.map_err(Error::from))
                {
                    return Err(failed);
                }
            }
        });
        scenarios::check(result, victim).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// A rank ends without having called what the others have called. They get an error.
#[test]
fn a_rank_ends_early() {
    on_all(3, |rank| {
        for by in [By::Calls, By::Threads(1)] {
            let mut front = open(rank, "early", &by.progress(rank)?)?;
            ensure!(front.all_reduce([1], Sum).wait()? == [3], "{by:?}");
            if rank.id() == 0 {
                continue;
            }
            // If two ranks are left, one may hear first that the other has ended.
            let end = front.all_reduce(vec![1; 10_000], Sum).wait();
            let error = end.err().map(|failed| failed.error);
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
                "{by:?}: {error:?}"
            );
        }
        Ok(())
    });
}

/// The same with several pending operations, which each rank waits for in its own order. A rank that waits for a later
/// one still tells the others that an earlier one has failed.
#[test]
fn a_rank_ends_early_with_much_under_way() {
    for ranks in [3, 4, 5] {
        on_all(ranks, |rank| {
            for seed in 0..12 {
                let mut random = Random::new(seed);
                let by = [By::Calls, By::Threads(1)][random.below(2) as usize];
                let leaves = random.below(rank.size() as u64) as usize;
                let choices: Vec<_> = (0..6).map(|_| (random.below(4), random.below(3))).collect();
                let mut front = open(rank, &format!("much {seed}"), &by.progress(rank)?)?;
                if rank.id() == leaves {
                    continue;
                }
                let mut requests = Vec::new();
                for (which, length) in choices {
                    let vector = vec![1u64; [1, 100, 9000][length as usize]];
                    requests.push(match which {
                        0 => front.all_reduce(vector, Sum),
                        1 => front.scan(vector, Sum),
                        2 => front.broadcast(vector, 0),
                        _ => front.reduce(vector, Sum, rank.size() - 1),
                    });
                }
                Random::new(seed << 8 | rank.id() as u64).shuffle(&mut requests);
                requests.into_iter().for_each(|request| drop(request.wait()));
            }
            Ok(())
        });
    }
}

/// A rank's data for an operation that a loss has ended is not used for a later operation.
#[test]
fn operations_after_a_loss_take_nothing_that_was_for_others() {
    for seed in 0..40 {
        let _watchdog = Watchdog::start();
        let result = World::processes(6).run(|rank| {
            if rank.id() == 1 {
                sleep(Duration::from_micros(seed * 25));
                match scenarios::die() {}
            }
            let (me, ranks) = (rank.id() as u64, rank.size() as u64);
            let mut random = Random::new(seed);
            let mut front = open(rank, "late", &ALL[seed as usize % ALL.len()].progress(rank)?)?;
            let mut requests = Vec::new();
            for number in 0..40 {
                let root = [0, 2, 3, 4, 5][random.below(5) as usize];
                let block = |to: u64| [number * 100 + to; 24];
                let all = if me == root { (0..ranks).flat_map(block).collect() } else { vec![] };
                requests.push((block(me), front.scatter(all, vec![0; 24], root as usize)));
            }
            Random::new(seed << 8 | me).shuffle(&mut requests);
            for (wanted, request) in requests {
                if let Ok((_, own)) = request.wait() {
                    ensure!(own == wanted, "{own:?} instead of {wanted:?}");
                }
            }
            Ok(())
        });
        scenarios::check(result, 1).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// A revocation ends an operation in the middle, so lines of other ranks are not taken. No later operation takes them
/// as its own.
#[test]
fn nothing_goes_on_after_a_revocation() {
    on_all(2, |rank| {
        for by in ALL {
            let mpb = rank.mpb("revoked", Mpbs::lines(1))?;
            let come = rank.mpb("come", Mpbs::lines(1))?;
            if rank.id() == 1 {
                come.wait_flag(0, |flag| flag == 1)?;
                // The flag that the first operation has waited for.
                mpb.set_flag(Line { rank: 0, line: 0 }, 1)?;
                come.set_flag(Line { rank: 0, line: 0 }, 1)?;
                continue;
            }
            let mpb = PolledMpb::new(mpb);
            let waits = mpb.waits().clone();
            let mut front = Front::open(rank, by.progress(rank)?, waits, mpb)?;
            let mut begin = || {
                front.submit((), |mpb: &mut PolledMpb, _| {
                    Box::pin(async { mpb.wait_flag(0, |flag| flag > 0).await.map(drop) })
                })
            };
            let is_revoked = |ended: Result<(), Failed<()>>| {
                ended.is_err_and(|failed| matches!(failed.error.kind(), ErrorKind::Revoked { .. }))
            };
            let first = begin();
            rank.revoke_mpbs("revoked")?;
            ensure!(is_revoked(first.wait()), "{by:?}");
            come.set_flag(Line { rank: 1, line: 0 }, 1)?;
            come.wait_flag(0, |flag| flag == 1)?;
            ensure!(is_revoked(begin().wait()), "{by:?}: another took what the first waited for");
        }
        Ok(())
    });
}
