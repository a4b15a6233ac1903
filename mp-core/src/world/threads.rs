//! Ranks as threads of this process.

use std::sync::Arc;

use super::{
    at_end, burial,
    outcome::{Outcome, outcome_of},
    rank::Rank,
    site::{self, Call, Within},
};
use crate::{
    context::{Context, RankState},
    error::{Cause, ErrorKind, Result},
    sync::Ordering,
    topology::{pin_current_thread, start_in_blocks},
};

/// Runs the code of every rank of this node in a separate thread, and `meanwhile` in this one. Returns the outcomes when
/// all have ended.
pub(crate) fn run<T: Send>(
    mut world: Context,
    call: &Call,
    cpus: &[Option<usize>],
    code: impl Fn(&Rank) -> Result<T> + Sync,
    meanwhile: impl FnOnce(&Arc<Context>),
) -> Result<Vec<Outcome<T>>> {
    let pid = std::process::id();
    for rank in 0..world.size() as u32 {
        world.rank(rank)?.pid.store(pid, Ordering::Relaxed);
        world.rank(rank)?.set_state(RankState::Running);
    }
    world.loans = Some(Arc::default());
    let (world, code) = (&Arc::new(world), &code);
    let (first, count) = (world.here().start, world.here().len());
    let run_rank = move |rank: u32, cpu: Option<usize>, within: Within| {
        site::set_within(within);
        // Whatever happens in the rank, the other ranks must be told of its end.
        let outcome = outcome_of(|| {
            match cpu {
                Some(cpu) => pin_current_thread(cpu)?,
                None => start_in_blocks((rank - first) as usize, count)?,
            }
            let context = Arc::new(world.as_rank(rank));
            at_end::run(&context, || code(&Rank::new(Arc::clone(&context))))
        });
        let state = match outcome {
            Err(Cause::Panic(_)) => RankState::Lost,
            _ => RankState::Finished,
        };
        let ended = burial::end(world, rank, state);
        outcome.and_then(|value| match ended {
            Ok(()) => Ok(value),
            Err(error) => Err(Cause::Error(error.to_string())),
        })
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for rank in world.here() {
            let cpu = cpus.get(rank as usize).copied().flatten();
            let within = site::within_rank(call, rank);
            let spawned = std::thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn_scoped(scope, move || run_rank(rank, cpu, within));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    // The ranks that run must not wait for those that will never run.
                    for rank in (rank..world.here().end).chain(world.elsewhere()) {
                        burial::end(world, rank, RankState::Lost)?;
                    }
                    return Err(ErrorKind::Os { call: "starting a thread", source }.into());
                }
            }
        }
        meanwhile(world);
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Cause::Panic("(outside its code)".to_owned())))
        });
        Ok(joined.collect())
    })
}
