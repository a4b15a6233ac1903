//! The communication threads (KTs) of a farm: which of them serves which channel and where it runs, by a [`KtPlan`],
//! and how many threads there are.
//!
//! Emitter and workers hand their sends to the KTs that the plan names for a channel; the collector
//! sends nothing. A rank without a KT sends as in `no-kt`, which writes straight into the channel.

use std::collections::BTreeSet;

use example_support::{Error, Result, kts};
use onchip::prelude::Sender;
use onchip::threads::{Choice, CommThreads, Delegated};
use onchip::topology::{self, Bind, KtPlacement, KtPlan, Role, Topology, pin_current_thread};
use onchip::trace::Recording;

use super::ranks::{EMITTER, collector_rank, worker_rank};
use super::{Job, Mode, Ranks, placement};

/// The communication threads that a farm has.
#[derive(Clone, Debug, PartialEq)]
pub struct Helped {
    mode: Mode,
    ranks: Ranks,
    plan: KtPlan,
    /// The reason why the plan is not that of the mode.
    refused: Option<String>,
}

fn placement_of(mode: Mode) -> Option<KtPlacement> {
    match mode {
        Mode::ShMem | Mode::NoKt | Mode::Moved => None,
        Mode::KtW => Some(KtPlacement::KtW),
        Mode::KtSpecialized => Some(KtPlacement::SPECIALIZED),
        Mode::KtGeneralized => Some(KtPlacement::Generalized { kts: None }),
    }
}

impl Helped {
    /// Plans the communication threads of a mode; `None` for a mode without any.
    ///
    /// If the machine has no hardware thread for them in the places of the mode, they are placed automatically, or not
    /// at all, unless the job insists.
    ///
    /// # Errors
    /// If the mode does not work with the kind of ranks, the number of threads does not fit it, or the machine can't be
    /// described.
    pub fn plan(job: &Job, mode: Mode, ranks: Ranks) -> Result<Option<Self>> {
        let Some(placement) = placement_of(mode) else { return Ok(None) };
        let topology = Topology::read().map_err(Error::new)?;
        Self::plan_on(&topology, job, mode, ranks, placement).map(Some)
    }

    fn plan_on(
        topology: &Topology,
        job: &Job,
        mode: Mode,
        ranks: Ranks,
        mut placement: KtPlacement,
    ) -> Result<Self> {
        if (mode, ranks) == (Mode::KtGeneralized, Ranks::Processes) {
            return Err(Error::new(
                "mode kt-generalized has threads that send for every rank of a core, which needs \
                 one address space: it needs --ranks threads",
            ));
        }
        let roles = Role::farm(job.workers);
        if let Some(kts) = job.kts {
            placement = placement.with_kts(kts, roles.len()).map_err(Error::new)?;
        }
        let (plan, refused) = if job.force_kts {
            (KtPlan::forced(topology, &roles, &Bind::Auto, placement), None)
        } else {
            match KtPlan::new(topology, &roles, &Bind::Auto, placement) {
                Err(
                    error @ (topology::Error::NoSibling { .. }
                    | topology::Error::TooFewThreads { .. }
                    | topology::Error::NoDedicatedCores { .. }),
                ) => {
                    let automatic = KtPlacement::Automatic;
                    let plan = KtPlan::new(topology, &roles, &Bind::Auto, automatic);
                    (plan, Some(error.to_string()))
                }
                plan => (plan, None),
            }
        };
        Ok(Self { mode, ranks, plan: plan.map_err(Error::new)?, refused })
    }

    /// Returns the communication threads for a channel.
    fn serving(&self, from: usize, to: usize) -> &[usize] {
        // KT-W is for ranks that compute (section V.A.1), so the emitter sends by itself.
        if from == EMITTER && self.plan.chosen() == Some(KtPlacement::KtW) {
            return &[];
        }
        self.plan.serving(from, to)
    }

    /// Returns the numbers in the plan of the threads that have something to do: in all of the farm, or for one rank.
    fn at_work(&self, rank: Option<usize>) -> BTreeSet<usize> {
        let collector = self.plan.ranks() - 1;
        let channels = (worker_rank(0)..collector)
            .flat_map(|worker| [(EMITTER, worker), (worker, collector)])
            .filter(|&(from, _)| rank.is_none_or(|rank| rank == from));
        channels.flat_map(|(from, to)| self.serving(from, to)).copied().collect()
    }

