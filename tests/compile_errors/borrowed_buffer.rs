//! A buffer that is written to while a receive into it is pending.
//! first: cannot assign to `buffer[_]` because it is borrowed
//! first: borrow later used here

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let world = Communicator::world(rank);
        let mut buffer = [0u8; 4];
        let mut exchange = world.exchange();
        exchange.receive(&mut buffer, 1, 0);
        buffer[0] = 1;
        exchange.run()?;
        Ok(())
    })?;
    Ok(())
}
