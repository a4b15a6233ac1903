//! The five-point stencil: workers exchange border rows of their parts of a matrix (Buono et al., V.B, algorithm 1).

use super::{ChannelId, Micros, Program, Sharing, Step, Stuck, run};

/// How border rows go from worker to worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Workers read their neighbours' rows where they are. A barrier, which takes no time here, separates iterations.
    ShMem,
    /// Workers copy.
    NoKt,
    /// Beside each worker, a communication thread copies.
    KtW,
    /// For each group of so many workers, a communication thread on another core copies.
    Skt(usize),
}

/// A stencil.
#[derive(Clone, Copy, Debug)]
pub struct Stencil {
    /// The number of rows of the matrix.
    pub rows: usize,
    /// The number of workers.
    pub workers: usize,
    /// The number of cores. Workers, and then shared communication threads, take one after the other, in turn.
    pub cores: usize,
    /// How rows go.
    pub version: Version,
    /// How long a worker calculates a row that it has in its own cache.
    pub row: Micros,
    /// How long it takes to copy a row into the memory that another core has in its cache.
    pub copy: Micros,
    /// How much longer a calculation takes if it reads a row line by line from another core's cache.
    pub read: Micros,
}

const ITERATIONS: usize = 12;

impl Stencil {
    /// Returns the time of an iteration.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn iteration(&self, sharing: Sharing) -> Result<Micros, Stuck> {
        let ends = run(&self.program(), sharing, ITERATIONS)?;
        let last = |at: usize| ends.iter().map(|ends| ends[at]).fold(0.0, f64::max);
        Ok((last(ITERATIONS - 1) - last(3)) / (ITERATIONS - 4) as f64)
    }

    /// Returns whether two workers are on different cores.
    fn apart(&self, one: usize, other: usize) -> bool {
        one % self.cores != other % self.cores
    }

    fn program(&self) -> Program {
        let mut program = Program::default();
        let kts: Vec<_> = match self.version {
            Version::KtW => {
                (0..self.workers).map(|worker| program.kt(worker % self.cores)).collect()
            }
            Version::Skt(group) => (self.workers..self.workers + self.workers.div_ceil(group))
                .map(|thread| program.kt(thread % self.cores))
                .collect(),
            Version::ShMem | Version::NoKt => Vec::new(),
        };
        // A shared communication thread has neither of both rows in its cache.
        let transfers = if matches!(self.version, Version::Skt(_)) { 2.0 } else { 1.0 };
        let mut channel = |from, to| {
            let copied = self.version != Version::ShMem && self.apart(from, to);
            program.channel(2, if copied { transfers * self.copy } else { 0.0 })
        };
        let pairs: Vec<(ChannelId, ChannelId)> = (1..self.workers)
            .map(|worker| (channel(worker - 1, worker), channel(worker, worker - 1)))
            .collect();
        for worker in 0..self.workers {
            let north =
                worker.checked_sub(1).map(|pair| (worker - 1, pairs[pair].1, pairs[pair].0));
            let south = pairs.get(worker).map(|pair| (worker + 1, pair.0, pair.1));
            let neighbours: Vec<_> = north.into_iter().chain(south).collect();
            let rows = (self.rows + worker) / self.workers;
            let borders = rows.min(neighbours.len());
            let kt = match self.version {
                Version::ShMem | Version::NoKt => None,
                Version::KtW => Some(kts[worker]),
                Version::Skt(group) => Some(kts[worker / group]),
            };
            let mut steps = Vec::new();
            for &(_, to, _) in &neighbours {
                steps.push(kt.map_or(Step::Send(to), |kt| Step::Delegate(to, kt)));
            }
            steps.push(Step::Work(self.row * (rows - borders) as f64));
            for &(neighbour, _, from) in &neighbours {
                steps.push(Step::Receive(from));
                if self.apart(worker, neighbour) {
                    steps.push(Step::Work(self.read));
                }
            }
            steps.push(Step::Work(self.row * borders as f64));
            for &(_, to, from) in &neighbours {
                steps.extend([Step::Release(from), Step::Wait(to)]);
            }
            program.thread(worker % self.cores, steps);
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four workers with ten rows each.
    fn iteration(cores: usize, version: Version) -> Micros {
        let stencil =
            Stencil { rows: 40, workers: 4, cores, version, row: 10.0, copy: 3.0, read: 5.0 };
        stencil.iteration(Sharing { demand: 0.5 }).unwrap()
    }

    #[track_caller]
    fn near(value: Micros, expected: Micros) {
        assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
    }

    #[test]
    fn workers_pay_for_two_rows() {
        near(iteration(4, Version::ShMem), 110.0);
        near(iteration(4, Version::NoKt), 116.0);
        near(iteration(4, Version::KtW), 112.0);
        near(iteration(6, Version::Skt(2)), 110.0);
    }

    #[test]
    fn rows_of_the_same_core_are_free() {
        near(iteration(1, Version::NoKt), 100.0 * 4.0 * 0.5 / (1.0 - 0.5_f64.powi(4)));
    }
}
