//! All messages arrive, whole and in the order of the calls.

use mp_core::{Channel, Endpoints, Error, ErrorKind, Rank, Result, World};
use mp_delegate::threads::{Choice, CommThreads, Delegated};

use crate::support::{Random, Watchdog, on_all, run_on_all_with};
use crate::wait_each;

const DEGREES: [u32; 5] = [0, 1, 3, 4, 100];
const LEN: usize = 70;

/// Returns message `n` of producer `from`.
fn message(from: usize, n: u64) -> Vec<u64> {
    let mut random = Random::new(n ^ (from as u64) << 40);
    let len = random.below(LEN as u64 + 1);
    let mut message = vec![from as u64, n];
    message.extend((0..len).map(|_| random.next()));
    message
}

/// Sends so many messages in every possible way.
fn produce(rank: &Rank, to: &mut Delegated<[u64]>, count: u64) -> Result<()> {
    let me = rank.id();
    let (mut copied, mut moved) = (Vec::new(), Vec::new());
    for n in 0..count {
        let message = message(me, n);
        match n % 5 {
            0 => drop(to.send(message.into_boxed_slice())),
            1 => moved.push(to.send_buffer(rank.buffer_from(&message)?)),
            2 if n % 10 == 2 => drop(to.send_here(message)?),
            3 => drop(to.send(std::sync::Arc::<[u64]>::from(message))),
            _ => copied.push((n, to.send(message))),
        }
        if copied.len() > 40 {
            for (n, request) in copied.drain(..) {
                ensure!(request.wait()? == self::message(me, n), "message {n} came back changed");
            }
        }
    }
    for answer in wait_each(moved) {
        answer?;
    }
    for (n, request) in copied {
        ensure!(request.wait()? == self::message(me, n), "message {n} came back changed");
    }
    Ok(())
}

