//! The experiments of the thesis (chapter 3) on simulated machines. The tests compare their results with the published
//! values, and the figures show them.
//!
//! As in the thesis, core 0 is the source, every message is from a different part of memory, which no cache holds, and
//! a latency is the time from the source's call to the last core's return (section 3.3.1).

use std::cell::RefCell;

use crate::scc::{RCCE_BUFFER_LINES, megabytes_per_second};
use crate::served::Served;
use crate::sim::{Core, Machine, Misfit, SimError, run};
use crate::two_sided::{NoRoom, TwoSided, binomial, scatter_allgather};
use mp_core::mpb::MpbAccess;
use mp_model::Time;
use mp_model::tree::Shape;
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
    /// An operation does not fit the machine.
    #[error(transparent)]
    Misfit(#[from] Misfit),
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

/// Returns the mean latency of a broadcast of this many lines, in sixteen rounds.
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
    latency_of(machine, algorithm, lines, ROUNDS)
}

/// Returns the mean latency in this many rounds.
///
/// # Errors
/// [`ExperimentError`].
pub fn latency_of(
    machine: &Machine,
    algorithm: Algorithm,
    lines: usize,
    rounds: usize,
) -> Result<Time, ExperimentError> {
    // Longer than any broadcast here takes, and not a multiple of the time for reading a flag.
    let interval = Time::from_nanos(2_000_037);
    let run = run(machine.clone(), async |core| {
        let mut running = Running::new(core, algorithm)?;
        let mut memory = vec![0; rounds * lines * machine.line_bytes];
        let mut took = Vec::new();
        let mut rest = &mut memory[..];
        for round in 0..rounds {
            let (message, after) = rest.split_at_mut(lines * machine.line_bytes);
            rest = after;
            let call = (round as u64 + 1) * interval;
            if core.rank() == SOURCE {
                core.sleep_until(call);
            }
            running.broadcast(core, message).await?;
            took.push(core.now().saturating_sub(call));
        }
        Ok::<_, ExperimentError>(took)
    })?;
    let took = run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let last = |round: usize| took.iter().map(|core| core[round]).max().unwrap_or_default();
    Ok((0..rounds).map(last).sum::<Time>() / rounds as u64)
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
        let took = RefCell::new(Vec::new());
        let mut handler = async |core: &mut Core, _: usize, _: &[u8]| {
            let mut took = took.borrow_mut();
            let late = core.now().saturating_sub(call(took.len()));
            took.push(late);
        };
        if core.rank() == SOURCE {
            let memory = vec![0; ROUNDS * bytes];
            for round in 0..ROUNDS {
                serve_until(core, &mut served, &mut handler, || true).await?;
                core.sleep_until(call(round));
                let message = &memory[round * bytes..(round + 1) * bytes];
                served.broadcast(core, message, &mut handler).await?;
            }
        } else {
            serve_until(core, &mut served, &mut handler, || took.borrow().len() == ROUNDS).await?;
        }
        Ok::<_, ExperimentError>(took.take())
    })?;
    let took = run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let last = |round: usize| took.iter().filter_map(|core| core.get(round)).max();
    let sum: Time = (0..ROUNDS).filter_map(last).copied().sum();
    Ok(sum / ROUNDS as u64)
}

/// Serves the others until `enough`, and until this core has passed on all that it got and its children have taken it.
///
/// Then nothing is left to do, because no rank says farewell here: farewells would compete with the messages that are
/// measured.
async fn serve_until(
    core: &mut Core,
    served: &mut Served,
    handler: &mut impl AsyncFnMut(&mut Core, usize, &[u8]),
    enough: impl Fn() -> bool,
) -> Result<(), ExperimentError> {
    let is_busy = |served: &Served| {
        let member = served.member();
        member.awaited().is_some() || member.is_queued()
    };
    while !enough() || is_busy(served) {
        served.serve_next(core, handler).await?;
    }
    Ok(())
}

