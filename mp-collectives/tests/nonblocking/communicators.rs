//! Nonblocking collectives of communicators.

use mp_collectives::communicator::Communicator;
use mp_collectives::{
    barrier,
    collectives::Check,
    nonblocking::Settings,
    reduce::{self, Order, Sum},
};
use mp_core::{Error, ErrorKind, Rank, Result, wait_all};

use crate::{
    ALL, By,
    support::{Random, on_all},
};

/// Returns the members of a communicator, by their numbers in the world.
fn members(of: &Communicator) -> Result<Vec<usize>> {
    let mut all = vec![0; of.size()];
    all[of.rank()] = of.joint().rank().id();
    of.all_reduce(&mut all, Sum)?;
    Ok(all)
}

/// Ranks call operations that go apart before the other ones or after them.
fn apart(rank: &Rank, by: By) -> Result<()> {
    let world = Communicator::world(rank);
    world.set_collectives(Settings { check: Check::Off, ..Settings::default() })?;
    world.set_nonblocking(by.progress(rank)?)?;
    let (me, size) = (rank.id(), rank.size());
    for round in 0..20 {
        let length = [1, 40, 3000][round % 3];
        let begin = || Ok::<_, Error>(world.nonblocking()?.all_reduce(vec![1; length], Sum));
        let own = if (me + round) % 2 == 0 { Some(begin()?) } else { None };
        let root = round % size;
        let got = world.nonblocking_apart()?.broadcast(vec![me; length], root).wait()?;
        assert_eq!(got, vec![root; length]);
        let sum = match own {
            Some(request) => request.wait()?,
            None => begin()?.wait()?,
        };
        assert_eq!(sum, vec![size; length]);
    }
    Ok(())
}

#[test]
fn some_operations_have_an_order_of_their_own() {
    for size in [1, 2, 3, 5] {
        on_all(size, |rank| ALL.into_iter().try_for_each(|by| apart(rank, by)));
    }
}

/// Each rank calls operations of several communicators in its own order, with blocking operations and messages in
/// between.
fn several(rank: &Rank, by: By) -> Result<()> {
    let world = Communicator::world(rank);
    let twin = world.duplicate()?;
    let parts = 2.min(rank.size() as u64);
    let part = world.split(Some(rank.id() as u64 % parts), -(rank.id() as i64))?;
    let all: Vec<_> = [Some(world), Some(twin), part].into_iter().flatten().collect();
    let ranks = all.iter().map(members).collect::<Result<Vec<_>>>()?;
    for of in &all[1..] {
        of.set_nonblocking(by.progress(rank)?)?;
    }
    let mut random = Random::new(rank.id() as u64);
    for round in 0..20 {
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        let mut under_way = Vec::new();
        for which in order {
            let (of, ranks) = (&all[which], &ranks[which]);
            let length = [1, 40, 3000][(round + which) % 3];
            let mine = vec![rank.id() + 100 * which + round; length];
            let sum: usize = ranks.iter().map(|id| id + 100 * which + round).sum();
            under_way.push((of.nonblocking()?.all_reduce(mine, Sum), vec![sum; length]));
            let root = round % of.size();
            let sent = vec![rank.id() + 100 * which; length];
            let got = vec![ranks[root] + 100 * which; length];
            under_way.push((of.nonblocking()?.broadcast(sent, root), got));
        }
        // All members come to this barrier in the same turn, whatever else is pending.
        all[0].barrier()?;
        let neighbour = rank.id() ^ 1;
        if neighbour < rank.size() {
            let sent = all[1].nonblocking_send(vec![round; 500], neighbour, 1);
            let mut got = vec![0; 500];
            all[1].receive_into(&mut got, neighbour, 1)?;
            assert_eq!(got, sent.wait()?);
        }
        let (mut requests, expected): (Vec<_>, Vec<_>) = under_way.into_iter().unzip();
        wait_all(&mut requests)?;
        for (request, expected) in requests.into_iter().zip(expected) {
            let got = request.wait()?;
            if got != expected {
                let wrong = format!("{by:?}, round {round}: {got:?}, {expected:?}");
                return Err(Error::other(wrong));
            }
        }
    }
    Ok(())
}

