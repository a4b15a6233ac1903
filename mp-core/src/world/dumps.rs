//! Detection of ranks that have crashed and whose cores are being written.
//!
//! The system reports the end of a process only after its core is written, which takes seconds if the process has much
//! memory of its own. The other ranks should not wait for that. So, if core dumps are possible at all, the launcher
//! checks from time to time whether a running rank is being dumped.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::Pid,
};

use super::burial;
use crate::{context::Context, error::Result};

/// How often the launcher looks. A look takes some microseconds for each rank.
const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No dump is known.
    None,
    /// The last look has seen a dump.
    Seen,
    /// The other ranks have been told that this rank is lost.
    Announced,
}

/// The launcher's knowledge of the ranks' core dumps.
#[derive(Debug)]
pub(crate) struct Dumps {
    possible: bool,
    looked: Instant,
    stages: Vec<Stage>,
}

impl Dumps {
    pub(crate) fn of(ranks: usize) -> Self {
        // A handler gets dumps even if the limit is 0.
        let handled = fs::read_to_string("/proc/sys/kernel/core_pattern")
            .is_ok_and(|pattern| pattern.starts_with(['|', '@']));
        let limit = getrlimit(Resource::RLIMIT_CORE).map_or(0, |(soft, _)| soft);
        let possible = handled || limit > 0;
        Self { possible, looked: Instant::now(), stages: vec![Stage::None; ranks] }
    }

    /// Returns how long the launcher may sleep until the next look.
    pub(crate) fn until_next_look(&self) -> Option<Duration> {
        self.possible.then(|| INTERVAL.saturating_sub(self.looked.elapsed()))
    }

    /// Looks at the running ranks if it is time to, and tells the other ranks of those that have crashed. Returns the
    /// ranks that were announced now.
    pub(crate) fn look(
        &mut self,
        context: &Context,
        running: impl IntoIterator<Item = (usize, Pid)>,
    ) -> Result<Vec<usize>> {
        let mut told = Vec::new();
        if !self.possible || self.looked.elapsed() < INTERVAL {
            return Ok(told);
        }
        self.looked = Instant::now();
        for (rank, process) in running {
            let stage = self.stages[rank];
            if stage == Stage::Announced || !is_dumped(process) {
                continue;
            }
            // A dump must be seen twice, because at the first look another thread of the process may still be executing
            // its last instructions.
            let announced = stage == Stage::Seen && burial::announce(context, rank as u32)?;
            self.stages[rank] = if announced { Stage::Announced } else { Stage::Seen };
            told.extend(announced.then_some(rank));
        }
        Ok(told)
    }
}

/// Returns whether the process's code no longer runs, but its core is being written.
fn is_dumped(process: Pid) -> bool {
    fs::read_to_string(format!("/proc/{process}/status")).is_ok_and(|status| says_so(&status))
}

fn says_so(status: &str) -> bool {
    let field = status.lines().find_map(|line| line.strip_prefix("CoreDumping:"));
    field.is_some_and(|value| value.trim() == "1")
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Channel, ErrorKind, World,
        context::RankState,
        wait::WaitPolicy,
        world::{Rank, bury},
    };

    #[test]
    fn a_dump_is_seen_in_the_status() {
        assert!(says_so("Name:\tmprun\nCoreDumping:\t1\nThreads:\t2\n"));
        assert!(!says_so("Name:\tmprun\nCoreDumping:\t0\nThreads:\t1\n"));
        assert!(!says_so("Name:\tCoreDumping: 1\n"));
        assert!(!is_dumped(nix::unistd::getpid()));
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(own.contains("\nCoreDumping:\t0\n"), "{own}");
    }

    /// A rank crashes while its message is pending and while it holds a buffer. The message arrives, the rank's loss is
    /// known after that, and the buffer is freed when the rank's process has ended.
    #[test]
    fn a_crash_is_announced_before_the_burial() {
        let world = World::threads(2).segment_size(1 << 20).create(WaitPolicy::Park, 1).unwrap();
        for rank in 0..2 {
            world.rank(rank).unwrap().set_state(RankState::Running);
        }
        let [dying, other] = [0, 1].map(|rank| Rank::new(Arc::new(world.as_rank(rank))));
        let channel = Channel::degree(1);
        let mut sender = dying.sender::<u32>("last", 1, channel).unwrap();
        let receiver = other.receiver::<u32>("last", 0, channel).unwrap();
        sender.send(&7).unwrap();
        let held = dying.buffer::<u8>(100_000).unwrap();
        let used = world.segment.heap().used();

        // While the dying rank holds the heap's lock, its loss can't be announced.
        let lock = dying.context().lock_heap().unwrap();
        assert!(!burial::announce(&world, 0).unwrap());
        drop(lock);
        assert!(burial::announce(&world, 0).unwrap());
        assert_eq!(*receiver.receive().unwrap(), 7);
        let error = receiver.receive().map(drop).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::PeerLost { rank: 0, .. }), "{error}");
        assert_eq!(world.world().unwrap().first_failed(), Some(0));
        assert!(world.segment.heap().used() >= used, "its process has not ended");
        std::mem::forget((sender, held));
        bury(&world, 0).unwrap();
        assert!(world.segment.heap().used() < used);
    }
}
