//! Dissemination barriers, and the search for the best one (section 3.3).
//!
//! In the paper a rank writes one flag in each round, which m others read: `flag[n][r]`, its *single-use lines*. The
//! paper also names `flag[n][r][m]`, with a flag for each rank that is told, and rejects it because of the memory that
//! it takes. This library uses that form: a rank waits in its own buffers, where a rank that sets a flag finds which
//! rank it has to wake. So there are two programs of each barrier, and two searches:
//!
//! | flags | program | search |
//! |---|---|---|
//! | one for each rank and round, as in the paper | [`Barrier::program`] | [`best_barrier`] |
//! | one for each rank that is told, as in this library | [`pushed_program`] | [`pushed_barrier`] |
//!
//! With m = 1 both forms are the same. Only in the paper's form do more flags in a round save writes, so the best m are
//! smaller here ([`fewest_flags`]), and do not depend on the machine. Only the choice whether ranks meet within groups
//! first depends on it. Neither form takes into account that the stores of several flags overlap.

use std::fmt;

use super::equations;
use super::graph::{Bounds, Graph, Rules};
use super::machine::{Machine, Placement};
use super::program::{Line, Program};
use crate::Time;

/// A barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// In each round, a rank writes a flag that m others read, and reads the flags of m others. The vector has the m of
    /// each round. With the same m in all, this is the m-way dissemination barrier.
    Dissemination(Vec<usize>),
    /// A barrier within each group, then an exchange of flags between them.
    Grouped {
        /// For each group, in order of [`Placement::groups`], m for each round.
        within: Vec<Vec<usize>>,
        /// How the groups learn of each other.
        exchange: Exchange,
    },
    /// One counter, and one wake-up for all waiting ranks. It is for more ranks than cores, where switching between
    /// ranks costs more than moving lines.
    Central,
}

/// The last step of a barrier with groups (section 3.3.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// Each rank writes a flag for its peer in each other group ("pair-wise").
    Pairs,
    /// One rank of each group writes a flag that all of the other groups read ("socket-root").
    Roots,
    /// Groups disseminate, each rank by its peers in other groups. The vector has, for each round, the number m of
    /// groups that it learns of. The peers hand on in the next round what they learn in this one.
    Ways(Vec<usize>),
}

/// The part of one rank in one round: it writes its flag of the round, then waits for those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Round {
    /// Whether another rank reads the rank's flag of this round.
    pub writes: bool,
    /// The ranks whose flags of this round it waits for, in this order.
    pub reads: Vec<usize>,
}

/// A barrier that was chosen, and what the graph says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierChoice {
    /// The barrier.
    pub barrier: Barrier,
    /// Its bounds; `None` for [`Barrier::Central`] with more ranks than cores, which the model does not cover.
    pub predicted: Option<Bounds>,
}

impl Barrier {
    /// Returns each rank's rounds. A rank begins a round when the one before is done. [`Barrier::Central`] has none.
    ///
    /// # Panics
    /// If the barrier is for other groups than the placement has.
    pub fn rounds(&self, placement: &Placement) -> Vec<Vec<Round>> {
        let mut rounds = vec![Vec::new(); placement.ranks()];
        match self {
            Barrier::Dissemination(ways) => {
                let all: Vec<usize> = (0..placement.ranks()).collect();
                disseminate(&all, ways, ways.len(), &mut rounds);
            }
            Barrier::Grouped { within, exchange } => {
                let groups = placement.groups();
                assert_eq!(groups.len(), within.len(), "a barrier for other groups");
                let most = within.iter().map(Vec::len).max().unwrap_or(0);
                for (group, ways) in groups.iter().zip(within) {
                    disseminate(group, ways, most, &mut rounds);
                }
                if groups.len() > 1 {
                    exchange_flags(&groups, exchange, &mut rounds);
                }
            }
            Barrier::Central => {}
        }
        rounds
    }

    /// Returns the barrier as primitives, with a flag for each rank and round.
    ///
    /// # Panics
    /// See [`Barrier::rounds`].
    pub fn program(&self, placement: &Placement) -> Program {
        let mut program = Program::new(placement.ranks());
        self.append(&mut program, placement);
        program
    }

