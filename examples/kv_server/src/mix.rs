//! How often clients do what, and with which keys.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use example_support::display_as_on_the_command_line;
use serde::{Deserialize, Serialize};

use crate::random::Random;

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

    pub(crate) fn pick(self, random: &mut Random) -> Kind {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
