//! The control blocks of a world in its segment: what ranks let each other know.

use crossbeam_utils::CachePadded;

use super::text::Text;
use crate::{
    segment::{RobustLock, Shared},
    sync::{AtomicU32, AtomicU64, Futex, Ordering, fence},
    topology::Seat,
    wait::WaitRecord,
};

/// The number of bytes kept of a program's name.
const NAME: usize = 128;
/// The number of threads of a rank that can wait for interrupts of the same MPBs.
pub(crate) const SEATS: usize = 2;
/// The number of tables of held buffers that a rank can have, each twice as long as the one before.
pub(crate) const TABLES: usize = 24;

/// What is known of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RankState {
    /// It has not started yet.
    Expected = 0,
    /// Its code runs.
    Running = 1,
    /// Its code returned.
    Finished = 2,
    /// It panicked or died.
    Lost = 3,
}

impl RankState {
    fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Running,
            2 => Self::Finished,
            3 => Self::Lost,
            _ => Self::Expected,
        }
    }

    /// Returns whether the rank has ended, so that nothing more comes from it.
    pub(crate) fn ended(self) -> bool {
        matches!(self, Self::Finished | Self::Lost)
    }
}

/// The world's own block; the ranks' blocks follow it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WorldControl {
    /// The number of ranks.
    pub(crate) size: AtomicU32,
    /// 1 for processes, 0 for threads.
    pub(crate) processes: AtomicU32,
    /// The number of threads that the world runs, for the choice between spinning and yielding.
    pub(crate) threads: AtomicU32,
    /// The process that made the world.
    pub(crate) launcher: AtomicU32,
    /// The number of communication threads at work, that is, not asleep. Each counts in the ranks' `Delegations`, too.
    pub(crate) helpers: CachePadded<AtomicU32>,
    /// When the world was made, in CLOCK_MONOTONIC.
    pub(crate) since_ns: AtomicU64,
    /// The bytes of cache for which rings are made, as all ranks see it. See
    /// [`Rank::cache_for_rings`](crate::Rank::cache_for_rings). 0 until one rank has asked.
    pub(crate) cache: AtomicU64,
    /// The number of channels and MPBs made so far. Changed under the heap's lock.
    pub(crate) channels: AtomicU64,
    /// The lock held by the one rank that makes MPBs.
    pub(crate) making: CachePadded<RobustLock>,
    /// 1 + the rank whose code was the first to fail in this round; 0 for none. [`OVER`] is set
    /// between two rounds.
    first_failed: AtomicU32,
    /// Changes when a rank was lost and when MPBs were revoked. See [`News`](crate::waits::News).
    pub(crate) news: CachePadded<AtomicU32>,
    /// The number of calls of `run` that every rank has left, in a launched world.
    pub(crate) rounds: AtomicU32,
    /// The number of ranks whose results are in, and that have not left the round yet.
    pub(crate) outcomes: CachePadded<AtomicU32>,
    /// Where threads of all ranks that wait for interrupts sleep: a word for each seat.
    pub(crate) interrupts: [CachePadded<Futex>; SEATS],
    pub(crate) name: Text<{ NAME / 8 }>,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for WorldControl {}

/// A bit in `first_failed`: its value belongs to a round that is over.
const OVER: u32 = 1 << 31;

impl WorldControl {
    /// Tells the news that a rank was lost, or that MPBs were revoked. All sleepers must be rung after this.
    pub(crate) fn tell_news(&self) {
        // Release: pairs with the Acquire in `News::number` and `Context::wait`.
        self.news.fetch_add(1, Ordering::Release);
    }

