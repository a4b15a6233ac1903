//! How many operations a second each scheme executes on a counter: `critical-rates [ranks] [ms]`.
//!
//! One at a time, and with 32 in flight. Where there is a server it is one of the ranks.

use std::time::{Duration, Instant};

use mp_core::{Rank, Result, World};
use mp_delegate::critical::{Object, Protected, Request, Scheme, Server};

struct Counter;

impl Object for Counter {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(count: &mut u64, by: u64) -> u64 {
        *count += by;
        *count
    }
}

const IN_FLIGHT: usize = 32;

/// Operations that this rank has had executed within the time.
fn count(rank: &Rank, scheme: Scheme, in_flight: usize, time: Duration) -> Result<u64> {
    let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
    if scheme.needs_server() && rank.id() == 0 {
        let mut server = Server::new();
        server.add(counter)?;
        server.serve()?;
        return Ok(0);
    }
    // Once all are there.
    counter.apply(1)?;
    let (started, mut done) = (Instant::now(), 0);
    let mut window = std::collections::VecDeque::<Request<'_, Counter>>::with_capacity(in_flight);
    while started.elapsed() < time {
        for _ in 0..1000 {
            if in_flight == 1 {
                counter.apply(1)?;
                continue;
            }
            if window.len() == in_flight
                && let Some(oldest) = window.pop_front()
            {
                oldest.wait()?;
            }
            window.push_back(counter.submit(1)?);
        }
        done += 1000;
    }
    Ok(done)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().ok());
    let ranks = args.next().flatten().unwrap_or(2usize).max(2);
    let time = Duration::from_millis(args.next().flatten().unwrap_or(200) as u64);
    let rates = |rank: &Rank| {
        let mut rates = Vec::new();
        for scheme in Scheme::ALL {
            for in_flight in [1, IN_FLIGHT] {
                rates.push(count(rank, scheme, in_flight, time)?);
            }
        }
        Ok(rates)
    };
    let processes = World::processes(ranks).run(rates)?;
    let threads = World::threads(ranks).run(rates)?;
    println!("Mops/s of {ranks} ranks    threads: 1, {IN_FLIGHT}      processes: 1, {IN_FLIGHT}");
    let rate = |counts: &[Vec<u64>], at: usize| {
        let all: u64 = counts.iter().map(|rank| rank[at]).sum();
        all as f64 / time.as_secs_f64() / 1e6
    };
    for (at, scheme) in Scheme::ALL.into_iter().enumerate() {
        let [one, many] = [2 * at, 2 * at + 1].map(|at| (rate(&threads, at), rate(&processes, at)));
        println!("{scheme:<14} {:>10.2} {:>8.2} {:>14.2} {:>8.2}", one.0, many.0, one.1, many.1);
    }
    Ok(())
}
