//! The choice of operations and keys.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use example_support::display_as_on_the_command_line;
use serde::{Deserialize, Serialize};

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks for a value.
    Get,
    /// Gives a key a value.
    Put,
    /// Removes a key.
    Remove,
    /// Gives a key a value, if it has the one that the client has seen last.
    Swap,
}

/// How often each operation is chosen, in proportion to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix(pub [u32; 4]);

impl Mix {
    const KINDS: [Kind; 4] = [Kind::Get, Kind::Put, Kind::Remove, Kind::Swap];

    /// Returns a mix with `percent` gets of 100 operations; half of the others give a key a value, a quarter each
    /// remove and compare.
    pub fn reading(percent: u32) -> Self {
        let writing = 100 - percent.min(100);
        Self([4 * (100 - writing), 2 * writing, writing, writing])
    }

    fn pick(self, random: &mut Random) -> Kind {
        let mut at = random.below(self.0.iter().map(|&n| u64::from(n)).sum());
        let mut kinds = Self::KINDS.into_iter().zip(self.0);
        let chosen = kinds.find(|&(_, weight)| {
            let is = at < u64::from(weight);
            at = at.saturating_sub(weight.into());
            is
        });
        chosen.map_or(Kind::Get, |(kind, _)| kind)
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[get, put, remove, swap]) => {
                let mix = [get, put, remove, swap];
                let sum: u64 = mix.map(u64::from).iter().sum();
                if sum == 0 { Err("no operation is left".to_owned()) } else { Ok(Self(mix)) }
            }
            _ => Err("not four numbers, like 80,10,5,5".to_owned()),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: f64 = self.0.iter().map(|&n| f64::from(n)).sum();
        let names = ["get", "put", "remove", "compare and swap"];
        let parts: Vec<String> = { self.0.iter().zip(names) }
            .filter(|&(&n, _)| n > 0)
            .map(|(&n, name)| format!("{:.0}% {name}", 100.0 * f64::from(n) / all))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

/// How often which key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All alike
    Uniform,
    /// Few often, most seldom: the n-th in proportion to 1 / n^0.99
    Zipf,
}

display_as_on_the_command_line!(Distribution);

/// Random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the numbers of one of several clients that have the same seed.
    pub fn new(seed: u64, of: u64) -> Self {
        Self(crate::data::mixed(seed) ^ crate::data::mixed(!of))
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::data::mixed(self.0)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

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
    pub fn new(plan: &crate::plan::Plan, client: usize) -> Self {
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

    /// Returns a key.
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
    fn mixes() {
        assert_eq!("80,10,5,5".parse::<Mix>().unwrap(), Mix([80, 10, 5, 5]));
        assert_eq!(
            Mix([80, 10, 5, 5]).to_string(),
            "80% get, 10% put, 5% remove, 5% compare and swap"
        );
        assert_eq!(Mix::reading(100).to_string(), "100% get");
        assert_eq!(Mix::reading(0).to_string(), "50% put, 25% remove, 25% compare and swap");
        for bad in ["", "1", "1,2,3", "1,2,3,4,5", "1,2,3,-4", "0,0,0,0", "a,b,c,d"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
        let mut random = Random::new(1, 2);
        let mut times = [0u32; 4];
        for _ in 0..10_000 {
            times[Mix([5, 0, 3, 2]).pick(&mut random) as usize] += 1;
        }
        let wanted = [5000u32, 0, 3000, 2000];
        assert!(
            times.iter().zip(wanted).all(|(&is, wanted)| is.abs_diff(wanted) < 300),
            "{times:?}"
        );
    }

    #[test]
    fn keys_are_chosen_as_often_as_they_should() {
        let often = |distribution| {
            let mut load = Load::new(&crate::plan::Plan { distribution, keys: 4, ..plan() }, 0);
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
