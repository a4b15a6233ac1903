//! From primitives to bounds (section 2.4).
//!
//! Nodes are the primitives of all ranks. Edges:
//!
//! - E1: a rank's steps, one after the other;
//! - E2: who reads waits for who wrote;
//! - E3: several ranks write one line, in any order, while somebody waits for all of them;
//! - E4: a rank polls a line that others write in another stage, and may steal it. Only for the maximum.
//!
//! **The minimum** is the longest path along E1, E2 and E3, where a path that comes to writes joined by
//! E3 goes through all of them, the ones from other groups first. Nodes cost what the paper's five rules
//! say: R_I for a line that is still in memory, R_L for one that the rank has, R_R or R_Q for one that
//! another has written, T_C where several read it on a machine with contention.
//!
//! **The maximum.** The paper gives no rule beyond "line stealing, mainly by waits". The one here is: a
//! rank that waits has looked too early, which brings the line to it (R_I); then each write that it
//! waits for must take the line back from all that poll it, and is stolen by another look:
//!
//! wait ≤ later of (the rank is there, the writes begin) + R_I + Σ over the writes (take back + look)
//!
//! This gives equations 8, 9, 12, 13 and 33 to the letter. See [`equations`](super::equations) for
//! those that it does not give, and why.

use std::collections::{BTreeSet, HashMap};

use thiserror::Error;

use super::program::{Access, Kind, Line, Primitive, Program};
use super::{Invalidation, Machine};
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
    /// By line: who polls it, at any time.
    pollers: Vec<BTreeSet<usize>>,
    /// By line: who does anything with it.
    users: Vec<BTreeSet<usize>>,
    /// By line: who copies from it.
    readers: Vec<BTreeSet<usize>>,
    /// By line: who counts it up, once for each time.
    adders: Vec<Vec<usize>>,
    /// By line and value: how many wait for it.
    together: HashMap<(Line, u64), u64>,
}

/// A step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Whose.
    pub rank: usize,
    /// Which, from 0.
    pub step: usize,
}

/// What joins two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// From where.
    pub from: Node,
    /// To where.
    pub to: Node,
    /// Why.
    pub kind: EdgeKind,
}

/// The four kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// E1: the next step of the same rank.
    Sequence,
    /// E2: the reader needs what the writer wrote.
    Dependency,
    /// E3: both write a line for which a third waits; in no order.
    Exclusion,
    /// E4: a write, and a poll of another stage that may steal its line.
    Stealing,
}

/// What the paper leaves to the one who models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How often lines are stolen, for the maximum.
    pub stealing: Stealing,
    /// What writes joined by E3 are taken to do, for the minimum.
    pub notifications: Notifications,
}

/// How pessimistic the maximum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stealing {
    /// All that poll a line steal it each time.
    #[default]
    Each,
    /// "One interference per operation", with which the paper refines the maximum of the dissemination
    /// barrier (equation 28): once taken away, once fetched again, whoever it is.
    Once,
}

/// How ranks that count up one flag get in each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notifications {
    /// All of them after the last is there: the rule for E3.
    #[default]
    Together,
    /// Each when it comes, so that the early ones overlap with work elsewhere ("we evaluate the impact
    /// of considering overlapping", section 5.1.2).
    AsTheyCome,
}

/// The least and the most that an algorithm takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// T_min: nothing is stolen.
    pub min: Time,
    /// T_max: everything is.
    pub max: Time,
}

