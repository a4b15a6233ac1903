//! Ranks sort together: each sorts its own keys, and gets the keys of one range from all others (sample sort).
//!
//! ```text
//! cargo run --release --example sort
//! mprun -n 2 target/release/examples/sort
//! ```

use onchip::collectives::{At, packed};
use onchip::prelude::*;

const KEYS: usize = 250_000; // of each rank

fn main() -> onchip::Result<()> {
    let parts = World::threads(4).any_size().run(|rank| {
        let world = Communicator::world(rank);
        let size = world.size();
        let mut keys = random_keys(rank.id() as u64);
        keys.sort_unstable();

        // Every rank gives a sample of its keys. The sample's quantiles are where one rank's range ends.
        let sample: Vec<u64> = keys.iter().copied().step_by(KEYS / (16 * size)).collect();
        let mut samples = vec![0; sample.len() * size];
        world.all_gather(&sample, &mut samples)?;
        samples.sort_unstable();
        let ends = (1..size).map(|part| samples[part * samples.len() / size]);

        // First the ranks exchange how many keys go where, and then the keys.
        let mut cuts: Vec<usize> = ends.map(|end| keys.partition_point(|&key| key < end)).collect();
        cuts.insert(0, 0);
        cuts.push(KEYS);
        let blocks: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        let counts: Vec<usize> = blocks.iter().map(|block| block.len()).collect();
        let mut incoming = vec![0; size];
        world.all_to_all(&counts, &mut incoming)?;
        let mut part = vec![0; incoming.iter().sum()];
        world.all_to_all(At(&keys, &blocks), At(&mut part, packed(incoming)))?;
        part.sort_unstable();
        Ok((part.len(), part.first().copied(), part.last().copied()))
    })?;

    assert_eq!(parts.iter().map(|part| part.0).sum::<usize>(), parts.len() * KEYS);
    assert!(parts.windows(2).all(|pair| pair[0].2 <= pair[1].1), "a part begins before its turn");
    if onchip::caller() {
        let lengths: Vec<usize> = parts.iter().map(|part| part.0).collect();
        println!("{} keys in order, in parts of {lengths:?}", parts.len() * KEYS);
    }
    Ok(())
}

/// Returns pseudo-random keys (xorshift).
fn random_keys(seed: u64) -> Vec<u64> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..KEYS).map(|_| next()).collect()
}
