//! Calls that all ranks must make together: a rank that calls something else, or does not come, is named.

use std::{thread::sleep, time::Duration};

use mp_collectives::communicator::{Call, Check, Communicator, Entered};
use mp_core::{
    Error, ErrorKind, Rank, Result, Wait, World,
    mpb::{Line, Mpbs},
    report,
};

use crate::{
    missing,
    support::{
        SIZES, Together, Watchdog, on_all, processor::uses_less_than, scenarios, with_limit_enough,
    },
};

fn sum(count: usize) -> Call {
    Call::new("all_reduce").elements::<f64>(count).operation("Sum")
}

fn broadcast(root: usize) -> Call {
    Call::new("broadcast").elements::<f64>(4).root(root)
}

/// Returns the text of an error about calls that differ.
fn differ(result: mp_core::Result<()>) -> Result<String> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::CallsDiffer(calls)) => Ok(calls.to_string()),
        other => Err(Error::other(format!("{other:?}"))),
    }
}

#[test]
fn the_same_goes_on() {
    for size in SIZES {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            let half = world.split(Some(world.rank() as u64 % 2), 0)?.ok_or_else(missing)?;
            for count in 0..20 {
                world.joint().check(&sum(count), None)?;
                half.joint().check(&broadcast(0), Some(Duration::from_secs(8)))?;
            }
            Ok(())
        });
    }
}

/// A rank drops its communicators before its first call, and goes on running.
#[test]
fn who_has_gone_is_named() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let mut meet = Together::new(rank)?;
        if rank.id() == 0 {
            drop(world);
            return meet.wait();
        }
        let checked = world.joint().check(&sum(1), None);
        ensure!(
            matches!(checked.as_ref().map_err(Error::kind), Err(ErrorKind::PeerEnded { rank: 0 })),
            "{checked:?}"
        );
        meet.wait()
    });
}

/// A rank drops a communicator before its first call in it, and keeps the world's.
#[test]
fn who_has_dropped_only_this_communicator_is_named() {
    for first in [true, false] {
        on_all(3, |rank| {
            let world = Communicator::world(rank);
            let again = world.duplicate()?;
            let mut meet = Together::new(rank)?;
            if rank.id() == 0 {
                if !first {
                    // The others wait by then.
                    sleep(Duration::from_millis(30));
                }
                drop(again);
                return meet.wait();
            }
            let checked = again.joint().check(&sum(1), None);
            let kind = checked.as_ref().map_err(Error::kind);
            ensure!(matches!(kind, Err(ErrorKind::PeerEnded { rank: 0 })), "{checked:?}");
            meet.wait()
        });
    }
}

/// A rank panics before its first call in a communicator, which it drops by that.
#[test]
fn who_has_panicked_is_lost() {
    let _watchdog = Watchdog::start();
    for late in [0, 1, 100, 3000].repeat(20) {
        let ran = World::threads(3).run(|rank| {
            let world = Communicator::world(rank);
            let again = world.duplicate()?;
            if rank.id() == 0 {
                sleep(Duration::from_micros(late));
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            let checked = again.joint().check(&sum(1), None);
            let kind = checked.as_ref().map_err(Error::kind);
            ensure!(matches!(kind, Err(ErrorKind::PeerLost { rank: 0, .. })), "{checked:?}");
            Ok(())
        });
        match ran.map_err(Error::into_kind) {
            Err(ErrorKind::RanksFailed(failed)) if failed.failures.len() == 1 => {}
            other => panic!("after {late} µs: {other:?}"),
        }
    }
}

/// One rank comes late to the first call. The others must use no core until then, and a report shows how long they wait.
#[test]
fn who_waits_for_the_first_call_sleeps() {
    let _watchdog = Watchdog::start();
    let done = World::processes(2).run(|rank| {
        let world = Communicator::world(rank);
        let measured = rank.mpb("measured", Mpbs::lines(1))?;
        if rank.id() == 0 {
            measured.wait_flag(0, |flag| flag == 1)?;
            return world.joint().check(&sum(1), None);
        }
        let look = || -> Result<()> {
            let sleeps = uses_less_than(Duration::from_millis(2));
            ensure!(sleeps, "more than 2 ms in each of 10 times 300 ms");
            let report = report::worlds_of(std::process::id())?.remove(0).report?;
            let lasts = report.ranks[1].wait.as_ref().map(|wait| wait.since);
            ensure!(lasts >= Some(Duration::from_millis(250)), "{report:?}");
            Ok(())
        };
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let seen = look();
                measured.set_flag(Line { rank: 0, line: 0 }, 1)?;
                seen
            });
            world.joint().check(&sum(1), None)?;
            looking.join().map_err(|_| Error::other("the thread that looks panicked"))?
        })
    });
    done.unwrap();
}