    /// Returns the number of communication threads that run. A rank that is a process has its own.
    pub fn threads(&self) -> usize {
        match self.ranks {
            Ranks::Threads => self.at_work(None).len(),
            Ranks::Processes => {
                (0..self.plan.ranks()).map(|rank| self.at_work(Some(rank)).len()).sum()
            }
        }
    }

    /// Returns why there are none after all.
    pub fn inline(&self) -> Option<String> {
        let inline = self.plan.inline()?;
        Some(format!(
            "{inline}: ranks send inline (--force-kts runs communication threads all the same)"
        ))
    }

    /// Returns why they are not placed as the mode says, and how they are placed instead.
    pub fn placed_otherwise(&self) -> Option<String> {
        let reason = self.refused.as_ref().filter(|_| self.plan.inline().is_none())?;
        let plan = self.plan.explain();
        let first = plan.first().map_or("", String::as_str);
        Some(format!("{}: {reason}; communication threads instead: {first}", self.mode))
    }

    /// Returns where a rank runs; `None` if the system decides, or if there are no communication threads.
    fn cpu(&self, rank: usize) -> Option<usize> {
        self.plan.chosen()?;
        self.plan.cpus().get(rank).copied().flatten()
    }
}

/// The communication threads of a world: those of all ranks, where these are threads.
pub(super) struct Crew<'a> {
    helped: Option<&'a Helped>,
    recording: &'a Recording,
    shared: Option<(CommThreads, Vec<usize>)>,
}

impl<'a> Crew<'a> {
    /// Starts the threads that ranks share. This must be called before the world's ranks start.
    pub(super) fn hire(
        helped: Option<&'a Helped>,
        recording: &'a Recording,
    ) -> onchip::Result<Self> {
        let shared = match helped {
            Some(helped) if helped.ranks == Ranks::Threads => {
                let numbers: Vec<usize> = helped.at_work(None).into_iter().collect();
                Some((kts::start(&helped.plan, &numbers, recording, None)?, numbers))
            }
            _ => None,
        };
        Ok(Self { helped, recording, shared })
    }

    /// Starts the threads of one rank if that is a process, and takes the rank to its core.
    pub(super) fn seat(&self, rank: usize, job: &Job) -> onchip::Result<Helpers<'_>> {
        let (threads, numbers) = match (&self.shared, self.helped) {
            (Some(shared), _) => shared.clone(),
            (None, Some(helped)) => {
                let numbers: Vec<usize> = helped.at_work(Some(rank)).into_iter().collect();
                // This comes before the rank is bound, because threads that are not to be bound inherit that.
                (kts::start(&helped.plan, &numbers, self.recording, Some(rank))?, numbers)
            }
            (None, None) => (CommThreads::start(0)?, Vec::new()),
        };
        match self.helped.and_then(|helped| helped.cpu(rank)) {
            Some(cpu) => {
                // An error is ignored, because frames come out the same wherever they are filtered.
                let _ = pin_current_thread(cpu);
            }
            None => placement::take_place(rank, job),
        }
        Ok(Helpers { helped: self.helped, threads, numbers })
    }
}

/// The communication threads that a rank can hand its sends to.
pub(super) struct Helpers<'a> {
    helped: Option<&'a Helped>,
    threads: CommThreads,
    /// Their numbers in the plan.
    numbers: Vec<usize>,
}

impl Helpers<'_> {
    /// Returns whether a rank's sends are handed to them.
    pub(super) fn serve(&self, rank: usize, job: &Job) -> bool {
        let to = if rank == EMITTER { worker_rank(0) } else { collector_rank(job) };
        self.helped.is_some_and(|helped| !helped.serving(rank, to).is_empty())
    }

    /// Hands them a channel.
    pub(super) fn delegate(&self, sender: Sender<[u8]>, from: usize, to: usize) -> Delegated<[u8]> {
        let serving = self.helped.map_or(&[][..], |helped| helped.serving(from, to));
        let place = |number| self.numbers.iter().position(|known| known == number);
        let set: Vec<usize> = serving.iter().filter_map(place).collect();
        self.threads.delegate_to(sender, &set, Choice::RoundRobin)
    }
}

#[cfg(test)]
mod tests {
    use example_support::machine;

    use super::*;
    use crate::frame::Size;
    use crate::input::Input;
    use crate::output::Output;

