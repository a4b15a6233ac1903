//! Pieces of command lines, and what ranks are.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use onchip::prelude::*;
use onchip::trace::Track;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The kind of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ranks {
    /// Threads of one process
    Threads,
    /// A process each
    Processes,
}

impl Ranks {
    /// Returns a world of `size` ranks of this kind, for a program that runs worlds of one kind only.
    pub fn world(self, size: usize) -> World {
        match self {
            Self::Threads => World::threads(size).any_size(),
            Self::Processes => World::processes(size).any_size(),
        }
    }

    /// Runs `code` as every rank of a world of `size` ranks of this kind.
    ///
    /// Worlds of threads and worlds of processes are run at different places in the source. A rank that is a process
    /// counts the worlds that were run at the place of its own world, and so finds its own. It does not run those of
    /// threads: see [`are_passed_by`](Self::are_passed_by).
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run<T, F>(self, size: usize, code: F) -> onchip::Result<Vec<T>>
    where
        T: Serialize + DeserializeOwned + Send,
        F: Fn(&Rank) -> onchip::Result<T> + Sync,
    {
        match self {
            Self::Threads => World::threads(size).any_size().run(code),
            Self::Processes => World::processes(size).any_size().run(code),
        }
    }

    /// Returns a rank's track in a trace.
    pub fn track(self, rank: usize) -> Track {
        match self {
            Self::Threads => Track::rank(rank),
            Self::Processes => Track::rank(rank).in_process_of(rank),
        }
    }

    /// Returns whether this process skips a world of this kind, in a program that runs several worlds.
    ///
    /// A rank that is a process executes the program again up to its own world. Earlier worlds of
    /// processes are replayed for it; those of threads would run again, and it has no use for them.
    pub fn are_passed_by(self) -> bool {
        self == Self::Threads && !onchip::caller()
    }
}

/// Shows values as they are on the command line.
#[macro_export]
macro_rules! display_as_on_the_command_line {
    ($($type:ty),*) => {$(
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match clap::ValueEnum::to_possible_value(self) {
                    Some(value) => f.pad(value.get_name()),
                    None => std::fmt::Debug::fmt(self, f),
                }
            }
        }
    )*};
}
display_as_on_the_command_line!(Ranks);

/// One of several choices, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneOrAll<T> {
    /// One.
    One(T),
    /// All that the other options allow.
    All,
}

/// Reads one of several choices, or the word `all`, which does what `about_all` says.
pub fn one_or_all<T: Clone + Send + Sync + 'static>(
    choices: impl IntoIterator<Item = (PossibleValue, T)>,
    about_all: &'static str,
) -> impl TypedValueParser<Value = OneOrAll<T>> {
    let choices: Vec<(PossibleValue, T)> = choices.into_iter().collect();
    let all = PossibleValue::new("all").help(about_all);
    let names: Vec<_> = choices.iter().map(|(name, _)| name.clone()).chain([all]).collect();
    PossibleValuesParser::new(names).map(move |text| {
        let chosen = choices.iter().find(|(name, _)| name.matches(&text, false));
        chosen.map_or(OneOrAll::All, |(_, choice)| OneOrAll::One(choice.clone()))
    })
}

/// Returns the choices of an enum, but for those that are hidden, for [`one_or_all`].
pub fn choices<T: ValueEnum + 'static>() -> impl Iterator<Item = (PossibleValue, T)> {
    let named = |value: &T| Some((value.to_possible_value()?, value.clone()));
    T::value_variants().iter().filter_map(named).filter(|(name, _)| !name.is_hide_set())
}

/// Reads a number from `FROM` to `TO`.
///
/// # Errors
/// Anything else.
pub fn number<const FROM: usize, const TO: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (FROM..=TO).contains(&number) => Ok(number),
        _ => Err(format!("not a number from {FROM} to {TO}")),
    }
}

/// Returns how many cores this program may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns numbers of workers to measure with: 1, 2, 4 and so on up to the cores, the cores
/// themselves, and twice as many.
pub fn numbers_of_workers(cores: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |n| Some(2 * n));
    powers.take_while(|&n| n < cores).chain([cores, 2 * cores]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_numbers_of_workers() {
        assert_eq!(numbers_of_workers(1), [1, 2]);
        assert_eq!(numbers_of_workers(2), [1, 2, 4]);
        assert_eq!(numbers_of_workers(6), [1, 2, 4, 6, 12]);
        assert_eq!(numbers_of_workers(8), [1, 2, 4, 8, 16]);
    }
}
