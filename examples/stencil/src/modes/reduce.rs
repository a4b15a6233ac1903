//! An all-reduce: the largest of the numbers of all ranks, which all of them get.

use onchip::Communicator;

const UP: u32 = 0;
const DOWN: u32 = 1;

/// The largest of all ranks' `mine`, none of which is below 0 or no number. All ranks of the
/// communicator must call it.
///
/// Up a binomial tree to rank 0, and down again.
pub(super) fn largest(all: &Communicator, mine: f64) -> Result<f64, onchip::Error> {
    let (me, size) = (all.rank(), all.size());
    let mut largest = mine;
    let mut stride = 1;
    while stride < size && me % (2 * stride) == 0 {
        if me + stride < size {
            largest = largest.max(all.receive::<f64>(me + stride, UP)?.0);
        }
        stride *= 2;
    }
    // Those below me in the tree are as far away as the strides before this one.
    if me > 0 {
        all.send(&[largest], me - stride, UP)?;
        largest = all.receive::<f64>(me - stride, DOWN)?.0;
    }
    while stride > 1 {
        stride /= 2;
        if me + stride < size {
            all.send(&[largest], me + stride, DOWN)?;
        }
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use onchip::World;

    use super::*;

    #[test]
    fn every_rank_gets_the_largest() {
        for size in 1..=9 {
            for place in 0..size {
                let results = World::threads(size).run(|rank| {
                    let all = Communicator::world(rank);
                    let mine = if rank.id() == place { 2.5 } else { rank.id() as f64 / 100.0 };
                    Ok((largest(&all, mine)?, largest(&all, 0.0)?))
                });
                assert_eq!(results.unwrap(), vec![(2.5, 0.0); size], "{place} of {size}");
            }
        }
    }
}
