//! Messages with checksums through communication threads, for as long as one likes:
//! `cargo run --release -p mp-delegate --example soak-delegated -- [MESSAGES] [SEED]`.
//!
//! A million messages, divided among worlds of threads and of processes, with one to four threads
//! and one to four producers, of all degrees, sent in every way. A world's seed is printed when it
//! fails.

#[path = "../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

use std::time::{Duration, Instant, SystemTime};

use mp_core::{Channel, Rank, Result, World};
use mp_delegate::comm::{Choice, CommThreads, Request};
use support::{Random, Watchdog};

/// Messages of one world.
const ROUND: u64 = 20_000;
const LEN: u64 = 40;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| match args.next().map(|arg| arg.parse()) {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            eprintln!("soak-delegated [MESSAGES] [SEED]");
            std::process::exit(2);
        }
    };
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let (messages, first) = (number(1_000_000), number(now));
    let started = Instant::now();
    let (mut sent, mut rounds) = (0, 0);
    while sent < messages {
        let seed = first.wrapping_add(rounds);
        // A thread remembers what its worlds returned, and tells the ranks of later ones.
        let round = std::thread::spawn(move || round(seed)).join();
        match round {
            Ok(Ok(received)) => sent += received,
            Ok(Err(error)) => {
                eprintln!("seed {seed}: {error}");
                std::process::exit(1);
            }
            Err(_) => std::process::exit(1),
        }
        rounds += 1;
    }
    println!("{sent} messages in {rounds} worlds from seed {first}, {:?}", started.elapsed());
}

/// One world; how many messages arrived. Its ranks are told the seed by their arguments, and come
/// straight here.
fn round(seed: u64) -> Result<u64> {
    let _watchdog = Watchdog::with_limit(Duration::from_secs(120));
    let mut random = Random::new(seed);
    let producers = 1 + random.below(4) as usize;
    let code = |rank: &Rank| run(rank, seed);
    let received = if seed.is_multiple_of(2) {
        World::processes(producers + 1).args(["1".to_owned(), seed.to_string()]).run(code)?
    } else {
        World::threads(producers + 1).run(code)?
    };
    Ok(received.into_iter().sum())
}

fn run(rank: &Rank, seed: u64) -> Result<u64> {
    let mut random = Random::new(seed);
    let producers = 1 + random.below(4);
    let degree = [0, 1, 2, 4, 16, 256][random.below(6) as usize];
    let channel = Channel::degree(degree).max_len(LEN as usize + 2);
    let threads = 1 + random.below(4) as usize;
    let choice = [Choice::RoundRobin, Choice::LeastLoaded, Choice::Fixed(0)];
    let choice = choice[random.below(3) as usize];
    let me = rank.id() as u64;
    let count = ROUND / producers;
    if me == producers {
        let from = (0..producers as usize)
            .map(|from| rank.receiver::<[u64]>("soak", from, channel))
            .collect::<Result<Vec<_>>>()?;
        for n in 0..count {
            for (producer, from) in from.iter().enumerate() {
                let message = from.receive()?;
                ensure!(*message == self::message(producer as u64, n), "message {n}: {message:?}");
            }
        }
        for from in &from {
            ensure!(from.receive().is_err(), "more than was sent");
        }
        return Ok(count * producers);
    }
    let threads = CommThreads::start(threads)?;
    let set: Vec<usize> = (0..threads.len()).collect();
    let sender = rank.sender::<[u64]>("soak", producers as usize, channel)?;
    let mut to = threads.delegate_to(sender, &set, choice);
    let mut random = Random::new(seed ^ me);
    let mut held: Vec<(u64, Request<Vec<u64>>)> = Vec::new();
    for n in 0..count {
        let message = message(me, n);
        match random.below(8) {
            0 => drop(to.send_buffer(rank.buffer_from(&message)?)),
            1 => drop(to.send_here(message)?),
            2 => drop(to.send(message.into_boxed_slice())),
            _ => held.push((n, to.send(message))),
        }
        while held.len() as u64 > random.below(60) {
            let at = random.below(held.len() as u64) as usize;
            let (n, request) = held.swap_remove(at);
            match random.below(3) {
                0 => drop(request),
                _ => ensure!(request.wait()? == self::message(me, n), "{n} came back changed"),
            }
        }
        if random.below(1000) == 0 {
            threads.switch(random.below(set.len() as u64) as usize, random.below(2) == 0);
        }
    }
    threads.switch_all(true);
    Ok(0)
}

/// What message `n` of a producer is: of a length of its own, and a checksum.
fn message(from: u64, n: u64) -> Vec<u64> {
    let mut random = Random::new(n ^ from << 40);
    let mut message = vec![from << 40 | n];
    message.extend((0..random.below(LEN)).map(|n| n ^ from));
    message.push(message.iter().fold(7, |sum: u64, word| sum.rotate_left(5) ^ word));
    message
}
