//! A mistake to look at: every rank waits for its neighbour before it sends anything.
//!
//! ```text
//! cargo run --example deadlock & sleep 1; mprun report; kill %1
//! mprun -n 3 --timeout 1 target/debug/examples/deadlock
//! ```

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(3).run(|rank| {
        let (me, size) = (rank.id(), rank.size());
        let mut next = rank.sender::<u64>("token", (me + 1) % size, Channel::degree(1))?;
        let previous = rank.receiver::<u64>("token", (me + size - 1) % size, Channel::degree(1))?;
        let token = *previous.receive()?;
        next.send(&(token + 1))
    })?;
    Ok(())
}
