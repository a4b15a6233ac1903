//! Ranks killed in and around critical sections, for as long as one likes:
//! `cargo run --release -p mp-delegate --example soak-critical -- [SECONDS] [SEED]`.
//!
//! Every round is a world in which one rank is killed, be it a client, the server or one that stands
//! by; rounds try all schemes in turn. Each has a seed, which is printed when it fails:
//! `soak-critical 0 SEED` runs that round alone.

#[path = "../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;
#[path = "../tests/critical/kills.rs"]
mod kills;

use std::time::{Duration, Instant};

use support::Watchdog;

fn main() {
    let (seconds, first) = support::soak_arguments("soak-critical [SECONDS] [SEED]", 60);
    let started = Instant::now();
    let mut rounds = 0u64;
    loop {
        let seed = first.wrapping_add(rounds);
        // A thread remembers what its worlds returned, and tells the ranks of later ones.
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

/// Its ranks are told the seed by their arguments, and come straight here.
fn round(seed: u64) {
    let args = ["0".to_owned(), seed.to_string()];
    let _watchdog = Watchdog::start();
    if let Err(error) = kills::check(seed, |world| world.args(args.clone())) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
