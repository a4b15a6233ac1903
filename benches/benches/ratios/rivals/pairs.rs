//! Pairs of threads that share two cores and ping-pong over the channels of some library.

use std::sync::Barrier;

use onchip_benches::clock::monotonic_ns;
use onchip_benches::cpus;

use crate::plan::Pairs;
use crate::rivals::Checked;
use crate::row::{Setup, Trouble};

/// One end of a pair: a function that sends, and one that receives. Both return an error when the other end is gone.
pub struct End<S, R> {
    pub send: S,
    pub receive: R,
}

/// Measures half of a round trip in nanoseconds while all pairs of `plan` run, on channels from `ends`.
pub fn take<S1, R1, S2, R2>(
    setup: &Setup,
    plan: Pairs,
    ends: impl Fn() -> (End<S1, R1>, End<S2, R2>) + Sync,
) -> Result<f64, Trouble>
where
    S1: Fn(u64) -> bool + Send,
    R1: Fn() -> Option<u64> + Send,
    S2: Fn(u64) -> bool + Send,
    R2: Fn() -> Option<u64> + Send,
{
    let start = &Barrier::new(2 * plan.pairs);
    let run = || {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.pairs)
                .map(|_| {
                    let (asking, answering) = ends();
                    scope.spawn(move || {
                        start.wait();
                        for _ in 0..plan.trips {
                            let Some(message) = (answering.receive)() else { return };
                            if !(answering.send)(!message) {
                                return;
                            }
                        }
                    });
                    scope.spawn(move || {
                        start.wait();
                        let mut checked = Checked::default();
                        let begin = monotonic_ns();
                        for sequence in 0..plan.trips {
                            checked.holds((asking.send)(sequence));
                            checked.holds((asking.receive)() == Some(!sequence));
                        }
                        let span = [begin, monotonic_ns()];
                        checked.finish().map(|()| span)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, Trouble>>()
        })
    };
    Ok(plan.one_way(&cpus::confined(&setup.cpus, run)?))
}
