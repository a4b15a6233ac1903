//! Communication threads (KTs) where a plan puts them.

use onchip::threads::CommThreads;
use onchip::topology::KtPlan;
use onchip::trace::{Recording, Track};

/// Starts KTs by their numbers in a plan, in the process of a rank or for all ranks.
///
/// # Errors
/// If a thread can't be started or bound.
pub fn start(
    plan: &KtPlan,
    numbers: &[usize],
    recording: &Recording,
    process: Option<usize>,
) -> onchip::Result<CommThreads> {
    let track = |&number: &usize| match process {
        Some(rank) => Track::kt(number).in_process_of(rank),
        None => Track::kt(number),
    };
    let cpus = numbers.iter().map(|&number| plan.kts()[number].cpu);
    CommThreads::builder(numbers.len())
        .cpus(cpus.collect::<Option<Vec<_>>>().unwrap_or_default())
        .record(numbers.iter().map(|number| recording.recorder(track(number))))
        .start()
}
