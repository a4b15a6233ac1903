//! Messages with checksums through communication threads, for as long as one likes:
//! `cargo run --release -p mp-delegate --example soak-delegated -- [MESSAGES] [SEED]`.
//!
//! A million messages, divided among worlds of threads and of processes, of all degrees, sent in
//! every way: some to one rank, from one to four producers with one to four threads each, some of
//! them taken back; some in farms, with the threads in every place. A world's seed is printed when
//! it fails.

#[path = "../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;
#[path = "../tests/threads/farm.rs"]
mod farm;

use std::time::{Duration, Instant};

use farm::Farm;
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World, topology::KtPlacement};
use mp_delegate::threads::{Choice, CommThreads, Request};
use support::{Random, Watchdog};

/// Messages of one world.
const ROUND: u64 = 20_000;
const LEN: u64 = 40;

fn main() {
    let (messages, first) = support::soak_arguments("soak-delegated [MESSAGES] [SEED]", 1_000_000);
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
    // The command line of ranks that are processes.
    let arguments = ["1".to_owned(), seed.to_string()];
    let processes = seed.is_multiple_of(2);
    if (seed / 2).is_multiple_of(2) {
        let shared = random.below(2) == 0;
        let degree = [1, 2, 4, 16, 0][random.below(if shared { 4 } else { 5 }) as usize];
        let farm = Farm {
            placement: KtPlacement::ALL[random.below(5) as usize],
            workers: 1 + random.below(4) as usize,
            degree,
            shared,
            // And as many results.
            tasks: ROUND / 2,
        };
        let results =
            if processes { farm.processes(Some(arguments.into()))? } else { farm.threads()? };
        return Ok(2 * results);
    }
    let producers = 1 + random.below(4) as usize;
    let code = |rank: &Rank| run(rank, seed);
    let received = if processes {
        World::processes(producers + 1).args(arguments).run(code)?
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
        let (mut next, mut received) = (vec![0; from.len()], vec![0; from.len()]);
        let mut open: Vec<usize> = (0..from.len()).collect();
        while !open.is_empty() {
            for at in (0..open.len()).rev() {
                let producer = open[at];
                let message = match from[producer].receive().map_err(Error::into_kind) {
                    Ok(message) => message,
                    Err(ErrorKind::Disconnected { .. }) => {
                        open.swap_remove(at);
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                let n = message[0] & ((1 << 40) - 1);
                ensure!(*message == self::message(producer as u64, n), "message {n}: {message:?}");
                ensure!(next[producer] <= n, "message {n} is out of order");
                next[producer] = n + 1;
                received[producer] += 1;
            }
        }
        for (producer, received) in received.iter().enumerate() {
            let back = rank.receiver::<u64>("taken back", producer, Channel::degree(1))?;
            let back = *back.receive()?;
            ensure!(received + back == count, "{received} arrived, {back} were taken back");
        }
        return Ok(count * producers);
    }
    let threads = CommThreads::start(threads)?;
    let set: Vec<usize> = (0..threads.len()).collect();
    let sender = rank.sender::<[u64]>("soak", producers as usize, channel)?;
    let mut to = threads.delegate_to(sender, &set, choice);
    let mut random = Random::new(seed ^ me);
    let mut held: Vec<(u64, Request<Vec<u64>>)> = Vec::new();
    let mut taken_back = 0;
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
            match random.below(4) {
                0 => drop(request),
                1 => match request.cancel() {
                    Ok(message) => {
                        ensure!(message == self::message(me, n), "{n} came back changed");
                        taken_back += 1;
                    }
                    Err(done) => drop(done.wait()?),
                },
                _ => ensure!(request.wait()? == self::message(me, n), "{n} came back changed"),
            }
        }
        if random.below(1000) == 0 {
            threads.switch(random.below(set.len() as u64) as usize, random.below(2) == 0);
        }
    }
    threads.switch_all(true);
    drop(to);
    rank.sender::<u64>("taken back", producers as usize, Channel::degree(1))?.send(&taken_back)?;
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
