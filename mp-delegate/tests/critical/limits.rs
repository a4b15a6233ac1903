//! Operations that are tried, or wait with a limit: they are executed in time, or never.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use mp_core::{Channel, Error, ErrorKind, Rank, Result, Wait, WaitPolicy, World};
use mp_delegate::critical::{Object, Protected, Scheme, Section, Server, TryApplyError};

use crate::{
    objects::{Counter, expect, with},
    support::{Together, Watchdog, on_all, parts, run_on_all_with},
};

/// Counts the operations that were executed, and those that were given up.
#[derive(Default)]
struct Fared {
    done: u64,
    given_up: u64,
}

impl Fared {
    fn tried(&mut self, result: std::result::Result<u64, TryApplyError<u64>>) -> Result<()> {
        match result {
            Ok(_) => self.done += 1,
            Err(TryApplyError::Busy(op)) => {
                expect(op, 1)?;
                self.given_up += 1;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn waited(&mut self, result: mp_core::Result<u64>) -> Result<()> {
        match result.map_err(Error::into_kind) {
            Ok(_) => self.done += 1,
            Err(ErrorKind::Timeout { .. }) => self.given_up += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Ranks try, wait for various times, and wait without a limit. The executed operations must be those that they were
/// told of.
#[test]
fn what_is_given_up_is_never_executed() {
    for (ranks, policy) in [
        (2, WaitPolicy::Adaptive),
        (3, WaitPolicy::Spin),
        (5, WaitPolicy::Adaptive),
        (6, WaitPolicy::Park),
    ] {
        let code =
            |rank: &Rank| Scheme::ALL.into_iter().try_for_each(|scheme| mix(rank, scheme, ranks));
        for (kind, results) in run_on_all_with(ranks, |world| world.wait(policy), code).each() {
            results.unwrap_or_else(|error| panic!("{kind}, {ranks} ranks, {policy}: {error}"));
        }
    }
}

fn mix(rank: &Rank, scheme: Scheme, ranks: usize) -> Result<()> {
    let told = Protected::<Counter>::open(rank, "told", Scheme::Tas, |_| ())?;
    let section = Section::new(scheme).in_flight(4).max_ops(2);
    let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
    if scheme.needs_server() && rank.id() == 0 {
        let mut server = Server::new();
        server.add(counter)?;
        server.serve()?;
        return Ok(());
    }
    let mut fared = Fared::default();
    for round in 0..150u64 {
        match (round + rank.id() as u64) % 5 {
            0 => fared.tried(counter.try_apply(1))?,
            1 => fared.waited(counter.apply_with(1, Duration::from_micros(round)))?,
            2 => fared.waited(counter.apply_with(1, Duration::ZERO))?,
            3 => {
                // After the operations that are in flight.
                let before = [counter.submit(1)?, counter.submit(1)?];
                fared.waited(counter.apply_with(1, Duration::from_micros(3 * round)))?;
                for request in before {
                    request.wait()?;
                }
                fared.done += 2;
            }
            _ => {
                counter.apply(1)?;
                fared.done += 1;
            }
        }
    }
    expect(fared.done + fared.given_up, 150 + 60)?;
    // Calls with a limit get the value when no other rank uses it.
    counter.apply_with(0, Duration::from_secs(1000))?;
    told.apply(fared.done + FINISHED)?;
    let clients = (ranks - usize::from(scheme.needs_server())) as u64;
    loop {
        let all = told.apply(0)?;
        if all / FINISHED == clients {
            return expect(counter.apply(0)?, all % FINISHED);
        }
        thread::yield_now();
    }
}

/// The part of a client's report that says that it has finished.
const FINISHED: u64 = 1 << 32;

/// A rank keeps the lock until the others have given up. None of them waits for it.
#[test]
fn nobody_who_gives_up_waits_for_who_is_at_it() {
    on_all(3, |rank| {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock()) {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                let mut guard = counter.lock()?;
                others.wait()?;
                others.wait()?;
                *guard += 10;
                drop(guard);
                others.wait()?;
                expect(*counter.lock()?, 12)?;
                others.wait()?;
                continue;
            }
            others.wait()?;
            for _ in 0..3 {
                expect(matches!(counter.try_apply(1), Err(TryApplyError::Busy(1))), true)?;
                expect(counter.try_lock()?.is_none(), true)?;
                let limit = Duration::from_micros(300);
                expect(
                    matches!(
                        counter.apply_with(1, limit).as_ref().map_err(Error::kind),
                        Err(ErrorKind::Timeout { .. })
                    ),
                    true,
                )?;
                expect(
                    matches!(
                        counter.lock_with(limit).as_ref().map_err(Error::kind),
                        Err(ErrorKind::Timeout { .. })
                    ),
                    true,
                )?;
            }
            others.wait()?;
            // The guard will be dropped soon.
            *counter.lock_with(Duration::from_secs(1000))? += 1;
            others.wait()?;
            others.wait()?;
        }
        Ok(())
    });
}

/// Executes an operation only when it may.
struct Slow;

static BEGUN: AtomicBool = AtomicBool::new(false);
static MAY_END: AtomicBool = AtomicBool::new(false);

impl Object for Slow {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, by: u64) -> u64 {
        if by == 100 {
            BEGUN.store(true, Ordering::Release);
            while !MAY_END.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        std::mem::replace(sum, *sum + by)
    }
}

/// Another rank's operation goes on while the others try, with all schemes. The ranks are threads, so that they see
/// when the operation has begun.
#[test]
fn an_operation_under_way_is_not_waited_for() {
    let _watchdog = Watchdog::start();
    for scheme in Scheme::ALL {
        BEGUN.store(false, Ordering::Release);
        MAY_END.store(false, Ordering::Release);
        let ran = World::threads(3).run(|rank| {
            let section = Section::new(scheme).in_flight(2);
            let slow = Protected::<Slow>::open(rank, "slow", section, |_| ())?;
            if rank.id() == 0 {
                if scheme.needs_server() {
                    let mut server = Server::new();
                    server.add(slow)?;
                    return server.serve();
                }
                return Ok(());
            }
            if rank.id() == 1 {
                expect(slow.apply(100)? % 100, 0)?;
                return Ok(());
            }
            while !BEGUN.load(Ordering::Acquire) {
                thread::yield_now();
            }
            for _ in 0..5 {
                // More operations than a server has room for.
                expect(matches!(slow.try_apply(1), Err(TryApplyError::Busy(1))), true)?;
                let limit = Duration::from_micros(200);
                expect(
                    matches!(
                        slow.apply_with(1, limit).as_ref().map_err(Error::kind),
                        Err(ErrorKind::Timeout { .. })
                    ),
                    true,
                )?;
            }
            MAY_END.store(true, Ordering::Release);
            expect(slow.apply_with(1, Duration::from_secs(1000))?, 100)?;
            expect(slow.apply(0)?, 101)
        });
        ran.unwrap_or_else(|error| panic!("{scheme}: {error}"));
    }
}

/// An operation that was begun in time is waited for.
#[test]
fn an_operation_that_was_begun_comes_to_its_end() {
    struct Long;
    impl Object for Long {
        type State = u64;
        type Op = u64;
        type Ret = u64;

        fn apply(sum: &mut u64, by: u64) -> u64 {
            thread::sleep(Duration::from_millis(30 * by));
            std::mem::replace(sum, *sum + by)
        }
    }
    on_all(2, |rank| {
        for scheme in Scheme::ALL {
            with::<Long, _>(rank, scheme.into(), |long| {
                let mut sum = 0;
                for _ in 0..3 {
                    match long.apply_with(1, Duration::from_millis(20)).map_err(Error::into_kind) {
                        Ok(_) => sum += 1,
                        Err(ErrorKind::Timeout { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                // The operations of the other client are included.
                expect(long.apply(0)? >= sum, true)
            })?;
        }
        Ok(())
    });
}

#[test]
fn nobody_tries_where_nobody_serves() {
    on_all(2, |rank| {
        for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                others.wait()?;
                let mut server = Server::new();
                server.add(counter)?;
                server.serve()?;
                continue;
            }
            for _ in 0..50 {
                expect(matches!(counter.try_apply(1), Err(TryApplyError::Busy(1))), true)?;
            }
            let limit = Duration::from_micros(100);
            for _ in 0..50 {
                let late = counter.apply_with(1, limit);
                expect(
                    matches!(late.as_ref().map_err(Error::kind), Err(ErrorKind::Timeout { .. })),
                    true,
                )?;
            }
            others.wait()?;
            expect(counter.apply(0)?, 0)?;
            // If the server sleeps, this may take longer than a try.
            while counter.try_apply(1).is_err() {}
            expect(counter.apply(0)?, 1)?;
        }
        Ok(())
    });
}

/// Handles that share a seat take turns.
#[test]
fn a_shared_seat_is_not_waited_for() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    for scheme in [Scheme::Mcs, Scheme::HybComb, Scheme::CcSynch] {
        let own = Protected::<Nap>::open(&rank, "nap", scheme, |_| ()).unwrap();
        let (first, second) = (own.another().unwrap(), own.another().unwrap());
        thread::scope(|scope| {
            let napping = scope.spawn(move || first.apply(1).unwrap());
            while !NAPS.load(Ordering::Acquire) {
                thread::yield_now();
            }
            assert!(matches!(second.try_apply(2), Err(TryApplyError::Busy(2))), "{scheme}");
            let late = second.apply_with(2, Duration::from_millis(1));
            assert!(
                matches!(late.as_ref().map_err(Error::kind), Err(ErrorKind::Timeout { .. })),
                "{scheme}"
            );
            MAY_WAKE.store(true, Ordering::Release);
            assert_eq!(napping.join().unwrap(), 0);
            assert_eq!(second.apply_with(2, Duration::from_secs(1000)).unwrap(), 1, "{scheme}");
            assert_eq!(second.try_apply(0).unwrap(), 3, "{scheme}");
        });
        NAPS.store(false, Ordering::Release);
        MAY_WAKE.store(false, Ordering::Release);
    }
}

struct Nap;

static NAPS: AtomicBool = AtomicBool::new(false);
static MAY_WAKE: AtomicBool = AtomicBool::new(false);

impl Object for Nap {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, by: u64) -> u64 {
        if by == 1 {
            NAPS.store(true, Ordering::Release);
            while !MAY_WAKE.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        std::mem::replace(sum, *sum + by)
    }
}

/// The wait ends at its own limit, and no later wait gets the error of an operation that is not pending any more.
#[test]
fn a_limit_is_not_over_because_something_else_fails() {
    const SHORT: Duration = Duration::from_millis(2);
    let _watchdog = Watchdog::start();
    let result = World::threads(2).run(|rank| {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock()) {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            let guard = if rank.id() == 0 { Some(counter.lock()?) } else { None };
            others.wait()?;
            if rank.id() == 1 {
                let nothing = rank.receiver::<u8>("nothing", 1, Channel::degree(1))?;
                let wait = Wait::from(SHORT).or_failure();
                let unsent = || parts::failing(mp_core::Error::other("unsent"));
                let locked = parts::beside(rank, unsent(), || counter.lock_with(wait));
                expect(locked.is_err_and(|error| error.to_string().contains("2ms")), true)?;
                let applied = parts::beside(rank, unsent(), || counter.apply_with(1, wait));
                expect(applied.is_err_and(|error| error.to_string().contains("2ms")), true)?;
                let next = nothing.receive_timeout(SHORT).map(drop);
                expect(
                    matches!(
                        next.as_ref().map_err(mp_core::Error::kind),
                        Err(mp_core::ErrorKind::Timeout { .. })
                    ),
                    true,
                )?;
            }
            others.wait()?;
            drop(guard);
        }
        Ok(())
    });
    result.unwrap();
}
