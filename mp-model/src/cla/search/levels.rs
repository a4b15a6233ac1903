//! The cost of a tree, level by level.

use super::{Draft, Pattern};
use crate::Time;
use crate::cla::Machine;
use crate::cla::graph::Notifications;

/// The minimum of the graph rules for a pattern over a tree, level by level: equations 32 and 34 with
/// groups and waves.
pub(in crate::cla) struct Levels<'a> {
    pub(in crate::cla) machine: &'a Machine,
    pub(in crate::cla) pattern: Pattern,
    pub(in crate::cla) notifications: Notifications,
    pub(in crate::cla) draft: &'a Draft,
}

impl Levels<'_> {
    pub(in crate::cla) fn minimum(&self) -> Time {
        let root = self.draft.root;
        match self.pattern {
            Pattern::OneToMany => self.told(root, Time::ZERO),
            Pattern::ManyToOne => self.gathered(root),
            Pattern::Broadcast { lines } => self.acknowledged(root, Time::ZERO, lines),
            Pattern::Reduction => self.reduced(root),
        }
    }

    fn waves(&self, rank: usize) -> &[Vec<usize>] {
        &self.draft.waves[rank]
    }

    /// Returns when the last rank below a rank has been told, if that is told now.
    fn told(&self, rank: usize, now: Time) -> Time {
        let (mut clock, mut last) = (now, now);
        for wave in self.waves(rank) {
            clock += self.machine.parameters.near.memory;
            last = last.max(clock);
            for &child in wave {
                last = last.max(self.told(child, clock + self.read(rank, child, wave.len())));
            }
        }
        last
    }

    /// Returns when all ranks below a rank have notified it.
    fn gathered(&self, rank: usize) -> Time {
        self.collect(rank, Time::ZERO, |child| self.gathered(child), |_| Time::ZERO)
    }

    /// Returns when all ranks below a rank have acknowledged, if that has the data now.
    fn acknowledged(&self, rank: usize, now: Time, lines: u64) -> Time {
        let p = &self.machine.parameters;
        let mut clock = now;
        let mut starts = vec![Time::ZERO; self.draft.waves.len()];
        let readers = self.waves(rank).iter().map(Vec::len).sum::<usize>() as u64;
        for (index, wave) in self.waves(rank).iter().enumerate() {
            // Data that has just been copied here is at hand.
            let at_hand = index == 0 && rank != self.draft.root;
            if lines == 1 && !at_hand {
                clock += p.local;
            }
            clock += p.near.memory;
            for &child in wave {
                let data = match lines {
                    0 => Time::ZERO,
                    1 => p.local,
                    _ => p.copy(self.near(rank, child), readers, lines),
                };
                let there = clock + self.read(rank, child, wave.len()) + data;
                starts[child] = self.acknowledged(child, there, lines);
            }
        }
        self.collect(rank, clock, |child| starts[child], |_| Time::ZERO)
    }

    /// Returns when a rank has combined what is below it.
    fn reduced(&self, rank: usize) -> Time {
        let p = &self.machine.parameters;
        let waves = self.waves(rank);
        let mut starts = vec![Time::ZERO; self.draft.waves.len()];
        for (index, wave) in waves.iter().enumerate() {
            let flag = (index as u64 + 1) * p.near.memory;
            for &child in wave {
                let told = self.reduced(child).max(flag) + self.read(rank, child, wave.len());
                starts[child] = told + p.local + self.transfer(rank, child);
            }
        }
        let combine = |children: &[usize]| {
            let reads = children.iter().map(|&child| self.transfer(rank, child)).sum::<Time>();
            reads + p.local
        };
        let written = waves.len() as u64 * p.near.memory;
        self.collect(rank, written, |child| starts[child], combine)
    }

    /// Waits for the children, group by group, and does something with each group.
    fn collect(
        &self,
        rank: usize,
        now: Time,
        start: impl Fn(usize) -> Time,
        then: impl Fn(&[usize]) -> Time,
    ) -> Time {
        let placement = &self.machine.placement;
        let mut children: Vec<usize> = self.waves(rank).iter().flatten().copied().collect();
        children.sort_by_key(|&child| {
            let far = !placement.near(rank, child);
            (
                far,
                if far { std::cmp::Reverse(placement.group(child)) } else { std::cmp::Reverse(0) },
            )
        });
        let mut clock = now;
        for group in children.chunk_by(|&one, &other| placement.near(one, other)) {
            let mut starts: Vec<Time> = group.iter().map(|&child| start(child)).collect();
            let written = self.counted(&mut starts);
            clock = clock.max(written) + self.transfer(rank, group[0]) + then(group);
        }
        clock
    }

    /// Returns when ranks of one group, which come at these times, have counted up a line.
    fn counted(&self, starts: &mut [Time]) -> Time {
        let p = &self.machine.parameters;
        match self.notifications {
            Notifications::Together => {
                let last = starts.iter().copied().max().unwrap_or_default();
                last + p.near.memory + (starts.len() as u64 - 1) * p.near.transfer
            }
            Notifications::AsTheyCome => {
                starts.sort_unstable();
                let mut written = Time::ZERO;
                for (index, &start) in starts.iter().enumerate() {
                    let cost = if index == 0 { p.near.memory } else { p.near.transfer };
                    written = written.max(start) + cost;
                }
                written
            }
        }
    }

    fn near(&self, rank: usize, other: usize) -> bool {
        self.machine.placement.near(rank, other)
    }

    fn transfer(&self, rank: usize, other: usize) -> Time {
        self.machine.parameters.link(self.near(rank, other)).transfer
    }

    fn read(&self, rank: usize, child: usize, readers: usize) -> Time {
        self.machine.parameters.read(self.near(rank, child), readers as u64)
    }
}
