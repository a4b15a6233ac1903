//! A reference to a vector, where a request can hold the vector itself or a slice of it.
//! first: `&mut Vec<f64>` is not a buffer of plain data that can be received into
//! first: or a slice: `&mut values[..]`

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let world = Communicator::world(rank);
        let mut values = vec![0.0f64; 100];
        world.nonblocking_receive(&mut values, 1, 0).wait()?; // wrong
        // right: world.nonblocking_receive(&mut values[..], 1, 0).wait()?;
        Ok(())
    })?;
    Ok(())
}
