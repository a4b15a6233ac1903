//! A sender that is used while a message is being written in place.
//! first: borrow `numbers` as mutable more than once at a time
//! first: borrow later used here

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let mut numbers = rank.sender::<u64>("numbers", 1, Channel::degree(2))?;
        let mut slot = numbers.reserve()?;
        numbers.send(&1)?; // wrong
        *slot = 2;
        slot.publish()?;
        // right: numbers.send(&1)?;
        Ok(())
    })?;
    Ok(())
}
