//! The simulation against the formulas of LogGP, and what it leaves out against what it would do.

use super::*;
use crate::nodes::algorithms::{around, gather};
use crate::nodes::simulation::{Arriving, Message, Simulation};

#[test]
fn a_ping_pong_takes_two_messages() {
    for network in Network::ALL {
        for bytes in [0, 1, 64, 65, 1 << 20] {
            let cluster = cluster(network, 2, 1);
            let mut simulation = Simulation::of_all(cluster.world(1));
            simulation.round(Arriving::Kept, [Message { from: 0, to: 1, bytes }]);
            simulation.round(Arriving::Kept, [Message { from: 1, to: 0, bytes }]);
            assert_eq!(simulation.end(), 2 * message(&network, bytes));
        }
    }
}

#[test]
fn ranks_of_a_node_share_its_interface() {
    let network = Network::HDR;
    for (ranks, bytes) in [(1, 8), (2, 0), (64, 8), (64, 100_000)] {
        let cluster = cluster(network, 2, ranks);
        let mut simulation = Simulation::of_all(cluster.world(ranks));
        let across = |from| Message { from, to: from + ranks, bytes };
        simulation.round(Arriving::Kept, (0..ranks).map(across));
        // The last one waits for the others at its own interface, and finds the other one free.
        let others = (ranks - 1) as u64 * (network.gap + network.bytes(bytes));
        assert_eq!(simulation.end(), others + message(&network, bytes));
        // From several nodes to one, they wait there.
        let cluster = super::cluster(network, ranks + 1, ranks);
        let mut simulation = Simulation::of_all(cluster.world(ranks));
        let to_one = |to| Message { from: (to + 1) * ranks, to, bytes };
        simulation.round(Arriving::Kept, (0..ranks).map(to_one));
        assert_eq!(simulation.end(), others + message(&network, bytes));
    }
}

/// That is not the order in which messages are handed over.
#[test]
fn interfaces_take_what_arrives_first() {
    let (network, long) = (Network::HDR, 1 << 20);
    let cluster = cluster(network, 4, 3);
    let mut simulation = Simulation::of_all(cluster.world(3));
    let message_of = |from, to, bytes| Message { from, to, bytes };
    // Two long ones from node 1, one after the other, and a short one from node 2.
    let round = [message_of(3, 0, long), message_of(4, 1, long), message_of(6, 2, 8)];
    simulation.round(Arriving::Kept, round);
    simulation.round(Arriving::Kept, [message_of(2, 9, 3 * long)]);
    // The short one waits for one of the long ones.
    let waited = network.gap + network.bytes(long);
    assert_eq!(simulation.end(), waited + message(&network, 8) + message(&network, 3 * long));
}

#[test]
fn scattered_broadcasts_send_each_a_block() {
    for network in Network::ALL {
        let (cluster, block) = (cluster(network, 3, 1), 1 << 20);
        // The second block waits for the first one.
        let scattered = network.gap + network.bytes(block) + message(&network, block);
        let around = 2 * message(&network, block);
        let time = Algorithm::ScatterRing.time(cluster.world(1), 3 * block);
        assert_eq!(time, scattered + around);
    }
}

#[test]
fn ranks_of_a_node_exchange_lines() {
    let cluster = cluster(Network::HDR, 1, 4);
    let p = cluster.machine.parameters;
    for (to, link) in [(1, p.near), (2, p.far)] {
        let time = |bytes| {
            let mut simulation = Simulation::of_all(cluster.world(4));
            simulation.round(Arriving::Combined, [Message { from: 0, to, bytes }]);
            simulation.end()
        };
        let told = p.near.memory + link.transfer;
        assert_eq!([0, 8, 64].map(time), [told + 2 * p.local; 3]);
        assert_eq!(time(65), 2 * p.local + told + link.lines.cost(1, 2));
    }
}

