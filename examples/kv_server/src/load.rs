//! The choice of operations and keys.

use crate::mix::{Distribution, Kind, Mix};
use crate::plan::Plan;
use crate::random::Random;

/// A client's operations, one after the other.
#[derive(Clone, Debug)]
pub struct Load {
    random: Random,
    mix: Mix,
    keys: usize,
    /// Of keys that are not all alike: how often one of the first is chosen, for each number of
    /// them.
    sums: Vec<f64>,
}

impl Load {
    /// Creates the operations of a client.
    pub fn new(plan: &Plan, client: usize) -> Self {
        let mut sum = 0.0;
        let sums = match plan.distribution {
            Distribution::Uniform => Vec::new(),
            Distribution::Zipf => (1..=plan.keys)
                .map(|n| {
                    sum += (n as f64).powf(-0.99);
                    sum
                })
                .collect(),
        };
        let random = Random::new(plan.seed, client as u64);
        Self { random, mix: plan.mix, keys: plan.keys, sums }
    }

    /// A key.
    pub fn key(&mut self) -> usize {
        match self.sums.last() {
            None => self.random.below(self.keys as u64) as usize,
            Some(all) => {
                let at = self.random.fraction() * all;
                self.sums.partition_point(|&sum| sum <= at).min(self.keys - 1)
            }
        }
    }

    /// Returns an operation, and its key.
    pub fn pick(&mut self) -> (Kind, usize) {
        (self.mix.pick(&mut self.random), self.key())
    }

    /// Returns any number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::plan;

    #[test]
    fn keys_are_chosen_as_often_as_they_should() {
        let often = |distribution| {
            let mut load = Load::new(&Plan { distribution, keys: 4, ..plan() }, 0);
            let mut times = [0u32; 4];
            (0..10_000).for_each(|_| times[load.key()] += 1);
            times
        };
        assert!(often(Distribution::Uniform).iter().all(|times| times.abs_diff(2500) < 300));
        // 1 + 1/2 + 1/3 + 1/4 is 25/12, but for the exponent.
        let wanted = [4780u32, 2406, 1611, 1211];
        let zipf = often(Distribution::Zipf);
        assert!(zipf.iter().zip(wanted).all(|(is, wanted)| is.abs_diff(wanted) < 300), "{zipf:?}");
    }

    #[test]
    fn clients_do_different_things_again_and_again() {
        let picks = |client| {
            let mut load = Load::new(&plan(), client);
            (0..100).map(|_| load.pick()).collect::<Vec<_>>()
        };
        assert_eq!(picks(0), picks(0));
        assert_ne!(picks(0), picks(1));
    }
}
