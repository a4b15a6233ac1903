//! Solves a system of linear equations by conjugate gradients: each rank has some rows, sums are taken over all ranks.
//! `cargo run --release --example conjugate_gradient`

use onchip::communicator::share;
use onchip::prelude::*;
use onchip::reduce::Sum;

const ROWS: usize = 3000;

fn main() -> onchip::Result<()> {
    let worlds = World::threads(3).any_size().run(|rank| {
        let world = Communicator::world(rank);
        let rows = share(ROWS, world.size(), world.rank()).len();
        let dot = |a: &[f64], b: &[f64]| -> onchip::Result<f64> {
            let mut sum = [a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()];
            world.all_reduce(&mut sum, Sum)?;
            Ok(sum[0])
        };

        let (mut x, mut r) = (vec![0.0; rows], vec![1.0; rows]);
        let mut p = r.clone();
        let mut rr = dot(&r, &r)?;
        let mut steps = 0;
        while rr > 1e-16 {
            let q = times(&world, &p)?;
            let alpha = rr / dot(&p, &q)?;
            (0..rows).for_each(|i| (x[i], r[i]) = (x[i] + alpha * p[i], r[i] - alpha * q[i]));
            let next = dot(&r, &r)?;
            (0..rows).for_each(|i| p[i] = r[i] + next / rr * p[i]);
            (rr, steps) = (next, steps + 1);
        }
        let error = |b: &f64| (b - 1.0).abs();
        Ok((steps, times(&world, &x)?.iter().map(error).fold(0.0, f64::max)))
    })?;

    assert!(worlds.iter().all(|(_, error)| *error < 1e-8), "{worlds:?}");
    if onchip::caller() {
        println!("{ROWS} equations solved in {} steps", worlds[0].0);
    }
    Ok(())
}

/// Multiplies by the matrix with 3 in its diagonal and -1 beside it. Needs one element of each neighbour.
fn times(world: &Communicator, p: &[f64]) -> onchip::Result<Vec<f64>> {
    let (me, last) = (world.rank(), world.size() - 1);
    let ends = [p[0], p[p.len() - 1]];
    let (mut below, mut above) = ([0.0], [0.0]);
    if me > 0 {
        world.send_receive(&ends[..1], me - 1, 0, &mut below, me - 1, 0)?;
    }
    if me < last {
        world.send_receive(&ends[1..], me + 1, 0, &mut above, me + 1, 0)?;
    }
    let at = |i: Option<usize>| i.and_then(|i| p.get(i).copied());
    let row = |i: usize| {
        let (before, after) = (at(i.checked_sub(1)), at(Some(i + 1)));
        3.0 * p[i] - before.unwrap_or(below[0]) - after.unwrap_or(above[0])
    };
    Ok((0..p.len()).map(row).collect())
}
