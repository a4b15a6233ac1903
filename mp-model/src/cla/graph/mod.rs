//! From primitives to bounds (section 2.4).
//!
//! Nodes are the primitives of all ranks. Edges:
//!
//! - E1: a rank's steps, one after the other;
//! - E2: a rank that reads waits for the rank that wrote;
//! - E3: several ranks write one line, in any order, while another rank waits for all of them;
//! - E4: a rank polls a line that others write in another stage, and may steal it. Only for the maximum.
//!
//! **The minimum** is the longest path along E1, E2 and E3. A path that comes to writes joined by E3 goes through all
//! of them, and those from other groups come first. The costs of nodes follow the paper's five rules: R_I for a line
//! that is still in memory, R_L for a line that the rank has, R_R or R_Q for a line that another rank has written, T_C
//! if several ranks read it on a machine with contention.
//!
//! **The maximum.** The paper gives no rule beyond "line stealing, mainly by waits". The rule here is: a rank that
//! waits has read the line too early, which brings it to that rank (R_I). Then each write that it waits for must take
//! the line back from all polling ranks, and another read steals it again:
//!
//! wait ≤ later of (the rank is there, the writes begin) + R_I + Σ over the writes (take back + read)
//!
//! This gives equations 8, 9, 12 and 13 exactly, and 33 except for one R_I that its minimum lacks as well. The
//! equations that it does not give, and why, are in `research/src/cla/equations.rs`.
//!
//! If a write to a line of another core takes [longer than a read](super::Parameters::write), as on a Zen 5 (1.8 times
//! as long), each take-back takes that much longer. The paper's machines have no such parameter.
//!
//! **Not in either**: the work of a rank between its accesses to lines. The checks of a call, the loops over a payload,
//! and the combining itself take some 10 to 20 ns in a reduction of one line between two cores.

mod maximum;
mod minimum;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use thiserror::Error;

use super::Machine;
use super::program::{Access, Line, Primitive, Program};
use crate::Time;

/// A program as a graph, on a machine.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    program: &'a Program,
    machine: &'a Machine,
    accesses: Vec<Vec<Vec<Access>>>,
    /// By rank and step: for waits, what they wait for.
    writers: Vec<Vec<Vec<Node>>>,
    /// The nodes, each after those that it depends on.
    order: Vec<Node>,
    /// By line: the ranks that poll it, at any time.
    pollers: Vec<BTreeSet<usize>>,
    /// By line: the ranks that use it.
    users: Vec<BTreeSet<usize>>,
    /// By line: the ranks that copy from it.
    readers: Vec<BTreeSet<usize>>,
    /// By line: the ranks that count it up, once for each time.
    adders: Vec<Vec<usize>>,
    /// By line and value: the number of ranks that wait for it.
    together: HashMap<(Line, u64), u64>,
}

/// A step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The rank.
    pub rank: usize,
    /// The number of the step, from 0.
    pub step: usize,
}

/// The choices that the paper leaves to the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How often lines are stolen, for the maximum.
    pub stealing: Stealing,
    /// How writes joined by E3 are counted, for the minimum.
    pub notifications: Notifications,
}

/// How pessimistic the maximum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stealing {
    /// Every rank that polls a line steals it each time.
    #[default]
    Each,
    /// "One interference per operation", with which the paper refines the maximum of the dissemination barrier
    /// (equation 28): a line is taken away once and fetched again once, by any rank.
    Once,
}

/// How ranks that count up one flag hinder each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notifications {
    /// All count after the last one has come: the rule for E3.
    #[default]
    Together,
    /// Each counts when it comes, so that the early ones overlap with work elsewhere ("we evaluate the impact of
    /// considering overlapping", section 5.1.2).
    AsTheyCome,
}

/// The least and the most that an algorithm takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// T_min: nothing is stolen.
    pub min: Time,
    /// T_max: everything is stolen.
    pub max: Time,
}

