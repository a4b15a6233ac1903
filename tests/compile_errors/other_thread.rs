//! A communicator that another thread uses.
//! first: cannot be shared between threads safely
//! first: within `onchip::Communicator`

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let world = Communicator::world(rank); // wrong
        std::thread::scope(|scope| {
            scope.spawn(|| world.send(&[1u8], 1, 0)); // wrong
            // right: scope.spawn(|| Communicator::world(rank).send(&[1u8], 1, 0));
        });
        Ok(())
    })?;
    Ok(())
}
