//! Ranks killed at random points, for as long as one likes:
//! `cargo run --release -p mp-core --example soak -- [SECONDS] [SEED]`.
//!
//! Every round has a seed, which is printed when it fails: `soak 0 SEED` runs that round alone.

#[path = "../tests/support/mod.rs"]
#[macro_use]
mod support;

use std::time::{Duration, Instant};

use mp_core::World;
use support::{Watchdog, scenarios};

fn main() {
    let (seconds, first) = support::soak_arguments("soak [SECONDS] [SEED]", 60);
    let started = Instant::now();
    let mut rounds = 0u64;
    loop {
        let seed = first.wrapping_add(rounds);
        // A thread remembers what its worlds returned, and tells the ranks of later ones: with
        // thousands of rounds that would become more than the worlds themselves.
        let ended = std::thread::spawn(move || round(seed)).join();
        if ended.is_err() {
            std::process::exit(1);
        }
        rounds += 1;
        if started.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{rounds} rounds from seed {first}, {:?}", started.elapsed());
}

/// One world of each kind. Its ranks are told the seed by their arguments, and come straight here.
fn round(seed: u64) {
    let args = ["0".to_owned(), seed.to_string()];
    let _watchdog = Watchdog::start();
    let farm = World::processes(scenarios::FARM)
        .args(args.clone())
        .run(|rank| scenarios::farm(rank, seed));
    let churn = World::processes(scenarios::CHURN)
        .args(args.clone())
        .run(|rank| scenarios::churn(rank, seed));
    let crowd =
        World::processes(scenarios::CROWD).args(args).run(|rank| scenarios::crowd(rank, seed));
    let checks = [
        scenarios::check(farm, scenarios::farm_victim(seed)),
        scenarios::check(churn, scenarios::churn_victim(seed)),
        scenarios::check(crowd, scenarios::crowd_victim(seed)),
    ];
    let errors: Vec<_> = checks.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        eprintln!("seed {seed}: {}", errors.join("; "));
        std::process::exit(1);
    }
}
