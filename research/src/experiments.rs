//! The experiments of the thesis (chapter 3) on simulated machines. The tests compare their results with the published
//! values, and the figures show them.
//!
//! As in the thesis, core 0 is the source, every message is from a different part of memory, which no cache holds, and
//! a latency is the time from the source's call to the last core's return (section 3.3.1).

use crate::scc::{RCCE_BUFFER_LINES, megabytes_per_second};
use crate::served::Served;
use crate::sim::{Core, Machine, Misfit, SimError, run};
use crate::two_sided::{NoRoom, TwoSided, binomial, scatter_allgather};
use mp_core::mpb::MpbAccess;
use mp_model::Time;
use thiserror::Error;

use mp_collectives::broadcast::asynchronous::{AsyncError, AsyncOptions, AsyncOptionsError};
use mp_collectives::broadcast::{BroadcastError, OcBcast, Options, OptionsError};

/// An algorithm to examine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// OC-Bcast.
    OcBcast(Options),
    /// The two-sided binomial tree, in RCCE's chunks.
    Binomial,
    /// The two-sided scatter-allgather, in RCCE's chunks.
    ScatterAllgather,
}

/// The reason why an experiment failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExperimentError {
    /// The simulation has no result.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// OC-Bcast does not fit the machine.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Two-sided messages do not fit the machine.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A broadcast failed.
    #[error(transparent)]
    Broadcast(#[from] BroadcastError<Misfit>),
    /// Asynchronous broadcasts do not fit the machine.
    #[error(transparent)]
    AsyncOptions(#[from] AsyncOptionsError),
    /// An asynchronous broadcast failed.
    #[error(transparent)]
    Async(#[from] AsyncError<Misfit>),
}

/// Returns the SCC with MPBs long enough for the flags of two-sided messages, which RCCE packs more closely than one to
/// a line.
pub fn scc_with_rcce(scc: Machine) -> Machine {
    Machine { lines: 2 * scc.cores() + RCCE_BUFFER_LINES as usize, ..scc }
}

/// Returns the mean latency of a broadcast of this many lines.
///
/// The other cores are already waiting when the source calls, and it calls at many points of their polling.
///
/// # Errors
/// [`ExperimentError`].
pub fn latency(
    machine: &Machine,
    algorithm: Algorithm,
    lines: usize,
) -> Result<Time, ExperimentError> {
    // Longer than any broadcast here takes, and not a multiple of the time for reading a flag.
    let interval = Time::from_nanos(2_000_037);
    let run = run(machine.clone(), async |core| {
        let mut running = Running::new(core, algorithm)?;
        let bytes = lines * machine.line_bytes;
        let mut memory = vec![0; ROUNDS * bytes];
        let mut took = [Time::ZERO; ROUNDS];
        let mut rest = &mut memory[..];
        for (round, took) in took.iter_mut().enumerate() {
            let (message, after) = rest.split_at_mut(bytes);
            rest = after;
            let call = (round as u64 + 1) * interval;
            if core.rank() == SOURCE {
                core.sleep_until(call);
            }
            running.broadcast(core, message).await?;
            *took = core.now().saturating_sub(call);
        }
        Ok::<_, ExperimentError>(took)
    })?;
    let took = run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let last = |round: usize| took.iter().map(|core| core[round]).max().unwrap_or_default();
    Ok((0..ROUNDS).map(last).sum::<Time>() / ROUNDS as u64)
}

/// Returns the throughput of this many broadcasts in a row, in MB/s.
///
/// # Errors
/// [`ExperimentError`].
pub fn mb_per_s(
    machine: &Machine,
    algorithm: Algorithm,
    lines: usize,
    times: usize,
) -> Result<f64, ExperimentError> {
    let run = run(machine.clone(), async |core| {
        let mut running = Running::new(core, algorithm)?;
        let bytes = lines * machine.line_bytes;
        let mut memory = vec![0; times * bytes];
        for message in memory.chunks_mut(bytes.max(1)) {
            running.broadcast(core, message).await?;
        }
        Ok::<_, ExperimentError>(())
    })?;
    let end = run.end();
    run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(megabytes_per_second((times * lines) as u64, end))
}

/// Returns the mean latency of an asynchronous broadcast of this many lines: from the source's call until the last
/// core's handler has the message.
///
/// The other cores are idle when they are interrupted.
///
/// # Errors
/// [`ExperimentError`].
pub fn async_latency(
    machine: &Machine,
    options: AsyncOptions,
    lines: usize,
) -> Result<Time, ExperimentError> {
    let interval = Time::from_nanos(2_000_037);
    let call = |round: usize| (round as u64 + 1) * interval;
    let run = run(machine.clone(), async |core| {
        let mut served = Served::new(core, options)?;
        let bytes = lines * machine.line_bytes;
        let memory = vec![0; ROUNDS * bytes];
        let mut took = Vec::new();
        let mut handler = async |core: &mut Core, _: usize, _: &[u8]| {
            took.push(core.now().saturating_sub(call(took.len())));
        };
        if core.rank() == SOURCE {
            for round in 0..ROUNDS {
                idle_until(core, &mut served, &mut handler, call(round)).await?;
                let message = &memory[round * bytes..(round + 1) * bytes];
                served.broadcast(core, message, &mut handler).await?;
            }
        }
        served.finish(core, &mut handler).await?;
        Ok::<_, ExperimentError>(took)
    })?;
    let took = run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let last = |round: usize| took.iter().filter_map(|core| core.get(round)).max();
    let sum: Time = (0..ROUNDS).filter_map(last).copied().sum();
    Ok(sum / ROUNDS as u64)
}

/// Waits until `time`, until all children have answered, and nothing is left to do.
async fn idle_until(
    core: &mut Core,
    served: &mut Served,
    handler: &mut impl AsyncFnMut(&mut Core, usize, &[u8]),
    time: Time,
) -> Result<(), ExperimentError> {
    while served.member().awaited().is_some() {
        served.serve_next(core, handler).await?;
    }
    core.sleep_until(time);
    Ok(())
}

/// Returns the throughput, in MB/s, of this many cores that each broadcast this many messages of this many lines in a
/// row: all data that is broadcast, divided by the time until the last core has the last of it (section 3.3.4). The
/// sources are spread over the ranks.
///
/// # Errors
/// [`ExperimentError`].
pub fn async_mb_per_s(
    machine: &Machine,
    options: AsyncOptions,
    sources: usize,
    lines: usize,
    times: usize,
) -> Result<f64, ExperimentError> {
    let cores = machine.cores();
    let sources = sources.min(cores);
    let run = run(machine.clone(), async |core| {
        let mut served = Served::new(core, options)?;
        let bytes = lines * machine.line_bytes;
        let mut end = Time::ZERO;
        let mut handler = async |core: &mut Core, _: usize, _: &[u8]| end = core.now();
        if (0..sources).any(|source| source * cores / sources == core.rank()) {
            let memory = vec![0; times * bytes];
            for message in memory.chunks(bytes.max(1)) {
                served.broadcast(core, message, &mut handler).await?;
            }
        }
        served.finish(core, &mut handler).await?;
        Ok::<_, ExperimentError>(end)
    })?;
    let ends = run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let end = ends.into_iter().max().unwrap_or_default();
    Ok(megabytes_per_second((sources * times * lines) as u64, end))
}

const SOURCE: usize = 0;

const ROUNDS: usize = 16;

/// One core's part in an algorithm.
enum Running {
    OcBcast(OcBcast),
    Binomial(TwoSided),
    ScatterAllgather(TwoSided),
}

impl Running {
    fn new(core: &Core, algorithm: Algorithm) -> Result<Running, ExperimentError> {
        let two_sided = || TwoSided::new(core, 0, RCCE_BUFFER_LINES as usize);
        Ok(match algorithm {
            Algorithm::OcBcast(options) => Running::OcBcast(OcBcast::new(core, options)?),
            Algorithm::Binomial => Running::Binomial(two_sided()?),
            Algorithm::ScatterAllgather => Running::ScatterAllgather(two_sided()?),
        })
    }

    async fn broadcast(
        &mut self,
        core: &mut Core,
        message: &mut [u8],
    ) -> Result<(), BroadcastError<Misfit>> {
        match self {
            Running::OcBcast(oc_bcast) => oc_bcast.broadcast(core, message, SOURCE).await,
            Running::Binomial(messages) => Ok(binomial(messages, core, message, SOURCE).await?),
            Running::ScatterAllgather(messages) => {
                Ok(scatter_allgather(messages, core, message, SOURCE).await?)
            }
        }
    }
}
