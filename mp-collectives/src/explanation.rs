//! Explanations of how a collective operation runs: which algorithms it has, what the cache-line-aware model predicts
//! for each, which one is chosen, and why.

use std::fmt;

use crate::barrier;
use crate::broadcast::{self, Broadcast, Shape};
use crate::choice::{Choice, Machine, Origin, Reason};
use crate::exchange::{self, Way, WayToAll};
use crate::near::{Near, Places};
use crate::pairs::Pairs;
use crate::reduce::{self, AllReduce, Order, Reduce, ReduceScatter, Scan};
use crate::rings::LINE_BYTES;
use crate::settings::Settings;
use mp_core::mpb::PAYLOAD_BYTES;
use mp_model::cla::barrier::{pushed_barrier, pushed_program};
use mp_model::cla::{
    self, Barrier, Bounds, Graph, Parameters, Program, Rules, Schedule, Tree, patterns,
};

/// A collective operation, as a subject of explanations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// `barrier`, `arrive`.
    Barrier,
    /// `broadcast`.
    Broadcast,
    /// `reduce`.
    Reduce,
    /// `all_reduce`.
    AllReduce,
    /// `scan`, `exclusive_scan`.
    Scan,
    /// `reduce_scatter`, with blocks of any lengths.
    ReduceScatter,
    /// `gather`, with blocks of any lengths.
    Gather,
    /// `scatter`, with blocks of any lengths.
    Scatter,
    /// `all_gather`, with blocks of any lengths.
    AllGather,
    /// `all_to_all`, with blocks of any lengths.
    AllToAll,
}

impl Collective {
    /// All operations.
    pub const ALL: [Collective; 10] = [
        Collective::Barrier,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllReduce,
        Collective::Scan,
        Collective::ReduceScatter,
        Collective::Gather,
        Collective::Scatter,
        Collective::AllGather,
        Collective::AllToAll,
    ];

    /// Returns the name of the method.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::AllReduce => "all_reduce",
            Collective::Scan => "scan",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::AllGather => "all_gather",
            Collective::AllToAll => "all_to_all",
        }
    }
}

/// An algorithm of a collective operation, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A barrier, and how it groups ranks.
    Barrier(Barrier, Near),
    /// A broadcast, the tree along which it goes, and the reason for the tree.
    Broadcast(Broadcast, Shape, Reason),
    /// A reduction to one rank.
    Reduce(Reduce),
    /// A reduction to all ranks.
    AllReduce(AllReduce),
    /// A scan.
    Scan(Scan),
    /// A reduction of a block for each rank.
    ReduceScatter(ReduceScatter),
    /// A gather, a scatter or an all-to-all.
    Exchange(Way),
    /// An all-gather.
    AllGather(WayToAll),
}

macro_rules! algorithm {
    ($($variant:ident($of:ty)),*) => {
        $(impl From<$of> for Algorithm {
            fn from(of: $of) -> Self {
                Algorithm::$variant(of)
            }
        })*
    };
}

algorithm!(
    Reduce(Reduce),
    AllReduce(AllReduce),
    Scan(Scan),
    ReduceScatter(ReduceScatter),
    Exchange(Way),
    AllGather(WayToAll)
);

impl From<(Barrier, Near)> for Algorithm {
    fn from((barrier, near): (Barrier, Near)) -> Self {
        Algorithm::Barrier(barrier, near)
    }
}

/// The broadcast takes its shape from these trees.
impl From<(Broadcast, broadcast::Trees)> for Algorithm {
    fn from((by, trees): (Broadcast, broadcast::Trees)) -> Self {
        let shape = match by {
            Broadcast::Lines => trees.lines,
            Broadcast::OcBcast => trees.chunks,
        };
        Algorithm::Broadcast(by, shape, trees.why)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Barrier(barrier @ Barrier::Grouped { .. }, near) => {
                write!(f, "{barrier}, groups are {near}")
            }
            Algorithm::Barrier(barrier, _) => barrier.fmt(f),
            Algorithm::Broadcast(by, shape, why) => write!(f, "{by}, {shape} ({why})"),
            Algorithm::Reduce(by) => by.fmt(f),
            Algorithm::AllReduce(by) => by.fmt(f),
            Algorithm::Scan(by) => by.fmt(f),
            Algorithm::ReduceScatter(by) => by.fmt(f),
            Algorithm::Exchange(by) => by.fmt(f),
            Algorithm::AllGather(by) => by.fmt(f),
        }
    }
}

/// An algorithm that could be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The least and the greatest time that the model predicts, with rank 0 as the root. `None` if the model does not
    /// know the algorithm, or if ranks share cores.
    pub predicted: Option<Bounds>,
}

