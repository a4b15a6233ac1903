//! `kt-w`, `skt`: communication threads send the borders, one for each worker or one for a group of workers.
//!
//! A border is lent to the thread in place. The thread copies it into the neighbour's channel while the inner rows are
//! computed.

use example_support::{Error, Result, kts};
use onchip::threads::{self, Choice};
use onchip::topology::Topology;
use onchip::trace::{Detail, Kind};

use super::lanes::{Neighbours, borders, with_received};
use super::{Block, Job, Mode, Ranks, Run, no_kt, placement, world};
use crate::kernel;

/// Computes in a world of threads or processes.
pub(super) fn run(job: &Job, mode: Mode, ranks: Ranks) -> Result<Run> {
    let recording = &job.recording();
    let topology = Topology::read().map_err(Error::new)?;
    let plan = placement::plan(&topology, mode, job.workers()).map_err(Error::new)?;
    let Some(plan) = &plan else { return no_kt::run(job, ranks) };
    let shared = match ranks {
        Ranks::Threads => {
            let all: Vec<usize> = (0..plan.kts().len()).collect();
            Some(kts::start(plan, &all, recording, None)?)
        }
        Ranks::Processes => None,
    };
    // The threads of all are gone with this closure: they record up to their end.
    world::run(job, ranks, plan.cpus(), recording, move |seat, rows| {
        let me = seat.rank.id();
        let serving = plan.sends_of(me);
        let (threads, mine) = match &shared {
            Some(threads) => (threads.clone(), serving.to_vec()),
            // They run in the process that they serve.
            None => (kts::start(plan, serving, recording, Some(me))?, vec![0]),
        };
        let size = job.init.size();
        let zeros = vec![0.0; size];
        let mut neighbours = Neighbours::open(seat, |sender, other| {
            let mut delegated = threads.delegate_to(sender, &mine, Choice::RoundRobin);
            delegated.record(seat.recorder.clone(), Detail::message(me, other, 0));
            delegated
        })?;
        let mut block = Block::new(rows);
        let change = kernel::largest_change;
        let (steps, seconds) = seat.steps(&mut block, change, |Block { now, next }| {
            let now = &*now;
            threads::scope(|scope| {
                let [first, last] = borders(now, size);
                let north = neighbours.north.as_mut().map(|north| scope.send(&mut north.to, first));
                let south = neighbours.south.as_mut().map(|south| scope.send(&mut south.to, last));
                seat.recorder.compute(1.0, || kernel::inner_rows(now, next, size));
                with_received(seat, &neighbours, &zeros, |north, south| {
                    kernel::border_rows(now, next, size, north, south);
                })?;
                for request in [north, south].into_iter().flatten() {
                    let open = (!request.is_done()).then(|| seat.recorder.begin(Kind::Wait));
                    request.wait().map_err(|unsent| unsent.error)?;
                    drop(open);
                }
                Ok(())
            })
        })?;
        Ok((steps, seconds, block.now.into_vec()))
    })
}
