//! What a seed stands for: the world, what its ranks do, and which processes are hurt.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed that it was made from.
    pub seed: u64,
    /// The number of ranks.
    pub ranks: usize,
    /// How the world is started.
    pub start: Start,
    /// Whether blocked ranks sleep at once.
    pub park: bool,
    /// The steps of the ranks, one after the other.
    pub steps: Vec<Step>,
    /// The injuries: at most one for each process.
    pub injuries: Vec<Injury>,
}

/// How a world is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// By `World::run` in the launcher, which executes the same program as ranks.
    Run,
    /// By `World::launch`, as `mprun` does it.
    Launch,
}

/// One step of the ranks.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The operation.
    pub operation: Operation,
    /// The seed of its random choices.
    pub seed: u64,
}

/// The kind of operations of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// Operations that end for all when a rank is lost.
    Ends,
    /// All operations.
    Both,
    /// Operations after which the others go on. So there are more deaths.
    GoesOn,
}

/// The operations that ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// Channels between two ranks.
    Pairs,
    /// A channel of several senders and receivers.
    Queue,
    /// Sends by communication threads.
    Delegated,
    /// Messages with tags.
    Tagged,
    /// Communicators of some of the ranks.
    Parts,
    /// Collective operations that block.
    Blocking,
    /// Collective operations that go on meanwhile.
    Nonblocking,
    /// Broadcasts that call handlers.
    Asynchronous,
    /// A counter in a critical section.
    Critical,
    /// A set in a critical section, used after ranks were killed.
    Healing,
    /// All that is needed to go on without those that were lost.
    Survivors,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Pairs,
        Self::Queue,
        Self::Delegated,
        Self::Tagged,
        Self::Parts,
        Self::Blocking,
        Self::Nonblocking,
        Self::Asynchronous,
        Self::Critical,
        Self::Healing,
        Self::Survivors,
    ];
}

/// The injury of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injury {
    /// The process.
    pub who: Who,
    /// The injury.
    pub how: How,
    /// The moment.
    pub when: When,
}

/// A process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Who {
    /// The process that starts the launcher.
    Parent,
    /// The process that starts the ranks.
    Launcher,
    /// A rank.
    Rank(usize),
}

/// The kinds of injuries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    /// `SIGKILL`.
    Kill,
    /// `SIGSEGV`.
    Segv,
    /// `SIGSTOP`, and after so many milliseconds `SIGCONT`.
    Stop(u8),
    /// A panic in the rank's code.
    Panic,
    /// `exit` with a status of its own.
    Exit,
    /// The rank's code returns an error.
    Leave,
}

impl How {
    /// Returns whether it ends the process.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Self::Stop(_))
    }
}

/// The moment at which a process is hurt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the first instruction of `main`.
    First,
    /// So many microseconds later, whatever the process does then.
    After(u64),
    /// Before its call of the library with this number, by the rank's own thread.
    Call(u64),
    /// This many microseconds after [`Call`](Self::Call), when the rank is usually still in the call.
    Within(u64, u64),
    /// With its last instruction, or that of the rank's code if the process ends with that.
    Last,
}

/// The exit status of a process that is hurt by [`How::Exit`].
pub const EXIT_STATUS: i32 = 77;

