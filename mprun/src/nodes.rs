//! `mprun explain --nodes`: what a simulation of several nodes and the network between them predicts.

use std::fmt::Write as _;

use mp_model::cla::outward::Outward;
use mp_model::cla::{Machine, Tree};
use mp_model::in_order::Shape;
use mp_model::nodes::leaders::{Combining, distances};
use mp_model::nodes::{self, Algorithm, Cluster, Network, OnNode, Prediction, TwoLevel};
use onchip::collectives::Collective;

use crate::drawn::draw;

/// The most nodes.
const MOST_NODES: i64 = 4096;
/// The largest number of ranks on all nodes together. A simulation of that size takes seconds.
const MOST_RANKS: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub struct Nodes {
    /// How many nodes: simulates a broadcast or an all-reduce among all their ranks, and measures nothing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_NODES))]
    nodes: Option<u32>,
    /// The network between the nodes: infiniband-hdr or slingshot-10
    #[arg(long, value_name = "NAME", requires = "nodes", value_parser = network)]
    #[arg(default_value = Network::HDR.name)]
    network: Network,
}

fn network(name: &str) -> Result<Network, String> {
    let names = || Network::ALL.map(|network| network.name).join(" or ");
    Network::named(name).ok_or_else(|| format!("it is {}", names()))
}

type Error = Box<dyn std::error::Error>;

impl Nodes {
    /// Returns an error if the operation can't be simulated with this number of ranks on each node. Returns `Ok` if no
    /// number of nodes is given.
    pub fn check(&self, collective: Collective, ranks: u32) -> Result<(), String> {
        let Some(nodes) = self.nodes else { return Ok(()) };
        if !matches!(collective, Collective::Broadcast | Collective::AllReduce) {
            let name = collective.name().replace('_', "-");
            return Err(format!(
                "{name} is not simulated on several nodes: with --nodes, name broadcast or all-reduce"
            ));
        }
        match u64::from(nodes) * u64::from(ranks) {
            ..=MOST_RANKS => Ok(()),
            all => Err(format!(
                "{all} ranks on all nodes are too many: up to {MOST_RANKS} are simulated"
            )),
        }
    }

    /// Returns what is predicted for nodes like this machine, if nodes are given.
    pub fn simulated(
        &self,
        collective: Collective,
        bytes: u64,
        machine: &Machine,
        cores: usize,
    ) -> Result<Option<String>, Error> {
        let Some(nodes) = self.nodes else { return Ok(None) };
        let (machine, network, nodes) = (machine.clone(), self.network, nodes as usize);
        let crowded = machine.ranks() > cores;
        let cluster = Cluster { machine, network, nodes };
        let (name, predicted) = match collective {
            Collective::Broadcast => ("broadcast", nodes::broadcast(&cluster, bytes)),
            _ => ("all-reduce", nodes::all_reduce(&cluster, bytes)),
        };
        let mut text = head(&cluster, name, bytes)?;
        if crowded {
            writeln!(text, "as if each rank had a core")?;
        }
        levels(&mut text, &cluster, &predicted)?;
        Ok(Some(text))
    }
}

fn head(cluster: &Cluster, name: &str, bytes: u64) -> Result<String, std::fmt::Error> {
    let Cluster { machine, network, nodes } = cluster;
    let (ranks, per_byte) = (machine.ranks(), 1e3 / network.bytes_per_micro as f64);
    let mut text = String::new();
    writeln!(text, "simulated: {name} of {bytes} bytes on {nodes} nodes of {ranks} ranks")?;
    write!(text, "network: {}, L = {}, o = {}, ", network.name, network.latency, network.overhead)?;
    writeln!(text, "g = {:.1} ns, G = {per_byte:.3} ns", network.gap.as_nanos())?;
    Ok(text)
}

