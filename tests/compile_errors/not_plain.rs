//! A type of the program's own that does not say that it is plain data.
//! first: `Point` is not plain data, so a channel can't carry it
//! first: derive `onchip::Pod` and `onchip::Zeroable`
//! first: #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)] #[bytemuck(crate = "onchip::bytemuck")]

use onchip::prelude::*;

#[derive(Clone, Copy)] // wrong
// right: #[repr(C)]
// right: #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)]
// right: #[bytemuck(crate = "onchip::bytemuck")]
struct Point {
    x: f64,
    y: f64,
}

fn main() -> onchip::Result<()> {
    World::threads(2).run(|rank| {
        let mut points = rank.sender::<Point>("points", 1, Channel::degree(1))?;
        points.send(&Point { x: 1.0, y: 2.0 })
    })?;
    Ok(())
}