#[test]
fn who_differs_is_named_at_all_ranks() {
    for size in [2, 3, 5] {
        let told = on_all(size, |rank| {
            let world = Communicator::world(rank);
            let mut told = Vec::new();
            for other in [
                broadcast(1),
                Call::new("broadcast").elements::<f64>(5).root(0),
                Call::new("broadcast").elements::<u64>(4).root(0),
                Call::new("broadcast").elements::<f64>(4).root(0).settings("lines"),
                sum(4),
                Call::new("barrier"),
            ] {
                let odd = world.rank() == size - 1;
                let call = if odd { other } else { broadcast(0) };
                told.push(differ(world.joint().check(&call, None))?);
                // After that the communicator can be used again.
                world.joint().check(&broadcast(0), None)?;
            }
            Ok(told)
        });
        for told in &told {
            assert_eq!(*told, told[..], "ranks were told different things");
        }
        let who = |told: &str| told.split(';').next().unwrap_or_default().to_owned();
        let last = size - 1;
        match size {
            2 => assert_eq!(
                told[0][0],
                "rank 0 called broadcast of 4 f64 with root 0, \
                 rank 1 called broadcast of 4 f64 with root 1"
            ),
            _ => {
                let kinds = [
                    "broadcast of 4 f64 with root 1",
                    "broadcast of 5 f64 with root 0",
                    "broadcast of 4 u64 with root 0",
                    "broadcast of 4 f64 (8 bytes, alignment 8) with root 0, by lines",
                    "all_reduce of 4 f64 with Sum",
                    "barrier",
                ];
                for (told, kind) in told[0].iter().zip(kinds) {
                    assert_eq!(who(told), format!("rank {last} called {kind}"));
                }
            }
        }
    }
}

#[test]
fn a_check_meets_another_call() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        world.joint().set_check(Check::On);
        let told = match world.rank() {
            2 => differ(world.split(Some(0), 0).map(drop))?,
            _ => differ(world.joint().check(&broadcast(0), None))?,
        };
        let wanted = "rank 2 called split; the others called broadcast of 4 f64 with root 0";
        ensure!(told == wanted, "{told}");
        let told = match world.rank() {
            0 | 2 => differ(world.duplicate().map(drop))?,
            _ => differ(world.joint().check(&broadcast(0), None))?,
        };
        let wanted = "ranks 0 and 2 called duplicate, \
                      ranks 1 and 3 called broadcast of 4 f64 with root 0";
        ensure!(told == wanted, "{told}");
        // Contexts can still be agreed on afterwards.
        let again = world.duplicate()?;
        again.joint().check(&sum(1), None)?;
        Ok(())
    });
}

/// The rank `late` comes only after all others have given up.
fn late_one(rank: &Rank, late: usize, limit: Duration) -> Result<bool> {
    let world = Communicator::world(rank);
    let mut together = Together::new(rank)?;
    if rank.id() == late {
        together.wait()?;
    }
    let named = match world.joint().check(&sum(3), Some(limit)).map_err(Error::into_kind) {
        Err(ErrorKind::RankMissing { rank, call, limit: l }) => {
            ensure!(l == limit && *call == sum(3), "{call}, {l:?}");
            rank
        }
        // If rank 0 is late, it finds the calls of all who waited for it.
        Ok(()) if (rank.id(), late) == (0, 0) => late,
        other => return Err(Error::other(format!("{other:?}"))),
    };
    if rank.id() != late {
        together.wait()?;
    }
    // If another rank is named, that rank was late by chance.
    if !together.all(named == late)? {
        return Ok(false);
    }
    // The late call is not taken for the next one.
    for count in 4..9 {
        world.joint().check(&sum(count), None)?;
    }
    Ok(true)
}

#[test]
fn who_does_not_come_is_named() {
    for late in 0..3 {
        on_all(3, |rank| with_limit_enough(|limit| late_one(rank, late, limit)));
    }
}

