//! From how many clients on delegation beats locks, which the guide tells (page 8).

use super::experiments::{combiner, slots};
use crate::critical::{Chip, Experiment, Task, Time, Way};
use crate::figures::{Check, Figure, Result};
use mp_delegate::critical::{Scheme, Section};

const CLIENTS: [usize; 9] = [1, 2, 3, 4, 6, 8, 10, 12, 15];
const LOCKS: [Scheme; 3] = [Scheme::Mcs, Scheme::Clh, Scheme::HybLock];

fn rate(chip: &Chip, section: Section, window: usize, clients: usize, times: u32) -> Result<f64> {
    let task = Task::Counters { times };
    let experiment = Experiment::new(chip.clone(), Way::Section(section), clients).task(task);
    Ok(experiment.window(window).time(Time::from_nanos(200_000)).run()?.rate())
}

/// Returns the least number of clients from which on the section is as fast as the best queue lock, if there is one.
fn point(chip: &Chip, section: Section, window: usize, times: u32) -> Result<Option<usize>> {
    let mut point = None;
    for clients in CLIENTS.into_iter().rev() {
        let mut best = 0.0_f64;
        for lock in LOCKS {
            best = best.max(rate(chip, Section::new(lock), 1, clients, times)?);
        }
        if rate(chip, section, window, clients, times)? < best {
            break;
        }
        point = Some(clients);
    }
    Ok(point)
}

/// The points of the machines of Ramos and Hoefler.
pub(super) fn turning_points() -> Result<Figure> {
    let mut checks = Vec::new();
    for (machine, chip) in
        [("Sandy Bridge", Chip::sandy_bridge(16)?), ("Xeon Phi", Chip::xeon_phi(60)?)]
    {
        for times in [0, 8, 64] {
            let streaming = point(&chip, slots().streaming(true), 1, times)?;
            let in_flight = point(&chip, slots().in_flight(32), 32, times)?;
            let server = point(&chip, slots(), 1, times)?;
            let cc = point(&chip, combiner(Scheme::CcSynch), 1, times)?;
            let hyb = point(&chip, combiner(Scheme::HybComb), 1, times)?;
            let text = |point: Option<usize>| point.map_or("never".to_owned(), |at| at.to_string());
            let ours = format!(
                "server {}, streaming {}, 32 in flight {}, CC-SYNCH {}, HYBCOMB {}",
                text(server),
                text(streaming),
                text(in_flight),
                text(cc),
                text(hyb)
            );
            let by = |point: Option<usize>, most| point.is_some_and(|point| point <= most);
            let (claim, holds) = if times == 0 {
                let none = server.or(cc).or(hyb).is_none();
                ("server and combiners do not pay without streaming", none)
            } else {
                let all = by(server, 2) && by(cc, 4) && by(hyb, 4);
                ("a server pays with 2 clients and a combiner with 4", all)
            };
            checks.push(Check::here(
                claim,
                format!("{machine}, {times} increments: {ours}"),
                holds,
            ));
        }
    }
    Ok(Figure {
        title: "from how many clients on delegation beats the best queue lock".to_owned(),
        about: "Not a figure of the thesis: page 8 of the guide tells these numbers. Up to 15 clients of the machines of \
                Ramos and Hoefler; a server's own core is not counted."
            .to_owned(),
        plots: Vec::new(),
        checks,
    })
}
