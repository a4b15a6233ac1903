//! T_max: every rank that polls a line steals it.

use super::{Graph, Node, Rules, Stealing, Times};
use crate::Time;
use crate::cla::Invalidation;
use crate::cla::program::{Access, Kind, Line};

impl Graph<'_> {
    pub(super) fn maximum(&self, rules: Rules) -> Times {
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

    /// Returns R_R or R_Q to a rank from the farthest of those that use a line.
    fn farthest(&self, line: Line, rank: usize) -> Time {
        let others = self.users[line.index()].iter().filter(|&&other| other != rank);
        let transfer = others.map(|&other| self.machine.transfer(other, rank, self.home(line)));
        transfer.max().unwrap_or_default()
    }

    fn thieves(&self, line: Line, rank: usize) -> impl Iterator<Item = usize> {
        self.pollers[line.index()].iter().copied().filter(move |&other| other != rank)
    }

    /// Returns what is in the way when a rank comes to a line: the first fetch, or another rank's look.
    fn in_the_way(&self, line: Line, rank: usize, known: bool) -> Time {
        let look = self.farthest(line, rank);
        match known {
            false if self.pollers[line.index()].len() > 1 => self.first(line, rank).max(look),
            false => self.first(line, rank),
            true => look.max(self.machine.parameters.local),
        }
    }

    /// Returns the cost of a write to a line that all ranks that poll it have.
    fn take_back(&self, line: Line, rank: usize, rules: Rules) -> Time {
        let one = self.farthest(line, rank);
        let read = match (rules.stealing, self.machine.parameters.invalidation) {
            (Stealing::Once, _) | (_, Invalidation::Once) => one,
            (Stealing::Each, Invalidation::EachSharer) => {
                let sharers = self.thieves(line, rank).count() as u64;
                (sharers * self.machine.parameters.near.transfer).max(one)
            }
        };
        // If no rank has the line, there is nothing to take back.
        let more = if one == Time::ZERO { one } else { self.machine.parameters.more_to_write() };
        read + more
    }

    /// Returns the cost of another look at a line. In the worst case, readers that contend come one after the other.
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
        // Ranks that wait for this write have enough counted to make up for what their first looks do to each other.
        // The rank's next steps have not.
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

    /// Returns the cost of a write to a line that others have only read.
    fn shared(&self, line: Line, rank: usize) -> Time {
        let others = self.users[line.index()].iter().filter(|&&other| other != rank).count() as u64;
        let each = match self.machine.parameters.invalidation {
            Invalidation::EachSharer => others * self.machine.parameters.near.transfer,
            Invalidation::Once => Time::ZERO,
        };
        let one = self.farthest(line, rank);
        let more = if one == Time::ZERO { one } else { self.machine.parameters.more_to_write() };
        each.max(one) + more
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

    /// Returns whether no other rank writes a line.
    fn is_private(&self, line: Line, rank: usize) -> bool {
        let writes = |access: &Access| access.line == line && access.kind.writes();
        self.users[line.index()]
            .iter()
            .filter(|&&other| other != rank)
            .all(|&other| !self.accesses[other].iter().flatten().any(writes))
    }
}
