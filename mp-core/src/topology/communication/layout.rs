//! Which hardware threads are taken, and which spare thread suits a communication thread best.

use super::super::placement::{fill_order, nearness};
use super::super::{CoreKind, Topology};
use super::Role;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Ranks on CPUs, and the communication threads placed beside them so far.
pub(super) struct Layout<'a> {
    topology: &'a Topology,
    /// The CPU of each rank.
    cpus: Vec<usize>,
    /// The usable CPUs, in the order in which ranks would take them.
    order: Vec<usize>,
    /// For each CPU, how many threads have it.
    taken: BTreeMap<usize, usize>,
    /// For each core, how much it has to do.
    load: BTreeMap<usize, Load>,
    /// Whether several threads may have one CPU.
    forced: bool,
}

/// How much a core has to do; less is ordered first. An emitter or a collector mostly waits, so it suffers less from a
/// neighbour than a worker does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    workers: usize,
    others: usize,
}

/// The places that are preferred if a communication thread could go to several.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefer {
    /// Cores with little to do.
    Idle,
    /// The cores of the ranks that the thread serves.
    Own,
}

impl<'a> Layout<'a> {
    pub(super) fn new(
        topology: &'a Topology,
        cpus: Vec<usize>,
        roles: &[Role],
        forced: bool,
    ) -> Self {
        let (mut taken, mut load) = (BTreeMap::new(), BTreeMap::<usize, Load>::new());
        for (&cpu, role) in cpus.iter().zip(roles) {
            *taken.entry(cpu).or_default() += 1;
            let Some(core) = topology.core_of(cpu) else { continue };
            let load = load.entry(core).or_default();
            match role {
                Role::Worker => load.workers += 1,
                Role::Emitter | Role::Collector => load.others += 1,
            }
        }
        Self { topology, cpus, order: fill_order(topology), taken, load, forced }
    }

    pub(super) fn core(&self, rank: usize) -> Option<usize> {
        self.topology.core_of(self.cpus[rank])
    }

    /// Returns the last-level cache that a rank is under.
    pub(super) fn complex(&self, rank: usize) -> Option<usize> {
        self.core(rank).map(|core| self.topology.cores()[core].complex)
    }

    /// Returns whether a core has a hardware thread that is not taken.
    pub(super) fn has_room(&self, core: usize) -> bool {
        let cpus = &self.topology.cores()[core].cpus & self.topology.usable_cpus();
        cpus.iter().any(|cpu| !self.taken.contains_key(&cpu))
    }

    /// Returns how many cores have a hardware thread that is not taken.
    pub(super) fn cores_with_room(&self) -> usize {
        (0..self.topology.cores().len()).filter(|&core| self.has_room(core)).count()
    }

    /// Returns the cores under a last-level cache that have nothing to do and can be used.
    pub(super) fn idle_cores(&self, complex: Option<usize>) -> Vec<usize> {
        let cores = self.topology.cores();
        let is_idle = |&core: &usize| {
            Some(cores[core].complex) == complex
                && self.has_room(core)
                && !self.load.contains_key(&core)
        };
        (0..cores.len()).filter(is_idle).collect()
    }

    /// Returns how near a rank is to a CPU. A greater value is nearer.
    pub(super) fn nearness(&self, rank: usize, cpu: usize) -> u8 {
        let Some(core) = self.topology.core_of(cpu) else { return 0 };
        nearness(self.topology, self.complex(rank), self.topology.cores()[core].complex)
    }

    fn may_take(&self, cpu: usize) -> bool {
        self.forced || !self.taken.contains_key(&cpu)
    }

    /// Takes the hardware thread, on one of the cores that `among` allows, that best suits a communication thread for
    /// `ranks`; `None` if there is none.
    ///
    /// It never shares a hardware thread with another thread if there is a free one. Then, it should be near the ranks,
    /// because a copy between last-level caches takes several times as long; then on a fast core; then on a core with
    /// little to do; then on the core of one of the ranks, whose caches have the message.
    pub(super) fn take(
        &mut self,
        ranks: &[usize],
        prefer: Prefer,
        among: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let (_, core, cpu) = self
            .order
            .iter()
            .enumerate()
            .filter(|&(_, &cpu)| self.may_take(cpu))
            .filter_map(|(at, &cpu)| Some((at, self.topology.core_of(cpu)?, cpu)))
            .filter(|&(_, core, _)| among(core))
            .min_by_key(|&(at, core, cpu)| self.rating(ranks, prefer, at, core, cpu))?;
        *self.taken.entry(cpu).or_default() += 1;
        self.load.entry(core).or_default().others += 1;
        Some(cpu)
    }

    /// Rates a place. A lower rating is better.
    fn rating(
        &self,
        ranks: &[usize],
        prefer: Prefer,
        at: usize,
        core: usize,
        cpu: usize,
    ) -> (usize, bool, Reverse<usize>, CoreKind, Load, bool, usize) {
        let core_facts = &self.topology.cores()[core];
        let away = !ranks.iter().any(|&rank| self.core(rank) == Some(core));
        let near = |&rank: &usize| usize::from(self.nearness(rank, cpu));
        (
            self.taken.get(&cpu).copied().unwrap_or(0),
            prefer == Prefer::Own && away,
            Reverse(ranks.iter().map(near).sum()),
            core_facts.kind,
            self.load.get(&core).copied().unwrap_or_default(),
            away,
            at,
        )
    }
}
