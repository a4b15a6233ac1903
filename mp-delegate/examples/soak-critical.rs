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

use support::Watchdog;

fn main() {
    support::soak("soak-critical", round);
}

fn round(seed: u64) -> Result<(), String> {
    let args = ["0".to_owned(), seed.to_string()];
    let _watchdog = Watchdog::start();
    kills::check(seed, |world| world.args(args.clone()))
}