/// Why a program has no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// It has other ranks than the machine.
    #[error("a program of {program} ranks on a machine with {machine}")]
    Ranks {
        /// How many the program has.
        program: usize,
        /// How many the machine has.
        machine: usize,
    },
    /// A flag never gets the value.
    #[error("step {} of rank {} waits for a value that its flag never has", .0.step, .0.rank)]
    NeverWritten(Node),
    /// A flag is counted up further than the value, or both written and counted: it cannot be said
    /// which of the writes are waited for.
    #[error("step {} of rank {} waits for some of several writes, and it is open for which", .0.step, .0.rank)]
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

    /// T_min and T_max: until the last rank is done.
    pub fn bounds(&self, rules: Rules) -> Bounds {
        Bounds { min: self.minimum(rules).end(), max: self.maximum(rules).end() }
    }

    /// Bounds that hold whatever happens, where the model's minimum is what to optimize for: the maximum
    /// as it is, and the minimum with early notifications, and with [`Parameters::least`].
    ///
    /// # Errors
    /// [`GraphError`].
    ///
    /// [`Parameters::least`]: super::Parameters::least
    pub fn certain(program: &Program, machine: &Machine) -> Result<Bounds, GraphError> {
        let max = Graph::new(program, machine)?.maximum(Rules::default()).end();
        let least = Machine { parameters: machine.parameters.least(), ..machine.clone() };
        let overlap = Rules { notifications: Notifications::AsTheyCome, ..Rules::default() };
        Ok(Bounds { min: Graph::new(program, &least)?.minimum(overlap).end(), max })
    }

    /// All edges between nodes.
    pub fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        let mut last_writer = vec![None; self.program.line_count()];
        for &to in &self.order {
            if to.step > 0 {
                let from = Node { rank: to.rank, step: to.step - 1 };
                edges.insert(Edge { from, to, kind: EdgeKind::Sequence });
            }
            let writers = self.awaited(to);
            for (index, &from) in writers.iter().enumerate() {
                if from.rank != to.rank {
                    edges.insert(Edge { from, to, kind: EdgeKind::Dependency });
                }
                for &other in &writers[index + 1..] {
                    edges.insert(Edge { from, to: other, kind: EdgeKind::Exclusion });
                }
            }
            for access in &self.accesses[to.rank][to.step] {
                let writer = &mut last_writer[access.line.index()];
                if access.kind.writes() {
                    *writer = Some(to);
                } else if let (Some(from), Kind::Load { .. }) = (*writer, access.kind)
                    && from.rank != to.rank
                {
                    edges.insert(Edge { from, to, kind: EdgeKind::Dependency });
                }
            }
        }
        for from in nodes(self.program) {
            let Some(line) = self.program.steps(from.rank)[from.step].flag() else { continue };
            for to in nodes(self.program) {
                let polls = matches!(self.program.steps(to.rank)[to.step], Primitive::Wait { line: polled, .. } if polled == line);
                if polls && to.rank != from.rank && !self.awaited(to).contains(&from) {
                    edges.insert(Edge { from, to, kind: EdgeKind::Stealing });
                }
            }
        }
        edges
    }

    /// The path that is as long as the minimum, from its first node to its last.
    pub fn critical_path(&self, rules: Rules) -> Vec<Node> {
        let times = self.minimum(rules);
        let mut path = Vec::new();
        let mut at = self.order.iter().copied().max_by_key(|&node| times.finish(node));
        while let Some(node) = at {
            path.push(node);
            let writers = self.awaited(node);
            let last = writers.iter().copied().max_by_key(|&writer| times.start(writer));
            at = match last {
                Some(last) if times.waited(node) => {
                    path.extend(writers.iter().filter(|&&writer| writer != last));
                    Some(last)
                }
                _ => node.step.checked_sub(1).map(|step| Node { rank: node.rank, step }),
            };
        }
        path.reverse();
        path
    }

    /// The writes that a wait waits for; empty for other nodes.
    fn awaited(&self, node: Node) -> &[Node] {
        &self.writers[node.rank][node.step]
    }

    fn accesses(&self, node: Node) -> &[Access] {
        &self.accesses[node.rank][node.step]
    }

    /// What the first access to a line costs a rank.
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

/// Each node after its rank's step before and after what it waits for.
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
struct Times {
    spans: Vec<Vec<(Time, Time)>>,
    /// Of waits: whether the writes were later than the rank.
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

    fn start(&self, node: Node) -> Time {
        self.spans[node.rank][node.step].0
    }

    fn finish(&self, node: Node) -> Time {
        self.spans[node.rank][node.step].1
    }

