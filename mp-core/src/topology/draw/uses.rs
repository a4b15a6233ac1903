//! The use of each CPU, and the marks that show it.

use crate::topology::{CpuSet, KtPlan, Place, Plan, Topology};
use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};

/// The use of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Rank(usize),
    /// A communication thread, by its rank or by its own number.
    Communication(usize),
    /// A rank that shares its CPU with communication threads.
    CrowdedRank(usize),
    /// A communication thread, the first of several on this CPU.
    CrowdedCommunication(usize),
    Free,
    Excluded,
    Offline,
}

/// Above this number, offline CPUs are only listed.
const OFFLINE_DRAWN: usize = 16;

/// Returns whether offline CPUs get a box: not if there are none, or very many.
pub(super) fn is_drawn(offline: &CpuSet) -> bool {
    (1..=OFFLINE_DRAWN).contains(&offline.len())
}

/// The use of every CPU that is drawn.
#[derive(Debug)]
pub(super) struct Uses {
    by_cpu: BTreeMap<usize, Use>,
    has_ranks: bool,
    /// Whether communication threads have numbers of their own, and not those of their ranks.
    kts_are_numbered: bool,
}

impl Uses {
    fn of_machine(topology: &Topology) -> Self {
        let mut by_cpu = BTreeMap::new();
        if is_drawn(topology.offline()) {
            by_cpu.extend(topology.offline().iter().map(|cpu| (cpu, Use::Offline)));
        }
        by_cpu.extend(topology.online().iter().map(|cpu| (cpu, Use::Excluded)));
        by_cpu.extend(topology.usable_cpus().iter().map(|cpu| (cpu, Use::Free)));
        Self { by_cpu, has_ranks: false, kts_are_numbered: false }
    }

    pub(super) fn new(topology: &Topology, plan: Option<&Plan>) -> Self {
        let mut uses = Self::of_machine(topology);
        let places = plan.map(Plan::places).unwrap_or_default();
        for (rank, &Place { cpu, sibling }) in places.iter().enumerate() {
            uses.by_cpu.extend(cpu.map(|cpu| (cpu, Use::Rank(rank))));
            uses.by_cpu.extend(sibling.map(|cpu| (cpu, Use::Communication(rank))));
        }
        uses.has_ranks = places.iter().any(|place| place.cpu.is_some());
        uses
    }

    pub(super) fn with_kts(topology: &Topology, plan: &KtPlan) -> Self {
        let mut uses = Self::of_machine(topology);
        for (rank, cpu) in plan.cpus().iter().enumerate() {
            uses.by_cpu.extend(cpu.map(|cpu| (cpu, Use::Rank(rank))));
        }
        for (kt, cpu) in plan.kts().iter().enumerate().filter_map(|(kt, on)| Some((kt, on.cpu?))) {
            let used = match uses.by_cpu.get(&cpu) {
                Some(&(Use::Rank(rank) | Use::CrowdedRank(rank))) => Use::CrowdedRank(rank),
                Some(&(Use::Communication(first) | Use::CrowdedCommunication(first))) => {
                    Use::CrowdedCommunication(first)
                }
                _ => Use::Communication(kt),
            };
            uses.by_cpu.insert(cpu, used);
        }
        uses.has_ranks = plan.cpus().iter().any(Option::is_some);
        uses.kts_are_numbered = true;
        uses
    }

    /// Returns the mark beside a CPU's number. Free CPUs are marked only if other CPUs have ranks.
    pub(super) fn mark(&self, cpu: usize) -> String {
        match self.by_cpu[&cpu] {
            Use::Rank(rank) => format!("r{rank}"),
            Use::Communication(number) => format!("k{number}"),
            Use::CrowdedRank(rank) => format!("r{rank}+"),
            Use::CrowdedCommunication(kt) => format!("k{kt}+"),
            Use::Free if self.has_ranks => "·".to_owned(),
            Use::Free => String::new(),
            Use::Excluded => "×".to_owned(),
            Use::Offline => "○".to_owned(),
        }
    }

    pub(super) fn widest_mark(&self) -> usize {
        self.by_cpu.keys().map(|&cpu| self.mark(cpu).chars().count()).max().unwrap_or(0)
    }

    pub(super) fn highest_cpu(&self) -> usize {
        self.by_cpu.keys().next_back().copied().unwrap_or(0)
    }

    /// Returns what decides whether cores look alike: the uses of their CPUs, regardless of which ranks these are.
    pub(super) fn look(&self, cpus: &CpuSet) -> Vec<Discriminant<Use>> {
        cpus.iter().map(|cpu| discriminant(&self.by_cpu[&cpu])).collect()
    }

    /// Returns the text for cores that are counted instead of drawn.
    pub(super) fn summary<'a>(&self, cores: impl IntoIterator<Item = &'a CpuSet>) -> String {
        let cpus: CpuSet = cores.into_iter().flat_map(CpuSet::iter).collect();
        let ranks = cpus.iter().filter_map(|cpu| match self.by_cpu[&cpu] {
            Use::Rank(rank) | Use::CrowdedRank(rank) => Some(rank),
            _ => None,
        });
        let ranks: CpuSet = ranks.collect();
        match ranks.len() {
            0 => cpus.spelled(),
            1 => format!("{}; rank {ranks}", cpus.spelled()),
            _ => format!("{}; ranks {ranks}", cpus.spelled()),
        }
    }

    /// Returns the meanings of the marks that are drawn, in lines of at most `width` characters.
    pub(super) fn legend(&self, width: usize) -> Vec<String> {
        let any = |wanted: fn(&Use) -> bool| self.by_cpu.values().any(wanted);
        let entries = [
            (self.has_ranks, "r rank"),
            (
                any(|used| matches!(used, Use::Communication(_) | Use::CrowdedCommunication(_))),
                if self.kts_are_numbered {
                    "k communication thread"
                } else {
                    "k its communication thread"
                },
            ),
            (
                any(|used| matches!(used, Use::CrowdedRank(_) | Use::CrowdedCommunication(_))),
                "+ with communication threads",
            ),
            (self.has_ranks && any(|used| *used == Use::Free), "· free"),
            (any(|used| *used == Use::Excluded), "× outside the affinity mask"),
            (any(|used| *used == Use::Offline), "○ offline"),
        ];
        let mut lines: Vec<String> = Vec::new();
        for (_, entry) in entries.into_iter().filter(|(is_drawn, _)| *is_drawn) {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 3 + entry.chars().count() <= width => {
                    *line += &format!("   {entry}");
                }
                _ => lines.push(entry.to_owned()),
            }
        }
        lines
    }
}