/// Draws what this library does on each node and among the leaders, and says how long that takes otherwise.
fn levels(text: &mut String, cluster: &Cluster, predicted: &Prediction) -> Result<(), Error> {
    let Prediction { library, two_level, flat } = predicted;
    let placement = &cluster.machine.placement;
    if library.pieces > 1 {
        writeln!(text, "in {} pieces of {} bytes, each by", library.pieces, library.piece)?;
    }
    if library.together > 1 {
        writeln!(text, "on a node, {} pieces together", library.together)?;
    }
    match library.reduce {
        Some(OnNode { lambda: Some(lambda), time }) => {
            writeln!(text, "on each node, all reduce to their leader: {time}")?;
            let places = Shape::new(placement.ranks(), lambda).places(0).unwrap_or_default();
            draw(text, &Tree::in_order(0, &places)?);
        }
        Some(OnNode { lambda: None, time }) => {
            writeln!(text, "on each node, each combines a part, which the leader gets: {time}")?;
        }
        None => {}
    }
    match library.combining {
        Some(combining) => writeln!(text, "among the leaders, {combining}")?,
        None => writeln!(text, "among the leaders, a binary tree")?,
    }
    steps(text, library.combining, cluster.nodes)?;
    let spread = library.broadcast;
    writeln!(text, "on each node, the leader broadcasts: {}", spread.predicted)?;
    draw(text, &Outward::new(placement, spread.between, spread.within).tree(0)?);
    writeln!(text, "simulated: {}", library.time)?;
    writeln!(text, "simulated with an MPI library among the leaders: {}", two_level.time)?;
    let TwoLevel { chunks, chunk, leaders, .. } = two_level;
    if *chunks > 1 {
        writeln!(text, "  in {chunks} chunks of {chunk} bytes, each by")?;
    }
    writeln!(text, "  {}: {}", leaders.algorithm, leaders.time)?;
    course(text, leaders.algorithm, cluster.nodes)?;
    let all = cluster.nodes * placement.ranks();
    writeln!(text, "simulated without levels: {}", flat.time)?;
    writeln!(text, "  among all {all} ranks, {}", flat.algorithm)?;
    writeln!(text, "measured: not, on several nodes")?;
    Ok(())
}

/// Says which leader sends to which in this library: how they combine, or how they broadcast.
fn steps(text: &mut String, combining: Option<Combining>, nodes: usize) -> std::fmt::Result {
    match combining {
        Some(Combining::Doubling) => course(text, Algorithm::Doubling, nodes),
        Some(Combining::Everywhere) => writeln!(text, "  all to all others"),
        Some(Combining::InTurns) => {
            writeln!(text, "  a piece to each other one, then the result of its own to all others")
        }
        None if nodes == 1 => writeln!(text, "  nobody sends anything"),
        None => writeln!(text, "  leader i to leaders 2i + 1 and 2i + 2"),
    }
}