    fn job(workers: usize, kts: Option<usize>, force_kts: bool) -> Job {
        let input = Input::Clip(Size::ONE_PIXEL);
        Job { kts, force_kts, ..Job::new(input, Output::Discard, workers) }
    }

    fn plan(machine: &Topology, mode: Mode, ranks: Ranks, job: &Job) -> Result<Helped> {
        Helped::plan_on(machine, job, mode, ranks, placement_of(mode).unwrap())
    }

    #[test]
    fn where_there_is_room_every_mode_is_as_it_is_called() {
        let (large, job) = (machine(8, 2), job(3, None, false));
        let helped = plan(&large, Mode::KtW, Ranks::Threads, &job).unwrap();
        assert_eq!(helped.plan.chosen(), Some(KtPlacement::KtW));
        // There is one thread for each worker, and none for the emitter, which does not compute.
        assert_eq!((helped.threads(), helped.serving(EMITTER, 2)), (3, &[][..]));
        assert_eq!(helped.serving(2, 4), [2]);
        assert!(helped.cpu(2).is_some() && helped.cpu(2) != helped.plan.kts()[2].cpu);
        assert_eq!((helped.inline(), helped.placed_otherwise()), (None, None));

        for (ranks, threads) in [(Ranks::Threads, 2), (Ranks::Processes, 4)] {
            let helped = plan(&large, Mode::KtSpecialized, ranks, &job).unwrap();
            assert!(matches!(helped.plan.chosen(), Some(KtPlacement::Specialized { .. })));
            assert_eq!((helped.threads(), helped.placed_otherwise()), (threads, None));
            assert_eq!(helped.serving(EMITTER, 1), [0]);
            assert_eq!((helped.serving(1, 4), helped.serving(3, 4)), (&[1][..], &[1][..]));
        }

        // The emitter's sends to a worker are done by that worker's thread.
        let helped = plan(&large, Mode::KtGeneralized, Ranks::Threads, &job).unwrap();
        for worker in 1..=3 {
            assert_eq!(helped.serving(EMITTER, worker), helped.serving(worker, 4));
            assert_eq!(helped.serving(worker, 4).len(), 1);
        }
        assert!(plan(&large, Mode::KtGeneralized, Ranks::Processes, &job).is_err());
    }

    #[test]
    fn elsewhere_or_not_at_all_where_there_is_none() {
        // Six cores without siblings: four ranks, and two threads beside them.
        let job = job(2, None, false);
        let helped = plan(&machine(6, 1), Mode::KtW, Ranks::Threads, &job).unwrap();
        assert!(matches!(helped.plan.chosen(), Some(KtPlacement::Skt { .. })));
        let said = helped.placed_otherwise().unwrap();
        assert!(said.starts_with("kt-w: ") && said.contains("instead: 2, skt"), "{said}");
        assert!(helped.threads() > 0 && !helped.serving(1, 3).is_empty());

        for mode in [Mode::KtW, Mode::KtSpecialized, Mode::KtGeneralized] {
            for cores in [1, 2, 4] {
                let helped = plan(&machine(cores, 1), mode, Ranks::Threads, &job).unwrap();
                assert_eq!((helped.threads(), helped.placed_otherwise()), (0, None));
                assert_eq!((0..4).find_map(|rank| helped.cpu(rank)), None, "as in no-kt");
                let said = helped.inline().unwrap();
                assert!(said.starts_with("no spare hardware thread: 4 ranks on"), "{said}");
            }
        }
    }

    #[test]
    fn whoever_insists_gets_them_on_any_machine() {
        for cores in [1, 2, 4] {
            let small = machine(cores, 1);
            for (mode, kts, threads) in [
                (Mode::KtW, None, 2),
                (Mode::KtSpecialized, None, 2),
                (Mode::KtSpecialized, Some(3), 4),
                (Mode::KtGeneralized, Some(1), 1),
            ] {
                let helped = plan(&small, mode, Ranks::Threads, &job(2, kts, true)).unwrap();
                assert_eq!(helped.threads(), threads, "{mode} on {cores}");
                assert_eq!((helped.inline(), helped.placed_otherwise()), (None, None));
            }
        }
        for force in [false, true] {
            assert!(
                plan(&machine(8, 2), Mode::KtW, Ranks::Threads, &job(2, Some(2), force)).is_err()
            );
        }
    }
}
