//! Where emitter, workers and collector run if there are fewer cores than ranks.
//!
//! With enough cores a world binds its ranks by itself. With too few it leaves them to the system, because it can't
//! know which of them have work. Here that is known: the workers have work, and the other two only pass on where frames
//! are. The system does not see that, because a rank that polls for messages between two yields looks as busy as a rank
//! that filters a frame. So for a long time it may leave two workers on one core, and emitter and collector on the
//! other.

use onchip::topology::{current_affinity, pin_current_thread};

use super::Job;
use super::ranks::{EMITTER, collector_rank, worker_rank};

/// Binds the calling thread to the core for `rank`, if there is a core for each worker but not for each rank.
pub(super) fn take_place(rank: usize, job: &Job) {
    let Some(cpus) = current_affinity() else { return };
    let cpus: Vec<usize> = cpus.iter().collect();
    if let Some(&cpu) = place(rank, job, cpus.len()).and_then(|place| cpus.get(place)) {
        // An error is ignored, because frames come out the same wherever they are filtered.
        let _ = pin_current_thread(cpu);
    }
}

/// Returns the place of `rank` among `cores`, or `None` if the farm does not decide it.
fn place(rank: usize, job: &Job, cores: usize) -> Option<usize> {
    let ranks = collector_rank(job) + 1;
    if !(job.workers..ranks).contains(&cores) {
        return None;
    }
    let last = cores - 1;
    Some(match rank {
        // A core without a worker is for the emitter and the collector. Without such a core, they share those of the
        // first and the last worker.
        EMITTER if cores == job.workers => 0,
        EMITTER => last,
        _ if rank == collector_rank(job) => last,
        worker => worker - worker_rank(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Size;
    use crate::input::Input;
    use crate::output::Output;

    fn places(workers: usize, cores: usize) -> Vec<Option<usize>> {
        let job = Job::new(Input::Clip(Size::ONE_PIXEL), Output::Discard, workers);
        (0..=collector_rank(&job)).map(|rank| place(rank, &job, cores)).collect()
    }

    #[test]
    fn each_worker_has_a_core_if_there_are_enough() {
        let all = |places: &[usize]| places.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(places(2, 1), [None; 4]);
        assert_eq!(places(2, 2), all(&[0, 0, 1, 1]));
        assert_eq!(places(2, 3), all(&[2, 0, 1, 2]));
        assert_eq!(places(2, 4), [None; 4]);
        assert_eq!(places(1, 1), all(&[0, 0, 0]));
        assert_eq!(places(1, 2), all(&[1, 0, 1]));
        assert_eq!(places(1, 0), [None; 3]);
    }
}
