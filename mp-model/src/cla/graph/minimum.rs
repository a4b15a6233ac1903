//! T_min: the critical path, where nothing is stolen.

use super::{Graph, Node, Notifications, Rules, Times};
use crate::Time;
use crate::cla::program::{Access, Kind, Line};

impl Graph<'_> {
    /// Returns when each node begins and ends if nothing is stolen.
    pub fn minimum(&self, rules: Rules) -> Times {
        let mut times = Times::new(self.program);
        // The ranks that have a valid copy of each line, the last writer first.
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

    /// Returns when all that a wait waits for is written: through the writes joined by E3, "the reordering with less
    /// QPI transfers".
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

    /// Returns the cost of seeing a flag that another rank has written: rules 4 and 5.
    fn look(&self, wait: Node, line: Line, value: u64) -> Time {
        let home = self.home(line);
        let mut others =
            self.awaited(wait).iter().filter(|writer| writer.rank != wait.rank).peekable();
        if others.peek().is_none() {
            return self.machine.parameters.local;
        }
        // Far writers go first, so that a near one has the line in the end, if there is one.
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
            // The models of several lines describe how they are copied, including the stores.
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

    /// Returns the least that one of several ranks pays for counting up a line. [`Graph::all_written`] has the whole
    /// cost.
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
