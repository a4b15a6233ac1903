//! Heat spreads over a plate, which a grid of ranks shares. Each step needs the borders of the neighbours' blocks.
//!
//! ```text
//! cargo run --release --example halo
//! mprun -n 4 target/release/examples/halo
//! ```

use onchip::communicator::{dims_create, share};
use onchip::prelude::*;
use onchip::reduce::Sum;

const SIDE: usize = 240;
const STEPS: usize = 200;

fn main() -> onchip::Result<()> {
    let heat = World::threads(4).any_size().run(|rank| {
        let world = Communicator::world(rank);
        let dimensions = dims_create(world.size(), &[0, 0])?;
        let grid = world.cartesian(&dimensions, &[false, false])?.expect("a place for every rank");
        let place = grid.coordinates(grid.rank())?;
        let own = [0, 1].map(|d| share(SIDE, dimensions[d], place[d]));
        let mut halo = grid.halo::<f64>(&[own[0].len(), own[1].len()], &[], 1)?;

        // Row by row, with a border of one element around the rank's own. The plate's border stays cold.
        let width = own[1].len() + 2;
        let mut block = vec![0.0; halo.len()];
        let middle = SIDE / 2;
        if own[0].contains(&middle) && own[1].contains(&middle) {
            block[(middle - own[0].start + 1) * width + middle - own[1].start + 1] = 1000.0;
        }
        let mut next = block.clone();
        for _ in 0..STEPS {
            halo.exchange(&mut block)?;
            for at in (1..=own[0].len()).flat_map(|row| row * width + 1..(row + 1) * width - 1) {
                let around = block[at - 1] + block[at + 1] + block[at - width] + block[at + width];
                next[at] = block[at] + 0.2 * (around - 4.0 * block[at]);
            }
            std::mem::swap(&mut block, &mut next);
        }

        let rows = (1..=own[0].len()).map(|row| &block[row * width + 1..(row + 1) * width - 1]);
        let mut total = [rows.flatten().sum::<f64>()];
        world.all_reduce(&mut total, Sum)?;
        Ok(total[0])
    })?;

    assert!(heat.iter().all(|heat| (heat - 1000.0).abs() < 1e-6), "heat was lost: {heat:?}");
    if onchip::caller() {
        println!("{} ranks kept {:.3} units of heat in {STEPS} steps", heat.len(), heat[0]);
    }
    Ok(())
}
