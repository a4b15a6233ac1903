//! Sends that are delegated only if that pays.

use std::{
    borrow::Borrow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
    time::Duration,
};

use mp_core::{
    Channel, WaitPolicy, World,
    topology::{Bind, KtPlacement, KtPlan, Role, Topology},
};
use mp_delegate::threads::{Choice, CommThreads, Spare, pays::BreakEven};

use crate::support::{Watchdog, on_all};

const LONG: Duration = Duration::from_secs(8);
const WORDS: usize = 100;
const BYTES: usize = 8 * WORDS;

fn from(bytes: usize) -> Option<BreakEven> {
    Some(BreakEven { awake: bytes, asleep: bytes })
}

/// A request of a send that the caller carried out is done when the call returns, even if the thread never ran. The
/// request of a delegated send is not done if the channel is full.
#[test]
fn small_messages_are_sent_at_once_and_full_channels_delegate() {
    let _watchdog = Watchdog::start();
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(WORDS);
        let ready = Channel::degree(1);
        if rank.id() == 0 {
            let threads = CommThreads::start(1)?;
            let sender = rank.sender::<[u64]>("auto", 1, channel)?;
            let mut to = threads.delegate_to(sender, &[0], Choice::Auto);
            to.set_break_even(from(BYTES + 1));
            let first = to.send(vec![0; WORDS]);
            let second = to.send(vec![1; WORDS]);
            ensure!(first.is_done() && second.is_done(), "sent by the caller");
            let third = to.send(vec![2; WORDS]);
            ensure!(!third.is_done(), "there is no room");
            rank.sender::<u32>("go", 1, ready)?.send(&0)?;
            for (n, request) in (0..).zip([first, second, third]) {
                ensure!(request.wait()? == [n; WORDS], "message {n}");
            }
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("auto", 0, channel)?;
        rank.receiver::<u32>("go", 0, ready)?.receive_timeout(LONG)?;
        for n in 0..3 {
            ensure!(*from.receive_timeout(LONG)? == [n; WORDS], "message {n}");
        }
        Ok(())
    });
}

/// Sizes around the break-even, so that both the caller and the thread send messages of a channel.
#[test]
fn the_order_is_that_of_the_calls() {
    let _watchdog = Watchdog::start();
    for degree in [0, 1, 4, 64] {
        on_all(2, |rank| {
            let channel = Channel::degree(degree).max_len(WORDS + 1);
            let len = |n: u64| WORDS - 1 + n as usize % 3;
            let count = 2000;
            if rank.id() == 0 {
                let threads = CommThreads::builder(2).wait(WaitPolicy::Adaptive).start()?;
                let sender = rank.sender::<[u64]>("auto", 1, channel)?;
                let mut to = threads.delegate_to(sender, &[0, 1], Choice::Auto);
                to.set_break_even(from(BYTES));
                for n in 0..count {
                    match n % 7 {
                        0 => drop(to.send_buffer(rank.buffer_from(&vec![n; len(n)])?)),
                        _ => drop(to.send(vec![n; len(n)])),
                    }
                }
                return Ok(());
            }
            let from = rank.receiver::<[u64]>("auto", 0, channel)?;
            for n in 0..count {
                ensure!(*from.receive_timeout(LONG)? == vec![n; len(n)], "message {n}");
            }
            Ok(())
        });
    }
}

