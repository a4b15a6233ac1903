//! The experiments of the thesis (chapter 3) on simulated machines: what the tests hold against the
//! published values, and the figures show.
//!
//! As there, core 0 is the source, every message is of another part of memory, which no cache holds,
//! and a latency is the time from the source's call to the last core's return (section 3.3.1).

use mp_model::Time;
use mp_model::mpb::{Misfit, Mpb};
use mp_model::scc::{RCCE_BUFFER_LINES, megabytes_per_second};
use mp_model::sim::{Core, Machine, SimError, run};
use thiserror::Error;

use crate::broadcast::{
    BroadcastError, OcBcast, Options, OptionsError, binomial, scatter_allgather,
};
use crate::two_sided::{NoRoom, TwoSided};

/// An algorithm to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// OC-Bcast.
    OcBcast(Options),
    /// The two-sided binomial tree, in RCCE's chunks.
    Binomial,
    /// The two-sided scatter-allgather, in RCCE's chunks.
    ScatterAllgather,
}

/// Why an experiment failed.
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
}

/// The SCC with MPBs long enough for the flags of two-sided messages, which RCCE packs closer than
/// one to a line.
pub fn scc_with_rcce(scc: Machine) -> Machine {
    Machine { lines: 2 * scc.cores() + RCCE_BUFFER_LINES as usize, ..scc }
}

/// The mean latency of a broadcast of so many lines.
///
/// The other cores wait already when the source calls, and it calls at many points of their polling.
///
/// # Errors
/// [`ExperimentError`].
pub fn latency(
    machine: &Machine,
    algorithm: Algorithm,
    lines: usize,
) -> Result<Time, ExperimentError> {
    const ROUNDS: usize = 16;
    // More than any of them takes, and no multiple of a look at a flag.
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

/// The throughput of so many broadcasts in a row, in MB/s.
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

const SOURCE: usize = 0;

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
