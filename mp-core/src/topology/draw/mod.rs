//! The machine as text, for a terminal of 80 columns.
//!
//! There is one box for each complex, with a cell for each core. Items that look like the previous one (same cores,
//! same caches, same use) are counted instead of drawn, so that a large server still fits on a screen.

mod cells;
mod paper;
mod uses;

use self::cells::{Cells, Group, fold};
use self::paper::{WIDTH, wrap};
use self::uses::Uses;
use super::{Cache, CacheKind, Complex, Core, CoreKind, CpuSet, KtPlan, Place, Plan, Topology};
use std::collections::BTreeSet;
use std::fmt;
use std::mem::Discriminant;

/// The width of the labels before the paragraphs at the top.
const LABEL: usize = 10;

/// A drawing of a machine. See [`Topology::draw`].
#[derive(Debug)]
pub struct Drawing<'a> {
    topology: &'a Topology,
    plan: Shown<'a>,
    uses: Uses,
    cells: Cells,
}

/// The plan that is shown with the machine.
#[derive(Debug)]
enum Shown<'a> {
    Nothing,
    Ranks(&'a Plan),
    Kts(&'a KtPlan),
}

/// All that decides whether two complexes look alike.
#[derive(PartialEq)]
struct Look {
    cache: Option<(u32, Option<u64>)>,
    cores: Vec<(CoreKind, Vec<Discriminant<uses::Use>>)>,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(topology: &'a Topology, plan: Option<&'a Plan>) -> Self {
        let shown = plan.filter(|plan| !plan.is_empty()).map_or(Shown::Nothing, Shown::Ranks);
        Self::with_uses(topology, shown, Uses::new(topology, plan))
    }

    pub(super) fn with_kts(topology: &'a Topology, plan: &'a KtPlan) -> Self {
        Self::with_uses(topology, Shown::Kts(plan), Uses::with_kts(topology, plan))
    }

    fn with_uses(topology: &'a Topology, plan: Shown<'a>, uses: Uses) -> Self {
        let cells = Cells::new(&uses, topology.is_hybrid());
        Self { topology, plan, uses, cells }
    }

    fn cores(&self, complex: &Complex) -> impl Iterator<Item = &'a Core> {
        complex.cores.iter().map(|&core| &self.topology.cores[core])
    }

    fn complexes(&self, package: usize) -> Vec<&'a Complex> {
        let complexes = self.topology.packages[package].complexes.iter();
        complexes.map(|&index| &self.topology.complexes[index]).collect()
    }

    fn look(&self, complex: &Complex) -> Look {
        let cache = complex.cache.map(|cache| &self.topology.caches[cache]);
        let cores = self.cores(complex).map(|core| (core.kind, self.uses.look(&core.cpus)));
        Look { cache: cache.map(|cache| (cache.level, cache.size)), cores: cores.collect() }
    }

    fn summary(&self, complexes: &[&Complex]) -> String {
        let cores = complexes.iter().flat_map(|complex| self.cores(complex));
        self.uses.summary(cores.map(|core| &core.cpus))
    }

    /// Returns the node of a whole package, if the package is one node.
    fn node_of(&self, package: usize) -> Option<usize> {
        let cores = self.complexes(package).into_iter().flat_map(|complex| self.cores(complex));
        let nodes: BTreeSet<_> = cores.map(|core| core.node).collect();
        if nodes.len() == 1 { nodes.into_iter().next()? } else { None }
    }

    fn write_package(&self, f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
        let node = self.node_of(index).filter(|_| self.topology.nodes.len() > 1);
        let node = node.map(|node| format!(", node {node}")).unwrap_or_default();
        writeln!(f, "\npackage {}{node}", self.topology.packages[index].id)?;
        let complexes = self.complexes(index);
        for alike in complexes.chunk_by(|one, other| self.look(one) == self.look(other)) {
            let (drawn, counted) = fold(alike);
            for complex in drawn {
                self.write_complex(f, complex)?;
            }
            if !counted.is_empty() {
                let text = format!("{} more like this: {}", counted.len(), self.summary(counted));
                write_paragraph(f, "  +", 4, &text)?;
            }
        }
        Ok(())
    }

    fn write_complex(&self, f: &mut fmt::Formatter<'_>, complex: &Complex) -> fmt::Result {
        let mut title = match complex.cache.map(|cache| &self.topology.caches[cache]) {
            Some(cache) => cache_name(cache.level, cache.kind, cache.size),
            None => count(complex.cores.len(), "core"),
        };
        if let (Some(node), None) = (complex.node, self.node_of(complex.package)) {
            title += &format!(", node {node}");
        }
        let groups = self.kinds().into_iter().map(|kind| {
            let cores = self.cores(complex).filter(|core| core.kind == kind);
            Group { label: kind.to_string(), cores: cores.map(|core| &core.cpus).collect() }
        });
        self.cells.write_box(f, &self.uses, &title, &groups.collect::<Vec<_>>())
    }

    fn write_offline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offline = self.topology.offline();
        if !uses::is_drawn(offline) {
            return Ok(());
        }
        let cores: Vec<CpuSet> = offline.iter().map(|cpu| CpuSet::from_iter([cpu])).collect();
        let group = Group { label: " ".to_owned(), cores: cores.iter().collect() };
        writeln!(f)?;
        self.cells.write_box(f, &self.uses, "offline", &[group])
    }

    fn kinds(&self) -> BTreeSet<CoreKind> {
        self.topology.cores.iter().map(|core| core.kind).collect()
    }

    fn machine(&self) -> String {
        let Topology { packages, cores, online, nodes, .. } = self.topology;
        let mut text =
            format!("{}, {}", count(packages.len(), "package"), count(cores.len(), "core"));
        if self.topology.is_hybrid() {
            let kinds = self.kinds().into_iter().map(|kind| {
                let alike = cores.iter().filter(|core| core.kind == kind).count();
                let name = match kind {
                    CoreKind::Performance => "performance",
                    CoreKind::Middle => "middle",
                    CoreKind::Efficiency => "efficiency",
                };
                format!("{alike} {name}")
            });
            text += &format!(" ({})", kinds.collect::<Vec<_>>().join(", "));
        }
        text += &format!(", {}", count(online.len(), "CPU"));
        if online.len() > cores.len() {
            text += " (hardware threads)";
        }
        if nodes.len() > 1 {
            text += &format!(", {}", count(nodes.len(), "NUMA node"));
        }
        text
    }

    /// Returns the caches of cores of this kind: first each core's own caches, then its shared caches.
    fn caches(&self, kind: CoreKind) -> String {
        let mut seen: BTreeSet<(u32, CacheKind, Option<u64>, usize)> = BTreeSet::new();
        for core in self.topology.cores.iter().filter(|core| core.kind == kind) {
            let serves_it = |cache: &&Cache| !(&cache.cpus & &core.cpus).is_empty();
            for cache in self.topology.caches.iter().filter(serves_it) {
                let sharers: BTreeSet<_> =
                    cache.cpus.iter().map(|cpu| self.topology.core_of(cpu)).collect();
                seen.insert((cache.level, cache.kind, cache.size, sharers.len()));
            }
        }
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for (level, kind, size, sharers) in seen {
            let name = cache_name(level, kind, size);
            match sharers {
                1 => own.push(name),
                sharers => shared.push(format!("{name} per {sharers} cores")),
            }
        }
        let own = (!own.is_empty()).then(|| format!("{} per core", own.join(", ")));
        own.into_iter().chain(shared).collect::<Vec<_>>().join("; ")
    }

    fn usable(&self) -> String {
        let topology = self.topology;
        let (usable, online) = (topology.usable_cpus(), topology.online());
        let mut text = format!(
            "{} of {} on {}",
            usable.len(),
            count(online.len(), "CPU"),
            count(topology.usable_cores(), "core")
        );
        if usable != online {
            text += &format!(": {}", usable.spelled());
        }
        if let Some(cpuset) = &topology.allowance().cpuset
            && !(online - cpuset).is_empty()
        {
            text += &format!(" (cpuset {cpuset})");
        }
        match &topology.allowance().quota {
            Some(quota) => {
                text += &format!("; quota of {quota} in {}", quota.file.display());
            }
            None => text += "; no quota",
        }
        text
    }

    fn ranks(&self, plan: &Plan) -> String {
        if let Some(reason) = plan.unbound() {
            return format!("{}, not bound: {reason}", plan.len());
        }
        let collect = |of: fn(&Place) -> Option<usize>| -> CpuSet {
            plan.places().iter().filter_map(of).collect()
        };
        let (ranks, siblings) = (collect(|place| place.cpu), collect(|place| place.sibling));
        let communication = if siblings.is_empty() {
            "no hardware thread to spare for communication threads".to_owned()
        } else {
            format!("communication threads on {}", siblings.spelled())
        };
        format!("{}; {communication}", self.bound(&ranks))
    }

    /// Describes where ranks are, with one rank on each of these CPUs.
    fn bound(&self, ranks: &CpuSet) -> String {
        let cores: BTreeSet<_> = ranks.iter().map(|cpu| self.topology.core_of(cpu)).collect();
        let sharing = if cores.len() < ranks.len() { ", some sharing a core" } else { "" };
        format!("{} on {}{sharing}", ranks.len(), ranks.spelled())
    }

    fn write_plan(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plan {
            Shown::Nothing => Ok(()),
            Shown::Ranks(plan) => write_paragraph(f, "ranks", LABEL, &self.ranks(plan)),
            Shown::Kts(plan) => {
                let ranks = match plan.unbound() {
                    Some(reason) => format!("{}, not bound: {reason}", plan.ranks()),
                    None => self.bound(&plan.cpus().iter().flatten().copied().collect()),
                };
                write_paragraph(f, "ranks", LABEL, &ranks)?;
                for (index, line) in plan.explain().iter().enumerate() {
                    let label = if index == 0 { "KTs" } else { "" };
                    write_paragraph(f, label, LABEL, line)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Drawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_paragraph(f, "machine", LABEL, &self.machine())?;
        for kind in self.kinds() {
            let of_kind =
                if self.topology.is_hybrid() { format!(" {kind}") } else { String::new() };
            write_paragraph(f, &format!("caches{of_kind}"), LABEL, &self.caches(kind))?;
        }
        write_paragraph(f, "usable", LABEL, &self.usable())?;
        if !self.topology.offline().is_empty() {
            // The kernel does not tell to which core an offline CPU belongs, so these CPUs cannot be drawn in their
            // places.
            write_paragraph(f, "offline", LABEL, &self.topology.offline().spelled())?;
        }
        self.write_plan(f)?;

        let looks = |&package: &usize| -> Vec<Look> {
            self.complexes(package).into_iter().map(|complex| self.look(complex)).collect()
        };
        let packages: Vec<usize> = (0..self.topology.packages.len()).collect();
        for alike in packages.chunk_by(|one, other| looks(one) == looks(other)) {
            let (drawn, counted) = fold(alike);
            for &package in drawn {
                self.write_package(f, package)?;
            }
            if !counted.is_empty() {
                let complexes: Vec<&Complex> =
                    counted.iter().flat_map(|&package| self.complexes(package)).collect();
                let more = counted.len();
                let text = format!("{more} more packages like this: {}", self.summary(&complexes));
                writeln!(f)?;
                write_paragraph(f, "+", 2, &text)?;
            }
        }
        self.write_offline(f)?;
        let legend = self.uses.legend(WIDTH);
        if legend.is_empty() { Ok(()) } else { writeln!(f, "\n{}", legend.join("\n")) }
    }
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Returns a cache's name, such as `L1d 48 KiB`.
fn cache_name(level: u32, kind: CacheKind, size: Option<u64>) -> String {
    let kind = match kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    let size = size.map(|size| format!(" {}", bytes(size))).unwrap_or_default();
    format!("L{level}{kind}{size}")
}

fn bytes(size: u64) -> String {
    let (unit, name) = match size {
        0..0x400 => (1, "B"),
        0x400..0x10_0000 => (0x400, "KiB"),
        0x10_0000..0x4000_0000 => (0x10_0000, "MiB"),
        _ => (0x4000_0000, "GiB"),
    };
    let size = (size as f64 / f64::from(unit) * 100.0).round() / 100.0;
    format!("{size} {name}")
}

/// Writes text after a label, with the following lines indented like the first. Writes nothing if the text is empty.
fn write_paragraph(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    indent: usize,
    text: &str,
) -> fmt::Result {
    for (index, line) in wrap(text, WIDTH - indent).into_iter().enumerate() {
        writeln!(f, "{:<indent$}{line}", if index == 0 { label } else { "" })?;
    }
    Ok(())
}
