//! Storms of messages and collective operations, for as long as one likes:
//! `cargo run --release -p mp-collectives --example storm -- [SECONDS] [SEED]`.
//!
//! Every round has a seed, which is printed when it fails: `storm 0 SEED` runs that round alone.

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

/// One world of each kind, of 2 to 8 ranks.
fn round(seed: u64) -> Result<(), String> {
    let ranks = 2 + (seed % 7) as usize;
    let limit = storm::LIMITS[(seed / 7) as usize % storm::LIMITS.len()];
    let args = ["0".to_owned(), seed.to_string()];
    let processes = {
        let _watchdog = Watchdog::start();
        World::processes(ranks).args(args).run(|rank| storm::run(rank, seed, limit))
    };
    let _watchdog = Watchdog::start();
    let threads = World::threads(ranks).run(|rank| storm::run(rank, seed, limit));
    for (kind, ended) in [("processes", processes), ("threads", threads)] {
        ended.map_err(|error| format!("{ranks} {kind}: {error}"))?;
    }
    Ok(())
}