/// Says which leader sends to which in an algorithm.
fn course(text: &mut String, algorithm: Algorithm, nodes: usize) -> std::fmt::Result {
    let near_first = |below| distances(below).map(|far| far.to_string()).collect::<Vec<_>>();
    let (places, near) = (1 << nodes.ilog2(), near_first(nodes).join(", "));
    let far = near_first(nodes).into_iter().rev().collect::<Vec<_>>().join(", ");
    let others = nodes - 1;
    let last = "then a block to the next one";
    match algorithm {
        _ if others == 0 => writeln!(text, "  nobody sends anything"),
        Algorithm::Binomial => writeln!(text, "  all to the one at distance {far}"),
        Algorithm::ScatterDoubling => {
            writeln!(text, "  blocks to the one at distance {far}, then {near}")
        }
        Algorithm::ScatterRing => {
            writeln!(text, "  blocks to the one at distance {far}, {last}, {others} times")
        }
        Algorithm::Doubling => {
            let near = near_first(places).join(", ");
            writeln!(text, "  all with the one at distance {near}")?;
            match nodes - places {
                0 => Ok(()),
                more => writeln!(
                    text,
                    "  {more} others give theirs to a neighbour before that, and get the result from it"
                ),
            }
        }
        Algorithm::Halving => {
            writeln!(
                text,
                "  blocks to combine to the one at distance {far}, then results to {near}"
            )
        }
        Algorithm::Ring => {
            writeln!(
                text,
                "  a block to combine to the next one, {others} times, {last}, {others} times"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(nodes: u32, collective: Collective, bytes: u64) -> String {
        let args = Nodes { nodes: Some(nodes), network: Network::HDR };
        let machine = Machine::sandy_bridge(4).unwrap();
        args.simulated(collective, bytes, &machine, 4).unwrap().unwrap()
    }

    #[test]
    fn both_levels_are_drawn() {
        let drawn = text(6, Collective::AllReduce, 8);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "simulated: all-reduce of 8 bytes on 6 nodes of 4 ranks");
        assert!(
            lines[1].starts_with("network: infiniband-hdr, L = 1.074 µs, o = 0.248 µs, g = 4.7 ns")
        );
        let levels = [
            "on each node, all reduce",
            "among the leaders, recursive doubling",
            "on each node, the",
        ];
        let at = levels.map(|level| lines.iter().position(|line| line.starts_with(level)).unwrap());
        assert!(at.is_sorted(), "{drawn}");
        // A tree on the node, the leaders' distances, and again a tree.
        assert_eq!(lines[at[0] + 1..at[1]].len(), 4, "{drawn}");
        assert_eq!(lines[at[1] + 1], "  all with the one at distance 1, 2");
        assert!(lines[at[1] + 2].starts_with("  2 others give theirs to a neighbour"), "{drawn}");
        assert_eq!(lines[at[2] + 1..at[2] + 5].first(), Some(&"  0"), "{drawn}");
        assert!(lines[at[2] + 5].starts_with("simulated: "), "{drawn}");
        let other = "simulated with an MPI library among the leaders: ";
        assert!(drawn.contains(other) && drawn.contains("  recursive doubling: "), "{drawn}");
        assert!(drawn.contains("among all 24 ranks, ") && !drawn.contains("chunks"), "{drawn}");
        assert_eq!(lines.last(), Some(&"measured: not, on several nodes"));
    }

    #[test]
    fn long_messages_go_in_pieces() {
        let drawn = text(64, Collective::AllReduce, 1 << 26);
        for fact in [
            "in 1024 pieces of 65536 bytes",
            "among the leaders, each combines a part\n  a piece to each other one, ",
            "  in 64 chunks of 1048576 bytes",
            "distance 32, 16, 8, 4, 2, 1, ",
        ] {
            assert!(drawn.contains(fact), "{fact}: {drawn}");
        }
        let drawn = text(64, Collective::AllReduce, 1 << 20);
        assert!(
            drawn.contains("64 pieces of 16384 bytes, each by\non a node, 4 pieces together\n")
        );
        let drawn = text(64, Collective::Broadcast, 8);
        assert!(drawn.contains("  leader i to leaders 2i + 1 and 2i + 2\n"), "{drawn}");
        assert!(drawn.contains("  all to the one at distance 32, 16, 8, 4, 2, 1\n"), "{drawn}");
        assert!(!drawn.contains("reduce") && !drawn.contains("pieces"), "{drawn}");
        assert!(text(1, Collective::Broadcast, 8).contains("  nobody sends anything\n"));
        let drawn = text(3, Collective::AllReduce, 8);
        assert!(drawn.contains("among the leaders, each combines all\n  all to all others\n"));
    }

    #[test]
    fn what_is_not_simulated_is_said() {
        let several = Nodes { nodes: Some(4096), network: Network::HDR };
        assert_eq!(several.check(Collective::AllReduce, 256), Ok(()));
        let many = several.check(Collective::AllReduce, 257).unwrap_err();
        assert!(many.contains("1052672 ranks on all nodes are too many"), "{many}");
        let scan = several.check(Collective::ReduceScatter, 2).unwrap_err();
        assert!(scan.starts_with("reduce-scatter is not simulated"), "{scan}");
        let one = Nodes { nodes: None, network: Network::HDR };
        assert_eq!(one.check(Collective::Scan, 4096), Ok(()));
        assert!(network("avian").unwrap_err().contains("infiniband-hdr or slingshot-10"));
    }
}
