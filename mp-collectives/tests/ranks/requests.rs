//! Requests of every kind, waited for together: sends and receives of two sets of communicators, persistent requests,
//! collective operations whose progress is made by the rank or by a thread, and delegated sends. They are also awaited.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use mp_collectives::communicator::{ANY_SOURCE, Communicator};
use mp_collectives::reduce::Sum;
use mp_core::{
    Channel, Error, ErrorKind, Pending, Rank, Result, World, test_all, test_some, wait_all,
    wait_any, wait_some,
};
use mp_delegate::threads::{CommThreads, Progress};

use crate::support::{Watchdog, on_all};

const LONG: usize = 100_000;

#[derive(Clone, Copy, Debug)]
enum Waited {
    All,
    Any,
    Some,
    Tested,
    Timed,
    Each,
}

const ALL: [Waited; 6] =
    [Waited::All, Waited::Any, Waited::Some, Waited::Tested, Waited::Timed, Waited::Each];

/// Each rank has one request of each kind pending with its neighbours, and waits for all of them together.
fn one_of_each(rank: &Rank, waited: Waited, by_thread: bool) -> Result<()> {
    let (me, size) = (rank.id(), rank.size());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let (world, second) = (Communicator::world(rank), Communicator::world(rank));
    let progress: Progress = match by_thread {
        true => CommThreads::start(1)?.into(),
        false => Progress::InCalls,
    };
    world.set_nonblocking(progress)?;
    let threads = CommThreads::start(1)?;
    let channel = Channel::degree(1).max_len(LONG);
    let mut to = threads.delegate(rank.sender::<[u64]>("delegated", next, channel)?);
    let from = rank.receiver::<[u64]>("delegated", before, channel)?;

    let mut lent = vec![0u64; LONG];
    let mut small = world.nonblocking_receive([0u8; 3], ANY_SOURCE, 1);
    let mut borrowed = second.nonblocking_receive(&mut lent[..], before, 2);
    let mut again = world.persistent_receive(vec![0u16; 7], before, 3);
    again.start()?;
    let mut sum = world.nonblocking()?.all_reduce(vec![me as u64; LONG], Sum);
    let mut barrier = world.nonblocking()?.barrier();
    let mut delegated = to.send(vec![me as u64; LONG]);
    let mut matched = second.nonblocking_synchronous_send(vec![me as u64; LONG], next, 2);
    let mut sent = world.nonblocking_send([me as u8; 3], next, 1);
    let mut sent_again = world.persistent_send(vec![me as u16; 7], next, 3);
    sent_again.start()?;
    {
        let mut all: [&mut dyn Pending; 9] = [
            &mut small,
            &mut borrowed,
            &mut again,
            &mut sum,
            &mut barrier,
            &mut delegated,
            &mut matched,
            &mut sent,
            &mut sent_again,
        ];
        match waited {
            Waited::All => wait_all(&mut all)?,
            Waited::Any => {
                let first = wait_any(&mut all)?;
                ensure!(test_some(&mut all)?.contains(&first), "{first} was done");
                wait_all(&mut all)?;
            }
            Waited::Some => while wait_some(&mut all)?.len() < all.len() {},
            Waited::Tested => while !test_all(&mut all)? {},
            Waited::Timed | Waited::Each => {}
        }
        ensure!(matches!(waited, Waited::Timed | Waited::Each) || test_all(&mut all)?, "done");
    }
    if let Waited::Timed = waited {
        while !sum.wait_timeout(Duration::from_micros(50))? {}
        while !small.wait_timeout(Duration::from_micros(50))? {}
        while !delegated.wait_timeout(Duration::from_micros(50))? {}
    }
    let total = (size * (size - 1) / 2) as u64;
    ensure!(small.wait()?.0 == [before as u8; 3], "a small message");
    let (into, status) = borrowed.wait()?;
    ensure!(into.iter().all(|&n| n == before as u64) && status.count == LONG, "a long message");
    ensure!(
        again.wait()?.source == before && again.buffer_mut()?[6] == before as u16,
        "persistent"
    );
    ensure!(sum.wait()? == vec![total; LONG], "a sum");
    barrier.wait()?;
    ensure!(delegated.wait()? == vec![me as u64; LONG], "what was delegated is back");
    ensure!(
        matched.wait()?.len() == LONG && sent.wait()? == [me as u8; 3],
        "what was sent is back"
    );
    sent_again.wait()?;
    ensure!(from.receive()?.iter().all(|&n| n == before as u64), "a delegated message");
    Ok(())
}