    /// Lets all ranks of a program go through the barrier next.
    ///
    /// # Panics
    /// See [`Barrier::rounds`].
    pub fn append(&self, program: &mut Program, placement: &Placement) {
        if *self == Barrier::Central {
            return central(program);
        }
        let rounds = self.rounds(placement);
        let flags: Vec<Vec<Line>> = rounds
            .iter()
            .enumerate()
            .map(|(rank, rounds)| rounds.iter().map(|_| program.flag(rank)).collect())
            .collect();
        for (rank, rounds) in rounds.iter().enumerate() {
            for (number, round) in rounds.iter().enumerate() {
                if round.writes {
                    program.write(rank, flags[rank][number], 1);
                }
                for &other in &round.reads {
                    program.wait(rank, flags[other][number], 1);
                }
            }
        }
    }

    /// Returns what the graph rules predict for the barrier on this machine.
    ///
    /// # Panics
    /// See [`Barrier::rounds`].
    pub fn predicted(&self, machine: &Machine) -> Bounds {
        let program = self.program(&machine.placement);
        Graph::new(&program, machine)
            .expect("flags are written before they are read")
            .bounds(Rules::default())
    }
}

/// Adds a barrier in which all ranks count up one flag, and rank 0 wakes the others with another flag.
fn central(program: &mut Program) {
    let ranks = program.ranks();
    if ranks < 2 {
        return;
    }
    let (counter, wake) = (program.flag(0), program.flag(1));
    for rank in 1..ranks {
        program.add(rank, counter);
        program.wait(rank, wake, 1);
    }
    program.wait(0, counter, ranks as u64 - 1);
    program.write(0, wake, 1);
}

/// Adds rounds among some of the ranks, with empty ones at the front if others have more. A rank does not read the flag
/// of a rank that it knows of already.
fn disseminate(ranks: &[usize], ways: &[usize], most: usize, rounds: &mut [Vec<Round>]) {
    let count = ranks.len();
    for &rank in ranks {
        rounds[rank].resize(most - ways.len(), Round::default());
    }
    let mut stride = 1_usize;
    for &ways in ways {
        let steps =
            || (1..=ways).map(|way| way.saturating_mul(stride)).take_while(|&far| far < count);
        for (index, &rank) in ranks.iter().enumerate() {
            let reads: Vec<usize> = steps().map(|far| ranks[(index + far) % count]).collect();
            rounds[rank].push(Round { writes: !reads.is_empty(), reads });
        }
        stride = stride.saturating_mul(ways + 1);
    }
}

fn exchange_flags(groups: &[Vec<usize>], exchange: &Exchange, rounds: &mut [Vec<Round>]) {
    let others = |own: usize| (0..groups.len()).filter(move |&other| other != own).collect();
    // For each round and group: the groups that it hears of.
    let heard: Vec<Vec<Vec<usize>>> = match exchange {
        Exchange::Pairs | Exchange::Roots => vec![(0..groups.len()).map(others).collect()],
        Exchange::Ways(ways) => {
            let all: Vec<usize> = (0..groups.len()).collect();
            let mut rounds = vec![Vec::new(); groups.len()];
            disseminate(&all, ways, ways.len(), &mut rounds);
            let of =
                |number: usize| rounds.iter().map(move |of| of[number].reads.clone()).collect();
            (0..ways.len()).map(of).collect()
        }
    };
    for heard in heard {
        let mut last = vec![Round::default(); rounds.len()];
        for (group, heard) in groups.iter().zip(heard) {
            for (index, &rank) in group.iter().enumerate() {
                let peer = |&other: &usize| match exchange {
                    Exchange::Roots => groups[other][0],
                    // A rank of the larger group shares its peer with others of its own.
                    _ => groups[other][index % groups[other].len()],
                };
                last[rank].reads.extend(heard.iter().map(peer));
            }
        }
        let read: Vec<usize> = last.iter().flat_map(|round| round.reads.clone()).collect();
        read.into_iter().for_each(|rank| last[rank].writes = true);
        rounds.iter_mut().zip(last).for_each(|(rounds, last)| rounds.push(last));
    }
}

/// Returns the program of a barrier of these rounds as this library runs it. A rank sets a flag in the buffer of each
/// rank that is to hear of it, in rank order, and then waits for its own. Each flag has one rank that sets it and one
/// that waits.
pub fn pushed_program(rounds: &[Vec<Round>]) -> Program {
    let mut program = Program::new(rounds.len());
    for round in 0..rounds.iter().map(Vec::len).max().unwrap_or(0) {
        let mut flags = Vec::new();
        for (rank, setter) in told(rounds, round) {
            let flag = program.flag(rank);
            program.write(setter, flag, 1);
            flags.push((rank, flag));
        }
        flags.into_iter().for_each(|(rank, flag)| program.wait(rank, flag, 1));
    }
    program
}

