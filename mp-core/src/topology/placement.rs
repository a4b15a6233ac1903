//! Where the ranks of a world run, and where their communication threads would run.

use super::{CoreKind, CpuSet, Error, Quota, Topology, cpulist};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// How ranks are bound to CPUs. It is parsed from `auto`, `none`, or a list such as `0,2-5`.
///
/// # The automatic rules
///
/// 1. *A CPU for every rank, or no binding at all.* With more ranks than usable CPUs, some CPU must serve several. The
///    set of ranks that have work changes all the time, and the system's scheduler can follow these changes, which a
///    fixed plan can't. The same holds for a quota smaller than the number of ranks: the group is stopped whenever its
///    time is spent, wherever it runs.
/// 2. *Performance cores first, then efficiency cores, then second hardware threads.* A bulk-synchronous program runs
///    at the speed of its slowest rank. A rank on an efficiency core slows only itself. A rank on a second hardware
///    thread shares a core, which slows two ranks. That thread is also where a communication thread costs least, so
///    ranks take it last.
/// 3. *Neighbours stay together.* Consecutive ranks fill one complex before the next, and one package before the next:
///    a message between two last-level caches takes several times as long as one inside a cache. Programs that need the
///    memory bandwidth or the cache of many complexes more than cheap messages should name their CPUs.
/// 4. *The roomiest complex first.* The complex with the most usable cores comes first, so that a world that fits under
///    one cache is not split when the affinity mask leaves holes.
///
/// The rules consider this process's allowance, but not other programs: two worlds under the same mask take the same
/// cores. Give them different masks, or use [`Bind::None`]. With [`Topology::confined_to`], a world can be placed on
/// the CPUs that another world leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Binds ranks by the rules above.
    #[default]
    Auto,
    /// Lets the system decide where ranks run.
    None,
    /// Binds rank *i* to the *i*-th CPU of the list. CPUs past the number of ranks are left unused.
    List(Vec<usize>),
}

impl FromStr for Bind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            list => cpulist::in_order(list)
                .map(Self::List)
                .ok_or_else(|| Error::Bind { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::List(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                f.write_str(&cpus.join(","))
            }
        }
    }
}

/// Where each rank of a world runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    places: Vec<Place>,
    unbound: Option<Unbound>,
}

/// Where one rank runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The rank's CPU; `None` if it is not bound.
    pub cpu: Option<usize>,
    /// The CPU of a communication thread that serves this rank alone: a spare hardware thread of the rank's core, which
    /// nothing else of the world uses. `None` if there is none.
    pub sibling: Option<usize>,
}

/// Why the ranks of a plan are not bound.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Unbound {
    /// [`Bind::None`] asks for no binding.
    Asked,
    /// There are fewer usable CPUs than ranks.
    TooFewCpus {
        /// The number of usable CPUs.
        cpus: usize,
    },
    /// The quota does not let all ranks run all the time.
    Quota(Quota),
}

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("no binding asked for"),
            Self::TooFewCpus { cpus } => {
                let plural = if *cpus == 1 { "" } else { "s" };
                write!(f, "more ranks than the {cpus} usable CPU{plural}")
            }
            Self::Quota(quota) => write!(f, "more ranks than the quota of {quota} holds"),
        }
    }
}

impl Plan {
    /// Places `ranks` ranks.
    ///
    /// [`Bind::Auto`] and [`Bind::None`] never fail.
    ///
    /// Communication threads get the hardware threads that the ranks leave on their own cores. If the quota does not
    /// cover both, no rank gets one, because the time would be taken from the ranks.
    ///
    /// # Errors
    /// For [`Bind::List`]: [`Error::BindUnavailable`] and [`Error::BindRepeated`] name the CPUs at fault, anywhere in
    /// the list; [`Error::BindTooShort`] says that there are more ranks than CPUs. A short list does not start over,
    /// because two busy ranks on one CPU can wait for each other a thousand times longer than on two. A program that
    /// wants more ranks than CPUs must ask for this explicitly, by [`Bind::None`].
    pub fn for_ranks(topology: &Topology, ranks: usize, bind: &Bind) -> Result<Self, Error> {
        match bind {
            Bind::Auto => Ok(Self::auto(topology, ranks)),
            Bind::None => Ok(Self::unbound_because(Unbound::Asked, ranks)),
            Bind::List(cpus) => {
                check(topology, cpus)?;
                if cpus.len() < ranks {
                    return Err(Error::BindTooShort { ranks, cpus: cpus.len() });
                }
                Ok(Self::bound(topology, cpus[..ranks].iter().copied()))
            }
        }
    }

