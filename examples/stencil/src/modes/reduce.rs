//! An all-reduce: the largest of the numbers of all ranks, which all of them get.

use onchip::reduce::{Max, Settings};
use onchip::{Communicator, Rank};

/// One rank's part in the reduction.
pub(super) struct Largest(Communicator);

impl Largest {
    /// Opens it. All ranks of the world must do so.
    pub(super) fn open(rank: &Rank) -> Result<Self, onchip::Error> {
        // For one number at a time, little room is enough.
        let settings = Settings { chunk_lines: Some(1), slots: Some(2), ..Settings::default() };
        let all = Communicator::world(rank);
        all.set_collectives(settings)?;
        Ok(Self(all))
    }

    /// Returns the largest of all ranks' `mine`, none of which is negative or no number. All ranks must call it.
    pub(super) fn of(&self, mine: f64) -> Result<f64, onchip::Error> {
        let mut largest = [mine];
        self.0.all_reduce(&mut largest, Max)?;
        Ok(largest[0])
    }
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
                    let largest = Largest::open(rank)?;
                    let mine = if rank.id() == place { 2.5 } else { rank.id() as f64 / 100.0 };
                    Ok((largest.of(mine)?, largest.of(0.0)?))
                });
                assert_eq!(results.unwrap(), vec![(2.5, 0.0); size], "{place} of {size}");
            }
        }
    }
}
