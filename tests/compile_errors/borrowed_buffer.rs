//! A buffer that is written to while a receive into it is pending.
//! first: borrow `buffer` as mutable more than once at a time
//! first: borrow later used here

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let world = Communicator::world(rank);
        let mut buffer = vec![0u8; 4];
        let received = world.nonblocking_receive(&mut buffer[..], 1, 0);
        buffer[0] = 1; // wrong
        received.wait()?;
        // right: buffer[0] = 1;
        Ok(())
    })?;
    Ok(())
}
