//! Ranks killed at random points, for as long as one likes:
//! `cargo run --release -p mp-core --example soak -- [SECONDS] [SEED]`.
//!
//! Every round has a seed, which is printed when it fails: `soak 0 SEED` runs that round alone.

#[path = "../tests/support/mod.rs"]
#[macro_use]
mod support;

use mp_core::World;
use support::{Watchdog, scenarios};

fn main() {
    support::soak("soak", round);
}

/// One world of each kind.
fn round(seed: u64) -> Result<(), String> {
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
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}
