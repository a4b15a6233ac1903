//! How far results move if the costs of cache lines are others than those that are quoted.

use super::experiments::{PAUSE, combiner, slots};
use super::x86::{OPTERON, X86, XEON};
use crate::coherent::{Mesh, Taking};
use crate::critical::{Chip, Experiment, Task, Time, Way};
use crate::figures::{Check, Figure, Result};
use mp_delegate::critical::{Scheme, Section};
use mp_model::cla::Parameters;

/// A cost of lines: its name, and how it is multiplied by some per cent.
type Cost = (&'static str, fn(&mut Chip, u64));

const COSTS: [Cost; 6] = [
    ("a transfer nearby", |chip, percent| {
        let Parameters { near, far, .. } = &mut chip.machine.parameters;
        scale(&mut near.transfer, percent);
        far.transfer = far.transfer.max(near.transfer);
    }),
    ("a transfer from afar", |chip, percent| {
        let Parameters { near, far, .. } = &mut chip.machine.parameters;
        scale(&mut far.transfer, percent);
        // The tiles have one distance.
        far.transfer = far.transfer.max(near.transfer);
    }),
    ("memory", |chip, percent| {
        let Parameters { near, far, .. } = &mut chip.machine.parameters;
        scale(&mut near.memory, percent);
        scale(&mut far.memory, percent);
    }),
    ("a store to a shared line", |chip, percent| {
        if let Some(Taking { near, far }) = &mut chip.taking {
            scale(near, percent);
            scale(far, percent);
        }
    }),
    ("a store's way to its home", |chip, percent| {
        if let Some(Mesh { through, .. }) = &mut chip.mesh {
            scale(through, percent);
        }
    }),
    ("all together", |chip, percent| {
        COSTS[..5].iter().for_each(|(_, change)| change(chip, percent));
    }),
];

fn scale(cost: &mut Time, percent: u64) {
    *cost = *cost * percent / 100;
}

/// A conclusion: the rate of the first is a multiple of the second's.
struct Conclusion {
    names: &'static str,
    pair: [Way; 2],
    /// The ratio that the conclusion needs.
    least: f64,
}

fn conclusion(
    names: &'static str,
    better: impl Into<Way>,
    other: impl Into<Way>,
    least: f64,
) -> Conclusion {
    Conclusion { names, pair: [better.into(), other.into()], least }
}

/// Returns a row for each conclusion: its ratio with the quoted costs, and with each of them a fifth lower or higher.
fn rows(
    name: &str,
    chip: &Chip,
    conclusions: &[Conclusion],
    run: impl Fn(Chip, Way) -> Result<f64>,
) -> Result<Vec<Check>> {
    let mut chips = vec![("as quoted".to_owned(), chip.clone())];
    for (what, change) in COSTS {
        for (percent, how) in [(80, "−20%"), (120, "+20%")] {
            let mut changed = chip.clone();
            change(&mut changed, percent);
            if changed != *chip {
                chips.push((format!("{what} {how}"), changed));
            }
        }
    }
    let row = |conclusion: &Conclusion| {
        let mut ratios = Vec::new();
        for (what, chip) in &chips {
            let [better, other] = conclusion.pair.map(|way| run(chip.clone(), way));
            ratios.push((what.as_str(), better? / other?));
        }
        let quoted = ratios[0].1;
        let most = |(_, a): &&(&str, f64), (_, b): &&(&str, f64)| a.total_cmp(b);
        let (least, greatest) = (ratios.iter().min_by(most), ratios.iter().max_by(most));
        let (Some(least), Some(greatest)) = (least, greatest) else { return Err("no runs".into()) };
        Ok(Check::here(
            format!("{name}: {}, at least {:.1}", conclusion.names, conclusion.least),
            format!(
                "{quoted:.2}; from {:.2} ({}) to {:.2} ({})",
                least.1, least.0, greatest.1, greatest.0
            ),
            least.1 >= conclusion.least,
        ))
    };
    conclusions.iter().map(row).collect()
}

/// The conclusions about the TILE-Gx, with 35 threads.
fn on_tiles() -> Result<Vec<Check>> {
    let conclusions = [
        conclusion("HYBLOCK / MCS", Scheme::HybLock, Scheme::Mcs, 1.1),
        conclusion("HYBLOCK / CLH", Scheme::HybLock, Way::PublishedClh, 1.1),
        conclusion("MP-SERVER / SHM-SERVER", Scheme::MpServer(0), slots(), 2.0),
        conclusion("HYBCOMB / CC-SYNCH", combiner(Scheme::HybComb), combiner(Scheme::CcSynch), 1.5),
        conclusion("CC-SYNCH / HYBLOCK", combiner(Scheme::CcSynch), Scheme::HybLock, 2.0),
    ];
    rows("TILE-Gx", &Chip::tiles(36)?, &conclusions, |chip, way| {
        let experiment = Experiment::new(chip, way, 35).between(PAUSE);
        Ok(experiment.time(Time::from_nanos(300_000)).run()?.rate())
    })
}

/// The conclusions about an x86 machine, with the most clients.
fn on_x86(machine: &X86) -> Result<Vec<Check>> {
    let [_, (_, backed_off), (_, streaming)] = machine.servers();
    let base: Section = slots();
    let mut conclusions = vec![
        conclusion("backoff / none", backed_off, base, 1.5),
        conclusion("streaming / ordinary stores", streaming, base, 1.5),
        conclusion("the server with backoff / fetch-and-add", backed_off, Way::FetchAdd, 1.5),
        conclusion(
            "the server with backoff / CC-Synch",
            backed_off,
            combiner(Scheme::CcSynch),
            1.5,
        ),
    ];
    // The thesis does not show H-Synch on the Opteron.
    if machine.part == "a" {
        let (h, cc) = (combiner(Scheme::HSynch), combiner(Scheme::CcSynch));
        conclusions.push(conclusion("H-Synch / CC-Synch", h, cc, 1.5));
    }
    rows(machine.name, &machine.chip()?, &conclusions, |chip, way| {
        Ok(machine.with(chip, way, machine.most(), Task::Counter).run()?.rate())
    })
}

/// The conclusions of chapters 6 and 7 with other costs of lines.
pub(super) fn costs() -> Result<Figure> {
    let mut checks = on_tiles()?;
    for machine in [&XEON, &OPTERON] {
        checks.extend(on_x86(machine)?);
    }
    Ok(Figure {
        title: "conclusions with costs a fifth lower or higher".to_owned(),
        about: "Not a figure of the thesis. Each cost of lines is made 20% lower and 20% higher, alone and together with \
                all others, because most of them could not be checked. A row gives the ratio of throughputs with the \
                quoted costs, and the least and the greatest ratio with others and the cost that leads to it. The \
                fitted constants stay."
            .to_owned(),
        plots: Vec::new(),
        checks,
    })
}
