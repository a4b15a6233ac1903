//! How long it takes by each scheme until a rank's operation begins, in nanoseconds, after another rank has
//! come to the end of its own (a median); after one was killed in the middle of it, so that the value is
//! repaired; and after one was killed as it waited: `critical-handover [deaths]`.
//!
//! There are two ranks, which are processes. Most of what it takes after a death is for the launcher to hear
//! of it.

use std::{io::Write, time::Duration};

use mp_core::{Channel, Error, ErrorKind, Rank, Result, World};
use mp_delegate::critical::{Object, Protected, Scheme};
use nix::{
    sys::signal::{Signal, kill},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// When an operation ended, whose it was, and what it did.
struct Relay;

/// What an operation does beside.
const NOTHING: u64 = 0;
const DIE: u64 = 1;
const HOLD: u64 = 2;

/// The rank of this process.
static ME: std::sync::OnceLock<u64> = std::sync::OnceLock::new();

impl Object for Relay {
    type State = [u64; 3];
    /// The rank, and what it does.
    type Op = [u64; 2];
    /// Nanoseconds since the one before ended, whose that was, and what it did.
    type Ret = [u64; 3];

    fn apply(state: &mut [u64; 3], [rank, what]: [u64; 2]) -> [u64; 3] {
        let [ended, last, did] = state;
        let before = [now() - *ended, *last, *did];
        (*last, *did) = (rank, NOTHING);
        *ended = now();
        // Nobody else is to die of it who executes it.
        if what == DIE && ME.get() == Some(&rank) {
            *did = DIE;
            die();
        }
        if what == HOLD {
            std::thread::sleep(Duration::from_millis(20));
            *ended = now();
        }
        before
    }

    /// Whatever is there is good.
    fn repair(_: &mut [u64; 3]) -> bool {
        true
    }

    fn is_idempotent(_: &[u64; 2]) -> bool {
        true
    }
}

fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

fn die() {
    while kill(Pid::this(), Signal::SIGKILL).is_err() {}
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// Two ranks ask for one operation after the other. How long it takes after the other's.
fn handed(rank: &Rank, scheme: Scheme) -> Result<u64> {
    let me = rank.id() as u64;
    let relay = Protected::<Relay>::open(rank, "relay", scheme, |_| ())?;
    let (peer, one) = (1 - rank.id(), Channel::degree(1));
    rank.sender::<u8>("there", peer, one)?.send(&0)?;
    drop(rank.receiver::<u8>("there", peer, one)?.receive()?);
    let mut handed = Vec::new();
    for _ in 0..100_000 {
        let [since, last, _] = relay.apply([me, NOTHING])?;
        handed.extend((last != me).then_some(since));
    }
    Ok(median(handed))
}

/// Rank 1 is killed in the middle of an operation, or as it waits for one. Rank 0 says how long its own
/// takes after that: a world with deaths has no results.
fn follow(rank: &Rank, scheme: Scheme, waits: bool) -> Result<()> {
    let me = rank.id() as u64;
    let _ = ME.set(me);
    let relay = Protected::<Relay>::open(rank, "relay", scheme, |_| ())?;
    if me == 1 {
        // Rank 0 has the value.
        while relay.apply([me, NOTHING])?[1] != 0 {}
        if waits {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                die();
            });
        }
        loop {
            relay.apply([me, if waits { NOTHING } else { DIE }])?;
        }
    }
    let figure = if waits {
        relay.apply([me, NOTHING])?;
        std::thread::sleep(Duration::from_millis(2));
        relay.apply([me, HOLD])?;
        let since = now();
        relay.apply([me, NOTHING])?;
        now() - since
    } else {
        loop {
            // Its first ones say nothing yet.
            let [since, last, did] = relay.apply([me, NOTHING])?;
            if last == 1 && did == DIE {
                break since;
            }
        }
    };
    print!(" {figure:>8}");
    Ok(std::io::stdout().flush()?)
}

fn main() -> Result<()> {
    let deaths = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(4usize).max(1);
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        let handed = World::processes(2).run(|rank| handed(rank, scheme))?;
        let say = |text: &str| {
            print!("{text}");
            std::io::stdout().flush()
        };
        say(&format!("{:9} handed over {:>6}", scheme.name(), handed[0]))?;
        for (waits, what) in [(false, ", repaired"), (true, ", past a waiter")] {
            say(what)?;
            for _ in 0..deaths {
                match World::processes(2)
                    .run(|rank| follow(rank, scheme, waits))
                    .map_err(Error::into_kind)
                {
                    Err(ErrorKind::RanksFailed(failed)) if failed.failures[0].rank == 1 => {}
                    ended => drop(ended?),
                }
            }
        }
        say("\n")?;
    }
    Ok(())
}