#[test]
fn requests_of_every_kind_are_waited_for_together() {
    for ranks in [1, 2, 3, 5] {
        for waited in ALL {
            for by_thread in [false, true] {
                on_all(ranks, |rank| one_of_each(rank, waited, by_thread));
            }
        }
    }
}

/// Polls a future until it is ready. It must wake its task whenever it may be ready, but this function does not sleep.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        std::thread::yield_now();
    }
}

#[test]
fn requests_of_every_kind_are_awaited() {
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            let (me, size) = (rank.id(), rank.size());
            let (next, before) = ((me + 1) % size, (me + size - 1) % size);
            let world = Communicator::world(rank);
            world.set_nonblocking(Progress::InCalls)?;
            let (sum, (got, status), sent) = block_on(async {
                let received = world.nonblocking_receive(vec![0u64; LONG], before, 0);
                let sent = world.nonblocking_send(vec![me as u64; LONG], next, 0);
                let sum = world.nonblocking()?.all_reduce([me as u64], Sum);
                Ok::<_, Error>((sum.await?, received.await?, sent.await?))
            })?;
            ensure!(sum == [(size * (size - 1) / 2) as u64], "a sum of {sum:?}");
            ensure!(status.source == before && got[LONG - 1] == before as u64, "another message");
            ensure!(sent.len() == LONG, "what was sent is back");
            Ok(())
        });
    }
}

/// A wait for requests of two ranks is refused, whatever their kinds and their order.
#[test]
fn requests_of_two_ranks_are_not_waited_for_together() {
    let _watchdog = Watchdog::start();
    World::threads(2)
        .run(|rank| {
            let solo = World::solo()?;
            let (here, there) = (Communicator::world(rank), Communicator::comm_self(&solo));
            here.set_nonblocking(Progress::InCalls)?;
            let mut received = here.nonblocking_receive([0u8], 1 - rank.id(), 1);
            if rank.id() == 0 {
                // No request of this rank is done before rank 1 goes on.
                let mut barrier = here.nonblocking()?.barrier();
                let mut elsewhere = there.nonblocking_receive([0u8], 0, 1);
                refused(&mut [&mut received, &mut elsewhere])?;
                refused(&mut [&mut elsewhere, &mut received])?;
                refused(&mut [&mut barrier, &mut elsewhere])?;
                refused(&mut [&mut elsewhere, &mut barrier])?;
                refused(&mut [&mut received, &mut barrier, &mut elsewhere])?;
                here.send(&[7u8], 1, 1)?;
                ensure!(received.wait()?.0 == [8], "the answer");
                return Ok(barrier.wait()?);
            }
            ensure!(received.wait()?.0 == [7], "the message");
            here.send(&[8u8], 0, 1)?;
            Ok(here.nonblocking()?.barrier().wait()?)
        })
        .unwrap();
}

fn refused(requests: &mut [&mut dyn Pending]) -> Result<()> {
    let refused = wait_all(requests);
    ensure!(
        matches!(refused.as_ref().map_err(Error::kind), Err(ErrorKind::BadWorld(_))),
        "{refused:?}"
    );
    Ok(())
}

/// A persistent request that is not started is passed over, wherever it stands among others.
#[test]
fn requests_that_are_not_started_are_passed_over() {
    for ranks in [1, 2, 3] {
        on_all(ranks, |rank| {
            let (me, size) = (rank.id(), rank.size());
            let (next, before) = ((me + 1) % size, (me + size - 1) % size);
            let world = Communicator::world(rank);
            let mut idle = [0, 1, 2].map(|_| world.persistent_receive(vec![0u16; 7], before, 9));
            let mut started = world.persistent_receive(vec![0u16; 7], before, 3);
            let mut sent = world.persistent_send(vec![me as u16; 7], next, 3);
            for round in 0..3 {
                started.start()?;
                let mut received = world.nonblocking_receive([0u8; 3], before, 1);
                sent.start()?;
                let mut small = world.nonblocking_send([round as u8; 3], next, 1);
                let [first, second, third] = &mut idle;
                wait_all::<&mut dyn Pending>(&mut [
                    first,
                    &mut received,
                    second,
                    &mut started,
                    &mut small,
                    third,
                    &mut sent,
                ])?;
                ensure!(received.wait()?.0 == [round as u8; 3], "round {round}");
                ensure!(started.wait()?.source == before, "round {round}");
                ensure!(started.buffer_mut()? == &vec![before as u16; 7], "round {round}");
                small.wait()?;
                sent.wait()?;
            }
            Ok(())
        });
    }
}