    fn auto(topology: &Topology, ranks: usize) -> Self {
        let cpus = topology.usable_cpus().len();
        if ranks > cpus {
            return Self::unbound_because(Unbound::TooFewCpus { cpus }, ranks);
        }
        if let Some(quota) = &topology.allowance().quota
            && !quota.covers(ranks)
        {
            return Self::unbound_because(Unbound::Quota(quota.clone()), ranks);
        }
        Self::bound(topology, fill_order(topology).into_iter().take(ranks))
    }

    fn unbound_because(reason: Unbound, ranks: usize) -> Self {
        Self { places: vec![Place::default(); ranks], unbound: Some(reason) }
    }

    fn bound(topology: &Topology, cpus: impl Iterator<Item = usize>) -> Self {
        let cpus: Vec<usize> = cpus.collect();
        let mut spare = topology.usable_cpus() - &cpus.iter().copied().collect();
        let mut places = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let core = topology.core_of(cpu).map(|core| &topology.cores()[core]);
            let sibling = core.and_then(|core| (&core.cpus & &spare).first());
            spare = &spare - &sibling.into_iter().collect();
            places.push(Place { cpu: Some(cpu), sibling });
        }
        let mut plan = Self { places, unbound: None };
        let threads = plan.len() + plan.spare_siblings();
        if topology.allowance().quota.as_ref().is_some_and(|quota| !quota.covers(threads)) {
            plan.places.iter_mut().for_each(|place| place.sibling = None);
        }
        plan
    }

    /// Returns the number of ranks.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether the plan has no ranks.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the place of each rank.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns why the ranks are not bound; `None` if each has a CPU.
    pub fn unbound(&self) -> Option<&Unbound> {
        self.unbound.as_ref()
    }

    /// Returns how many ranks have a spare hardware thread for a communication thread.
    pub fn spare_siblings(&self) -> usize {
        self.places.iter().filter(|place| place.sibling.is_some()).count()
    }
}

fn check(topology: &Topology, cpus: &[usize]) -> Result<(), Error> {
    let (mut named, mut repeated) = (CpuSet::default(), CpuSet::default());
    for &cpu in cpus {
        if !named.insert(cpu) {
            repeated.insert(cpu);
        }
    }
    let usable = topology.usable_cpus();
    let unusable = &named - usable;
    if !unusable.is_empty() {
        let offline = &unusable & topology.offline();
        let excluded = &unusable & topology.online();
        return Err(Error::BindUnavailable {
            missing: &(&unusable - &offline) - &excluded,
            offline,
            excluded,
            usable: usable.clone(),
        });
    }
    if !repeated.is_empty() {
        return Err(Error::BindRepeated { cpus: repeated });
    }
    Ok(())
}

/// Returns the usable CPUs in the order in which ranks take them.
pub(super) fn fill_order(topology: &Topology) -> Vec<usize> {
    let cores = core_order(topology);
    let usable: Vec<Vec<usize>> = cores
        .iter()
        .map(|&core| (&topology.cores()[core].cpus & topology.usable_cpus()).iter().collect())
        .collect();
    let threads = usable.iter().map(Vec::len).max().unwrap_or(0);
    let nth = |thread: usize| usable.iter().filter_map(move |cpus| cpus.get(thread).copied());
    (0..threads).flat_map(nth).collect()
}

/// Returns the cores with a usable CPU, ordered by kind, and within a kind by complex. Each complex is as near as
/// possible to the previous one. Of several, the one with the most cores comes first.
pub(super) fn core_order(topology: &Topology) -> Vec<usize> {
    let mut order = Vec::new();
    let mut last: Option<usize> = None;
    for kind in [CoreKind::Performance, CoreKind::Middle, CoreKind::Efficiency] {
        let wanted = |&core: &usize| {
            let core = &topology.cores()[core];
            core.kind == kind && !(&core.cpus & topology.usable_cpus()).is_empty()
        };
        let mut waiting: Vec<(usize, Vec<usize>)> = topology
            .complexes()
            .iter()
            .map(|complex| complex.cores.iter().copied().filter(wanted).collect())
            .enumerate()
            .filter(|(_, cores): &(usize, Vec<usize>)| !cores.is_empty())
            .collect();
        while let Some(next) = (0..waiting.len()).max_by_key(|&at| {
            let (index, cores) = &waiting[at];
            (nearness(topology, last, *index), cores.len(), Reverse(*index))
        }) {
            let (index, cores) = waiting.swap_remove(next);
            order.extend(cores);
            last = Some(index);
        }
    }
    order
}

/// Returns how near a complex is to another. A greater value is nearer.
pub(super) fn nearness(topology: &Topology, last: Option<usize>, index: usize) -> u8 {
    let Some(last) = last else { return 0 };
    let (complex, beside) = (&topology.complexes()[index], &topology.complexes()[last]);
    if index == last {
        3
    } else if complex.package != beside.package {
        0
    } else if complex.node != beside.node {
        1
    } else {
        2
    }
}
