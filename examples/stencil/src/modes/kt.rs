//! `kt-w`, `skt`: communication threads send the borders, one for each worker or one for all.
//!
//! A border is lent to the thread in place. The thread copies it into the neighbour's channel while the inner rows are
//! computed.

use example_support::Result;
use onchip::threads::{self, Choice, CommThreads};
use onchip::trace::{Detail, Kind, Track};

use super::lanes::{Neighbours, borders, with_received};
use super::{Block, Job, Mode, Ranks, Run, world};
use crate::kernel;

/// Computes in a world of threads or processes.
pub(super) fn run(job: &Job, mode: Mode, ranks: Ranks) -> Result<Run> {
    let recording = &job.recording();
    let start = move |tracks: Vec<Track>| {
        let recorders = tracks.iter().map(|&track| recording.recorder(track));
        CommThreads::builder(tracks.len()).record(recorders).start()
    };
    let shared = match ranks {
        Ranks::Threads => Some(start((0..mode.kts(job.workers())).map(Track::kt).collect())?),
        Ranks::Processes => None,
    };
    // The threads of all are gone with this closure: they record up to their end.
    world::run(job, ranks, recording, move |seat, rows| {
        let me = seat.rank.id();
        let (threads, mine) = match &shared {
            Some(threads) => (threads.clone(), me % threads.len()),
            // They run in the process that they serve.
            None => (start(vec![Track::kt(me).in_process_of(me)])?, 0),
        };
        let size = job.init.size();
        let zeros = vec![0.0; size];
        let mut neighbours = Neighbours::open(seat, |sender, other| {
            let mut delegated = threads.delegate_to(sender, &[mine], Choice::RoundRobin);
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
