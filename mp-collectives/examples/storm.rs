//! Storms of messages, collective operations and all else, for as long as one likes:
//! `cargo run --release -p mp-collectives --example storm -- [SECONDS] [SEED [RANKS [LIMIT]]]`.
//!
//! Every round has a seed. One that fails prints its program, and how to run it alone: for 0 seconds.

#[path = "../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;
#[path = "../tests/storm/mod.rs"]
mod storm;

use mp_core::World;
use support::Watchdog;

fn main() {
    support::soak("storm", round);
}

/// An argument after the seed.
fn argument(place: usize) -> Option<usize> {
    std::env::args().nth(place)?.parse().ok()
}

/// One world of each kind, of 2 to 8 ranks unless the program was told otherwise.
fn round(seed: u64) -> Result<(), String> {
    let ranks = argument(3).unwrap_or(2 + (seed % 7) as usize).max(1);
    let limit = argument(4).unwrap_or((seed / 7) as usize % storm::LIMITS.len());
    let limit = storm::LIMITS[limit % storm::LIMITS.len()];
    let told = storm::Told::new(seed, ranks, limit);
    let args = ["0".to_owned(), seed.to_string()];
    let more = std::env::args().skip(3);
    let processes = {
        let _watchdog = Watchdog::telling(told.text());
        let world = World::processes(ranks).args(args.into_iter().chain(more));
        world.run(|rank| storm::run(rank, seed, limit))
    };
    let _watchdog = Watchdog::telling(told.text());
    let threads = World::threads(ranks).run(|rank| storm::run(rank, seed, limit));
    for (kind, ended) in [("processes", processes), ("threads", threads)] {
        ended.map_err(|error| format!("{}{ranks} {kind}: {error}", told.text()))?;
    }
    Ok(())
}
