//! The task farm: an emitter sends images to workers in turn, and a collector takes the results (Buono et al., V.A).

use super::{Micros, Program, Sharing, Step, Stuck, run};

/// How images and results go from thread to thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// By reference.
    ShMem,
    /// Emitter and workers copy.
    NoKt,
    /// Beside each worker, a communication thread copies its results.
    KtW,
    /// Communication threads on cores of their own copy: some for the emitter, and one for each group of workers.
    Specialized {
        /// How many there are for the emitter.
        emitter: usize,
        /// How many workers are in a group.
        group: usize,
    },
    /// On each core with workers, a communication thread copies all images and results of these workers.
    Generalized,
}

/// A farm. The emitter and the collector have a core each.
#[derive(Clone, Copy, Debug)]
pub struct Farm {
    /// The number of workers.
    pub workers: usize,
    /// How many workers, or else communication threads, are on each other core.
    pub per_core: usize,
    /// How messages go.
    pub version: Version,
    /// How long a worker works at an image.
    pub calculation: Micros,
    /// How long the copy of an image takes. A result is as large.
    pub copy: Micros,
    /// The degree of asynchrony of all channels.
    pub degree: usize,
}

const EMITTER: usize = 0;
const COLLECTOR: usize = 1;
const FIRST: usize = 2;

impl Farm {
    /// Returns the service time: the time between two results.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn service_time(&self, sharing: Sharing) -> Result<Micros, Stuck> {
        // The first rounds fill the farm, and the last ones empty it.
        let ends = run(&self.program(), sharing, 24)?;
        Ok((ends[1][19] - ends[1][7]) / (12 * self.workers) as f64)
    }

    /// Returns how many cores the farm takes.
    pub fn cores(&self) -> usize {
        let kts = match self.version {
            Version::Specialized { emitter, group } => emitter + self.workers.div_ceil(group),
            _ => 0,
        };
        FIRST + (self.workers + kts).div_ceil(self.per_core)
    }

    /// Returns the threads: the emitter, the collector, and the workers.
    fn program(&self) -> Program {
        let mut program = Program::default();
        let copy = if self.version == Version::ShMem { 0.0 } else { self.copy };
        let place = |thread: usize| FIRST + thread / self.per_core;
        let kts: Vec<_> = match self.version {
            Version::Specialized { emitter, group } => {
                let kts = emitter + self.workers.div_ceil(group);
                (0..kts).map(|kt| program.kt(place(self.workers + kt))).collect()
            }
            Version::KtW => (0..self.workers).map(|worker| program.kt(place(worker))).collect(),
            Version::Generalized => {
                (FIRST..=place(self.workers - 1)).map(|core| program.kt(core)).collect()
            }
            Version::ShMem | Version::NoKt => Vec::new(),
        };
        let (mut emitter, mut collector, mut workers) = (Vec::new(), Vec::new(), Vec::new());
        for worker in 0..self.workers {
            let image = program.channel(self.degree, copy);
            let result = program.channel(self.degree, copy);
            let (of_emitter, of_worker) = match self.version {
                Version::ShMem | Version::NoKt => (None, None),
                Version::KtW => (None, Some(kts[worker])),
                Version::Specialized { emitter, group } => {
                    (Some(kts[worker % emitter]), Some(kts[emitter + worker / group]))
                }
                Version::Generalized => {
                    let kt = kts[worker / self.per_core];
                    (Some(kt), Some(kt))
                }
            };
            let send = |channel, kt: Option<usize>| match kt {
                Some(kt) => vec![Step::Wait(channel), Step::Delegate(channel, kt)],
                None => vec![Step::Send(channel)],
            };
            emitter.extend(send(image, of_emitter));
            collector.extend([Step::Receive(result), Step::Release(result)]);
            let mut steps =
                vec![Step::Receive(image), Step::Work(self.calculation), Step::Release(image)];
            steps.extend(send(result, of_worker));
            workers.push(steps);
        }
        program.thread(EMITTER, emitter);
        program.thread(COLLECTOR, collector);
        for (worker, steps) in workers.into_iter().enumerate() {
            program.thread(place(worker), steps);
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARING: Sharing = Sharing { demand: 0.5 };

    fn service_time(workers: usize, version: Version, degree: usize) -> Micros {
        let farm = Farm { workers, per_core: 1, version, calculation: 90.0, copy: 9.0, degree };
        farm.service_time(SHARING).unwrap()
    }

    #[track_caller]
    fn near(value: Micros, expected: Micros) {
        assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
    }

    #[test]
    fn the_slower_of_workers_and_emitter_sets_the_pace() {
        near(service_time(3, Version::ShMem, 2), 30.0);
        near(service_time(3, Version::NoKt, 2), 33.0);
        near(service_time(20, Version::NoKt, 2), 9.0);
        near(service_time(30, Version::Specialized { emitter: 2, group: 5 }, 2), 4.5);
        near(service_time(30, Version::Specialized { emitter: 4, group: 15 }, 2), 4.5);
        near(service_time(30, Version::Specialized { emitter: 4, group: 5 }, 2), 3.0);
    }

    #[test]
    fn a_sibling_that_copies_slows_its_worker() {
        near(service_time(3, Version::KtW, 2), 31.0);
        near(service_time(3, Version::Generalized, 2), 32.0);
    }

    #[test]
    fn with_one_room_an_image_cannot_come_meanwhile() {
        // The result is copied while the worker waits for the image.
        near(service_time(1, Version::KtW, 1), 99.0);
        near(service_time(1, Version::KtW, 2), 93.0);
    }
}
