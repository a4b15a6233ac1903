//! Messages and collectives leave nothing uninitialised in the world's memory, because a buffer that lies there later
//! can be read. Miri knows for each byte whether it was written. The start of a world takes long, so each part uses one
//! world.

mod collectives;
mod messages;

use std::hint::black_box;

use mp_core::{Channel, Rank, Result, SharedBuffer};

/// Reads all of the world's memory that is free. `segment` is its size in bytes.
fn read_all(rank: &Rank, segment: usize) -> Result<()> {
    let other = 1 - rank.id();
    let mut to = rank.sender::<u8>("left", other, Channel::degree(1))?;
    let from = rank.receiver::<u8>("left", other, Channel::degree(1))?;
    to.send(&1)?;
    from.receive()?;
    if rank.id() == 0 {
        let mut all: Vec<SharedBuffer<u64>> = Vec::new();
        for words in [10_000, 1000, 100, 10] {
            while let Ok(buffer) = rank.buffer(words) {
                all.push(buffer);
            }
        }
        let bytes: usize = all.iter().map(|buffer| 8 * buffer.len()).sum();
        assert!(bytes > segment / 10 * 9, "only {bytes} bytes");
        // The comparison reads every byte, and Miri does it in one call.
        assert!(all.iter().all(|buffer| black_box(&buffer[..]) == &buffer[..]));
    }
    // The other rank stays until then.
    to.send(&1)?;
    from.receive().map(drop)
}