/// Each producer has one channel to the last rank.
fn own_channels(rank: &Rank, threads: usize, choice: Choice, count: u64) -> Result<()> {
    let last = rank.size() - 1;
    for degree in DEGREES {
        let channel = Channel::degree(degree).max_len(LEN + 2);
        if rank.id() < last {
            let threads = CommThreads::start(threads)?;
            let set: Vec<usize> = (0..threads.len()).collect();
            let sender = rank.sender::<[u64]>("own", last, channel)?;
            produce(rank, &mut threads.delegate_to(sender, &set, choice), count)?;
            continue;
        }
        let from = (0..last)
            .map(|from| rank.receiver::<[u64]>("own", from, channel))
            .collect::<Result<Vec<_>>>()?;
        for n in 0..count {
            for (producer, from) in from.iter().enumerate() {
                ensure!(*from.receive()? == message(producer, n), "degree {degree}, message {n}");
            }
        }
        for from in from {
            let end = from.receive().err();
            ensure!(
                matches!(end.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
                "degree {degree}: {end:?}"
            );
        }
    }
    Ok(())
}

/// All producers share one channel.
fn one_channel(rank: &Rank, threads: usize, count: u64) -> Result<()> {
    let last = rank.size() - 1;
    let endpoints = Endpoints::new(0..last, [last]);
    for degree in [1, 4] {
        let channel = Channel::degree(degree).max_len(LEN + 2);
        if rank.id() < last {
            let threads = CommThreads::start(threads)?;
            let sender = rank.shared_sender::<[u64]>("all", &endpoints, channel)?;
            produce(rank, &mut threads.delegate(sender), count)?;
            continue;
        }
        let from = rank.shared_receiver::<[u64]>("all", &endpoints, channel)?;
        let mut next = vec![0; last];
        for _ in 0..count * last as u64 {
            let got = from.receive()?;
            let producer = got[0] as usize;
            ensure!(*got == message(producer, next[producer]), "degree {degree}: {:?}", &got[..2]);
            next[producer] += 1;
        }
        ensure!(from.receive().is_err(), "more than was sent");
    }
    Ok(())
}

#[test]
fn one_producer_and_one_to_four_threads() {
    for threads in 0..=4 {
        on_all(2, |rank| own_channels(rank, threads, Choice::RoundRobin, 300));
    }
}

#[test]
fn two_to_four_producers() {
    for producers in 2..=4 {
        on_all(producers + 1, |rank| {
            own_channels(rank, producers % 3 + 1, Choice::RoundRobin, 100)
        });
    }
}

#[test]
fn chosen_by_load_or_once_for_all() {
    on_all(2, |rank| own_channels(rank, 3, Choice::LeastLoaded, 300));
    on_all(2, |rank| own_channels(rank, 3, Choice::Fixed(1), 100));
    // A thread that does not exist.
    on_all(2, |rank| own_channels(rank, 1, Choice::Fixed(1), 100));
}

#[test]
fn one_channel_for_several_producers() {
    for (producers, threads) in [(1, 1), (1, 3), (2, 2), (4, 1), (4, 2)] {
        on_all(producers + 1, |rank| one_channel(rank, threads, 100));
    }
}

/// Several producers and several receivers share a channel. Returns the messages that each receiver got.
fn among_several(rank: &Rank, producers: usize, threads: usize, degree: u32) -> Result<Vec<u64>> {
    const COUNT: u64 = 40;
    let endpoints = Endpoints::new(0..producers, producers..producers + 2);
    let channel = Channel::degree(degree).max_len(LEN + 2);
    if rank.id() < producers {
        let threads = CommThreads::start(threads)?;
        let sender = rank.shared_sender::<[u64]>("several", &endpoints, channel)?;
        produce(rank, &mut threads.delegate(sender), COUNT)?;
        return Ok(Vec::new());
    }
    let from = rank.shared_receiver::<[u64]>("several", &endpoints, channel)?;
    let mut next = vec![0; producers];
    let mut got = Vec::new();
    // The channel is full by now.
    std::thread::sleep(std::time::Duration::from_millis(2));
    for received in &from {
        let received = received?;
        let (producer, n) = (received[0] as usize, received[1]);
        ensure!(*received == message(producer, n), "another message than {n} of {producer}");
        ensure!(next[producer] <= n, "message {n} of {producer} is out of order");
        next[producer] = n + 1;
        got.push(producer as u64 * COUNT + n);
    }
    Ok(got)
}

#[test]
fn every_number_of_producers_and_threads() {
    for producers in 1..=4 {
        for threads in 1..=4 {
            on_all(producers + 1, |rank| own_channels(rank, threads, Choice::RoundRobin, 30));
            on_all(producers + 1, |rank| one_channel(rank, threads, 30));
        }
    }
}

#[test]
fn several_producers_and_receivers_at_one_channel() {
    for producers in 1..=4 {
        for (threads, degree) in [(1, 4), (2, 1), (3, 4), (4, 1)] {
            let all = run_on_all_with(
                producers + 2,
                |world| world,
                |rank| among_several(rank, producers, threads, degree),
            );
            for (kind, got) in all.each() {
                let mut got = got.unwrap_or_else(|error| panic!("{kind}: {error}")).concat();
                got.sort();
                assert!(got.into_iter().eq(0..40 * producers as u64), "{kind}: not every one");
            }
        }
    }
}

/// One thread serves an emitter and its workers, as Buono's KT-generalized.
#[test]
fn threads_shared_by_all_ranks() {
    for count in [1, 2, 3] {
        let _watchdog = Watchdog::start();
        let threads = CommThreads::start(count).unwrap();
        let workers = 3;
        let sums = World::threads(workers + 2).run(|rank| {
            let channel = Channel::degree(2).max_len(100);
            let collector = rank.size() - 1;
            let me = rank.id();
            if me == 0 {
                let mut to = (1..collector)
                    .map(|worker| Ok(threads.delegate(rank.sender("work", worker, channel)?)))
                    .collect::<Result<Vec<Delegated<[u64]>>>>()?;
                for n in 0..300u64 {
                    drop(to[n as usize % workers].send(vec![n; 100]));
                }
                return Ok(0);
            }
            if me < collector {
                let work = rank.receiver::<[u64]>("work", 0, channel)?;
                let mut done =
                    threads.delegate(rank.sender::<u64>("done", collector, Channel::degree(1))?);
                for task in &work {
                    let task = task?;
                    drop(done.send(task.iter().sum::<u64>()));
                }
                return Ok(0);
            }
            let done = (1..collector)
                .map(|worker| rank.receiver::<u64>("done", worker, Channel::degree(1)))
                .collect::<Result<Vec<_>>>()?;
            let mut sum = 0;
            for n in 0..300 {
                let result = *done[n as usize % workers].receive()?;
                ensure!(result == 100 * n, "result {n}");
                sum += result;
            }
            Ok(sum)
        });
        assert_eq!(sums.unwrap()[workers + 1], 100 * 299 * 300 / 2);
    }
}

/// Single values that are stored in the node, in a box, or have no size.
#[test]
fn values_of_all_sizes() {
    fn send<T: mp_core::Plain + PartialEq + Send + Sync>(value: T) {
        let _watchdog = Watchdog::start();
        let done = World::threads(2).run(|rank| {
            let channel = Channel::degree(2);
            if rank.id() == 0 {
                let threads = CommThreads::start(2)?;
                let mut to = threads.delegate(rank.sender::<T>("value", 1, channel)?);
                let requests: Vec<_> = (0..100).map(|_| to.send(value)).collect();
                let boxed = to.send(Box::new(value));
                for answer in wait_each(requests) {
                    ensure!(answer? == value, "another value came back");
                }
                ensure!(*boxed.wait()? == value, "another value came back");
            } else {
                let from = rank.receiver::<T>("value", 0, channel)?;
                for _ in 0..101 {
                    ensure!(*from.receive()? == value, "another value");
                }
            }
            Ok(())
        });
        done.unwrap();
    }
    send(7u8);
    send(0x1234_5678_9abc_def0u64);
    send([1u64, 2, 3, 4, 5]);
    send([1u64, 2, 3, 4, 5, 6]);
    send([9u8; 32]);
    send(u128::MAX / 3);
    send(());
}

/// A short version of the soak (`cargo run --release -p mp-delegate --example soak-delegated`).
#[test]
fn many_messages_with_checksums() {
    on_all(3, |rank| {
        let channel = Channel::degree(64).max_len(8);
        let count = 20_000u64;
        if rank.id() == 0 {
            let threads = CommThreads::start(2)?;
            let mut to = (1..3)
                .map(|to| Ok(threads.delegate(rank.sender::<[u64]>("many", to, channel)?)))
                .collect::<Result<Vec<_>>>()?;
            for n in 0..count {
                for to in &mut to {
                    drop(to.send([n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)]));
                }
            }
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("many", 0, channel)?;
        for n in 0..count {
            let got = from.receive()?;
            ensure!(*got == [n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)], "message {n}: {got:?}");
        }
        ensure!(from.receive().is_err(), "more than was sent");
        Ok(())
    });
}
