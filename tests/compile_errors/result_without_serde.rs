//! A result of ranks that can't be carried from one process to another.
//! first: `Found: serde::Serialize` is not satisfied
//! first: `Serialize` is not implemented for `Found`

use onchip::prelude::*;

struct Found(u32);

fn main() -> onchip::Result<()> {
    let found = World::processes(2).run(|rank| Ok(Found(rank.id() as u32)))?;
    println!("{}", found[0].0);
    Ok(())
}