    /// Begins a round for a rank. The first rank clears the failure of the round before.
    pub(crate) fn begin_round(&self) {
        let word = self.first_failed.load(Ordering::Relaxed);
        if word & OVER != 0 {
            let first = &self.first_failed;
            let _ = first.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Ends the round, which every rank has left.
    pub(crate) fn end_round(&self) {
        self.first_failed.fetch_or(OVER, Ordering::Relaxed);
    }

    /// Records the rank as the first whose code failed, if it is. Must be called before others can learn of the failure
    /// and fail in turn.
    pub(crate) fn note_failure(&self, rank: u32) {
        let first = &self.first_failed;
        let _ = first.compare_exchange(0, rank + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns a round, and the first rank whose code failed in it, as long as the round is not over.
    pub(crate) fn failing(&self) -> Option<(u32, u32)> {
        let round = self.rounds.load(Ordering::Relaxed);
        let word = self.first_failed.load(Ordering::Relaxed);
        Some((round, word.checked_sub(1).filter(|_| word & OVER == 0)?))
    }

    /// Returns the first rank whose code failed in this round, or in the last one if this round is over.
    pub(crate) fn first_failed(&self) -> Option<u32> {
        (self.first_failed.load(Ordering::Relaxed) & !OVER).checked_sub(1)
    }
}

/// One rank's block.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RankControl {
    state: CachePadded<AtomicU32>,
    /// Whether nothing of the rank runs any more.
    dead: AtomicU32,
    /// The number of rounds that the rank has left.
    pub(crate) left: AtomicU32,
    /// How its process ended, as an `Ending`'s word. Set before `dead`.
    pub(crate) ending: AtomicU32,
    /// The process that was started as this rank and has detected that; 0 if there is none yet.
    pub(crate) claimed: AtomicU32,
    /// The process that has entered as this rank; for a thread, the process of all ranks.
    pub(crate) pid: AtomicU32,
    /// The last-level cache and the package of the CPU that the rank is bound to, each plus 1; 0 if it is not bound.
    /// Written before any rank is started.
    seat: [AtomicU32; 2],
    /// Where the rank sleeps.
    pub(crate) doorbell: CachePadded<Futex>,
    /// What it waits for.
    pub(crate) record: CachePadded<WaitRecord>,
    /// What other threads send for it.
    pub(crate) delegations: CachePadded<Delegations>,
    /// The rank's result, as a block's key and a length in bytes.
    pub(crate) outcome: AtomicU64,
    pub(crate) outcome_len: AtomicU64,
    /// The rank's tables of held buffers, as keys of blocks.
    pub(crate) tables: [AtomicU64; TABLES],
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for RankControl {}

/// The most channels of a rank's blocked delegated sends that are recorded.
const BLOCKED: usize = 12;

/// A rank's delegated sends, as far as others need to know of them. Written when lanes are made and when the threads
/// that serve them go to sleep, never on the path of a message. The threads that attend to its interrupts count as
/// lanes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Delegations {
    lanes: AtomicU32,
    /// The number of lanes whose thread sleeps.
    resting: AtomicU32,
    /// The number of threads at work that the world counts for this rank.
    pub(crate) helpers: AtomicU32,
    /// Where the descriptors are of channels in which such a thread waits for room; 0 for none.
    blocked: [AtomicU64; BLOCKED],
}

impl Delegations {
    pub(crate) fn begin(&self) {
        self.lanes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.lanes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a lane's thread goes to sleep, without work, or because the channel `blocked` is full.
    pub(crate) fn rest(&self, blocked: Option<u64>) {
        if let Some(channel) = blocked {
            let free = |place: &&AtomicU64| {
                place.compare_exchange(0, channel, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            let _ = self.blocked.iter().find(free);
        }
        self.resting.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that it wakes again.
    pub(crate) fn wake(&self, blocked: Option<u64>) {
        self.resting.fetch_sub(1, Ordering::Relaxed);
        if let Some(channel) = blocked {
            let own = |place: &&AtomicU64| {
                place.compare_exchange(channel, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            let _ = self.blocked.iter().find(own);
        }
    }

    /// Returns whether a thread is at work, or may be.
    pub(crate) fn at_work(&self) -> bool {
        self.lanes.load(Ordering::Relaxed) > self.resting.load(Ordering::Relaxed)
    }

    /// Returns the channels in which sends wait for room.
    pub(crate) fn blocked(&self) -> Vec<u64> {
        let channels = self.blocked.iter().map(|place| place.load(Ordering::Relaxed));
        channels.filter(|&channel| channel != 0).collect()
    }
}

impl RankControl {
    /// Records where the rank is bound.
    pub(crate) fn set_seat(&self, seat: Option<Seat>) {
        let numbers =
            seat.map_or([0; 2], |Seat { cache, package }| [cache, package].map(|at| at as u32 + 1));
        for (word, number) in self.seat.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
    }

    /// Returns where the rank is bound.
    pub(crate) fn seat(&self) -> Option<Seat> {
        let [cache, package] =
            [0, 1].map(|at: usize| self.seat[at].load(Ordering::Relaxed).checked_sub(1));
        Some(Seat { cache: cache? as usize, package: package? as usize })
    }

    pub(crate) fn state(&self) -> RankState {
        // Acquire: pairs with the Release in `set_state`.
        RankState::from_word(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn set_state(&self, state: RankState) {
        // Release: pairs with the Acquire in `state`: all that the rank did comes before.
        self.state.store(state as u32, Ordering::Release);
    }

    /// Returns whether nothing of the rank runs any more, so that nothing it has begun continues.
    pub(crate) fn is_dead(&self) -> bool {
        // Acquire: pairs with the Release in `set_dead`: what the rank stored is all seen.
        self.dead.load(Ordering::Acquire) != 0
    }

    /// Marks the rank as dead. Must be called when the kernel has said so, and before a look at the state. See `renew`.
    pub(crate) fn set_dead(&self) {
        // Release: pairs with the Acquire in `is_dead`.
        self.dead.store(1, Ordering::Release);
        // The store before the coming load: pairs with the fence in `renew`.
        fence(Ordering::SeqCst);
    }

    /// Makes an ended rank one that is expected again. Returns false when its process will never come. If the process
    /// ends at this very moment, either the burial sees the rank expected and marks it as lost, or this sees it dead.
    pub(crate) fn renew(&self) -> bool {
        self.set_state(RankState::Expected);
        fence(Ordering::SeqCst);
        !self.is_dead()
    }

    /// Changes the state from `Expected` to `Running`. Returns false if another process or thread is this rank already.
    pub(crate) fn claim(&self) -> bool {
        self.state
            .compare_exchange(
                RankState::Expected as u32,
                RankState::Running as u32,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}