#[test]
fn leaders_take_what_the_formulas_say() {
    for network in Network::ALL {
        for (nodes, levels) in [(1, 0), (2, 1), (4, 2), (64, 6), (4096, 12)] {
            for bytes in [0, 8, 100, 1 << 20] {
                let cluster = cluster(network, nodes, 64);
                let time = |algorithm: Algorithm, bytes| algorithm.time(cluster.world(1), bytes);
                let whole = message(&network, bytes);
                assert_eq!(time(Algorithm::Binomial, bytes), levels * whole);
                let doubling = levels * (whole + combine(&cluster, bytes));
                assert_eq!(time(Algorithm::Doubling, bytes), doubling);
            }
            // Any number of nodes.
            for nodes in [nodes, nodes + 1, 3 * nodes] {
                let (cluster, block) = (cluster(network, nodes, 64), 1000);
                let bytes = block * nodes as u64;
                let rounds = nodes as u64 - 1;
                let ring = rounds * (2 * message(&network, block) + combine(&cluster, block));
                assert_eq!(Algorithm::Ring.time(cluster.world(1), bytes), ring);
                let parts = (0..).map(|round| (1_u64 << round).min(nodes as u64 - (1 << round)));
                let parts = parts.take(nodes.next_power_of_two().ilog2() as usize);
                let halving = parts.map(|blocks| {
                    2 * message(&network, blocks * block) + combine(&cluster, blocks * block)
                });
                assert_eq!(Algorithm::Halving.time(cluster.world(1), bytes), halving.sum());
            }
        }
    }
}

/// With 3 nodes, leader 1 gives leader 0 what it has, and gets the result from it.
#[test]
fn one_node_more_than_a_power_of_two_costs_two_messages() {
    for network in Network::ALL {
        let (cluster, bytes) = (cluster(network, 3, 64), 8);
        // Leader 2 has sent long before leader 0 is ready.
        let exchange = 2 * network.overhead + combine(&cluster, bytes);
        let around_it = 2 * message(&network, bytes) + combine(&cluster, bytes);
        let time = Algorithm::Doubling.time(cluster.world(1), bytes);
        assert_eq!(time, around_it + exchange);
    }
}

#[test]
fn one_node_stands_for_all_and_rounds_may_be_left_out() {
    for (nodes, ranks) in [(1, 1), (1, 7), (2, 2), (3, 4), (5, 3), (8, 8), (9, 64)] {
        for block in [1, 1000, 300_000] {
            let cluster = cluster(Network::HDR, nodes, ranks);
            let world = cluster.world(ranks);
            let all = nodes * ranks;
            let mut both = [Simulation::of_one(world), Simulation::of_all(world)];
            both.iter_mut().for_each(|one| gather(one, all, block));
            assert_eq!(both[0].end(), both[1].end(), "{nodes} {ranks} {block}");
            both.iter_mut().for_each(|one| around(one, Arriving::Combined, all, block));
            assert_eq!(both[0].end(), both[1].end(), "{nodes} {ranks} {block}");
            // Round by round.
            let mut each = Simulation::of_all(world);
            gather(&mut each, all, block);
            for _ in 1..all {
                let next = |from| Message { from, to: (from + 1) % all, bytes: block };
                each.round(Arriving::Combined, (0..all).map(next));
            }
            assert_eq!(each.end(), both[0].end(), "{nodes} {ranks} {block}");
        }
    }
}

#[test]
fn one_node_takes_its_own_time_and_one_rank_none() {
    for bytes in [0, 8, 64, 65, 5000, 1 << 20] {
        let one = cluster(Network::HDR, 1, 64);
        let (all_reduce, broadcast) = (all_reduce(&one, bytes), broadcast(&one, bytes));
        let (reduced, spread) =
            (on_node::reduce(&one.machine, bytes).time, on_node::broadcast(&one.machine, bytes));
        assert_eq!((all_reduce.two_level.chunks, broadcast.two_level.chunks), (1, 1));
        assert_eq!(all_reduce.two_level.time, reduced + spread.predicted);
        assert_eq!(broadcast.two_level.time, spread.predicted);
        let alone = cluster(Network::HDR, 1, 1);
        assert_eq!(super::all_reduce(&alone, bytes).flat.time, Time::ZERO);
        assert_eq!(super::broadcast(&alone, bytes).flat.time, Time::ZERO);
        // None counts as one.
        let none = Cluster { nodes: 0, ..one };
        assert_eq!(super::all_reduce(&none, bytes), all_reduce);
    }
}

#[test]
fn networks_have_names() {
    for network in Network::ALL {
        assert_eq!(Network::named(network.name), Some(network));
    }
    assert_eq!(Network::named("avian"), None);
}
