//! What nodes do in tests, whatever connects them.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod failing;
pub mod plain;
pub mod random;
pub mod watchdog;
pub mod world;

use std::collections::VecDeque;

use mp_nodes::{Arrived, Interconnect, Result};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// The messages that a node sends in a storm.
const MESSAGES: usize = 60;

fn random(seed: u64, node: usize) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&(node as u64).to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Returns a message that a node sends in a storm: to whom, its tag, and its bytes.
fn message(random: &mut TestRng, nodes: usize) -> (usize, u32, Vec<u8>) {
    let to = random.next_u64() as usize % nodes;
    let tag = random.next_u32() % 5;
    // Mostly short ones, and some that are longer than what a library sends at once.
    let longest = if random.next_u32().is_multiple_of(6) { 300_000 } else { 2_000 };
    let (first, len) = (random.next_u32() as usize, random.next_u64() as usize % longest);
    // No two parts of a message are the same.
    let bytes = (0..len).map(|at| (first.wrapping_add(at) ^ at >> 8) as u8).collect();
    (to, tag, bytes)
}

/// All nodes send messages to random nodes and receive what they are sent. Each checks that it gets all messages, as they
/// were sent, those of each node in their order.
pub fn storm(connection: &mut dyn Interconnect, seed: u64) -> Result<()> {
    let (node, nodes) = (connection.node(), connection.nodes());
    // What each node sends to this one: every node can compute it.
    let mut expected: Vec<VecDeque<(u32, Vec<u8>)>> = (0..nodes)
        .map(|from| {
            let mut random = random(seed, from);
            let all = (0..MESSAGES).map(|_| message(&mut random, nodes));
            all.filter(|(to, ..)| *to == node).map(|(_, tag, bytes)| (tag, bytes)).collect()
        })
        .collect();
    let mut random = random(seed, node);
    let (mut sent, mut pending) = (0, 0);
    while sent < MESSAGES || pending > 0 || expected.iter().any(|left| !left.is_empty()) {
        if sent < MESSAGES {
            let (to, tag, bytes) = message(&mut random, nodes);
            connection.send(to, tag, Box::new(bytes))?;
            sent += 1;
        }
        pending = connection.progress()?;
        while let Some(Arrived { from, tag, len }) = connection.probe()? {
            let again = connection.probe()?;
            assert_eq!(again, Some(Arrived { from, tag, len }), "it was not received");
            let mut bytes = vec![0; len];
            connection.receive_into(&mut bytes)?;
            let wanted = expected[from].pop_front().expect("no node sends so many messages");
            assert!((tag, bytes) == wanted, "node {node} got a wrong message from node {from}");
        }
        std::thread::yield_now();
    }
    assert!(connection.receive_into(&mut []).is_err(), "nothing has arrived");
    for words in 0..5 {
        let own: Vec<u64> = (0..words).map(|word| seed ^ (node as u64) << 32 ^ word).collect();
        let all = connection.all_gather(&own)?;
        let wanted =
            (0..nodes as u64).flat_map(|node| (0..words).map(move |word| seed ^ node << 32 ^ word));
        assert!(all.iter().copied().eq(wanted), "{all:?}");
    }
    Ok(())
}
