//! Sends of borrowed messages.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use mp_core::{Channel, Pending, Result, World, wait_all};
use mp_delegate::threads::{self, CommThreads};

use crate::{
    stray::until,
    support::{Watchdog, block_on, on_all},
};

#[test]
fn rows_of_a_matrix() {
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(100);
        if rank.id() == 0 {
            let threads = CommThreads::start(2)?;
            let mut to = threads.delegate(rank.sender::<[u64]>("rows", 1, channel)?);
            let mut matrix: Vec<u64> = (0..10_000).collect();
            for round in 0..5 {
                threads::scope(|scope| {
                    for (i, row) in matrix.chunks(100).enumerate() {
                        let request = scope.send(&mut to, row);
                        match i % 3 {
                            0 => drop(request),
                            1 => std::mem::forget(request),
                            _ => drop(request.wait()?),
                        }
                    }
                    Ok::<(), mp_core::Error>(())
                })?;
                // The matrix can be changed again.
                matrix.iter_mut().for_each(|element| *element += round);
            }
            return Ok(());
        }
        let rows = rank.receiver::<[u64]>("rows", 0, channel)?;
        let mut matrix: Vec<u64> = (0..10_000).collect();
        for round in 0..5 {
            for row in matrix.chunks(100) {
                ensure!(*rows.receive()? == *row, "round {round}");
            }
            matrix.iter_mut().for_each(|element| *element += round);
        }
        Ok(())
    });
}

#[test]
fn what_was_lent_can_be_taken_back() {
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let channel = Channel::degree(1).max_len(3);
        let threads = CommThreads::start(1)?;
        let mut to = threads.delegate(rank.sender::<[u64]>("self", 0, channel)?);
        let from = rank.receiver::<[u64]>("self", 0, channel)?;
        let rows = [[0, 0, 0], [1, 1, 1], [2, 2, 2]];
        threads::scope(|scope| {
            let first = scope.send(&mut to, &rows[0][..]);
            until("there is room for one", || first.is_done());
            let (second, third) =
                (scope.send(&mut to, &rows[1][..]), scope.send(&mut to, &rows[2][..]));
            ensure!(second.cancel().expect("no room") == rows[1], "another row");
            let first = first.cancel().expect_err("it was sent");
            ensure!(first.is_done() && first.wait()? == rows[0], "another row");
            ensure!(*from.receive()? == rows[0] && *from.receive()? == rows[2], "another row");
            ensure!(third.wait()? == rows[2], "another row");
            Ok(())
        })
    });
    done.unwrap();
}

/// Scoped sends are waited for together with a send of an owned message, with a limit, and as futures.
#[test]
fn scoped_sends_are_requests_like_others() {
    on_all(2, |rank| {
        let channel = Channel::degree(1).max_len(3);
        let (tell, go) = (Channel::degree(1), "go");
        if rank.id() == 0 {
            let threads = CommThreads::start(1)?;
            let mut to = threads.delegate(rank.sender::<[u64]>("rows", 1, channel)?);
            let mut owned = threads.delegate(rank.sender::<[u64]>("owned", 1, channel)?);
            let mut go = rank.sender::<u8>(go, 1, tell)?;
            let rows = [[0, 0, 0], [1, 1, 1], [2, 2, 2]];
            return threads::scope(|scope| {
                let [mut first, mut second, third] =
                    rows.each_ref().map(|row| scope.send(&mut to, &row[..]));
                let mut other = owned.send(vec![3, 3, 3]);
                // There is room for one message.
                ensure!(!second.wait_timeout(Duration::from_millis(1))?, "it is done");
                ensure!(!third.is_done(), "it is done");
                go.send(&1)?;
                wait_all(&mut [&mut first as &mut dyn Pending, &mut other, &mut second])?;
                ensure!(first.is_done() && second.test()?, "it is not done");
                ensure!(first.wait()? == rows[0] && second.wait()? == rows[1], "another row");
                ensure!(other.wait()? == [3, 3, 3], "another row");
                let third = block_on(third)?;
                ensure!(third == rows[2], "another row");
                Ok(())
            });
        }
        let rows = rank.receiver::<[u64]>("rows", 0, channel)?;
        let owned = rank.receiver::<[u64]>("owned", 0, channel)?;
        rank.receiver::<u8>(go, 0, tell)?.receive()?;
        for number in 0..3 {
            ensure!(*rows.receive()? == [number; 3], "another row");
        }
        ensure!(*owned.receive()? == [3, 3, 3], "another row");
        Ok(())
    });
}

/// Lends its elements as long as it lives, and counts when it is dropped.
struct Counted<'a>(&'a [u64], &'a AtomicUsize);

impl std::borrow::Borrow<[u64]> for Counted<'_> {
    fn borrow(&self) -> &[u64] {
        self.0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_scope_joins_whatever_happens_in_it() {
    let _watchdog = Watchdog::start();
    let done = World::threads(2).run(|rank| {
        let channel = Channel::degree(1).max_len(4);
        if rank.id() == 1 {
            let from = rank.receiver::<[u64]>("slow", 0, channel)?;
            for n in 0..10 {
                std::thread::sleep(Duration::from_millis(3));
                ensure!(*from.receive()? == [n; 4], "message {n}");
            }
            return Ok(());
        }
        let threads = CommThreads::start(2)?;
        let mut to = threads.delegate(rank.sender::<[u64]>("slow", 1, channel)?);
        let dropped = AtomicUsize::new(0);
        let rows: Vec<[u64; 4]> = (0..10).map(|n| [n; 4]).collect();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            threads::scope(|scope| {
                for (n, row) in rows.iter().enumerate() {
                    let request = scope.send(&mut to, Counted(row, &dropped));
                    if n == 5 {
                        std::mem::forget(request);
                    }
                }
                std::panic::resume_unwind(Box::new("as planned"));
            })
        }));
        ensure!(caught.is_err(), "it panicked");
        let dropped = dropped.load(Ordering::Relaxed);
        ensure!(dropped == 10, "{dropped} were dropped before the scope ended");
        Ok(())
    });
    done.unwrap();
}

#[test]
fn without_threads_the_caller_sends() {
    let _watchdog = Watchdog::start();
    let done: Result<Vec<()>> = World::threads(2).run(|rank| {
        let channel = Channel::degree(1).max_len(4);
        if rank.id() == 1 {
            let from = rank.receiver::<[u64]>("inline", 0, channel)?;
            return (0..4).try_for_each(|n| {
                ensure!(*from.receive()? == [n], "message {n}");
                Ok(())
            });
        }
        let mut to = CommThreads::start(0)?.delegate(rank.sender::<[u64]>("inline", 1, channel)?);
        let numbers = [0, 1, 2, 3];
        threads::scope(|scope| {
            for number in numbers.chunks(1) {
                let request = scope.send(&mut to, number);
                ensure!(request.is_done(), "it was sent at once");
                ensure!(request.wait()? == number, "another one came back");
            }
            Ok(())
        })
    });
    done.unwrap();
}