/// Why a program has no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// The program has other ranks than the machine.
    #[error(
        "a program of {program} ranks can't run on a machine with {machine}: the numbers must be equal"
    )]
    Ranks {
        /// The program's number of ranks.
        program: usize,
        /// The machine's number of ranks.
        machine: usize,
    },
    /// A flag never gets the value.
    #[error("step {} of rank {} waits for a value that its flag never has", .0.step, .0.rank)]
    NeverWritten(Node),
    /// A flag is counted up further than the value, or is both written and counted. So it is unclear which of the
    /// writes are waited for.
    #[error("step {} of rank {} waits for a value that several writes satisfy: it must be clear for which", .0.step, .0.rank)]
    Ambiguous(Node),
    /// Ranks wait for each other.
    #[error("step {} of rank {} waits for something that comes after it", .0.step, .0.rank)]
    Deadlock(Node),
}

impl<'a> Graph<'a> {
    /// Finds the edges.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn new(program: &'a Program, machine: &'a Machine) -> Result<Graph<'a>, GraphError> {
        let (ranks, there) = (program.ranks(), machine.ranks());
        if ranks != there {
            return Err(GraphError::Ranks { program: ranks, machine: there });
        }
        let mut together = HashMap::new();
        let mut of_line = vec![Uses::default(); program.line_count()];
        for node in nodes(program) {
            let primitive = program.steps(node.rank)[node.step];
            for line in primitive.lines().into_iter().flatten() {
                of_line[line.index()].users.insert(node.rank);
            }
            match primitive {
                Primitive::Write { line, value } => {
                    of_line[line.index()].writes.push((value, node))
                }
                Primitive::Add { line, from: None } => of_line[line.index()].adds.push(node),
                Primitive::Wait { line, value } => {
                    *together.entry((line, value)).or_default() += 1;
                    of_line[line.index()].pollers.insert(node.rank);
                }
                Primitive::Copy { from, .. } => {
                    of_line[from.index()].readers.insert(node.rank);
                }
                Primitive::Add { .. } => {}
            }
        }
        let mut writers: Vec<_> =
            (0..ranks).map(|rank| vec![Vec::new(); program.steps(rank).len()]).collect();
        for node in nodes(program) {
            if let Primitive::Wait { line, value } = program.steps(node.rank)[node.step] {
                writers[node.rank][node.step] = of_line[line.index()].awaited(value, node)?;
            }
        }
        let order = order(program, &writers)?;
        Ok(Graph {
            program,
            machine,
            accesses: program.accesses(),
            writers,
            order,
            together,
            pollers: of_line.iter().map(|uses| uses.pollers.clone()).collect(),
            users: of_line.iter().map(|uses| uses.users.clone()).collect(),
            adders: of_line
                .iter()
                .map(|uses| uses.adds.iter().map(|add| add.rank).collect())
                .collect(),
            readers: of_line.into_iter().map(|uses| uses.readers).collect(),
        })
    }

    /// Returns T_min and T_max: until the last rank is done.
    pub fn bounds(&self, rules: Rules) -> Bounds {
        Bounds { min: self.minimum(rules).end(), max: self.maximum(rules).end() }
    }

    /// Returns the nodes, each after those that it depends on.
    pub fn order(&self) -> &[Node] {
        &self.order
    }

    /// Returns the writes that a wait waits for; nothing for other nodes.
    pub fn awaited(&self, node: Node) -> &[Node] {
        &self.writers[node.rank][node.step]
    }

    fn accesses(&self, node: Node) -> &[Access] {
        &self.accesses[node.rank][node.step]
    }

    /// Returns what a rank's first access to a line costs.
    fn first(&self, line: Line, rank: usize) -> Time {
        let shape = self.program.shape(line);
        match shape.cached {
            None => self.machine.parameters.near.memory,
            Some(owner) if owner == rank => self.machine.parameters.local,
            Some(owner) => self.machine.transfer(owner, rank, shape.home),
        }
    }

    fn home(&self, line: Line) -> usize {
        self.program.shape(line).home
    }
}

