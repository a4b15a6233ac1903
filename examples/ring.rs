//! A word goes around a ring of ranks, and each adds itself to it.
//!
//! ```text
//! cargo run --example ring                                four threads
//! cargo run --example ring processes                      four processes
//! mprun -n 6 --tag-output target/debug/examples/ring      six processes
//! ```

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    let world = match std::env::args().nth(1).as_deref() {
        Some("processes") => World::processes(4),
        _ => World::threads(4),
    };
    // Under mprun, the world has as many ranks as that starts.
    world.any_size().run(|rank| {
        let (me, size) = (rank.id(), rank.size());
        let channel = Channel::degree(1).max_len(1000);
        let mut next = rank.sender::<[u8]>("ring", (me + 1) % size, channel)?;
        let previous = rank.receiver::<[u8]>("ring", (me + size - 1) % size, channel)?;

        let mut word = if me == 0 { b"it went".to_vec() } else { previous.receive()?.to_vec() };
        word.extend(format!(" {me}").bytes());
        next.send(&word)?;
        if me == 0 {
            println!("{}", String::from_utf8_lossy(&previous.receive()?));
        }
        Ok(())
    })?;
    Ok(())
}
