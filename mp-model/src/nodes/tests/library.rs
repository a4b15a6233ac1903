//! Times of this library's steps, against formulas.

use super::*;
use crate::nodes::leaders::{Combining, PIECE, around, below};
use crate::nodes::simulation::{Arriving, Message, Simulation};

/// What a piece takes on a node: reduced at the leader, and broadcast.
fn on_node(cluster: &Cluster, bytes: u64) -> (Time, Time) {
    let machine = &cluster.machine;
    (on_node::reduce(machine, bytes).time, on_node::broadcast(machine, bytes).predicted)
}

#[test]
fn a_piece_takes_what_the_formulas_say() {
    for network in Network::ALL {
        for bytes in [8, 1000] {
            for (nodes, levels) in [(1, 0), (2, 1), (4, 2), (64, 6)] {
                let cluster = cluster(network, nodes, 8);
                let (reduce, broadcast) = on_node(&cluster, bytes);
                let doubling = levels * (message(&network, bytes) + combine(&cluster, bytes));
                let predicted = all_reduce(&cluster, bytes).library;
                assert_eq!((predicted.pieces, predicted.piece), (1, bytes));
                assert_eq!(predicted.combining, Some(Combining::Doubling));
                assert_eq!(predicted.time, reduce + doubling + broadcast);
            }
            // Each leader sends to two others and gets something from both, of which the second waits for the first.
            let cluster = cluster(network, 3, 8);
            let (reduce, broadcast) = on_node(&cluster, bytes);
            let both = message(&network, bytes) + network.overhead + 2 * combine(&cluster, bytes);
            let predicted = all_reduce(&cluster, bytes).library;
            assert_eq!(predicted.combining, Some(Combining::Everywhere));
            assert_eq!(predicted.time, reduce + both + broadcast);
        }
    }
}

/// Of seven leaders, the last one gets what its parent sends second, which itself gets what the root sends second.
#[test]
fn broadcasts_go_along_a_tree() {
    for network in Network::ALL {
        for (nodes, levels) in [(1, 0), (3, 1), (7, 2), (63, 5)] {
            let cluster = cluster(network, nodes, 8);
            let level = network.overhead + message(&network, 8);
            let time = levels * level + on_node(&cluster, 8).1;
            assert_eq!(broadcast(&cluster, 8).library.time, time, "{} {nodes}", network.name);
        }
    }
}

/// Pieces that are left out in the simulation take as long as the others.
#[test]
fn long_broadcasts_are_those_of_all_pieces() {
    for nodes in [1, 2, 5, 12] {
        let cluster = cluster(Network::HDR, nodes, 4);
        let piece = PIECE as u64;
        let mut each = Simulation::of_all(cluster.world(1));
        for pieces in 1..60 {
            for from in 0..nodes {
                let message = |to| Message { from, to, bytes: piece };
                each.round(Arriving::Kept, below(from, nodes).map(message));
            }
            each.work(on_node(&cluster, piece).1);
            let predicted = broadcast(&cluster, pieces * piece).library;
            assert_eq!((predicted.pieces, predicted.time), (pieces, each.end()), "{nodes}");
        }
    }
}

/// One leader stands for all that send around.
#[test]
fn leaders_that_send_around_do_the_same() {
    for nodes in [2, 3, 5, 8] {
        let cluster = cluster(Network::HDR, nodes, 4);
        let mut both = [Simulation::of_one(cluster.world(1)), Simulation::of_all(cluster.world(1))];
        for simulation in &mut both {
            let senders = simulation.simulated();
            let mut sent = Vec::new();
            for step in 0..nodes - 1 {
                simulation.work(Time::from_picos(1_000_000));
                let message = |from| Message {
                    from,
                    to: around(from, nodes).nth(step).unwrap(),
                    bytes: PIECE as u64,
                };
                sent.push(simulation.send((0..senders).map(message)));
            }
            for sent in sent {
                simulation.receive(Arriving::Combined, sent);
            }
        }
        assert_eq!(both[0].end(), both[1].end(), "{nodes}");
    }
}

/// A leader is busy on its node, with what it sends and receives, and with combining. That hides at least some of its waits.
#[test]
fn long_vectors_go_in_turns() {
    for network in Network::ALL {
        for nodes in [3, 4, 8, 64] {
            let cluster = cluster(network, nodes, 8);
            for turns in [1, 2, 5] {
                let pieces = turns * nodes as u64;
                let predicted = all_reduce(&cluster, pieces * PIECE as u64).library;
                assert_eq!(predicted.combining, Some(Combining::InTurns));
                assert_eq!((predicted.pieces, predicted.piece), (pieces, PIECE as u64));
                let (reduce, broadcast) = on_node(&cluster, PIECE as u64);
                let others = turns * (nodes as u64 - 1);
                let combined = others * combine(&cluster, PIECE as u64);
                let busy = pieces * (reduce + broadcast) + combined + 4 * others * network.overhead;
                assert!(predicted.time >= busy, "{nodes} {turns}");
                // Otherwise it waits for its interface, and for the latency.
                let waits = 2 * others * network.busy(PIECE as u64) + 2 * turns * network.latency;
                assert!(predicted.time <= busy + waits, "{nodes} {turns}");
            }
        }
    }
    // Short parts go together on a node.
    let predicted = all_reduce(&cluster(Network::HDR, 64, 8), 1 << 20).library;
    assert_eq!((predicted.pieces, predicted.piece, predicted.together), (64, 16_384, 4));
}

#[test]
fn one_rank_on_a_node_does_nothing_there() {
    for bytes in [0, 8, 5000, 1 << 20] {
        assert_eq!(on_node(&cluster(Network::HDR, 2, 1), bytes), (Time::ZERO, Time::ZERO));
    }
}
