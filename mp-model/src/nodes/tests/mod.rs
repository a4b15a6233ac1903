mod formulas;
mod leaders;
mod library;
mod published;
mod sweeps;

use super::*;
use crate::cla::{Parameters, Placement};

/// Nodes of two sockets like those of the paper's dual-socket machine, in a loop of operations.
fn cluster(network: Network, nodes: usize, ranks: usize) -> Cluster {
    let sockets = [ranks.div_ceil(2), ranks / 2];
    let placement = Placement::packed(ranks, &sockets).unwrap();
    let parameters = Parameters::SANDY_BRIDGE.with_cached_flags();
    Cluster { machine: Machine { parameters, placement }, network, nodes }
}

/// How long a message takes between idle nodes.
fn message(network: &Network, bytes: u64) -> Time {
    network.overhead + network.latency + network.bytes(bytes) + network.overhead
}

/// How long it takes a leader to combine what has come.
fn combine(cluster: &Cluster, bytes: u64) -> Time {
    let near = cluster.machine.parameters.near;
    match bytes.div_ceil(64).max(1) {
        1 => near.memory,
        lines => near.lines.cost(1, lines),
    }
}