/// How a collective operation runs, and why. It is displayed as a line and a table of the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The operation.
    pub collective: Collective,
    /// The length of the message, or of the longest block of an operation with a block for each rank, in bytes.
    pub bytes: usize,
    /// What was known about the machine.
    pub machine: Machine,
    /// The chosen algorithm.
    pub algorithm: Algorithm,
    /// The reason for the choice.
    pub reason: Reason,
    /// All algorithms that the operation has, the chosen one included.
    pub candidates: Vec<Candidate>,
}

/// The greatest number of messages whose costs the model adds up for the chosen algorithm. More would take seconds.
const MOST_MESSAGES: u64 = 1 << 16;

/// The same limit for each of the other candidates.
const MOST_MESSAGES_OF_OTHERS: u64 = 1 << 12;

impl Explanation {
    /// Returns how an operation runs with these settings, for ranks at these places on this many cores, and what the
    /// model predicts for it. `parameters` are those of the machine, if they are known.
    ///
    /// If there is a root, the message is that of rank 0.
    pub fn of(
        collective: Collective,
        bytes: usize,
        places: &Places,
        cores: usize,
        parameters: Option<Parameters>,
        settings: &Settings,
    ) -> Explanation {
        let ranks = places.ranks();
        let machine = Machine { ranks, cores, payload: PAYLOAD_BYTES };
        let slots = settings.slots.unwrap_or(machine.slots());
        let room = Pairs::room(slots, machine.payload);
        let explanation = match collective {
            Collective::Barrier => {
                let choice = barrier::choose(places, cores, parameters, settings.barrier.clone());
                Explanation::new(collective, 0, machine, choice)
            }
            Collective::Broadcast => {
                let trees = match settings.tree {
                    Some(shape) => broadcast::Trees::both(shape, Reason::Forced),
                    None => {
                        let chunk_lines = settings.chunk_lines.unwrap_or(broadcast::CHUNK_LINES);
                        broadcast::Trees::best(machine, places, chunk_lines, parameters)
                    }
                };
                Explanation::of_broadcast(machine, trees, bytes, settings.broadcast)
            }
            Collective::Gather | Collective::Scatter | Collective::AllToAll => {
                let choice = exchange::choose(machine, bytes, room, settings.exchange);
                Explanation::new(collective, bytes, machine, choice).among(Way::ALL)
            }
            Collective::AllGather => {
                let choice = exchange::choose_to_all(machine, bytes, room, settings.all_gather);
                Explanation::new(collective, bytes, machine, choice).among(WayToAll::ALL)
            }
            _ => {
                let trees = match settings.order {
                    Order::Algorithm => {
                        reduce::Trees::best(machine, settings.chunk_lines, parameters)
                    }
                    Order::Ranks => reduce::Trees::NONE,
                };
                Explanation::of_reduction(collective, machine, trees, bytes, room, settings)
            }
        };
        explanation.predicted(places, parameters)
    }

    /// Returns an explanation without candidates.
    pub(crate) fn new<A: Into<Algorithm>>(
        collective: Collective,
        bytes: usize,
        machine: Machine,
        choice: Choice<A>,
    ) -> Explanation {
        let Choice { algorithm, reason } = choice.map(A::into);
        Explanation { collective, bytes, machine, algorithm, reason, candidates: Vec::new() }
    }

    /// Adds the candidates, and the chosen algorithm if it is not one of them.
    pub(crate) fn among<A: Into<Algorithm>>(mut self, all: impl IntoIterator<Item = A>) -> Self {
        let mut all: Vec<Algorithm> = all.into_iter().map(A::into).collect();
        if !all.contains(&self.algorithm) {
            all.push(self.algorithm.clone());
        }
        let candidate = |algorithm| Candidate { algorithm, predicted: None };
        self.candidates = all.into_iter().map(candidate).collect();
        self
    }

    pub(crate) fn of_broadcast(
        machine: Machine,
        trees: broadcast::Trees,
        bytes: usize,
        forced: Option<Broadcast>,
    ) -> Explanation {
        let choice = broadcast::choose(machine, bytes, forced).map(|by| (by, trees));
        Explanation::new(Collective::Broadcast, bytes, machine, choice)
            .among(Broadcast::ALL.map(|by| (by, trees)))
    }

