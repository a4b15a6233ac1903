//! A type that points to memory of one process.
//! first: `String` is not plain data, so a channel can't carry it
//! first: or send a slice
//! first: open the channel for slices, as in `sender::<[u8]>`, and send `text.as_bytes()`

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let text = "Ada".to_owned();
        let mut names = rank.sender::<String>("names", 1, Channel::degree(1))?; // wrong
        names.send(&text) // wrong
        // right: let mut names = rank.sender::<[u8]>("names", 1, Channel::degree(1).max_len(100))?;
        // right: names.send(text.as_bytes())
    })?;
    Ok(())
}
