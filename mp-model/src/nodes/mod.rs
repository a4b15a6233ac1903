//! Several nodes that a network joins: all-reduce and broadcast in virtual time, on two levels and flat.
//!
//! On two levels, the ranks of each node reduce to a leader, the leaders do the operation among themselves, and each
//! leader broadcasts the result on its node. That is what this library does; its leaders take the steps in [`leaders`].
//! For comparison, the leaders can leave their part to the network's library, for which the fastest of its known algorithms
//! stands. Long messages are then cut into chunks: a communication thread of each leader has one, while the ranks of the
//! node reduce another one and broadcast a third. A flat operation takes no notice of nodes: all ranks take part in one
//! algorithm, and share the interfaces of their nodes.
//!
//! The model is optimistic. All ranks begin at the same time, nothing disturbs them, and the network has no limits but
//! the interfaces. `tests/published.rs` compares it with a real system.
//!
//! ```
//! use mp_model::cla::Machine;
//! use mp_model::nodes::{self, Cluster, Network};
//!
//! let cluster = Cluster { machine: Machine::sandy_bridge(16)?, network: Network::HDR, nodes: 1000 };
//! let all_reduce = nodes::all_reduce(&cluster, 1 << 13);
//! assert!(all_reduce.library.time < all_reduce.flat.time);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `network.rs` | LogGP parameters of networks |
//! | `simulation.rs` | ranks, interfaces and messages in virtual time |
//! | `algorithms.rs` | the algorithms of libraries for networks, among leaders or all ranks |
//! | `leaders.rs`, `library.rs` | what the leaders do in this library, and how long all of it takes |
//! | `on_node.rs` | what the ranks of a node do among themselves |

mod algorithms;
pub mod leaders;
mod library;
mod network;
mod on_node;
mod simulation;

pub use algorithms::{Algorithm, Run};
pub use library::Library;
pub use network::Network;
pub use on_node::OnNode;

use self::simulation::World;
use crate::Time;
use crate::cla::Machine;
use crate::cla::search::OutwardChoice;

#[cfg(test)]
mod tests;

/// Equal nodes, and the network between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The costs of lines, and the ranks of each node.
    pub machine: Machine,
    /// The network.
    pub network: Network,
    /// The number of nodes. None counts as one.
    pub nodes: usize,
}

impl Cluster {
    fn world(&self, per_node: usize) -> World<'_> {
        let Cluster { machine, network, nodes } = self;
        World { machine, network, nodes: (*nodes).max(1), per_node }
    }
}

/// How long an operation takes, from when all ranks begin to when the last one is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// As this library does it.
    pub library: Library,
    /// On two levels, with an algorithm of the network's library among the leaders.
    pub two_level: TwoLevel,
    /// Among all ranks, by the algorithm that is fastest then.
    pub flat: Run,
}

/// An operation on two levels, of which the upper one is that of the network's library. The three times in it are those of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLevel {
    /// How many chunks there are.
    pub chunks: u64,
    /// The bytes of a chunk.
    pub chunk: u64,
    /// How the ranks of each node reduce to their leader. A broadcast doesn't.
    pub reduce: Option<OnNode>,
    /// What the leaders do.
    pub leaders: Run,
    /// How each leader broadcasts on its node.
    pub broadcast: OutwardChoice,
    /// The time of the whole.
    pub time: Time,
}

/// The least bytes of a chunk, if there are several.
const LEAST_CHUNK: u64 = 4096;

/// Predicts an all-reduce of a vector of `bytes` bytes.
pub fn all_reduce(cluster: &Cluster, bytes: u64) -> Prediction {
    let library = library::all_reduce(cluster.world(1), bytes);
    predict(cluster, bytes, library, Some(on_node::reduce), &Algorithm::ALL_REDUCES)
}

/// Predicts a broadcast of `bytes` bytes from a leader.
pub fn broadcast(cluster: &Cluster, bytes: u64) -> Prediction {
    let library = library::broadcast(cluster.world(1), bytes);
    predict(cluster, bytes, library, None, &Algorithm::BROADCASTS)
}

fn predict(
    cluster: &Cluster,
    bytes: u64,
    library: Library,
    reduce: Option<fn(&Machine, u64) -> OnNode>,
    algorithms: &[Algorithm],
) -> Prediction {
    let machine = &cluster.machine;
    let best = |per_node, bytes| {
        Algorithm::best(algorithms, cluster.world(per_node), bytes).expect("there are algorithms")
    };
    let in_chunks = |chunks: u64| {
        let chunk = bytes.div_ceil(chunks);
        let reduce = reduce.map(|reduce| reduce(machine, chunk));
        let (leaders, broadcast) = (best(1, chunk), on_node::broadcast(machine, chunk));
        let on_node = reduce.map_or(Time::ZERO, |reduce| reduce.time) + broadcast.predicted;
        // What takes longest determines when the next chunk follows.
        let next = on_node.max(leaders.time);
        let time = on_node + leaders.time + (chunks - 1) * next;
        TwoLevel { chunks, chunk, reduce, leaders, broadcast, time }
    };
    let more =
        (1..u64::BITS).map(|bit| 1 << bit).take_while(|chunks| bytes / chunks >= LEAST_CHUNK);
    let fastest =
        |best: TwoLevel, other: TwoLevel| if other.time < best.time { other } else { best };
    let two_level = more.map(in_chunks).fold(in_chunks(1), fastest);
    Prediction { library, two_level, flat: best(machine.ranks(), bytes) }
}
