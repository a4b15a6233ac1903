//! A type that points to memory of one process.
//! first: `String` is not plain data, so a channel can't carry it
//! first: send its elements as a slice, `sender::<[u8]>`

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let mut names = rank.sender::<String>("names", 1, Channel::degree(1))?;
        Ok(names.send(&"Ada".to_owned())?)
    })?;
    Ok(())
}
