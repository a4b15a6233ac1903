//! The promises of requests: they are waited for, tested, dropped, leaked and awaited, in any number.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use mp_collectives::reduce::{Max, Sum};
use mp_core::{
    Error, ErrorKind, Pending, Rank, Result,
    mpb::{Line, Mpbs},
    test_all, test_any, test_some, wait_all, wait_any, wait_some,
};
use mp_delegate::threads::{CommThreads, Progress};

use crate::{
    ALL, By, open,
    support::{block_on, on_all},
};

#[test]
fn several_of_different_types_are_waited_for() {
    on_all(3, |rank| {
        for by in ALL {
            let progress = by.progress(rank)?;
            let mut a = open(rank, "a", &progress)?;
            let mut b = open(rank, "b", &progress)?;
            for round in 0..20u64 {
                let mut sum = a.all_reduce(vec![round; 10], Sum);
                let mut come = b.barrier();
                let mut greatest = a.all_reduce([rank.id()], Max);
                let mut all: [&mut dyn Pending; 3] = [&mut sum, &mut come, &mut greatest];
                let first = wait_any(&mut all)?;
                let some = wait_some(&mut all)?;
                ensure!(some.contains(&first) && test_any(&mut all)?.is_some(), "{first} {some:?}");
                let tested = test_some(&mut all)?;
                ensure!(some.iter().all(|done| tested.contains(done)), "{some:?} {tested:?}");
                wait_all(&mut all)?;
                ensure!(test_all(&mut all)?, "all were waited for");
                come.wait()?;
                ensure!(
                    sum.wait()? == [3 * round; 10] && greatest.wait()? == [2],
                    "{by:?} {round}"
                );
            }
            let none: &mut [&mut dyn Pending] = &mut [];
            ensure!(
                wait_all(none).is_ok() && test_all(none)? && wait_some(none)?.is_empty(),
                "none"
            );
            ensure!(
                matches!(wait_any(none).as_ref().map_err(Error::kind), Err(ErrorKind::BadWorld(_))),
                "none"
            );
        }
        Ok(())
    });
}

/// Testing alone completes an operation.
#[test]
fn requests_are_tested() {
    on_all(3, |rank| {
        for by in ALL {
            let mut front = open(rank, "tested", &by.progress(rank)?)?;
            let mut request = front.all_reduce(vec![1u32; 3000], Sum);
            while !request.test()? {
                thread::yield_now();
            }
            ensure!(request.wait()? == [3; 3000], "{by:?}");
        }
        Ok(())
    });
}

#[test]
fn requests_are_awaited() {
    on_all(3, |rank| {
        for by in ALL {
            let mut front = open(rank, "awaited", &by.progress(rank)?)?;
            let sums = (0..10).map(|n| front.all_reduce([n], Sum)).collect::<Vec<_>>();
            for (n, sum) in sums.into_iter().enumerate() {
                ensure!(block_on(sum)? == [3 * n], "{by:?} {n}");
            }
        }
        Ok(())
    });
}

