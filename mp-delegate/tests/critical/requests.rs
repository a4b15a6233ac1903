//! Pending operations as requests: waited for together, with a limit, as futures, or not at all.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use mp_core::{
    Channel, Error, ErrorKind, Pending, Result, Wait, WaitPolicy, World, test_all, test_any,
    test_some, wait_all, wait_any, wait_some,
};
use mp_delegate::critical::{Object, Protected, Request, Scheme, Section, Server};

use crate::{
    objects::{Counter, expect, with},
    support::{Together, Watchdog, block_on, on_all, parts, run_on_all_with},
};

/// Runs every scheme, on few ranks and on more ranks than cores.
fn each_scheme(use_it: impl Fn(&Protected<Counter>) -> mp_core::Result<()> + Copy + Sync) {
    for (ranks, policy) in [
        (2, WaitPolicy::Adaptive),
        (5, WaitPolicy::Adaptive),
        (3, WaitPolicy::Park),
        (2, WaitPolicy::Spin),
    ] {
        let code = |rank: &mp_core::Rank| {
            Scheme::ALL.into_iter().try_for_each(|scheme| {
                let section = Section::new(scheme).in_flight(8);
                with::<Counter, _>(rank, section, use_it)
            })
        };
        for (kind, results) in run_on_all_with(ranks, |world| world.wait(policy), code).each() {
            results.unwrap_or_else(|error| panic!("{kind}, {ranks} ranks, {policy}: {error}"));
        }
    }
}

fn several(counter: &Protected<Counter>, count: u64) -> Result<Vec<Request<'_, Counter>>> {
    (0..count).map(|_| counter.submit(1)).collect()
}

fn rising(requests: Vec<Request<'_, Counter>>) -> mp_core::Result<()> {
    let results = requests.into_iter().map(Request::wait).collect::<Result<Vec<_>>>()?;
    expect(results.windows(2).all(|pair| pair[0] < pair[1]), true)
}

#[test]
fn several_are_waited_for_together() {
    each_scheme(|counter| {
        for _ in 0..20 {
            let mut all = several(counter, 8)?;
            wait_all(&mut all)?;
            expect(all.iter().all(Request::is_done) && test_all(&mut all)?, true)?;
            rising(all)?;

            let mut any = several(counter, 3)?;
            let first = wait_any(&mut any)?;
            expect(any[first].is_done() && test_any(&mut any)?.is_some(), true)?;
            rising(any)?;

            let mut some = several(counter, 5)?;
            let done = wait_some(&mut some)?;
            expect(!done.is_empty() && test_some(&mut some)?.len() >= done.len(), true)?;
            rising(some)?;
        }
        Ok(())
    });
}

#[test]
fn a_request_is_tested_until_it_is_done() {
    each_scheme(|counter| {
        for _ in 0..20 {
            let mut request = counter.submit(1)?;
            while !request.test()? {
                thread::yield_now();
            }
            expect(request.is_done(), true)?;
            let before = request.wait()?;
            let mut request = counter.submit(1)?;
            while !request.wait_timeout(Duration::from_micros(50))? {}
            expect(request.wait()? > before, true)?;
        }
        Ok(())
    });
}

#[test]
fn a_request_is_a_future() {
    each_scheme(|counter| {
        block_on(async {
            let mut last = None;
            for _ in 0..20 {
                let (first, second) = (counter.submit(1)?, counter.submit(1)?);
                let second = second.await?;
                let first = first.await?;
                expect(last < Some(first) && first < second, true)?;
                last = Some(second);
            }
            Ok(())
        })
    });
}

/// The operations are executed nevertheless.
#[test]
fn a_request_is_let_go_of() {
    on_all(2, |rank| {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.needs_server()) {
            with::<Counter, _>(rank, scheme.into(), |counter| {
                for _ in 0..100 {
                    drop(counter.submit(1)?);
                    std::mem::forget(counter.submit(1)?);
                }
                expect(counter.apply(0)?, 200)
            })?;
        }
        Ok(())
    });
}

/// A wait for a slow server has a limit. It does not end the request.
#[test]
fn a_wait_for_a_server_has_a_limit() {
    on_all(3, |rank| {
        for scheme in [Scheme::SlotServer, Scheme::MpServer(1)] {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 1 {
                let mut server = Server::new();
                server.add(counter)?;
                // By now both clients have found that the server is slow.
                others.wait()?;
                while !server.round()? {
                    thread::yield_now();
                }
                server.serve_while(|| true)?;
                continue;
            }
            let mut requests = vec![counter.submit(1)?, counter.submit(1)?];
            expect(requests[1].wait_timeout(Duration::from_millis(2))?, false)?;
            expect((requests[0].test()?, requests[0].is_done()), (false, false))?;
            expect(test_any(&mut requests)?, None)?;
            others.wait()?;
            wait_all(&mut requests)?;
            let [first, second] = <[_; 2]>::try_from(requests).map_err(|_| lost())?;
            expect(first.wait()? < second.wait()?, true)?;
        }
        Ok(())
    });
}