/// Rank 1 has gone. All others hear of it, in this check and in the next one.
fn without_one(rank: &Rank, end: impl Fn()) -> Result<()> {
    let world = Communicator::world(rank);
    world.joint().check(&sum(0), None)?;
    if rank.id() == 1 {
        end();
        return Ok(());
    }
    sleep(Duration::from_millis(rank.id() as u64));
    for _ in 0..2 {
        match world.joint().check(&sum(1), None).map_err(Error::into_kind) {
            Err(
                ErrorKind::PeerLost { rank: 1, world_rank: 1, .. }
                | ErrorKind::PeerEnded { rank: 1 },
            ) => {}
            other => return Err(Error::other(format!("{other:?}"))),
        }
    }
    // Rank 0 answers the others as long as it runs, so it stays until they are done.
    let mut together = world.exchange();
    let mut byte = [0u8];
    match rank.id() {
        0 => together.send(&[1u8], 2, 0),
        _ => together.receive(&mut byte, 0, 0),
    };
    together.run()?;
    Ok(())
}

#[test]
fn who_is_gone_is_named() {
    on_all(3, |rank| without_one(rank, || ()));
    let _watchdog = Watchdog::start();
    let result = World::processes(3).run(|rank| without_one(rank, || match scenarios::die() {}));
    scenarios::check(result, 1).unwrap();
}

/// Waits until the call is compared, in the same way as a caller that has other work: without a blocking wait.
fn settled(entered: &Entered) -> mp_core::Result<()> {
    while let Some(missing) = entered.look()? {
        let wait = Wait::from(Duration::from_secs(60));
        let mpb = entered.polled().mpb();
        mpb.wait_flag_with(wait, Some(missing.rank), missing.line, |seen| seen >= missing.value)?;
    }
    Ok(())
}

/// Each rank enters many more calls than a ledger has room for before any rank compares them. It asks for their results
/// in any order.
#[test]
fn entering_waits_for_nobody() {
    for size in [2, 3] {
        on_all(size, |rank| {
            let world = Communicator::world(rank);
            world.joint().set_check(Check::On);
            let ledger = world.joint().ledger()?.ok_or_else(missing)?;
            for round in 0..3 {
                let mut entered = Vec::new();
                for count in 0..200 {
                    let odd = rank.id() == 1 && count % 50 == 7;
                    entered.push(ledger.enter(sum(if odd { 1_000 } else { count }))?);
                }
                match round {
                    0 => {}
                    // A blocking call comes after them, and makes ranks compare them.
                    1 => world.joint().check(&broadcast(0), None)?,
                    _ => entered.reverse(),
                }
                let mut differed = 0;
                for entered in entered {
                    match settled(&entered).map_err(Error::into_kind) {
                        Ok(()) => {}
                        Err(ErrorKind::CallsDiffer(calls)) => {
                            let all = calls.groups().iter().flat_map(|group| &group.ranks);
                            ensure!(all.clone().count() == size, "{calls}");
                            ensure!(calls.to_string().contains("of 1000 f64"), "{calls}");
                            differed += 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                ensure!(differed == 4, "{differed}");
            }
            Ok(())
        });
    }
}

/// Messages that are under way make progress while a rank waits for the others to come.
#[test]
fn messages_go_on_during_a_check() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        world.joint().set_check(Check::On);
        let long = vec![rank.id() as u64; 1 << 20];
        if rank.id() == 0 {
            let sent = world.nonblocking_send(long, 1, 0);
            world.duplicate()?;
            sent.wait()?;
        } else {
            let (got, _) = world.receive_vec::<u64>(0, 0)?;
            ensure!(got.len() == 1 << 20, "{}", got.len());
            world.duplicate()?;
        }
        Ok(())
    });
}

/// Communicators made from a communicator, directly or not, have its checks.
#[test]
fn communicators_check_as_those_they_were_made_of() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        world.joint().set_check(Check::Off);
        let before = world.duplicate()?;
        world.joint().set_check(Check::On);
        let half = world.split(Some(rank.id() as u64 % 2), 0)?.ok_or_else(missing)?;
        let copy = half.duplicate()?;
        let grid = world.cartesian(&[2, 2], &[false, false])?.ok_or_else(missing)?;
        let row = grid.sub(&[false, true])?;
        let group = world.create(&world.group())?.ok_or_else(missing)?;
        let all = [&before, &world, &half, &copy, &grid, &row, &group];
        let checks = all.map(|of| of.joint().checks());
        ensure!(checks == [false, true, true, true, true, true, true], "{checks:?}");
        half.joint().set_check(Check::Off);
        ensure!(!half.duplicate()?.joint().checks() && copy.joint().checks(), "it is said later");
        ensure!(!Communicator::comm_self(rank).joint().checks(), "nobody to compare with");
        Ok(())
    });
}