#[test]
fn communicators_do_not_wait_for_each_other() {
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| ALL.into_iter().try_for_each(|by| several(rank, by)));
    }
}

/// Operations that were called are completed after the communicator is dropped, and their requests remain valid.
#[test]
fn communicators_are_dropped() {
    on_all(3, |rank| {
        for by in ALL {
            let world = Communicator::world(rank);
            let part = world.duplicate()?;
            part.set_nonblocking(by.progress(rank)?)?;
            let sum = part.nonblocking()?.all_reduce([rank.id()], Sum);
            let forgotten = part.nonblocking()?.barrier();
            drop(forgotten);
            drop(part);
            ensure!(sum.wait()? == [3], "{by:?}");
        }
        Ok(())
    });
}

/// The settings for sums also apply to nonblocking operations.
#[test]
fn settings_are_followed() {
    let sums = on_all(5, |rank| {
        let world = Communicator::world(rank);
        world.set_collectives(Settings { order: Order::Ranks, ..Settings::default() })?;
        world.set_nonblocking(By::Threads(1).progress(rank)?)?;
        let mine = 0.1f64.powi(rank.id() as i32);
        let sum = world.nonblocking()?.all_reduce([mine], Sum).wait()?[0];
        let held = world.nonblocking()?;
        ensure!(
            matches!(
                world.nonblocking().as_ref().map_err(Error::kind),
                Err(ErrorKind::BadCall { .. })
            ),
            "it is borrowed"
        );
        drop(held);
        Ok(sum)
    });
    let expected = (1..5).fold(1.0, |sum, rank| sum + 0.1f64.powi(rank));
    assert_eq!(sums, [expected; 5]);
}

/// Several reductions at a time, of ranks that use threads and ranks that make progress in calls.
#[test]
fn reductions_go_along_trees() {
    on_all(6, |rank| {
        let world = Communicator::world(rank);
        for way in [reduce::Reduce::LineTree { lambda: 1 }, reduce::Reduce::ChunkTree { lambda: 2 }]
        {
            let (reduce, chunk_lines) = (Some(way), Some(1));
            let settings = Settings { reduce, chunk_lines, ..Settings::default() };
            for by in ALL {
                world.set_nonblocking(by.progress(rank)?)?;
                world.set_collectives(settings.clone())?;
                let mut nonblocking = world.nonblocking()?;
                for number in 0..60 {
                    let root = number % 6;
                    let mine = vec![rank.id() + number; 1 + number];
                    let sum = nonblocking.reduce(mine.clone(), Sum, root);
                    let greatest = nonblocking.reduce(mine, reduce::Max, 5 - root);
                    let (sum, greatest) = (sum.wait()?, greatest.wait()?);
                    let all = |got: &[usize], each| got.iter().all(|&got| got == each);
                    ensure!(rank.id() != root || all(&sum, 15 + 6 * number), "{sum:?}");
                    let is_there = rank.id() != 5 - root || all(&greatest, 5 + number);
                    ensure!(is_there, "{greatest:?}");
                }
            }
        }
        Ok(())
    });
}

/// Settings of a communicator also apply to communicators that are made from it afterwards.
#[test]
fn settings_are_handed_down() {
    on_all(4, |rank| {
        let world = Communicator::world(rank);
        let before = world.duplicate()?;
        world.set_collectives(Settings {
            all_reduce: Some(reduce::AllReduce::Doubling),
            barrier: Some(barrier::Barrier::Dissemination(vec![3])),
            ..Settings::default()
        })?;
        world.set_nonblocking(By::Threads(1).progress(rank)?)?;
        let half = world.split(Some(rank.id() as u64 / 2), 0)?.into_iter();
        let parts: Vec<_> = half.chain([world.duplicate()?]).collect();
        for of in &parts {
            of.nonblocking()?.barrier().wait()?;
            let threads = of.nonblocking()?.errands().threads().map(|threads| threads.len());
            ensure!(threads == Some(1), "{threads:?}");
            let refused = of.nonblocking()?.all_reduce(vec![1u8; 1 << 20], Sum).wait();
            ensure!(refused.is_err(), "a vector too long for what was forced");
        }
        before.nonblocking()?.all_reduce(vec![1u8; 1 << 20], Sum).wait()?;
        Ok(())
    });
}