    /// Returns the explanation of a reduction, of the kind `collective`.
    pub(crate) fn of_reduction(
        collective: Collective,
        machine: Machine,
        trees: reduce::Trees,
        bytes: usize,
        room: usize,
        settings: &Settings,
    ) -> Explanation {
        let order = settings.order;
        match collective {
            Collective::AllReduce => {
                let forced = settings.all_reduce;
                let choice = reduce::choose_all_reduce(machine, bytes, room, order, forced);
                Explanation::new(collective, bytes, machine, choice).among(AllReduce::ALL)
            }
            Collective::Scan => {
                let choice = reduce::choose_scan(machine, bytes, room, order, settings.scan);
                Explanation::new(collective, bytes, machine, choice).among(Scan::ALL)
            }
            Collective::ReduceScatter => {
                let forced = settings.reduce_scatter;
                let choice = reduce::choose_reduce_scatter(machine, bytes, room, forced);
                Explanation::new(collective, bytes, machine, choice).among(ReduceScatter::ALL)
            }
            _ => {
                let choice = reduce::choose_reduce(machine, trees, bytes, room, settings.reduce);
                Explanation::new(Collective::Reduce, bytes, machine, choice)
                    .among(Reduce::all(trees))
            }
        }
    }

    /// Adds the model's predictions for the candidates, with these parameters of the machine, if they are known.
    pub(crate) fn predicted(mut self, places: &Places, parameters: Option<Parameters>) -> Self {
        if self.collective == Collective::Barrier {
            let of_level = |near| (pushed_barrier(&places.groups(near)), near);
            self = self.among(places.levels().map(of_level).chain([(Barrier::Central, Near::All)]));
        }
        if !self.machine.crowded() {
            let (_, parameters) = Origin::of(parameters);
            let machine = cla::Machine { parameters, placement: places.finest() };
            let mut candidates = std::mem::take(&mut self.candidates);
            for candidate in &mut candidates {
                candidate.predicted =
                    self.program_of(&candidate.algorithm, places).and_then(|program| {
                        Some(Graph::new(&program, &machine).ok()?.bounds(Rules::default()))
                    });
            }
            self.candidates = candidates;
        }
        self
    }

    /// Returns which rank sends to which in the chosen algorithm, with rank 0 as the root. Barriers and broadcasts have
    /// no schedule.
    pub fn schedule(&self) -> Option<Schedule> {
        self.schedule_of(&self.algorithm)
    }

    /// Returns what each rank does with cache lines in the chosen algorithm, with rank 0 as the root, for ranks at
    /// these places. Returns `None` if the model does not know the algorithm, or if it would take too long.
    pub fn program(&self, places: &Places) -> Option<Program> {
        self.program_of(&self.algorithm, places)
    }

    fn schedule_of(&self, algorithm: &Algorithm) -> Option<Schedule> {
        let &Explanation { collective, bytes, machine, .. } = self;
        Some(match *algorithm {
            Algorithm::Reduce(by) => by.schedule(machine, bytes, 0),
            Algorithm::AllReduce(by) => by.schedule(machine, bytes),
            Algorithm::Scan(by) => by.schedule(machine, bytes),
            Algorithm::ReduceScatter(by) => by.schedule(machine, bytes),
            Algorithm::AllGather(by) => by.schedule(machine, bytes),
            Algorithm::Exchange(way) => {
                let by = way.by(machine, bytes);
                match collective {
                    Collective::Gather => Schedule::gather(machine.ranks, 0, by),
                    Collective::Scatter => Schedule::scatter(machine.ranks, 0, by),
                    _ => Schedule::all_to_all(machine.ranks, by),
                }
            }
            Algorithm::Barrier(..) | Algorithm::Broadcast(..) => return None,
        })
    }