/// Returns the throughput, in MB/s, of this many cores that each broadcast this many messages of this many lines in a
/// row (section 3.3.4): all data, divided by the time until the last core has the last of it. The sources are spread
/// over the ranks.
///
/// The time begins when that core has its first message. The time before, in which the tree is filled, is discarded,
/// as the thesis discards its first results.
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
        let arrivals = RefCell::new(Vec::new());
        let mut handler = async |core: &mut Core, _: usize, _: &[u8]| {
            arrivals.borrow_mut().push(core.now());
        };
        let mut others = sources;
        if (0..sources).any(|source| source * cores / sources == core.rank()) {
            others -= 1;
            let bytes = lines * machine.line_bytes;
            let memory = vec![0; times * bytes];
            for message in memory.chunks(bytes.max(1)) {
                served.broadcast(core, message, &mut handler).await?;
            }
        }
        let all = others * times;
        serve_until(core, &mut served, &mut handler, || arrivals.borrow().len() == all).await?;
        Ok::<_, ExperimentError>(arrivals.take())
    })?;
    let arrivals = run.outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let slowest = arrivals.iter().max_by_key(|arrivals| arrivals.last());
    let Some([first, rest @ .., last]) = slowest.map(Vec::as_slice) else { return Ok(0.0) };
    Ok(megabytes_per_second(((rest.len() + 1) * lines) as u64, *last - *first))
}

/// Returns the mean time of an operation that the first `cores` cores repeat at the same time, for each of them
/// (section 4.1.3). They do not begin in step, which real cores don't either.
///
/// # Errors
/// [`ExperimentError`].
pub fn repeated(
    machine: &Machine,
    cores: usize,
    operation: impl AsyncFn(&mut Core) -> Result<(), Misfit>,
) -> Result<Vec<Time>, ExperimentError> {
    let end = Time::from_nanos(2_000_000);
    let run = run(machine.clone(), async |core| {
        if core.rank() >= cores {
            return Ok::<_, Misfit>(None);
        }
        core.spend(Time::from_picos(core.rank() as u64 * 17_333));
        let (start, mut times) = (core.now(), 0);
        while core.now() < end {
            operation(core).await?;
            times += 1;
        }
        Ok(Some((core.now() - start) / times))
    })?;
    let times = run.outputs.into_iter().collect::<Result<Vec<_>, Misfit>>()?;
    Ok(times.into_iter().flatten().collect())
}

const SOURCE: usize = 0;

const ROUNDS: usize = 16;

/// One core's part in an algorithm.
struct Running {
    part: Part,
    /// The time that the software takes at the beginning of each call.
    call: Time,
}

enum Part {
    OcBcast(OcBcast),
    Binomial(TwoSided),
    ScatterAllgather(TwoSided),
}

impl Running {
    fn new(core: &Core, algorithm: Algorithm) -> Result<Running, ExperimentError> {
        let two_sided = || TwoSided::new(core, 0, RCCE_BUFFER_LINES as usize);
        let (ranks, rank) = (core.ranks(), core.rank());
        // As often as the ranks can be halved, a rank of a binomial tree has a neighbour.
        let halvings = u64::from(usize::BITS - (ranks - 1).leading_zeros());
        let (part, neighbours) = match algorithm {
            Algorithm::OcBcast(options) => {
                let part = Part::OcBcast(OcBcast::new(core, options)?);
                let tree = Shape::new(ranks, options.degree).and_then(|shape| shape.rooted(SOURCE));
                (part, tree.and_then(|tree| tree.node(rank)).map_or(0, |node| node.degree() as u64))
            }
            Algorithm::Binomial => (Part::Binomial(two_sided()?), halvings),
            Algorithm::ScatterAllgather => (Part::ScatterAllgather(two_sided()?), halvings),
        };
        let costs = core.costs();
        Ok(Running { part, call: costs.call + neighbours * costs.call_neighbour })
    }

    async fn broadcast(
        &mut self,
        core: &mut Core,
        message: &mut [u8],
    ) -> Result<(), BroadcastError<Misfit>> {
        core.spend(self.call);
        match &mut self.part {
            Part::OcBcast(oc_bcast) => oc_bcast.broadcast(core, message, SOURCE).await,
            Part::Binomial(messages) => Ok(binomial(messages, core, message, SOURCE).await?),
            Part::ScatterAllgather(messages) => {
                Ok(scatter_allgather(messages, core, message, SOURCE).await?)
            }
        }
    }
}