fn lost() -> Error {
    Error::other("a request is lost")
}

/// All ranks that could serve wait for a server, or have gone. Requests end with an error.
#[test]
fn requests_to_nobody_end() {
    on_all(2, |rank| {
        let mut others = Together::new(rank)?;
        let counter = Protected::<Counter>::open(rank, "nobody", Scheme::SlotServer, |_| ())?;
        others.wait()?;
        let mut requests = several(&counter, 3)?;
        wait_all(&mut requests)?;
        for request in requests {
            let ended = request.wait();
            expect(
                matches!(
                    ended.as_ref().map_err(Error::kind),
                    Err(ErrorKind::OutcomeUnknown { .. })
                ),
                true,
            )?;
        }
        Ok(())
    });
    on_all(2, |rank| {
        for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                let mut server = Server::new();
                server.add(counter)?;
                server.round()?;
                others.wait()?;
                drop(server);
                continue;
            }
            others.wait()?;
            let mut requests = match several(&counter, 3).map_err(Error::into_kind) {
                Ok(requests) => requests,
                // The channel to the server has already gone.
                Err(ErrorKind::OutcomeUnknown { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut all: Vec<&mut dyn Pending> =
                requests.iter_mut().map(|request| request as &mut dyn Pending).collect();
            wait_all(&mut all)?;
            for request in requests {
                expect(
                    matches!(
                        request.wait().as_ref().map_err(Error::kind),
                        Err(ErrorKind::OutcomeUnknown { .. })
                    ),
                    true,
                )?;
            }
        }
        Ok(())
    });
}

/// The next server takes over between the last poll of a waiting rank and its sleep. It answers after that rank has
/// gone to sleep.
#[test]
fn who_follows_a_server_wakes_a_request_that_sleeps() {
    let _watchdog = Watchdog::start();
    let met = Arc::new(Barrier::new(2));
    let result = World::threads(3).wait(WaitPolicy::Park).run(|rank| {
        let scheme = Scheme::MpServer(1);
        let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
        let mut others = Together::new(rank)?;
        if rank.id() > 0 {
            let mut server = Server::new();
            server.add(counter)?;
            others.wait()?;
            while rank.id() == 1 && !server.round()? {
                thread::yield_now();
            }
            others.wait()?;
            others.wait()?;
            if rank.id() == 2 {
                met.wait();
                server.round()?;
                met.wait();
                thread::sleep(Duration::from_millis(50));
                server.serve()?;
            }
            return Ok(());
        }
        others.wait()?;
        expect(counter.apply(1)?, 0)?;
        others.wait()?;
        let (sent, gathered) = (counter.submit(10)?, counter.submit(100)?);
        others.wait()?;
        expect(
            matches!(
                sent.wait().as_ref().map_err(Error::kind),
                Err(ErrorKind::OutcomeUnknown { .. })
            ),
            true,
        )?;
        let come = Arc::clone(&met);
        let follows = parts::between_sleeps(move || _ = (come.wait(), come.wait()));
        let mut all = [gathered];
        parts::beside(rank, follows, || wait_all(&mut all))?;
        let [gathered] = all;
        expect(gathered.wait()?, 1)
    });
    result.unwrap();
}

/// Returns a message that could not be sent, an error that no call has returned yet.
fn unsent() -> parts::Still {
    parts::failing(Error::other("unsent"))
}

fn is_unsent<T>(result: mp_core::Result<T>) -> bool {
    result.is_err_and(|error| error.to_string().contains("unsent"))
}

/// Counts slowly, so that clients must wait.
struct Slow;

impl Object for Slow {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(count: &mut u64, by: u64) -> u64 {
        thread::sleep(Duration::from_millis(5));
        *count += by;
        *count
    }
}

/// Other pending work of a client fails while it waits. The error is returned by the next wait that can return it
/// without losing a result.
#[test]
fn a_result_is_not_lost_with_what_else_fails() {
    const LONG: Duration = Duration::from_secs(100);
    on_all(2, |rank| {
        for scheme in [Scheme::MpServer(0), Scheme::SlotServer] {
            let section = Section::new(scheme).in_flight(2);
            let slow = Protected::<Slow>::open(rank, "slow", section, |_| ())?;
            if rank.id() == 0 {
                let mut server = Server::new();
                server.add(slow)?;
                server.serve()?;
                continue;
            }
            let nothing = rank.receiver::<u8>("nothing", 1, Channel::degree(1))?;
            let then_told = |code: &dyn Fn() -> Result<u64>| {
                parts::beside(rank, unsent(), || {
                    let result = code()?;
                    expect(is_unsent(nothing.receive_timeout(LONG)), true)?;
                    Ok(result)
                })
            };
            expect(then_told(&|| slow.apply(1))?, 1)?;
            expect(then_told(&|| slow.submit(1)?.wait())?, 2)?;
            expect(then_told(&|| slow.apply_with(1, Wait::from(LONG).or_failure()))?, 3)?;
            // More operations than may be in flight.
            let many = || {
                let requests: Vec<_> = (0..30).map(|_| slow.submit(1)).collect::<Result<_>>()?;
                requests.into_iter().next_back().map_or(Ok(0), Request::wait)
            };
            expect(then_told(&many)?, 33)?;

            let mut request = slow.submit(1)?;
            let told = parts::beside(rank, unsent(), || request.wait_timeout(LONG));
            expect(is_unsent(told), true)?;
            expect(request.wait()?, 34)?;
        }
        Ok(())
    });
}

/// All handles wait for a first server that never comes, in every kind of wait.
#[test]
fn a_first_server_that_never_comes_is_missed_in_every_wait() {
    type Wait = fn(Vec<Request<'_, Counter>>) -> mp_core::Result<()>;
    fn is_unknown(result: &Result<u64>) -> bool {
        matches!(result.as_ref().map_err(Error::kind), Err(ErrorKind::OutcomeUnknown { .. }))
    }
    let one_by_one: Wait =
        |requests| expect(requests.into_iter().all(|of| is_unknown(&of.wait())), true);
    let together: Wait = |mut requests| {
        wait_all(&mut requests)?;
        expect(requests.into_iter().all(|of| is_unknown(&of.wait())), true)
    };
    let as_futures: Wait =
        |requests| expect(requests.into_iter().all(|of| is_unknown(&block_on(of))), true);
    for policy in [WaitPolicy::Spin, WaitPolicy::Park, WaitPolicy::Adaptive] {
        let ran = run_on_all_with(
            3,
            |world| world.wait(policy),
            |rank| {
                let waits = [one_by_one, together, as_futures];
                // All ranks wait in the same way, and then each in a different one.
                for shift in 0..=waits.len() {
                    let mut others = Together::new(rank)?;
                    let counter =
                        Protected::<Counter>::open(rank, "nobody", Scheme::SlotServer, |_| ())?;
                    others.wait()?;
                    let way = if shift < waits.len() { shift } else { rank.id() };
                    waits[way](several(&counter, 3)?)?;
                }
                Ok(())
            },
        );
        for (kind, results) in ran.each() {
            results.unwrap_or_else(|error| panic!("{kind}, {policy}: {error}"));
        }
    }
}

/// A rank that waits with a limit may serve afterwards.
#[test]
fn a_wait_that_ends_does_not_count_as_one_for_a_first_server() {
    for policy in [WaitPolicy::Spin, WaitPolicy::Park] {
        let ran = run_on_all_with(
            3,
            |world| world.wait(policy),
            |rank| {
                for way in 0..3 {
                    let mut others = Together::new(rank)?;
                    let counter =
                        Protected::<Counter>::open(rank, "late", Scheme::SlotServer, |_| ())?;
                    others.wait()?;
                    if rank.id() > 0 {
                        counter.apply(1)?;
                        continue;
                    }
                    // Most likely the others sleep by now.
                    thread::sleep(Duration::from_millis(20));
                    const SHORT: Duration = Duration::from_millis(20);
                    let mut request = counter.submit(1)?;
                    match way {
                        0 => expect(request.wait_timeout(SHORT)?, false)?,
                        1 => expect(request.test()?, false)?,
                        _ => {
                            let applied = counter.apply_with(1, SHORT);
                            let is_late = matches!(
                                applied.as_ref().map_err(Error::kind),
                                Err(ErrorKind::Timeout { .. })
                            );
                            expect(is_late, true)?;
                        }
                    }
                    drop(request);
                    let mut server = Server::new();
                    server.add(counter)?;
                    server.serve()?;
                }
                Ok(())
            },
        );
        for (kind, results) in ran.each() {
            results.unwrap_or_else(|error| panic!("{kind}, {policy}: {error}"));
        }
    }
}