/// Returns the minimum of the graph rules for these rounds, without a graph. It includes the time by which
/// [writing](super::Parameters::write) a line takes longer than reading it, because each flag is written on its way.
///
/// # Panics
/// If the machine has another number of ranks.
pub fn pushed_time(machine: &Machine, rounds: &[Vec<Round>]) -> Time {
    assert_eq!(rounds.len(), machine.ranks(), "the ranks of the barrier and of the machine");
    let (parameters, placement) = (&machine.parameters, &machine.placement);
    let write = parameters.near.memory + parameters.more_to_write();
    let mut clocks = vec![Time::ZERO; rounds.len()];
    for round in 0..rounds.iter().map(Vec::len).max().unwrap_or(0) {
        let mut flags = Vec::new();
        for (rank, setter) in told(rounds, round) {
            clocks[setter] += write;
            flags.push((rank, setter, clocks[setter]));
        }
        for (rank, setter, written) in flags {
            let transfer = parameters.link(placement.near(rank, setter)).transfer;
            clocks[rank] = clocks[rank].max(written) + transfer;
        }
    }
    clocks.into_iter().max().unwrap_or_default()
}

/// Returns the ranks that are told in a round, each with the rank that tells it.
fn told(rounds: &[Vec<Round>], round: usize) -> impl Iterator<Item = (usize, usize)> {
    let reads =
        move |rounds: &'_ Vec<Round>| rounds.get(round).map_or(Vec::new(), |of| of.reads.clone());
    let ranks = rounds.iter().map(reads).enumerate();
    ranks.flat_map(|(rank, reads)| reads.into_iter().map(move |setter| (rank, setter)))
}

/// Returns the m for each round with which each of `ranks` ranks sets the fewest flags, the smallest first. Of equal
/// ones, takes those with the fewest rounds. A flag costs the same in any round.
pub fn fewest_flags(ranks: usize) -> Vec<usize> {
    mixed_ways(ranks, |ways| (Time::from_picos(ways as u64), ranks - ways))
}

/// Returns the barrier of this library for the groups of this placement, with the fewest flags within and between them.
pub fn pushed_barrier(groups: &Placement) -> Barrier {
    match &groups.groups()[..] {
        [all] => Barrier::Dissemination(fewest_flags(all.len())),
        groups => Barrier::Grouped {
            within: groups.iter().map(|group| fewest_flags(group.len())).collect(),
            exchange: Exchange::Ways(fewest_flags(groups.len())),
        },
    }
}

/// Returns the best m of the m-way dissemination barrier, and its r (equations 27 and 29); of equal ones, the one with
/// the fewest reads.
pub fn best_ways(machine: &Machine, ranks: usize) -> (usize, usize) {
    let cost = |ways: usize| {
        let rounds = equations::rounds(ranks as u64, ways as u64);
        (equations::dissemination(&machine.parameters, rounds, ways as u64).min, ways)
    };
    let (_, ways) = (1..ranks.max(2)).map(cost).min().expect("one way at least");
    (ways, equations::rounds(ranks as u64, ways as u64) as usize)
}

/// Returns the best m for each round ("multi-m"), the smallest first.
///
/// Each round multiplies the number of ranks that a rank knows of by m + 1. There are fewer rounds than ranks, and
/// their order does not matter, so all can be tried: with n ranks left, best(n) is the least sum of one round and
/// best(⌈n / (m + 1)⌉), over all m.
pub fn best_mixed_ways(machine: &Machine, ranks: usize) -> Vec<usize> {
    let round =
        |ways: usize| equations::mixed_dissemination(&machine.parameters, &[ways as u64]).min;
    mixed_ways(ranks, |ways| (round(ways), ways))
}

