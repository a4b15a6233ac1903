//! The policies: which ranks are served together, and where the communication thread (KT) for each group goes.

use super::super::placement::{core_order, fill_order};
use super::super::{Bind, Error, Plan, Topology};
use super::layout::{Layout, Prefer};
use super::{Inline, Kt, KtPlacement, KtPlan, Role};
use std::cmp::Reverse;

pub(super) fn plan(
    topology: &Topology,
    roles: &[Role],
    bind: &Bind,
    placement: KtPlacement,
    forced: bool,
) -> Result<KtPlan, Error> {
    let farm = Farm::of(roles);
    if let KtPlacement::Specialized { .. } = placement {
        farm.check(placement)?;
    }
    check_numbers(placement)?;
    let ranks = match (placement, bind) {
        (KtPlacement::Specialized { .. }, Bind::Auto) => {
            match dedicated(topology, roles, farm.workers.len()) {
                Some(cpus) => Plan::for_ranks(topology, roles.len(), &Bind::List(cpus))?,
                None if forced => Plan::for_ranks(topology, roles.len(), bind)?,
                None => {
                    return Err(Error::NoDedicatedCores {
                        workers: farm.workers.len(),
                        cpus: worker_cpus(topology).len(),
                    });
                }
            }
        }
        _ => Plan::for_ranks(topology, roles.len(), bind)?,
    };
    let planner = Planner { topology, roles, farm, ranks, forced };
    match placement {
        KtPlacement::KtW => planner.kt_w(),
        KtPlacement::Skt { group } => planner.skt(placement, group),
        KtPlacement::Specialized { emitter_kts, group } => planner.specialized(emitter_kts, group),
        KtPlacement::Generalized { kts } => planner.generalized(kts),
        KtPlacement::Automatic => planner.automatic(),
    }
}

fn check_numbers(placement: KtPlacement) -> Result<(), Error> {
    match placement {
        KtPlacement::Skt { group: 0 }
        | KtPlacement::Specialized { group: 0, .. }
        | KtPlacement::Specialized { emitter_kts: Some(0), .. }
        | KtPlacement::Generalized { kts: Some(0) } => {
            Err(Error::NoKts { placement: placement.name() })
        }
        KtPlacement::Specialized { emitter_kts: Some(kts @ MOST_KTS..), .. } => {
            Err(Error::TooManyKts { kts })
        }
        _ => Ok(()),
    }
}

/// This many KTs or more are a mistake, even for a forced plan, because no machine has so many CPUs.
const MOST_KTS: usize = 1 << 16;

/// The ranks of a farm, by role.
struct Farm {
    emitters: Vec<usize>,
    workers: Vec<usize>,
    collectors: Vec<usize>,
}

impl Farm {
    fn of(roles: &[Role]) -> Self {
        let all = |wanted: Role| -> Vec<usize> {
            (0..roles.len()).filter(|&rank| roles[rank] == wanted).collect()
        };
        Self {
            emitters: all(Role::Emitter),
            workers: all(Role::Worker),
            collectors: all(Role::Collector),
        }
    }

    fn check(&self, placement: KtPlacement) -> Result<(), Error> {
        let counts = (self.emitters.len(), self.workers.len(), self.collectors.len());
        match counts {
            (1, 1.., 1) => Ok(()),
            (emitters, workers, collectors) => {
                let placement = placement.name();
                Err(Error::Roles { placement, emitters, workers, collectors })
            }
        }
    }
}

/// Returns the CPUs of a farm whose emitter and collector have a core each; `None` if the workers don't fit on the
/// other cores.
fn dedicated(topology: &Topology, roles: &[Role], workers: usize) -> Option<Vec<usize>> {
    let cores = core_order(topology);
    let first = |core: usize| (&topology.cores()[core].cpus & topology.usable_cpus()).first();
    let mut for_workers = worker_cpus(topology).into_iter();
    if for_workers.len() < workers {
        return None;
    }
    roles
        .iter()
        .map(|role| match role {
            Role::Emitter => first(*cores.first()?),
            Role::Collector => first(*cores.get(1)?),
            Role::Worker => for_workers.next(),
        })
        .collect()
}

/// Returns the CPUs that are left for workers, in the order in which workers take them.
fn worker_cpus(topology: &Topology) -> Vec<usize> {
    let cores = core_order(topology);
    let kept = &cores[..cores.len().min(2)];
    let is_kept = |cpu: usize| topology.core_of(cpu).is_some_and(|core| kept.contains(&core));
    fill_order(topology).into_iter().filter(|&cpu| !is_kept(cpu)).collect()
}

