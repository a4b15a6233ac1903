//! Storms of tagged messages, for as long as one likes:
//! `cargo run --release -p mp-comm --example storm -- [SECONDS] [SEED]`.
//!
//! Every round has a seed, which is printed when it fails: `storm 0 SEED` runs that round alone.

#[path = "../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;
#[path = "../tests/storm/mod.rs"]
mod storm;

use std::time::{Duration, Instant};

use mp_core::World;
use support::Watchdog;

fn main() {
    let (seconds, first) = support::soak_arguments("storm [SECONDS] [SEED]", 60);
    let started = Instant::now();
    let mut rounds = 0u64;
    loop {
        let seed = first.wrapping_add(rounds);
        // A thread remembers what its worlds returned, and tells the ranks of later ones: with
        // thousands of rounds that would become more than the worlds themselves.
        if std::thread::spawn(move || round(seed)).join().is_err() {
            std::process::exit(1);
        }
        rounds += 1;
        if started.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{rounds} rounds from seed {first}, {:?}", started.elapsed());
}

/// One world of each kind, of 2 to 8 ranks. Its ranks are told the seed by their arguments, and come
/// straight here.
fn round(seed: u64) {
    let ranks = 2 + (seed % 7) as usize;
    let args = ["0".to_owned(), seed.to_string()];
    let processes = {
        let _watchdog = Watchdog::start();
        World::processes(ranks).args(args).run(|rank| storm::run(rank, seed))
    };
    let _watchdog = Watchdog::start();
    let threads = World::threads(ranks).run(|rank| storm::run(rank, seed));
    for (kind, ended) in [("processes", processes), ("threads", threads)] {
        if let Err(error) = ended {
            eprintln!("seed {seed}, {ranks} {kind}: {error}");
            std::process::exit(1);
        }
    }
}
