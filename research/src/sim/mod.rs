//! Real algorithms on simulated cores, in virtual time.
//!
//! ```
//! use mp_core::mpb::{Line, MpbAccess};
//! use onchip_research::sim::{Machine, run};
//! use mp_model::Time;
//!
//! // Core 47 gets a line from the MPB of core 0, nine routers away.
//! let run = run(Machine::scc(), async |core| {
//!     if core.rank() == 47 {
//!         core.get_own(Line { rank: 0, line: 0 }, 1, 0).await?;
//!     }
//!     Ok(core.now())
//! })?;
//! assert_eq!(run.outputs[47], Ok::<_, onchip_research::sim::Misfit>(Time::from_nanos(330 + 216 + 136)));
//! # Ok::<_, onchip_research::sim::SimError>(())
//! ```
//!
//! A run is a discrete-event simulation in one thread. Each core is a suspended `async` function
//! ([`MpbAccess`](mp_core::mpb::MpbAccess) says why); it goes on alone until it touches an MPB, and then waits until
//! all that the others do before that instant has been done. Lines move one by one, at the very instants at which the
//! model has them read and written, so a protocol that reads too early does read stale or torn data. Nothing is random,
//! and events of one instant happen in the order in which they were planned: a run is the same every time and
//! everywhere. (With one exception: cores' caches go by address, so where an algorithm frees a buffer and makes
//! another, it is up to the allocator whether a put from that is taken for one from the cache. [`Machine::cache_bytes`]
//! = 0 leaves caches out.)
//!
//! **What costs time.** Reads and writes of lines by formulas 4.1–4.6, put and get by 4.7–4.12, with
//! each core's own distances; one transaction at a time. An MPB's port serves one line after another
//! ([`Port`]), and takes waiting accesses from the inputs of its router in turn, which is what slows
//! down many accesses to one MPB, and some cores more than others (section 4.1.3). The mesh and the
//! memory controllers do not: the thesis measured that they are no bottleneck. A put from memory that
//! is in the core's cache reads for nothing (section 4.2). Waiting for a flag is looking at it again
//! and again, so that up to a whole look passes until it is seen. Interrupts take a latency and
//! accesses to the registers of one controller ([`InterruptCosts`], section 3.3.4).
//!
//! **What is simplified.** Accesses wait at the MPB alone; routers farther away have room for all
//! packets. Looks that see nothing do not burden the port.
//! A core takes an interrupt where its algorithm asks or waits for one, not in the middle of a put.

mod cache;
mod core;
mod engine;
mod interrupts;
mod machine;
mod misfit;
mod port;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use thiserror::Error;

pub use self::core::Core;
use self::engine::Engine;
pub use self::interrupts::WaitForInterrupt;
pub use self::machine::{InterruptCosts, Layout, Machine, MachineError, Port, Sharing};
pub use self::misfit::Misfit;
use mp_model::Time;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<T> {
    /// The value that the algorithm returned on each core.
    pub outputs: Vec<T>,
    /// The time at which it returned on each core.
    pub finished: Vec<Time>,
}

impl<T> Run<T> {
    /// Returns when the last core finished.
    pub fn end(&self) -> Time {
        self.finished.iter().copied().max().unwrap_or_default()
    }
}

/// The reason why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimError {
    /// The machine's description makes no sense.
    #[error("the machine cannot be simulated")]
    Machine(#[from] MachineError),
    /// All cores that have not finished wait for flags that no core will set, or for interrupts that no core will send.
    #[error("deadlock: {}", list(.waiting, .asleep))]
    Deadlock {
        /// The waiting cores, and the lines of their MPBs that they wait for.
        waiting: Vec<(usize, usize)>,
        /// The cores that wait only for interrupts.
        asleep: Vec<usize>,
    },
    /// A core waits for something outside of the simulator.
    #[error("core {core} awaits a future of another kind")]
    Foreign {
        /// The core.
        core: usize,
    },
}

fn list(waiting: &[(usize, usize)], asleep: &[usize]) -> String {
    let flag = |(core, line): &(usize, usize)| format!("core {core} waits for its line {line}");
    let interrupt = |core: &usize| format!("core {core} waits for an interrupt");
    let all = waiting.iter().map(flag).chain(asleep.iter().map(interrupt));
    all.collect::<Vec<_>>().join(", ")
}

/// Runs `algorithm` on every core of a machine, all from time 0 on, to the end.
///
/// # Errors
/// [`SimError`].
///
/// # Panics
/// If the algorithm does.
pub fn run<T>(
    machine: Machine,
    algorithm: impl AsyncFn(&mut Core) -> T,
) -> Result<Run<T>, SimError> {
    machine.check()?;
    let cores = machine.cores();
    let engine = Rc::new(RefCell::new(Engine::new(machine)));
    let algorithm = &algorithm;
    let start = |rank| {
        let mut core = Core::new(rank, Rc::clone(&engine));
        engine.borrow_mut().plan(Time::ZERO, rank);
        async move {
            let output = algorithm(&mut core).await;
            (output, core.now())
        }
    };
    let mut running: Vec<Option<Pin<Box<_>>>> =
        (0..cores).map(|rank| Some(Box::pin(start(rank)))).collect();
    let mut done: Vec<_> = (0..cores).map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        // This is not in the loop's head, where the borrow would last as long as the body.
        let Some(rank) = engine.borrow_mut().advance() else { break };
        let Some(core) = &mut running[rank] else { continue };
        if let Poll::Ready(result) = core.as_mut().poll(&mut context) {
            done[rank] = Some(result);
            running[rank] = None;
        }
    }
    finish(done, &engine.borrow())
}

fn finish<T>(done: Vec<Option<(T, Time)>>, engine: &Engine) -> Result<Run<T>, SimError> {
    let (mut waiting, mut asleep) = (Vec::new(), Vec::new());
    for (core, _) in done.iter().enumerate().filter(|(_, result)| result.is_none()) {
        match engine.watched(core) {
            Some(line) => waiting.push((core, line)),
            None if engine.sleeps(core) => asleep.push(core),
            None => return Err(SimError::Foreign { core }),
        }
    }
    if !waiting.is_empty() || !asleep.is_empty() {
        return Err(SimError::Deadlock { waiting, asleep });
    }
    let (outputs, finished) = done.into_iter().flatten().unzip();
    Ok(Run { outputs, finished })
}

#[cfg(test)]
mod tests;