    fn waited(&self, node: Node) -> bool {
        self.waited.contains(&node)
    }

    fn end(&self) -> Time {
        self.clock.iter().copied().max().unwrap_or_default()
    }
}

/// The minimum.
impl Graph<'_> {
    fn minimum(&self, rules: Rules) -> Times {
        let mut times = Times::new(self.program);
        // Who has a valid copy of each line, the last writer first.
        let initially = |line| self.program.shape(Line::at(line)).cached.into_iter().collect();
        let mut holders: Vec<Vec<usize>> = (0..self.program.line_count()).map(initially).collect();
        for &node in &self.order {
            let rank = node.rank;
            let mut clock = times.clock[rank];
            for access in self.accesses(node) {
                let holds = &mut holders[access.line.index()];
                match access.kind {
                    Kind::Poll(value) => {
                        let written = self.all_written(node, access.line, rules, &times);
                        if written > clock {
                            times.waited.insert(node);
                            clock = written;
                        }
                        clock += self.look(node, access.line, value);
                        add(holds, rank);
                    }
                    Kind::Load { combine } => {
                        clock += self.load(access.line, rank, combine, holds);
                        add(holds, rank);
                    }
                    Kind::Store | Kind::Set(_) | Kind::Increment => {
                        clock += self.write(node, *access, holds);
                        *holds = vec![rank];
                    }
                }
            }
            times.set(node, clock);
        }
        times
    }

    /// When all that a wait waits for is written: through the writes joined by E3, "the reordering with
    /// less QPI transfers".
    fn all_written(&self, wait: Node, line: Line, rules: Rules, times: &Times) -> Time {
        let mut group = self.awaited(wait).to_vec();
        if let [write] = group[..] {
            return times.finish(write);
        }
        let home = self.home(line);
        let far = |node: &Node| !self.machine.placement.near(node.rank, home);
        match rules.notifications {
            Notifications::Together => group.sort_by_key(|node| (!far(node), times.start(*node))),
            Notifications::AsTheyCome => group.sort_by_key(|node| (times.start(*node), !far(node))),
        }
        let mut written = match rules.notifications {
            Notifications::Together => group.iter().map(|&node| times.start(node)).max(),
            Notifications::AsTheyCome => None,
        }
        .unwrap_or_default();
        for (index, &node) in group.iter().enumerate() {
            let cost = match index {
                0 => self.first(line, node.rank),
                _ => self.machine.transfer(group[index - 1].rank, node.rank, home),
            };
            written = written.max(times.start(node)) + cost;
        }
        written
    }

    /// What it costs to see a flag that another has written: rules 4 and 5.
    fn look(&self, wait: Node, line: Line, value: u64) -> Time {
        let home = self.home(line);
        let mut others =
            self.awaited(wait).iter().filter(|writer| writer.rank != wait.rank).peekable();
        if others.peek().is_none() {
            return self.machine.parameters.local;
        }
        // Far ones go first, so it is a near one that has the line in the end, if there is one.
        let near = others.any(|writer| self.machine.near(writer.rank, wait.rank, home));
        let together = self.together.get(&(line, value)).copied().unwrap_or_default();
        self.machine.parameters.read(near, together)
    }

    fn load(&self, line: Line, rank: usize, combine: bool, holders: &[usize]) -> Time {
        let (parameters, lines) = (&self.machine.parameters, self.program.shape(line).lines);
        if holders.contains(&rank) {
            return lines * parameters.local;
        }
        let Some(&owner) = holders.first() else {
            return lines * parameters.near.memory;
        };
        let near = self.machine.near(owner, rank, self.home(line));
        let readers = self.readers[line.index()].len() as u64;
        match (combine, lines) {
            (true, 1) => parameters.link(near).transfer,
            (true, _) => parameters.link(near).lines.cost(1, lines),
            (false, 1) => parameters.read(near, readers),
            (false, _) => parameters.copy(near, readers, lines),
        }
    }

    fn write(&self, node: Node, access: Access, holders: &[usize]) -> Time {
        let (line, rank) = (access.line, node.rank);
        if self.program.shape(line).lines > 1 {
            // The models of several lines are of copying them, storing included.
            return Time::ZERO;
        }
        if access.kind == Kind::Increment {
            return self.increment(line, rank);
        }
        match holders.first() {
            _ if holders.contains(&rank) => self.machine.parameters.local,
            Some(&owner) => self.machine.transfer(owner, rank, self.home(line)),
            None => self.first(line, rank),
        }
    }

    /// The least that one of several ranks pays that count up a line: what the whole of it takes is in
    /// [`Graph::all_written`].
    fn increment(&self, line: Line, rank: usize) -> Time {
        let first = self.first(line, rank);
        let others = self.adders[line.index()].iter().filter(|&&other| other != rank);
        let transfer = others.map(|&other| self.machine.transfer(other, rank, self.home(line)));
        transfer.min().map_or(first, |transfer| transfer.min(first))
    }
}

