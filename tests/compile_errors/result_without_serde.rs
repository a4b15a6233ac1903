//! A result of ranks that can't be carried from one process to another.
//! first: `Found` can't be carried from one process to another
//! first: derive `onchip::serde::Serialize` and `onchip::serde::Deserialize` for `Found`
//! first: #[derive(onchip::serde::Serialize, onchip::serde::Deserialize)] #[serde(crate = "onchip::serde")]

use onchip::prelude::*;

// right: #[derive(onchip::serde::Serialize, onchip::serde::Deserialize)]
// right: #[serde(crate = "onchip::serde")]
struct Found(u32);

fn main() -> onchip::Result<()> {
    let found = World::processes(2).run(|rank| Ok(Found(rank.id() as u32)))?;
    println!("{}", found[0].0);
    Ok(())
}