impl Plan {
    /// Returns what a seed says.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = random.weighted(&[(40, 2), (20, 3), (15, 4), (10, 5), (5, 6), (4, 7), (6, 8)]);
        let start = random.weighted(&[(60, Start::Run), (40, Start::Launch)]);
        let park = random.percent(30);
        // This has numbers of its own, so that the plans of programs of the first kind stay the same.
        let program = Random::new(seed.rotate_left(9)).weighted(&[
            (50, Program::Ends),
            (15, Program::Both),
            (35, Program::GoesOn),
        ]);
        let operations = match program {
            Program::Ends => &Operation::ALL[..9],
            Program::Both => &Operation::ALL,
            Program::GoesOn => &[Operation::Healing, Operation::Survivors, Operation::Survivors],
        };
        let steps = (0..1 + random.below(4))
            .map(|_| Step { operation: random.pick(operations), seed: random.number() })
            .collect();
        let mut plan = Self { seed, ranks, start, park, steps, injuries: Vec::new() };
        let injuries: &[(u64, usize)] = match program {
            Program::GoesOn => &[(5, 0), (35, 1), (30, 2), (20, 3), (10, 4)],
            _ => &[(8, 0), (77, 1), (15, 2)],
        };
        for _ in 0..random.weighted(injuries) {
            let injury = plan.injury(&mut random, program);
            if plan.injury_of(injury.who).is_none() {
                plan.injuries.push(injury);
            }
        }
        plan
    }

    fn injury(&self, random: &mut Random, program: Program) -> Injury {
        let goes_on = program == Program::GoesOn;
        let rank = Who::Rank(random.index(self.ranks));
        let of_ranks = if goes_on { 800 } else { 82 };
        let who = random.weighted(&[(of_ranks, rank), (12, Who::Launcher), (6, Who::Parent)]);
        let stop = How::Stop(1 + random.below(8) as u8);
        let any = [(45, How::Kill), (10, How::Segv), (12, stop), (12, How::Exit)];
        let of_ranks = [any.as_slice(), &[(14, How::Panic), (7, How::Leave)]].concat();
        let how = random.weighted(if who == rank { &of_ranks } else { &any });
        let after = When::After(random.of_any_size(14));
        let call = When::Call(random.below(if goes_on { 120 } else { 400 }));
        let own = matches!(how, How::Panic | How::Leave);
        let when = match who {
            Who::Rank(_) if own => random.weighted(&[(90, call), (10, When::Last)]),
            Who::Rank(_) => {
                let when =
                    random.weighted(&[(8, When::First), (47, after), (40, call), (5, When::Last)]);
                match when {
                    // The injury comes within that call.
                    When::Call(call) if program != Program::Ends && random.percent(50) => {
                        When::Within(call, random.of_any_size(9))
                    }
                    when => when,
                }
            }
            _ => random.weighted(&[(10, When::First), (80, after), (10, When::Last)]),
        };
        Injury { who, how, when }
    }

    /// Returns what happens to a process.
    pub fn injury_of(&self, who: Who) -> Option<Injury> {
        self.injuries.iter().find(|injury| injury.who == who).copied()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pairs => "channels of two",
            Self::Queue => "shared channels",
            Self::Delegated => "delegated sends",
            Self::Tagged => "tagged messages",
            Self::Parts => "parts of the ranks",
            Self::Blocking => "blocking collectives",
            Self::Nonblocking => "nonblocking collectives",
            Self::Asynchronous => "asynchronous broadcast",
            Self::Critical => "critical section",
            Self::Healing => "healing critical section",
            Self::Survivors => "survivors",
        })
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parent => f.pad("parent"),
            Self::Launcher => f.pad("launcher"),
            Self::Rank(rank) => f.pad(&format!("rank {rank}")),
        }
    }
}

impl How {
    /// Returns its name, whatever numbers it has.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL",
            Self::Segv => "SIGSEGV",
            Self::Stop(_) => "SIGSTOP, SIGCONT",
            Self::Panic => "panic",
            Self::Exit => "exit",
            Self::Leave => "error",
        }
    }
}

impl fmt::Display for Injury {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ", self.who, self.how.name())?;
        match self.when {
            When::First => f.write_str("with the first instruction of main"),
            When::After(micros) => write!(f, "{micros} µs after the first instruction of main"),
            When::Call(call) => write!(f, "before call {call}"),
            When::Within(call, micros) => write!(f, "{micros} µs after it comes to call {call}"),
            When::Last => f.write_str("with the last instruction"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.start == Start::Run { "run" } else { "launch" };
        let steps: Vec<_> = self.steps.iter().map(|step| step.operation.to_string()).collect();
        write!(f, "{} ranks by {by}: {}", self.ranks, steps.join(", "))?;
        self.injuries.iter().try_for_each(|injury| write!(f, "; {injury}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_the_same_every_time() {
        for seed in 0..100 {
            assert_eq!(Plan::new(seed).to_string(), Plan::new(seed).to_string());
        }
    }

    #[test]
    fn everything_is_in_a_thousand_seeds() {
        let plans: Vec<_> = (0..1000).map(Plan::new).collect();
        for ranks in 2..=8 {
            assert!(plans.iter().any(|plan| plan.ranks == ranks), "{ranks} ranks");
        }
        for operation in Operation::ALL {
            let mut steps = plans.iter().flat_map(|plan| &plan.steps);
            assert!(steps.any(|step| step.operation == operation), "{operation}");
        }
        let injuries: Vec<_> = plans.iter().flat_map(|plan| &plan.injuries).collect();
        for how in ["SIGKILL", "SIGSEGV", "SIGSTOP, SIGCONT", "panic", "exit", "error"] {
            assert!(injuries.iter().any(|injury| injury.how.name() == how), "{how}");
        }
        for who in [Who::Parent, Who::Launcher, Who::Rank(0), Who::Rank(7)] {
            assert!(injuries.iter().any(|injury| injury.who == who), "{who}");
        }
        assert!(plans.iter().any(|plan| plan.injuries.is_empty()));
    }
}
