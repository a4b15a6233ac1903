//! Farms with their threads in every place. A million messages of them:
//! `cargo run --release -p mp-delegate --example soak-delegated -- 1000000`.

use mp_core::topology::KtPlacement;

use crate::{farm::Farm, support::Watchdog};

const TASKS: u64 = 300;

fn placements() -> impl Iterator<Item = KtPlacement> {
    let more = [
        KtPlacement::Skt { group: 2 },
        KtPlacement::Specialized { emitter_kts: Some(2), group: 1 },
        KtPlacement::Generalized { kts: Some(1) },
    ];
    KtPlacement::ALL.into_iter().chain(more)
}

fn farms() -> impl Iterator<Item = Farm> {
    placements().enumerate().flat_map(|(i, placement)| {
        [(0, false), (1, false), (4, false), (1, true), (4, true)].map(|(degree, shared)| Farm {
            placement,
            workers: 1 + (i + degree as usize) % 3,
            degree,
            shared,
            tasks: TASKS,
        })
    })
}

#[test]
fn in_every_place_with_threads() {
    for farm in farms() {
        let _watchdog = Watchdog::start();
        assert_eq!(farm.threads().unwrap_or_else(|error| panic!("{farm:?}: {error}")), TASKS);
    }
}

#[test]
fn in_every_place_with_processes() {
    for farm in farms() {
        let _watchdog = Watchdog::start();
        let count = farm.processes(None).unwrap_or_else(|error| panic!("{farm:?}: {error}"));
        assert_eq!(count, TASKS);
    }
}