/// While the threads are switched off, the rank makes the progress itself.
#[test]
fn requests_are_awaited_while_the_threads_are_switched_off() {
    on_all(3, |rank| {
        let threads = CommThreads::start(1)?;
        let mut front = open(rank, "awaited", &Progress::from(&threads))?;
        threads.switch_all(false);
        let sums = (0..10).map(|n| front.all_reduce([n], Sum)).collect::<Vec<_>>();
        for (n, sum) in sums.into_iter().enumerate() {
            ensure!(block_on(sum)? == [3 * n], "{n}");
        }
        Ok(())
    });
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// After that, requests make progress only when they are polled.
#[test]
fn a_request_that_a_thread_has_had_is_polled_when_that_has_ended() {
    on_all(2, |rank| {
        let signal = rank.mpb("signal", Mpbs::lines(1))?;
        let threads = CommThreads::start(1)?;
        let mut front = open(rank, "ended", &Progress::from(&threads))?;
        if rank.id() == 1 {
            signal.wait_flag(0, |value| value > 0)?;
            ensure!(front.all_reduce([1u32], Sum).wait()? == [2], "rank 1");
            return Ok(());
        }
        let mut sum = front.all_reduce([1u32], Sum);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut task = Context::from_waker(&waker);
        let mut poll = || Pin::new(&mut sum).poll(&mut task);
        // The part of the other rank is missing.
        ensure!(poll().is_pending(), "before its threads ended");
        let before = woken.0.load(Ordering::SeqCst);
        threads.shutdown();
        let is_woken = woken.0.load(Ordering::SeqCst) > before;
        // The other rank goes on even if this test has failed.
        signal.set_flag(Line { rank: 1, line: 0 }, 1)?;
        ensure!(is_woken, "it is never polled again");
        loop {
            if let Poll::Ready(sum) = poll() {
                ensure!(sum? == [2], "rank 0");
                return Ok(());
            }
            thread::yield_now();
        }
    });
}

/// A limit ends a wait, but not the operation.
#[test]
fn waits_have_limits() {
    on_all(2, |rank| {
        let signal = rank.mpb("signal", Mpbs::lines(1))?;
        for (round, by) in ALL.into_iter().enumerate() {
            let mut front = open(rank, "limited", &by.progress(rank)?)?;
            if rank.id() == 1 {
                signal.wait_flag(0, |value| value > round as u64)?;
                front.barrier().wait()?;
                continue;
            }
            let mut request = front.barrier();
            ensure!(!request.wait_timeout(Duration::ZERO)?, "nobody has come");
            ensure!(!request.wait_timeout(Duration::from_millis(30))?, "nobody has come");
            signal.set_flag(Line { rank: 1, line: 0 }, 1 + round as u64)?;
            ensure!(request.wait_timeout(Duration::from_secs(20))?, "the other has come");
            request.wait()?;
        }
        Ok(())
    });
}

/// Requests that some ranks drop or leak keep no rank waiting. The same holds for a front that is dropped.
#[test]
fn requests_are_dropped_and_leaked() {
    for ranks in [1, 2, 5] {
        on_all(ranks, |rank| {
            for by in ALL {
                let mut front = open(rank, "dropped", &by.progress(rank)?)?;
                for round in 0..30 {
                    let request = front.all_reduce(vec![round; 500], Sum);
                    match (round + rank.id()) % 3 {
                        0 => drop(request),
                        1 => std::mem::forget(request),
                        _ => ensure!(request.wait()? == vec![round * ranks; 500], "{by:?} {round}"),
                    }
                }
            }
            Ok(())
        });
    }
}

/// A request may be waited for after its front was dropped.
#[test]
fn requests_survive_their_front() {
    on_all(3, |rank| {
        for by in ALL {
            let mut front = open(rank, "short", &by.progress(rank)?)?;
            let (sum, come) = (front.all_reduce([1, 2], Sum), front.barrier());
            drop(front);
            ensure!(sum.wait()? == [3, 6], "{by:?}");
            come.wait()?;
        }
        Ok(())
    });
}

/// An impossible operation is refused, its buffer comes back, and the front stays usable.
#[test]
fn what_cannot_be_is_refused() {
    on_all(2, |rank| {
        for by in ALL {
            let mut front = open(rank, "refused", &by.progress(rank)?)?;
            let failed = front.broadcast(vec![7u8; 3], 2).wait();
            ensure!(failed.is_err_and(|failed| failed.buffer == [7; 3]), "{by:?}");
            let failed = front.reduce([1.5], Sum, 9).wait();
            ensure!(failed.is_err_and(|failed| failed.buffer == [1.5]), "{by:?}");
            let failed = front.gather([1], vec![0; 5], 0).wait();
            ensure!(failed.is_err() == (rank.id() == 0), "{by:?}");
            if rank.id() == 0 {
                // Rank 0 takes the block of the other rank's call, so that it is not left there.
                front.gather([1], vec![0; 2], 0).wait()?;
            }
            front.barrier().wait()?;
        }
        Ok(())
    });
}

/// The operations of a stopped thread go on in another thread, or in the rank's calls.
#[test]
fn threads_are_stopped_meanwhile() {
    fn stop(rank: &Rank, threads: usize, by: By) -> Result<()> {
        let others = by.progress(rank)?;
        let (threads, signal) = (CommThreads::start(threads)?, rank.mpb("go", Mpbs::lines(1))?);
        let last = rank.id() + 1 == rank.size();
        let progress = if last { others } else { Progress::from(&threads) };
        let mut front = open(rank, "stopped", &progress)?;
        if last {
            signal.wait_flag(0, |stopped| stopped == 1)?;
        }
        let sum = front.all_reduce(vec![rank.id(); 20_000], Sum);
        let come = front.barrier();
        if rank.id() == 0 {
            (0..threads.len() / 2 + 1).for_each(|thread| threads.stop(thread));
            signal.set_flag(Line { rank: rank.size() - 1, line: 0 }, 1)?;
        }
        come.wait()?;
        let ranks = rank.size();
        ensure!(sum.wait()? == vec![ranks * (ranks - 1) / 2; 20_000], "{by:?}");
        // Operations after that work as well.
        ensure!(front.all_reduce([1], Sum).wait()? == [ranks], "{by:?}");
        threads.switch_all(false);
        ensure!(front.all_reduce([1], Sum).wait()? == [ranks], "{by:?}");
        Ok(())
    }
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            stop(rank, 1, By::Calls)?;
            stop(rank, 1, By::Threads(1))?;
            stop(rank, 3, By::Calls)
        });
    }
}

/// If the world has two cores for each rank, a rank has one thread of its own for all its fronts.
#[test]
fn who_carries_on_automatically() {
    for ranks in [1, 2, 3] {
        on_all(ranks, |rank| {
            let fronts = ["a", "b"].map(|name| open(rank, name, &Progress::Automatic));
            let [a, b] = fronts;
            let (mut a, mut b) = (a?, b?);
            let own =
                [a.errands().threads(), b.errands().threads()].map(|t| t.map(CommThreads::len));
            let expected = (rank.cores() >= 2 * rank.size()).then_some(1);
            ensure!(own == [expected; 2], "{own:?} on {} cores", rank.cores());
            ensure!(a.errands().are_in_calls() == expected.is_none(), "{own:?}");
            let (one, other) = (a.all_reduce([1], Sum), b.all_reduce([2], Sum));
            ensure!(other.wait()? == [2 * ranks] && one.wait()? == [ranks], "{own:?}");
            Ok(())
        });
    }
}