/// How each line is used.
#[derive(Clone, Default)]
struct Uses {
    writes: Vec<(u64, Node)>,
    adds: Vec<Node>,
    pollers: BTreeSet<usize>,
    users: BTreeSet<usize>,
    readers: BTreeSet<usize>,
}

impl Uses {
    fn awaited(&self, value: u64, node: Node) -> Result<Vec<Node>, GraphError> {
        match (self.writes.is_empty(), self.adds.is_empty()) {
            _ if value == 0 => Ok(Vec::new()),
            (false, false) => Err(GraphError::Ambiguous(node)),
            (true, _) if (self.adds.len() as u64) < value => Err(GraphError::NeverWritten(node)),
            (true, _) if self.adds.len() as u64 > value => Err(GraphError::Ambiguous(node)),
            (true, _) => Ok(self.adds.clone()),
            (false, true) => {
                let enough = self.writes.iter().filter(|&&(written, _)| written >= value);
                let first = enough.min().ok_or(GraphError::NeverWritten(node))?;
                Ok(vec![first.1])
            }
        }
    }
}

fn nodes(program: &Program) -> impl Iterator<Item = Node> {
    (0..program.ranks())
        .flat_map(|rank| (0..program.steps(rank).len()).map(move |step| Node { rank, step }))
}

/// Returns the nodes, each after its rank's step before and after what it waits for.
fn order(program: &Program, writers: &[Vec<Vec<Node>>]) -> Result<Vec<Node>, GraphError> {
    let mut next = vec![0; program.ranks()];
    let mut order = Vec::new();
    loop {
        let before = order.len();
        for rank in 0..program.ranks() {
            while let Some(awaited) = writers[rank].get(next[rank]) {
                // A rank's own writes of the same group are before it by E1.
                if awaited.iter().any(|node| node.step >= next[node.rank]) {
                    break;
                }
                order.push(Node { rank, step: next[rank] });
                next[rank] += 1;
            }
        }
        if order.len() == before {
            break;
        }
    }
    let stuck = (0..program.ranks()).find(|&rank| next[rank] < program.steps(rank).len());
    match stuck {
        Some(rank) => Err(GraphError::Deadlock(Node { rank, step: next[rank] })),
        None => Ok(order),
    }
}

/// When each node begins and ends.
#[derive(Clone, Debug)]
pub struct Times {
    spans: Vec<Vec<(Time, Time)>>,
    /// The waits whose writes came later than the rank.
    waited: BTreeSet<Node>,
    clock: Vec<Time>,
}

impl Times {
    fn new(program: &Program) -> Times {
        let spans = (0..program.ranks())
            .map(|rank| vec![(Time::ZERO, Time::ZERO); program.steps(rank).len()])
            .collect();
        Times { spans, waited: BTreeSet::new(), clock: vec![Time::ZERO; program.ranks()] }
    }

    fn set(&mut self, node: Node, finish: Time) {
        self.spans[node.rank][node.step] = (self.clock[node.rank], finish);
        self.clock[node.rank] = finish;
    }

    /// Returns when a node begins.
    pub fn start(&self, node: Node) -> Time {
        self.spans[node.rank][node.step].0
    }

    /// Returns when a node ends.
    pub fn finish(&self, node: Node) -> Time {
        self.spans[node.rank][node.step].1
    }

    /// Returns whether a node is a wait whose writes came later than its rank.
    pub fn waited(&self, node: Node) -> bool {
        self.waited.contains(&node)
    }

    fn end(&self) -> Time {
        self.clock.iter().copied().max().unwrap_or_default()
    }
}

impl std::ops::Add for Bounds {
    type Output = Bounds;
    /// Returns the bounds of both, one after the other.
    fn add(self, other: Bounds) -> Bounds {
        Bounds { min: self.min + other.min, max: self.max + other.max }
    }
}

impl fmt::Display for Bounds {
    /// From the least to the most, as [`Time`] writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} to {:.digits$}", self.min, self.max)
    }
}
