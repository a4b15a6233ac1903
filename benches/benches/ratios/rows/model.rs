//! What the cache-line-aware model predicts for two ranks from what single lines cost here, and what
//! operations take: between the least and the most that it predicts.

use mp_model::cla::{Bounds, Graph, Machine, Rules, Tree, patterns};
use onchip::calibration::Calibration;
use onchip::collectives::{self, Explanation, Settings};
use onchip::near;
use onchip::topology::{CpuSet, Topology};

use crate::ours::Ranks;
use crate::party;
use crate::plan::{Collective, Operation, Timing};
use crate::rivals::failed;
use crate::row::{Bound, Row, Setup, Side, Trouble, Unit};

const RANKS: usize = 2;

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (operation, bytes) in
        [(Operation::Barrier, 0), (Operation::Broadcast, 8), (Operation::Reduce, 8)]
    {
        let measured =
            || party::ours(Ranks::Threads, Collective::of(operation, bytes), Timing::Last);
        let row = |bound: &str, what, ours, reference| Row {
            name: format!("model.{}.{bound}", operation.name()),
            what,
            unit: Unit::Nanoseconds,
            ours,
            reference,
            bound: Bound::at_most(1.0),
            by_distance: true,
        };
        rows.push(row(
            "most",
            "last in to last out, beside the most that the model predicts from lines measured now",
            measured(),
            Side::new("predicted most", "-", move |setup| {
                Ok(predicted(setup, operation)?.max.as_nanos().into())
            }),
        ));
        rows.push(row(
            "least",
            "the least that the model predicts from lines measured now, beside last in to last out",
            Side::new("predicted least", "-", move |setup| {
                Ok(predicted(setup, operation)?.min.as_nanos().into())
            }),
            measured(),
        ));
    }
    rows
}

/// For the very steps that the library takes, in a loop that finds its flags in caches.
fn predicted(setup: &Setup, operation: Operation) -> Result<Bounds, Trouble> {
    let cpus: CpuSet = setup.cpus.into_iter().collect();
    let topology = Topology::read().and_then(|t| t.confined_to(&cpus)).map_err(failed)?;
    let calibration = Calibration::of(&mp_core::calibrate::measure(&topology));
    let placement = calibration.placement(RANKS).ok_or_else(|| failed("no two ranks"))?;
    let machine = Machine { parameters: calibration.parameters.with_cached_flags(), placement };
    let tree = Tree::flat(0, &machine.placement).map_err(failed)?;
    let program = match operation {
        Operation::Broadcast => patterns::pushed_broadcast(&tree),
        Operation::Reduce => patterns::pushed_reduction(&tree),
        _ => {
            let places = near::Places::unknown(RANKS);
            let settings = Settings::default();
            let barrier = Explanation::of(
                collectives::Collective::Barrier,
                0,
                &places,
                RANKS,
                None,
                &settings,
            );
            barrier.program(&places).ok_or_else(|| failed("the barrier has no program"))?
        }
    };
    let graph = Graph::new(&program, &machine).map_err(failed)?;
    Ok(graph.bounds(Rules::default()))
}