    fn program_of(&self, algorithm: &Algorithm, places: &Places) -> Option<Program> {
        let &Explanation { bytes, machine, .. } = self;
        let most = match *algorithm == self.algorithm {
            true => MOST_MESSAGES,
            false => MOST_MESSAGES_OF_OTHERS,
        };
        match algorithm {
            Algorithm::Barrier(Barrier::Central, _) => None,
            // Each rank that is notified has a flag for that.
            Algorithm::Barrier(barrier, near) => {
                Some(pushed_program(&barrier::rounds(barrier, &places.groups(*near)).ok()?))
            }
            Algorithm::Broadcast(Broadcast::Lines, shape, _) if bytes <= machine.payload => {
                Some(patterns::pushed_broadcast(&shape.outward(places).tree(0).ok()?))
            }
            Algorithm::Broadcast(Broadcast::OcBcast, shape, _) => {
                let lines = bytes.div_ceil(LINE_BYTES).max(2);
                let chunks = lines.div_ceil(broadcast::CHUNK_LINES);
                if (chunks * machine.ranks) as u64 > most {
                    return None;
                }
                let tree = shape.outward(places).tree(0).ok()?;
                let each = lines.div_ceil(chunks) as u64;
                Some(patterns::chunked_broadcast(&tree, each, chunks as u64))
            }
            Algorithm::Reduce(Reduce::Lines) if bytes <= machine.payload => {
                Some(patterns::pushed_reduction(&Tree::flat(0, &places.finest()).ok()?))
            }
            other => {
                let schedule = self.schedule_of(other)?;
                (schedule.messages() <= most).then(|| schedule.program())
            }
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { collective, bytes, machine, algorithm, reason, candidates } = self;
        let Machine { ranks, cores, .. } = machine;
        write!(f, "{}", collective.name())?;
        if *collective != Collective::Barrier {
            write!(f, " of {bytes} bytes")?;
        }
        write!(f, ", {ranks} ranks on {cores} cores: {algorithm}; {reason}")?;
        if candidates.is_empty() {
            return Ok(());
        }
        f.write_str("\npredicted: ")?;
        f.write_str(match machine.crowded() {
            true => "nothing, for ranks that share cores",
            false => "the least and the greatest time, by the cache-line-aware model",
        })?;
        for candidate in candidates {
            let mark = if candidate.algorithm == *algorithm { '*' } else { ' ' };
            let [min, max] = match candidate.predicted {
                Some(Bounds { min, max }) => [min, max].map(|time| time.to_string()),
                None => ["-"; 2].map(str::to_owned),
            };
            write!(f, "\n{mark} {min:>14} {max:>14}  {}", candidate.algorithm)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mp_core::topology::Seat;

    use super::*;

    fn of(collective: Collective, bytes: usize, places: &Places, cores: usize) -> Explanation {
        Explanation::of(collective, bytes, places, cores, None, &Settings::default())
    }

    fn packages(packages: usize, each: usize) -> Places {
        let seat = |rank: usize| Some(Seat { cache: rank / each, package: rank / each });
        Places::of_seats(&(0..packages * each).map(seat).collect::<Vec<_>>())
    }

    fn has(explanation: &Explanation, facts: &[&str]) {
        let text = explanation.to_string();
        for fact in facts {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }

    #[test]
    fn explanations_give_the_facts() {
        let barrier = |ranks, cores| of(Collective::Barrier, 0, &Places::unknown(ranks), cores);
        has(&barrier(80, 2), &["80 ranks", "2 cores", "central", "wake-ups"]);
        has(&barrier(8, 2), &["8 ranks", "m = 7", "share cores"]);
        has(&barrier(2, 2), &["m = 1, r = 1", "Sandy Bridge", "* "]);
        let places = Places::unknown(2);
        let known = Some(Parameters::XEON_PHI);
        let settings = Settings::default();
        let told = Explanation::of(Collective::Barrier, 0, &places, 2, known, &settings);
        has(&told, &["this machine"]);
        let groups = of(Collective::Barrier, 0, &packages(2, 8), 16);
        has(&groups, &["2 of m = 1, r = 3", "between them (m = 1, r = 1)", "ranks of a cache"]);
        let told = of(Collective::Broadcast, 100, &Places::unknown(8), 2);
        has(&told, &["100 bytes", "8 ranks", "2 cores", "degree 7", "wake-ups", "448"]);
        let told = of(Collective::Broadcast, 100, &packages(4, 4), 16);
        has(&told, &["λ = 2 for ranks of a cache", "λ = 3 between", "Sandy Bridge"]);
        let told = of(Collective::AllReduce, 24, &Places::unknown(8), 2);
        has(&told, &["24 bytes", "8 ranks", "2 cores", "rank 0", "share cores"]);
        let told = of(Collective::Reduce, 8, &Places::unknown(48), 48);
        has(&told, &["48 ranks", "λ = ", "tree", "Sandy Bridge"]);
        let told = of(Collective::AllGather, 500, &Places::unknown(3), 2);
        has(&told, &["500 bytes", "3 ranks", "2 cores", "all others", "448"]);
    }

    /// This holds for any length, forced or not. Times are predicted where each rank has a core.
    #[test]
    fn the_chosen_one_is_a_candidate() {
        for collective in Collective::ALL {
            for bytes in [0, 8, 56, 57, 5_000] {
                for (places, cores) in
                    [(Places::unknown(2), 2), (packages(2, 4), 8), (packages(2, 4), 2)]
                {
                    let told = of(collective, bytes, &places, cores);
                    let chosen = |candidate: &&Candidate| candidate.algorithm == told.algorithm;
                    let mut all = told.candidates.iter().filter(chosen);
                    let chosen = all.next().unwrap_or_else(|| panic!("no candidate: {told}"));
                    assert_eq!(all.next(), None, "{told}");
                    let crowded = places.ranks() > cores;
                    let is_known = told.program(&places).is_some();
                    assert_eq!(chosen.predicted.is_some(), !crowded && is_known, "{told}");
                }
            }
        }
        let settings =
            Settings { reduce: Some(Reduce::ChunkTree { lambda: 2 }), ..Settings::default() };
        let told = Explanation::of(Collective::Reduce, 8, &packages(2, 4), 8, None, &settings);
        assert_eq!(told.reason, Reason::Forced);
        has(&told, &["λ = 2; forced", "* "]);
    }
}
