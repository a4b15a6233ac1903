//! A barrier as a programmer would write it: all threads count up one number. The last one releases the others, which
//! poll for a while and then yield.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use onchip_benches::{collective, cpus};

use crate::plan::{Collective, timed};
use crate::rivals::Checked;
use crate::rivals::contest::{Contest, Entrant, Shown};
use crate::row::{Setup, Trouble};
use crate::stats::median;

/// How often a thread polls before it yields.
const SPINS: [(&str, usize); 4] =
    [("yield at once", 0), ("10 looks", 10), ("100 looks", 100), ("1000 looks", 1000)];

struct Barrier {
    threads: usize,
    spins: usize,
    come: CachePadded<AtomicUsize>,
    passed: CachePadded<AtomicUsize>,
}

impl Barrier {
    fn wait(&self) {
        let passed = self.passed.load(Ordering::Acquire);
        // AcqRel: the last thread has seen what all threads did before.
        if self.come.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.come.store(0, Ordering::Relaxed);
            self.passed.store(passed + 1, Ordering::Release);
            return;
        }
        for _ in 0..self.spins {
            if self.passed.load(Ordering::Acquire) != passed {
                return;
            }
            std::hint::spin_loop();
        }
        while self.passed.load(Ordering::Acquire) == passed {
            std::thread::yield_now();
        }
    }
}

/// Returns a contest of barriers among `threads` threads on the two CPUs, with no work between barriers.
pub fn barriers(threads: usize, plan: Collective) -> Contest {
    Contest::new("spin, then yield", "adaptive", false, move || {
        let entrant = |(setting, spins)| {
            Entrant::new("spin, then yield".into(), setting, move |setup| {
                let took = take(setup, threads, spins, plan)?;
                Ok(Shown { values: vec![took], probes: None })
            })
        };
        Ok(SPINS.map(entrant).into())
    })
}

fn take(setup: &Setup, threads: usize, spins: usize, plan: Collective) -> Result<f64, Trouble> {
    let barrier = Barrier { threads, spins, come: Default::default(), passed: Default::default() };
    let times: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    let work = |me: usize| {
        let mut checked = Checked::default();
        for time in 1..=200 {
            times[me].store(time, Ordering::Relaxed);
            barrier.wait();
            checked.holds(times.iter().all(|times| times.load(Ordering::Relaxed) >= time));
        }
        let took = timed(plan.batches, plan.calls, || -> Result<(), Trouble> {
            barrier.wait();
            Ok(())
        })?;
        checked.finish().map(|()| took)
    };
    let took = cpus::confined(&setup.cpus, || {
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..threads).map(|me| scope.spawn(move || work(me))).collect();
            threads
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, Trouble>>()
        })
    })?;
    Ok(median(&collective::slowest(&took)))
}