/// Does the same for any cost of a round. Of equal ones, takes the least of a second value.
fn mixed_ways(ranks: usize, round: impl Fn(usize) -> (Time, usize)) -> Vec<usize> {
    // By the number of ranks to be known of, including the rank itself.
    let mut best = vec![(Time::ZERO, 0); ranks.max(1) + 1];
    for known in 2..=ranks {
        let cost = |ways: usize| {
            let (cost, rank) = round(ways);
            ((cost + best[known.div_ceil(ways + 1)].0, rank), ways)
        };
        let ((cost, _), ways) = (1..known).map(cost).min().expect("one way at least");
        best[known] = (cost, ways);
    }
    let mut ways = Vec::new();
    let mut known = ranks;
    while known > 1 {
        ways.push(best[known].1);
        known = known.div_ceil(best[known].1 + 1);
    }
    ways.sort_unstable();
    ways
}

/// Returns the best barrier: m-way or multi-m, over all ranks, or within groups and then between them.
///
/// Equations 27 and 29 tell what is best in one group. Of those barriers and the ones across groups, takes the one with
/// the smallest minimum by the graph rules, and of equal ones the one with the smaller maximum.
pub fn best_barrier(machine: &Machine) -> BarrierChoice {
    let candidates = candidates(machine);
    let choice = |barrier: Barrier| {
        let predicted = barrier.predicted(machine);
        (predicted.min, predicted.max, barrier)
    };
    let best = candidates.into_iter().map(choice).min_by_key(|&(min, max, _)| (min, max));
    let (min, max, barrier) = best.expect("there are candidates");
    BarrierChoice { barrier, predicted: Some(Bounds { min, max }) }
}

/// Returns the best barrier for ranks that may outnumber the cores they run on. If they do, it is [`Barrier::Central`].
///
/// In the model each rank has one core, and polls. If several ranks share a core, a polling rank keeps the rank that it
/// waits for from running, and each round of a dissemination may cost a switch. So the barrier with the fewest wake-ups
/// is chosen, which has one.
pub fn best_barrier_on(machine: &Machine, cores: usize) -> BarrierChoice {
    if machine.ranks() > cores {
        return BarrierChoice { barrier: Barrier::Central, predicted: None };
    }
    best_barrier(machine)
}

fn candidates(machine: &Machine) -> Vec<Barrier> {
    let uniform = |ranks| {
        let (ways, rounds) = best_ways(machine, ranks);
        vec![ways; rounds]
    };
    let ranks = machine.ranks();
    let mut candidates = vec![
        Barrier::Dissemination(uniform(ranks)),
        Barrier::Dissemination(best_mixed_ways(machine, ranks)),
    ];
    let groups = machine.placement.groups();
    if groups.len() > 1 {
        // With far reads, another number of rounds may be best than without. For each number, the least m is tried.
        let rounds = |ways| equations::rounds(ranks as u64, ways as u64) as usize;
        let least = (1..ranks).filter(|&ways| ways == 1 || rounds(ways) < rounds(ways - 1));
        candidates.extend(least.map(|ways| Barrier::Dissemination(vec![ways; rounds(ways)])));
        for exchange in [Exchange::Pairs, Exchange::Roots] {
            let within = groups.iter().map(|group| best_mixed_ways(machine, group.len())).collect();
            candidates.push(Barrier::Grouped { within, exchange });
        }
    }
    candidates
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Barrier::Dissemination(ways) => write!(f, "dissemination, {}", rounds_text(ways)),
            Barrier::Grouped { within, exchange } => {
                let within: Vec<_> = within.chunk_by(|one, other| one == other).collect();
                let within: Vec<_> = within.iter().map(|ways| within_text(ways)).collect();
                let exchange = match exchange {
                    Exchange::Pairs => "pairs".into(),
                    Exchange::Roots => "roots".into(),
                    Exchange::Ways(ways) => format!("between them ({})", rounds_text(ways)),
                };
                write!(f, "groups ({}), then {exchange}", within.join("; "))
            }
            Barrier::Central => f.write_str("central counter, one wake"),
        }
    }
}

/// Returns the text for groups that all do the same.
fn within_text(groups: &[Vec<usize>]) -> String {
    let text = groups.first().map_or(String::new(), |ways| rounds_text(ways));
    if groups.len() > 1 { format!("{} of {text}", groups.len()) } else { text }
}

fn rounds_text(ways: &[usize]) -> String {
    match ways {
        [] => "no rounds".into(),
        [first, rest @ ..] if rest.iter().all(|ways| ways == first) => {
            format!("m = {first}, r = {}", ways.len())
        }
        _ => format!("m = {ways:?}"),
    }
}
