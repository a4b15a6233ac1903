//! The number π as the area under a curve, of which each rank takes its share.
//!
//! ```text
//! cargo run --release --example pi
//! mprun -n 2 target/release/examples/pi
//! ```

use onchip::prelude::*;

const STRIPES: usize = 20_000_000;

fn main() -> onchip::Result<()> {
    // Under mprun, as many ranks as it runs. What their code returns comes back in the order of the ranks.
    let shares = World::threads(4).any_size().run(|rank| {
        let width = 1.0 / STRIPES as f64;
        let mine = (rank.id()..STRIPES).step_by(rank.size());
        let area = |stripe: usize| {
            let x = (stripe as f64 + 0.5) * width;
            4.0 / (1.0 + x * x) * width
        };
        Ok(mine.map(area).sum::<f64>())
    })?;
    // Under mprun every rank comes here, but only one prints.
    if onchip::caller() {
        println!("{} ranks: {:.9}", shares.len(), shares.iter().sum::<f64>());
    }
    Ok(())
}
