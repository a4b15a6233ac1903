//! Operations that ranks carry on in their calls: those that are done at once, and what they leave behind.

use std::thread;

use mp_collectives::{
    barrier::{Barriers, Settings},
    reduce::Sum,
};
use mp_core::{Error, ErrorKind, Rank, Result, wait_all};
use mp_delegate::threads::{CommThreads, Progress};

use crate::{open, support::on_all};

fn barriers(rank: &Rank) -> Result<Barriers> {
    Barriers::open(rank, "between", Settings::default())
}

/// The root need not wait for the others, and a rank need not wait for a message that has come.
#[test]
fn what_need_not_wait_is_done_when_its_call_returns() {
    on_all(2, |rank| {
        let (mut front, mut barriers) =
            (open(rank, "at once", &Progress::InCalls)?, barriers(rank)?);
        for round in 0..200u64 {
            let root = round as usize % 2;
            if rank.id() != root {
                barriers.wait()?;
            }
            let request = front.broadcast([round * u64::from(rank.id() == root)], root);
            ensure!(request.is_done(), "round {round}");
            if rank.id() == root {
                barriers.wait()?;
            }
            ensure!(request.wait()? == [round], "round {round}");
            let request = front.broadcast(Vec::<u8>::new(), root);
            ensure!(request.is_done() && request.wait()?.is_empty(), "round {round}");
        }
        Ok(())
    });
}

/// The blocking wait in between advances what the calls before it have left.
#[test]
fn short_waits_and_long_ones_take_turns() {
    on_all(2, |rank| {
        let (mut front, mut barriers) = (open(rank, "turns", &Progress::InCalls)?, barriers(rank)?);
        for round in 0..300usize {
            let one = front.all_reduce([round], Sum);
            if round % 3 == rank.id() {
                // Each rank waits where the other one has not yet begun.
                thread::yield_now();
            }
            if round % 5 == 0 {
                barriers.wait()?;
            }
            let (mut other, mut last) =
                (front.all_reduce(vec![round; 5_000], Sum), front.barrier());
            if round % 2 == 0 {
                wait_all(&mut [&mut last, &mut other as &mut dyn mp_core::Pending])?;
            }
            last.wait()?;
            ensure!(one.wait()? == [2 * round], "round {round}");
            ensure!(other.wait()? == [2 * round; 5_000], "round {round}");
        }
        Ok(())
    });
}

/// One thread sleeps for what comes last, while another one waits for short operations of another front.
#[test]
fn a_thread_that_sleeps_does_not_hold_up_another() {
    on_all(2, |rank| {
        let mut fronts =
            [open(rank, "slow", &Progress::InCalls)?, open(rank, "fast", &Progress::InCalls)?];
        let [slow, fast] = &mut fronts;
        for round in 0..20usize {
            let slept = thread::scope(|scope| {
                let late = (rank.id() == 0).then(|| slow.barrier());
                let sleeper = late.map(|late| scope.spawn(|| late.wait()));
                for number in 0..100 {
                    let sum = fast.all_reduce([number + round], Sum).wait()?;
                    ensure!(sum == [2 * (number + round)], "round {round}, {number}");
                }
                match sleeper {
                    None => Ok(slow.barrier().wait()?),
                    Some(sleeper) => Ok(sleeper
                        .join()
                        .map_err(|_| Error::other("the waiting thread panicked"))??),
                }
            });
            slept?;
        }
        Ok(())
    });
}

/// Nothing that was left at home keeps the next operation from a thread.
#[test]
fn threads_take_over_after_operations_in_calls() {
    on_all(2, |rank| {
        let mut front = open(rank, "taken over", &Progress::InCalls)?;
        for round in 0..20usize {
            ensure!(front.all_reduce([round], Sum).wait()? == [2 * round], "round {round}");
        }
        front.set_progress(CommThreads::start(1)?)?;
        let request = front.all_reduce([1u8], Sum);
        while !request.is_done() {
            thread::yield_now();
        }
        ensure!(request.wait()? == [2], "the last one");
        front.set_progress(Progress::InCalls)?;
        ensure!(front.all_reduce([2u8], Sum).wait()? == [4], "in calls again");
        Ok(())
    });
}

/// The buffers are closed with the front, though the rank has not advanced anything since the last operation.
#[test]
fn nothing_of_a_front_outlives_it() {
    on_all(2, |rank| {
        let (mut front, mut barriers) =
            (open(rank, "closed", &Progress::InCalls)?, barriers(rank)?);
        for round in 0..20usize {
            ensure!(front.all_reduce([round], Sum).wait()? == [2 * round], "round {round}");
        }
        if rank.id() == 0 {
            drop(front);
        } else {
            let failed = front.all_reduce([1], Sum).wait().map_err(|failed| failed.error);
            let kind = failed.as_ref().map_err(Error::kind);
            ensure!(matches!(kind, Err(ErrorKind::Disconnected { .. })), "{failed:?}");
        }
        barriers.wait()
    });
}
