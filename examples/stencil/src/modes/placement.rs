//! Where workers and their communication threads (KTs) run, by a [`KtPlan`].
//!
//! The paper puts each KT of KT-W on a spare hardware thread of its worker's core. SKT has one KT for a group of
//! workers; section V.B does not say how large a group is. Here it has up to ten, which V.A.2 found best. Then 54 are
//! the most workers that have a core each, since their six KTs take the other 6 of 60 cores: as many as SKT has in the
//! last row of table IV with one worker per core.

use onchip::topology::{Bind, Error, KtPlacement, KtPlan, Role, Topology};

use super::Mode;

/// Plans the places of workers and KTs on a machine; `None` for a mode without KTs.
///
/// With mode `kt-w`, each worker has its own KT also where its core has no spare hardware thread. Then the KT runs
/// where there is one, or else shares a CPU. KTs of mode `skt` share one as well if there is no other place.
///
/// # Errors
/// If the machine's CPUs cannot be used.
pub(crate) fn plan(
    topology: &Topology,
    mode: Mode,
    workers: usize,
) -> Result<Option<KtPlan>, Error> {
    let roles = vec![Role::Worker; workers];
    let forced = |placement| KtPlan::forced(topology, &roles, &Bind::Auto, placement).map(Some);
    match mode {
        Mode::KtW => match KtPlan::new(topology, &roles, &Bind::Auto, KtPlacement::KtW) {
            Err(Error::NoSibling { .. } | Error::TooFewThreads { .. }) => {
                forced(KtPlacement::Skt { group: 1 })
            }
            planned => planned.map(Some),
        },
        Mode::Skt => forced(KtPlacement::SKT),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use example_support::{kts, machine};
    use onchip::topology::current_affinity;
    use onchip::trace::Recording;

    use super::*;

    fn planned(topology: &Topology, mode: Mode, workers: usize) -> KtPlan {
        plan(topology, mode, workers).unwrap().unwrap()
    }

    /// Returns the CPUs of the workers and of the KTs.
    fn cpus(plan: &KtPlan) -> (Vec<usize>, Vec<usize>) {
        let kts = plan.kts().iter().map(|kt| kt.cpu.unwrap());
        (plan.cpus().iter().map(|cpu| cpu.unwrap()).collect(), kts.collect())
    }

    /// Returns whether no CPU and no core is there twice.
    fn differ(topology: &Topology, cpus: &[usize]) -> bool {
        let cores: BTreeSet<_> = cpus.iter().map(|&cpu| topology.core_of(cpu).unwrap()).collect();
        cores.len() == cpus.len()
    }

    #[test]
    fn the_papers_machine_has_the_papers_places() {
        let phi = machine(60, 4);
        for workers in [1, 16, 54, 60] {
            let plan = planned(&phi, Mode::KtW, workers);
            let (workers, kts) = cpus(&plan);
            assert!(differ(&phi, &workers) && kts.len() == workers.len());
            for (rank, &cpu) in workers.iter().enumerate() {
                let [kt] = *plan.sends_of(rank) else { panic!("one KT for worker {rank}") };
                assert_eq!(phi.core_of(kts[kt]), phi.core_of(cpu), "beside worker {rank}");
                assert!(kts[kt] != cpu && plan.kts()[kt].ranks == [rank]);
            }
        }
        // Two workers and two KTs on each core: all 240 hardware threads.
        let plan = planned(&phi, Mode::KtW, 120);
        let (workers, kts) = cpus(&plan);
        assert_eq!(workers.iter().chain(&kts).collect::<BTreeSet<_>>().len(), 240);

        for (workers, groups) in [(1, 1), (10, 1), (11, 2), (54, 6)] {
            let plan = planned(&phi, Mode::Skt, workers);
            let (workers, kts) = cpus(&plan);
            assert_eq!(kts.len(), groups);
            assert!(differ(&phi, &[&workers[..], &kts].concat()), "a core for each");
            assert!(plan.kts().iter().all(|kt| kt.ranks.len() <= 10));
        }
        // With 55, a KT has no core of its own any more; with 110, there are two threads on a core, and three on some.
        let (workers, kts) = cpus(&planned(&phi, Mode::Skt, 55));
        assert!(kts.len() == 6 && !differ(&phi, &[workers, kts].concat()));
        let plan = planned(&phi, Mode::Skt, 110);
        assert!(plan.kts().len() == 11 && !plan.is_crowded());
    }

    #[test]
    fn without_siblings_kts_go_to_idle_cores_and_then_share() {
        let eight = machine(8, 1);
        for (mode, workers, kts, is_crowded) in [
            (Mode::KtW, 4, 4, false),
            (Mode::KtW, 5, 5, true),
            (Mode::Skt, 7, 1, false),
            (Mode::Skt, 8, 1, true),
        ] {
            let plan = planned(&eight, mode, workers);
            assert_eq!((plan.kts().len(), plan.is_crowded()), (kts, is_crowded), "{mode}");
            let (workers, kts) = cpus(&plan);
            assert_eq!(differ(&eight, &[workers, kts].concat()), !is_crowded, "{mode}");
        }
    }

    #[test]
    fn two_cpus() {
        let two = machine(2, 1);
        for mode in [Mode::KtW, Mode::Skt] {
            let (workers, kts) = cpus(&planned(&two, mode, 1));
            assert!(workers != kts, "{mode}");
        }
        // Each shares the CPU of its own worker.
        let (workers, kts) = cpus(&planned(&two, Mode::KtW, 2));
        assert!(differ(&two, &workers) && workers == kts);
        // The system places more workers than CPUs, and their KTs.
        for (mode, kts) in [(Mode::KtW, 23), (Mode::Skt, 3)] {
            let plan = planned(&two, mode, 23);
            assert_eq!(plan.kts().len(), kts);
            assert!(plan.kts().iter().all(|kt| kt.cpu.is_none()) && plan.cpus()[22].is_none());
        }
        for mode in [Mode::Sequential, Mode::ShMem, Mode::NoKt, Mode::Grid] {
            assert!(plan(&two, mode, 2).unwrap().is_none(), "{mode}");
        }
    }

    /// Asks the system where the threads are.
    #[test]
    fn threads_are_where_the_plan_says() {
        let topology = Topology::read().unwrap();
        let plan = planned(&topology, Mode::KtW, 1);
        let before = tasks();
        let threads = kts::start(&plan, &[0], &Recording::off(), None).unwrap();
        let started: Vec<_> = tasks().into_iter().filter(|task| !before.contains(task)).collect();
        let allowed: Vec<String> = started.iter().filter_map(|task| allowed(task)).collect();
        let all = current_affinity().unwrap().to_string();
        let cpu = plan.kts()[0].cpu.map_or(all, |cpu| cpu.to_string());
        assert!(threads.len() == 1 && allowed.contains(&cpu), "{allowed:?}, not {cpu}");
    }

    fn tasks() -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.map(|task| task.unwrap().path().display().to_string()).collect()
    }

    /// Returns the CPUs that a thread may use, unless it has ended.
    fn allowed(task: &str) -> Option<String> {
        let status = std::fs::read_to_string(format!("{task}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    }
}