fn add(holders: &mut Vec<usize>, rank: usize) {
    if !holders.contains(&rank) {
        holders.push(rank);
    }
}

/// The maximum.
impl Graph<'_> {
    fn maximum(&self, rules: Rules) -> Times {
        let mut times = Times::new(self.program);
        let mut accessed = vec![vec![false; self.program.line_count()]; self.program.ranks()];
        for &node in &self.order {
            let rank = node.rank;
            let mut clock = times.clock[rank];
            for access in self.accesses(node) {
                let known = std::mem::replace(&mut accessed[rank][access.line.index()], true);
                match access.kind {
                    Kind::Poll(_) => {
                        let writers = self.awaited(node).iter();
                        let begun = writers.map(|&writer| times.start(writer)).max();
                        let begun = begun.unwrap_or_default();
                        if begun > clock {
                            times.waited.insert(node);
                            clock = begun;
                        }
                        clock += self.in_the_way(access.line, rank, known);
                        for writer in self.awaited(node) {
                            clock += self.take_back(access.line, writer.rank, rules);
                            clock += self.look_again(access.line, rank, rules);
                        }
                    }
                    Kind::Load { combine } => {
                        clock += self.slowest_load(access.line, rank, combine, known);
                    }
                    Kind::Store | Kind::Set(_) | Kind::Increment => {
                        clock += self.slowest_write(node, *access, known, rules);
                    }
                }
            }
            times.set(node, clock);
        }
        times
    }

    /// R_R or R_Q to a rank from the farthest of those that use a line.
    fn farthest(&self, line: Line, rank: usize) -> Time {
        let others = self.users[line.index()].iter().filter(|&&other| other != rank);
        let transfer = others.map(|&other| self.machine.transfer(other, rank, self.home(line)));
        transfer.max().unwrap_or_default()
    }

    fn thieves(&self, line: Line, rank: usize) -> impl Iterator<Item = usize> {
        self.pollers[line.index()].iter().copied().filter(move |&other| other != rank)
    }

    /// What of a line is under way when a rank comes to it: the first fetch, or somebody's look.
    fn in_the_way(&self, line: Line, rank: usize, known: bool) -> Time {
        let look = self.farthest(line, rank);
        match known {
            false if self.pollers[line.index()].len() > 1 => self.first(line, rank).max(look),
            false => self.first(line, rank),
            true => look.max(self.machine.parameters.local),
        }
    }

    /// A write to a line that all who poll it have.
    fn take_back(&self, line: Line, rank: usize, rules: Rules) -> Time {
        let one = self.farthest(line, rank);
        match (rules.stealing, self.machine.parameters.invalidation) {
            (Stealing::Once, _) | (_, Invalidation::Once) => one,
            (Stealing::Each, Invalidation::EachSharer) => {
                let sharers = self.thieves(line, rank).count() as u64;
                (sharers * self.machine.parameters.near.transfer).max(one)
            }
        }
    }

    /// Another look at a line. Readers that contend do not come at the same time in the worst case, but
    /// one after the other.
    fn look_again(&self, line: Line, rank: usize, rules: Rules) -> Time {
        let one = self.farthest(line, rank);
        match (rules.stealing, &self.machine.parameters.contention) {
            (Stealing::Each, Some(_)) => self.pollers[line.index()].len() as u64 * one,
            _ => one,
        }
    }

    fn slowest_write(&self, node: Node, access: Access, known: bool, rules: Rules) -> Time {
        let (line, rank) = (access.line, node.rank);
        if self.program.shape(line).lines > 1 {
            return Time::ZERO;
        }
        // Those who wait for this write have enough counted to make up for what their first looks do to
        // each other; what the rank does next has not.
        let contended = self.machine.parameters.contention.map_or(Time::ZERO, |contention| {
            (self.pollers[line.index()].len() as u64).saturating_sub(1) * contention.reader
        });
        let first = match rules.stealing {
            Stealing::Each => self.in_the_way(line, rank, known) + contended,
            Stealing::Once => self.in_the_way(line, rank, known),
        };
        if self.thieves(line, rank).next().is_none() {
            return match known {
                false => first.max(self.shared(line, rank)),
                true => self.machine.parameters.local.max(self.shared(line, rank)),
            };
        }
        match (rules.stealing, access.kind) {
            (Stealing::Once, _) => first + 2 * self.farthest(line, rank),
            (Stealing::Each, Kind::Increment) => {
                // In the worst order, all the others are before it.
                let adders = &self.adders[line.index()];
                let one = |adder: &usize| self.take_back(line, *adder, rules);
                let looks = self.look_again(line, rank, rules);
                first + adders.iter().map(one).sum::<Time>() + (adders.len() as u64 - 1) * looks
            }
            (Stealing::Each, _) => first + self.take_back(line, rank, rules),
        }
    }

    /// A write to a line that others have only read.
    fn shared(&self, line: Line, rank: usize) -> Time {
        let others = self.users[line.index()].iter().filter(|&&other| other != rank).count() as u64;
        let each = match self.machine.parameters.invalidation {
            Invalidation::EachSharer => others * self.machine.parameters.near.transfer,
            Invalidation::Once => Time::ZERO,
        };
        each.max(self.farthest(line, rank))
    }

    fn slowest_load(&self, line: Line, rank: usize, combine: bool, known: bool) -> Time {
        let (parameters, shape) = (&self.machine.parameters, self.program.shape(line));
        let (lines, one) = (shape.lines, self.farthest(line, rank));
        if (known || shape.cached == Some(rank)) && self.is_private(line, rank) {
            return lines * parameters.local;
        }
        let mut users = self.users[line.index()].iter();
        let near = users.all(|&user| self.machine.near(user, rank, shape.home));
        let readers = self.readers[line.index()].len().max(1) as u64;
        let crossing = self.machine.ranks() as u64;
        match (combine, lines) {
            (true, 1) => one,
            (true, _) => parameters.link(near).lines.cost(crossing, lines),
            (false, 1) if parameters.contention.is_none() => one,
            (false, 1) => readers * one,
            // "Children may not copy the message at the same time" (section 4.2), or all that can cross
            // at the same time do.
            (false, _) => {
                let home = self.home(line);
                let alone = |&reader: &usize| {
                    let near = self.machine.placement.near(reader, home);
                    parameters.copy(near, 1, lines).max(parameters.link(near).lines.cost(1, lines))
                };
                let one_by_one = self.readers[line.index()].iter().map(alone).sum::<Time>();
                one_by_one.max(parameters.link(near).lines.cost(crossing, lines))
            }
        }
    }

    /// Whether nobody else writes a line.
    fn is_private(&self, line: Line, rank: usize) -> bool {
        let writes = |access: &Access| access.line == line && access.kind.writes();
        self.users[line.index()]
            .iter()
            .filter(|&&other| other != rank)
            .all(|&other| !self.accesses[other].iter().flatten().any(writes))
    }
}

impl std::ops::Add for Bounds {
    type Output = Bounds;
    /// One after the other.
    fn add(self, other: Bounds) -> Bounds {
        Bounds { min: self.min + other.min, max: self.max + other.max }
    }
}