/// Divides items into as many parts as needed for at most `most` in each. The parts' sizes differ by at most one.
fn balanced(items: &[usize], most: usize) -> Vec<Vec<usize>> {
    parts(items, items.len().div_ceil(most))
}

/// Divides items into `parts` parts whose sizes differ by at most one, the larger first.
fn parts(items: &[usize], parts: usize) -> Vec<Vec<usize>> {
    let mut rest = items;
    (0..parts)
        .map(|part| {
            let (these, others) = rest.split_at(rest.len().div_ceil(parts - part));
            rest = others;
            these.to_vec()
        })
        .collect()
}

/// The ranks that one KT serves, and the KT's CPU.
struct Served {
    ranks: Vec<usize>,
    cpu: Option<usize>,
}

struct Planner<'a> {
    topology: &'a Topology,
    roles: &'a [Role],
    farm: Farm,
    ranks: Plan,
    forced: bool,
}

impl Planner<'_> {
    /// Returns how many threads can run at the same time, ranks and KTs together.
    fn threads(&self) -> usize {
        let cpus = self.topology.usable_cpus().len();
        let quota = self.topology.allowance().quota.as_ref();
        quota.map_or(cpus, |quota| quota.rounded_down().min(cpus))
    }

    /// Returns how many KTs can run beside the ranks.
    fn spare(&self) -> usize {
        self.threads().saturating_sub(self.roles.len())
    }

    fn check_room(&self, placement: KtPlacement, kts: usize) -> Result<(), Error> {
        if self.forced || kts <= self.spare() {
            return Ok(());
        }
        Err(Error::TooFewThreads {
            placement: placement.name(),
            ranks: self.roles.len(),
            kts,
            cpus: self.topology.usable_cpus().len(),
            quota: self.topology.allowance().quota.clone(),
        })
    }

    /// Returns the places of the ranks; `None` if they are not bound.
    fn layout(&self) -> Option<Layout<'_>> {
        let cpus: Option<Vec<usize>> = self.ranks.places().iter().map(|place| place.cpu).collect();
        Some(Layout::new(self.topology, cpus?, self.roles, self.forced))
    }

    /// Returns groups of at most `most` of these ranks, each within a last-level cache if places are known.
    fn groups(&self, ranks: &[usize], most: usize) -> Vec<Vec<usize>> {
        let Some(layout) = self.layout() else { return balanced(ranks, most) };
        let mut complexes: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        for &rank in ranks {
            let complex = layout.complex(rank);
            match complexes.iter_mut().find(|(of, _)| *of == complex) {
                Some((_, ranks)) => ranks.push(rank),
                None => complexes.push((complex, vec![rank])),
            }
        }
        complexes.iter().flat_map(|(_, ranks)| balanced(ranks, most)).collect()
    }

    /// Places a KT for each group near it, wherever there is room.
    fn place(&self, groups: Vec<Vec<usize>>) -> Vec<Served> {
        let Some(mut layout) = self.layout() else { return unplaced(groups) };
        let take = |ranks: Vec<usize>| {
            let cpu = layout.take(&ranks, Prefer::Idle, |_| true);
            Served { ranks, cpu }
        };
        groups.into_iter().map(take).collect()
    }

    fn kt_w(self) -> Result<KtPlan, Error> {
        self.check_room(KtPlacement::KtW, self.roles.len())?;
        let groups: Vec<Vec<usize>> = (0..self.roles.len()).map(|rank| vec![rank]).collect();
        let Some(mut layout) = self.layout() else {
            return Ok(self.finish(KtPlacement::KtW, KtPlacement::KtW, unplaced(groups)));
        };
        let beside = |ranks: Vec<usize>| {
            let core = layout.core(ranks[0]);
            let cpu = layout.take(&ranks, Prefer::Own, |candidate| Some(candidate) == core);
            Served { ranks, cpu }
        };
        let served: Vec<Served> = groups.into_iter().map(beside).collect();
        let alone = served.iter().filter(|served| served.cpu.is_none());
        let alone: Vec<usize> = alone.map(|served| served.ranks[0]).collect();
        if !alone.is_empty() {
            return Err(Error::NoSibling { ranks: alone, of: self.roles.len() });
        }
        Ok(self.finish(KtPlacement::KtW, KtPlacement::KtW, served))
    }

    fn skt(self, placement: KtPlacement, group: usize) -> Result<KtPlan, Error> {
        let all: Vec<usize> = (0..self.roles.len()).collect();
        let groups = self.groups(&all, group);
        self.check_room(placement, groups.len())?;
        let served = self.place(groups);
        Ok(self.finish(placement, placement, served))
    }

    fn specialized(self, emitter_kts: Option<usize>, group: usize) -> Result<KtPlan, Error> {
        let workers = self.farm.workers.len();
        let for_emitter =
            emitter_kts.unwrap_or(workers.div_ceil(KtPlacement::WORKERS_PER_EMITTER_KT));
        let chosen = KtPlacement::Specialized { emitter_kts: Some(for_emitter), group };
        // This is checked before that many groups are made.
        self.check_room(chosen, for_emitter)?;
        let mut groups = vec![self.farm.emitters.clone(); for_emitter];
        groups.extend(self.groups(&self.farm.workers, group));
        self.check_room(chosen, groups.len())?;
        let mut served = self.place(groups);
        if let Some(last) = served.last_mut() {
            last.ranks.extend(&self.farm.collectors);
        }
        let asked = KtPlacement::Specialized { emitter_kts, group };
        Ok(self.finish(asked, chosen, served))
    }

    fn generalized(self, most: Option<usize>) -> Result<KtPlan, Error> {
        let asked = KtPlacement::Generalized { kts: most };
        let all: Vec<usize> = (0..self.roles.len()).collect();
        let most = most.unwrap_or(usize::MAX);
        let limit = if self.forced { most } else { most.min(self.spare()) };
        let Some(mut layout) = self.layout() else {
            let kts = limit.min(self.topology.usable_cores()).min(all.len());
            self.check_room(asked, kts.max(usize::from(!all.is_empty())))?;
            let chosen = KtPlacement::Generalized { kts: Some(kts) };
            return Ok(self.finish(asked, chosen, unplaced(parts(&all, kts))));
        };
        // These are the cores that have ranks, with their ranks.
        let mut cores: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        for &rank in &all {
            let core = layout.core(rank);
            match cores.iter_mut().find(|(of, _)| *of == core) {
                Some((_, ranks)) => ranks.push(rank),
                None => cores.push((core, vec![rank])),
            }
        }
        let places = if self.forced { usize::MAX } else { layout.cores_with_room() };
        let kts = limit.min(cores.len()).min(places);
        self.check_room(asked, kts.max(usize::from(!all.is_empty())))?;

        // First, KTs go to the cores of ranks that have room, evenly spread. Further KTs serve cores without room, and
        // go to the nearest other cores.
        let (mut with_room, without): (Vec<usize>, Vec<usize>) =
            (0..cores.len()).partition(|&at| cores[at].0.is_some_and(|core| layout.has_room(core)));
        with_room =
            parts(&with_room, kts.min(with_room.len())).iter().map(|part| part[0]).collect();
        let homes: Vec<usize> = with_room.into_iter().chain(without).take(kts).collect();
        let mut served = Vec::new();
        let mut with_kt: Vec<usize> = Vec::new();
        for &at in &homes {
            let ranks = cores[at].1.clone();
            let cpu = layout.take(&ranks, Prefer::Own, |core| !with_kt.contains(&core));
            with_kt.extend(cpu.and_then(|cpu| self.topology.core_of(cpu)));
            served.push(Served { ranks, cpu });
        }
        // The ranks of each remaining core go to the nearest KT, or of several to the one that serves the fewest ranks.
        let rest = (0..cores.len()).filter(|at| !homes.contains(at));
        for ranks in rest.map(|at| &cores[at].1) {
            let nearest = served.iter_mut().min_by_key(|kt| {
                let near = kt.cpu.map_or(0, |cpu| layout.nearness(ranks[0], cpu));
                (Reverse(near), kt.ranks.len())
            });
            if let Some(kt) = nearest {
                kt.ranks.extend(ranks);
            }
        }
        served.sort_by_key(|kt| kt.ranks[0]);
        let chosen = KtPlacement::Generalized { kts: Some(kts) };
        Ok(self.finish(asked, chosen, served))
    }

    fn automatic(mut self) -> Result<KtPlan, Error> {
        // It is never best for a KT to share a hardware thread with a rank.
        self.forced = false;
        let all: Vec<usize> = (0..self.roles.len()).collect();
        let kts = self.spare().min(all.len());
        if kts == 0 {
            return Ok(self.finish(KtPlacement::Automatic, KtPlacement::Automatic, Vec::new()));
        }
        let least = all.len().div_ceil(kts);
        let mut grouped = (least..=all.len()).map(|size| (size, self.groups(&all, size)));
        let few = grouped.clone().take_while(|&(size, _)| size <= KtPlacement::WORKERS_PER_KT);
        let on_idle_cores = few.filter_map(|(size, groups)| Some((size, self.place_idle(groups)?)));
        if let Some((group, served)) = on_idle_cores.into_iter().next() {
            return Ok(self.finish(KtPlacement::Automatic, KtPlacement::Skt { group }, served));
        }
        let (group, groups) = grouped
            .find(|(_, groups)| groups.len() <= kts)
            // There are more last-level caches than KTs.
            .unwrap_or_else(|| (least, parts(&all, kts)));
        let served = self.place(groups);
        let chosen =
            if self.is_kt_w(&served) { KtPlacement::KtW } else { KtPlacement::Skt { group } };
        Ok(self.finish(KtPlacement::Automatic, chosen, served))
    }

    /// Places a KT for each group on an idle core under the group's last-level cache. Returns `None` if there are not
    /// enough idle cores. If places are not known, this only counts cores.
    fn place_idle(&self, groups: Vec<Vec<usize>>) -> Option<Vec<Served>> {
        if groups.len() > self.spare() {
            return None;
        }
        let Some(mut layout) = self.layout() else {
            let idle = self.topology.usable_cores().saturating_sub(self.roles.len());
            return (groups.len() <= idle).then(|| unplaced(groups));
        };
        let take = |ranks: Vec<usize>| {
            let idle = layout.idle_cores(layout.complex(ranks[0]));
            let cpu = layout.take(&ranks, Prefer::Idle, |core| idle.contains(&core))?;
            Some(Served { ranks, cpu: Some(cpu) })
        };
        groups.into_iter().map(take).collect()
    }

    /// Returns whether each rank has a KT for itself, on its own core.
    fn is_kt_w(&self, served: &[Served]) -> bool {
        let core = |cpu: Option<usize>| cpu.and_then(|cpu| self.topology.core_of(cpu));
        served.iter().all(|served| match served.ranks[..] {
            [rank] => {
                let own = core(self.ranks.places()[rank].cpu);
                own.is_some() && own == core(served.cpu)
            }
            _ => false,
        })
    }

    fn finish(self, asked: KtPlacement, chosen: KtPlacement, served: Vec<Served>) -> KtPlan {
        let ranks = self.roles.len();
        let inline = (served.is_empty() && ranks > 0).then(|| Inline::NoSpareThread {
            ranks,
            cpus: self.topology.usable_cpus().len(),
            quota: self.topology.allowance().quota.as_ref().map(|quota| quota.cpus()),
        });
        let mut sends = vec![Vec::new(); ranks];
        for (kt, served) in served.iter().enumerate() {
            for &rank in &served.ranks {
                sends[rank].push(kt);
            }
        }
        let receives = match chosen {
            KtPlacement::Generalized { .. } => sends.clone(),
            _ => vec![Vec::new(); ranks],
        };
        let cpus: Vec<Option<usize>> = self.ranks.places().iter().map(|place| place.cpu).collect();
        let on: Vec<usize> =
            cpus.iter().copied().chain(served.iter().map(|kt| kt.cpu)).flatten().collect();
        let threads = |cpu: usize| on.iter().filter(|&&other| other == cpu).count();
        let kts = served.into_iter().map(|Served { mut ranks, cpu }| {
            ranks.sort_unstable();
            Kt { cpu, ranks, crowded: cpu.is_some_and(|cpu| threads(cpu) > 1) }
        });
        let kts: Vec<Kt> = kts.collect();
        KtPlan {
            asked,
            chosen: (!kts.is_empty()).then_some(chosen),
            roles: self.roles.to_vec(),
            cpus,
            unbound: self.ranks.unbound().map(ToString::to_string),
            kts,
            sends,
            receives,
            inline,
        }
    }
}

fn unplaced(groups: Vec<Vec<usize>>) -> Vec<Served> {
    groups.into_iter().map(|ranks| Served { ranks, cpu: None }).collect()
}
