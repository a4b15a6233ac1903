mod formulas;
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

impl Cluster {
    fn world(&self, per_node: usize) -> World<'_> {
        World { machine: &self.machine, network: &self.network, nodes: self.nodes, per_node }
    }
}