#[test]
fn without_a_spare_thread_nothing_is_delegated() {
    let _watchdog = Watchdog::start();
    on_all(2, |rank| {
        let channel = Channel::degree(4).max_len(1 << 17);
        if rank.id() == 0 {
            let threads = CommThreads::builder(1).spare(Spare::None).start()?;
            let sender = rank.sender::<[u64]>("auto", 1, channel)?;
            let mut to = threads.delegate_to(sender, &[0], Choice::Auto);
            ensure!(to.break_even().is_none(), "{:?}", to.break_even());
            let request = to.send(vec![7; 1 << 17]);
            ensure!(request.is_done(), "sent by the caller");
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("auto", 0, channel)?;
        ensure!(from.receive_timeout(LONG)?.len() == 1 << 17, "a megabyte");
        Ok(())
    });
}

/// A message of one megabyte that notes whether another thread than its creator has copied it.
#[derive(Debug)]
struct Witness {
    words: Vec<u64>,
    maker: ThreadId,
    delegated: Arc<AtomicBool>,
}

impl Witness {
    fn new() -> (Self, Arc<AtomicBool>) {
        let delegated = Arc::new(AtomicBool::new(false));
        let maker = thread::current().id();
        (Self { words: vec![7; 1 << 17], maker, delegated: Arc::clone(&delegated) }, delegated)
    }
}

impl Borrow<[u64]> for Witness {
    fn borrow(&self) -> &[u64] {
        if thread::current().id() != self.maker {
            self.delegated.store(true, Ordering::Release);
        }
        &self.words
    }
}

/// Returns how many cores worlds have here.
fn cores() -> usize {
    World::threads(1).run(|rank| Ok(rank.cores())).unwrap()[0]
}

/// Returns whether a message of one megabyte of rank 0 is delegated, in a world of so many ranks, with so many threads
/// that never sleep.
fn is_delegated(ranks: usize, threads: usize, spare: Option<Spare>) -> bool {
    let results = World::threads(ranks).run(|rank| {
        if rank.id() != 0 {
            return Ok(false);
        }
        let threads = CommThreads::builder(threads).wait(WaitPolicy::Spin);
        let threads =
            spare.into_iter().fold(threads, |threads, spare| threads.spare(spare)).start()?;
        let channel = Channel::degree(4).max_len(1 << 17);
        let from = rank.receiver::<[u64]>("auto", 0, channel)?;
        let sender = rank.sender::<[u64]>("auto", 0, channel)?;
        let set: Vec<usize> = (0..threads.len()).collect();
        let mut to = threads.delegate_to(sender, &set, Choice::Auto);
        // A thread is running when it has found its lane.
        while rank.size() + threads.len() > rank.cores() && !rank.is_crowded() {
            thread::yield_now();
        }
        let (message, delegated) = Witness::new();
        to.send(message).wait()?;
        assert_eq!(from.receive()?.len(), 1 << 17);
        Ok(delegated.load(Ordering::Acquire))
    });
    results.unwrap()[0]
}

#[test]
fn nothing_is_delegated_where_ranks_have_every_core() {
    let _watchdog = Watchdog::start();
    assert!(!is_delegated(cores(), 1, None));
    assert!(!is_delegated(cores() + 1, 1, None));
    assert!(!is_delegated(cores() + 1, 1, Some(Spare::Core)), "more ranks than cores");
}

#[test]
fn no_more_threads_are_given_work_than_cores_are_left_over() {
    let _watchdog = Watchdog::start();
    let Some(ranks @ 1..) = cores().checked_sub(1) else { return };
    assert!(is_delegated(ranks, 1, None));
    assert!(!is_delegated(ranks, 2, None), "one core for two threads");
    assert!(is_delegated(ranks, 2, Some(Spare::Core)), "what is said is believed");
}

#[test]
fn what_a_plan_gives_to_threads_that_it_does_not_bind_is_counted() {
    let topology = Topology::read().unwrap();
    let spare = |ranks, placement| {
        let roles = vec![Role::Worker; ranks];
        let plan = KtPlan::forced(&topology, &roles, &Bind::None, placement).unwrap();
        Spare::of(&plan, &topology)
    };
    let one_for_all = KtPlacement::Skt { group: usize::MAX };
    assert_eq!(spare(0, one_for_all), Spare::None, "no threads");
    let cpus = topology.allowance().parallelism();
    assert_eq!(spare(cpus, one_for_all), Spare::None);
    assert_eq!(spare(cpus, KtPlacement::KtW), Spare::None);
    if cpus > 1 {
        assert_ne!(spare(cpus - 1, one_for_all), Spare::None);
    }
    let cores = topology.usable_cores();
    if (2..=cpus).contains(&cores) {
        assert_eq!(spare(cores - 1, one_for_all), Spare::Core);
    }
    if cores < cpus {
        assert_eq!(spare(cores, one_for_all), Spare::Sibling);
    }
}
