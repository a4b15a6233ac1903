//! Operations make progress while the rank calls nothing, and take no time while they have to wait.

use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use mp_collectives::{
    nonblocking::{CollectiveRequest, Nonblocking},
    reduce::Sum,
};
use mp_core::{Error, Failed, Rank, Result, World, report};
use mp_delegate::threads::{CommThreads, Progress};

use crate::{
    ALL, open,
    support::{Watchdog, on_all, processor::uses_less_than},
};

/// Enough elements for many chunks, each of which is acknowledged.
const LONG: usize = 200_000;

/// Rank 0 begins an operation and then calls nothing until all others have completed it. Each of them tells rank 0 so
/// without the library.
fn completes_meanwhile<B: Send + 'static>(
    threads: impl Fn() -> Result<CommThreads> + Sync,
    begin: impl Fn(&mut Nonblocking, usize) -> CollectiveRequest<B> + Sync,
) {
    for ranks in [2, 3, 5] {
        let _watchdog = Watchdog::start();
        let (done, all_done) = mpsc::channel();
        let (done, all_done) = (Mutex::new(done), Mutex::new(all_done));
        let result = World::threads(ranks).run(|rank| {
            let threads = threads()?;
            let mut nonblocking = open(rank, "overlap", &Progress::from(threads))?;
            if rank.id() > 0 {
                let waited = begin(&mut nonblocking, rank.id()).wait().map_err(Failed::into);
                let waited: Result<B> = waited;
                done.lock()
                    .map_err(|_| Error::other("poisoned"))?
                    .send(())
                    .map_err(Error::other)?;
                return waited.map(drop);
            }
            let mut request = begin(&mut nonblocking, 0);
            let others = all_done.lock().map_err(|_| Error::other("poisoned"))?;
            (1..ranks).try_for_each(|_| others.recv()).map_err(Error::other)?;
            let limit = Duration::from_secs(20);
            ensure!(request.wait_timeout(limit)?, "the others are done, and this is not");
            request.wait()?;
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{ranks} ranks: {error}"));
    }
}

#[test]
fn a_thread_carries_on_while_the_rank_calls_nothing() {
    let one = || CommThreads::start(1);
    completes_meanwhile(one, |front, _| front.barrier());
    completes_meanwhile(one, |front, me| front.all_reduce(vec![me; LONG], Sum));
    completes_meanwhile(one, |front, me| front.all_reduce([me], Sum));
    // Rank 0 passes the message on. In the next line it is the root.
    completes_meanwhile(one, |front, me| front.broadcast(vec![me; LONG], 1));
    completes_meanwhile(one, |front, me| front.broadcast(vec![me; LONG], 0));
    completes_meanwhile(one, |front, me| front.scan(vec![me; LONG], Sum));
}

#[test]
fn ranks_share_a_thread() {
    let threads = CommThreads::start(1).unwrap();
    let shared = || Ok(threads.clone());
    completes_meanwhile(shared, |front, _| front.barrier());
    completes_meanwhile(shared, |front, me| front.all_reduce(vec![me; LONG], Sum));
}

/// Rank 0 comes late to a barrier. Until then the others must use no core, and a report shows which ranks wait.
#[test]
fn who_can_do_nothing_sleeps() {
    let _watchdog = Watchdog::start();
    let done = World::processes(2).run(|rank| {
        let start = rank.mpb("start", mp_core::mpb::Mpbs::lines(1))?;
        let go = |number: u64| start.set_flag(mp_core::mpb::Line { rank: 0, line: 0 }, number);
        for (round, by) in ALL.into_iter().enumerate() {
            let progress = by.progress(rank)?;
            let mut fronts = [open(rank, "late", &progress)?, open(rank, "later", &progress)?];
            if rank.id() == 0 {
                // Rank 0 waits until the other rank has measured.
                start.wait_flag(0, |number| number > round as u64)?;
                fronts[1].barrier().wait()?;
                fronts[0].barrier().wait()?;
                continue;
            }
            let late = fronts[0].barrier();
            let mut later = fronts[1].barrier();
            let look = || -> Result<()> {
                std::thread::sleep(Duration::from_millis(60));
                let sleeps = uses_less_than(Duration::from_millis(4));
                ensure!(sleeps, "{by:?}: more than 4 ms in each of 10 times 300 ms");
                let world = report::worlds_of(std::process::id())?.remove(0).report?;
                let seen = &world.ranks[1];
                let flag = seen.wait.as_ref().and_then(|wait| wait.flag.as_ref());
                ensure!(
                    flag.is_some_and(|flag| flag.mpbs == "later") && !seen.helped,
                    "{by:?}: {seen:?}"
                );
                Ok(())
            };
            let watching = std::thread::scope(|scope| {
                let watching = scope.spawn(|| {
                    let seen = look();
                    go(1 + round as u64)?;
                    seen
                });
                later.wait_with(mp_core::Wait::forever())?;
                watching.join().map_err(|_| Error::other("the watcher panicked"))?
            });
            watching?;
            later.wait()?;
            late.wait()?;
        }
        Ok(())
    });
    done.unwrap();
}

/// Two threads of a rank wait for operations of different fronts whose progress the rank makes itself.
#[test]
fn two_threads_of_a_rank_wait() {
    fn wait_in_both(rank: &Rank) -> Result<()> {
        let mut fronts = ["a", "b"].map(|name| open(rank, name, &Progress::InCalls));
        for round in 0..200 {
            let requests = fronts.each_mut().map(|front| match front {
                Ok(front) => Ok(front.all_reduce([round + rank.id()], Sum)),
                Err(error) => Err(Error::other(error.to_string())),
            });
            let [one, other] = requests;
            let (one, other) = (one?, other?);
            let (one, other) = std::thread::scope(|scope| {
                let other = scope.spawn(|| other.wait());
                (one.wait(), other.join())
            });
            let other = other.map_err(|_| Error::other("a waiting thread panicked"))??[0];
            ensure!(one?[0] == 2 * round + 1 && other == 2 * round + 1, "round {round}");
        }
        Ok(())
    }
    on_all(2, wait_in_both);
}
