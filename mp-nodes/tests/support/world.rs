//! Worlds on several nodes, of threads that are connected in memory.

use std::thread;

use mp_core::{Cause, Rank, Result as CoreResult};
use mp_nodes::{InMemory, Result};

use super::watchdog::Watchdog;

/// Nodes and their ranks: the border is in the middle, at the edge, or between every two ranks.
pub const WORLDS: [&[usize]; 7] =
    [&[1], &[1, 1], &[2, 1], &[1, 2], &[2, 3], &[3, 1, 4], &[1, 1, 1, 2]];

/// Runs code as the ranks of nodes with these numbers of ranks. Returns the outcomes of all ranks.
pub fn world<T: Send>(
    nodes: &[usize],
    code: impl Fn(&Rank) -> CoreResult<T> + Sync,
) -> Vec<std::result::Result<T, Cause>> {
    let _watchdog = Watchdog::start("a world on several nodes");
    let code = &code;
    thread::scope(|scope| {
        let run = |(node, ranks): (InMemory, usize)| {
            scope.spawn(move || mp_nodes::run(Box::new(node), ranks, code))
        };
        let connected = InMemory::connect(nodes.len()).into_iter();
        let threads: Vec<_> = connected.zip(nodes.iter().copied()).map(run).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect::<Result<Vec<_>>>().unwrap().into_iter().flatten().collect()
    })
}

pub fn all_succeed<T: std::fmt::Debug>(outcomes: Vec<std::result::Result<T, Cause>>) -> Vec<T> {
    outcomes.into_iter().map(|outcome| outcome.unwrap()).collect()
}
