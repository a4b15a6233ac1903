//! The control blocks of a world in its segment. They hold what ranks tell each other about their states.

use crossbeam_utils::CachePadded;

use super::text::Text;
use crate::{
    segment::{RobustLock, Shared},
    sync::{AtomicU32, AtomicU64, Futex, Ordering, fence},
    topology::Seat,
    wait::{Cpus, Seen, WaitRecord},
};

/// The number of bytes kept of a program's name.
const NAME: usize = 128;
/// The number of threads of a rank that can wait for interrupts of the same MPBs.
pub(crate) const SEATS: usize = 2;
/// The number of tables of held buffers that a rank can have, each twice as long as the one before.
pub(crate) const TABLES: usize = 24;

/// The state of a rank, as all ranks see it.
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

/// The world's own block. The ranks' blocks follow it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WorldControl {
    /// The number of ranks with which the world begins.
    pub(crate) size: AtomicU32,
    /// The number of ranks that it can have in all.
    pub(crate) room: AtomicU32,
    /// The number of ranks that were started.
    pub(crate) begun: AtomicU32,
    /// The first rank of this node, and the number of its ranks: see [`Context::is_here`](super::Context::is_here).
    pub(crate) here: [AtomicU32; 2],
    /// 1 for processes, 0 for threads.
    pub(crate) processes: AtomicU32,
    /// The number of threads that the world runs, for the choice between spinning and yielding.
    pub(crate) threads: AtomicU32,
    /// The process that made the world.
    pub(crate) launcher: AtomicU32,
    /// The number of communication threads that are awake. Each is also counted in the `Delegations` of its rank.
    pub(crate) helpers: CachePadded<AtomicU32>,
    /// When the world was made, in CLOCK_MONOTONIC.
    pub(crate) since_ns: AtomicU64,
    /// The number of bytes of cache for which rings are made, the same for all ranks: see
    /// [`Rank::cache_for_rings`](crate::Rank::cache_for_rings). 0 until a rank has asked for it.
    pub(crate) cache: AtomicU64,
    /// The number of channels and MPBs made so far. It changes only under the heap's lock.
    pub(crate) channels: AtomicU64,
    /// The lock of the one rank that makes MPBs: see [`Context::make_alone`](super::Context::make_alone).
    pub(crate) making: CachePadded<RobustLock>,
    /// 1 + the rank whose code was the first to fail in this round; 0 for none. [`OVER`] is set between two rounds.
    first_failed: AtomicU32,
    /// A number that changes when a rank was lost and when MPBs were revoked. See [`News`](crate::waits::News).
    pub(crate) news: CachePadded<AtomicU32>,
    /// The number of calls of `run` that every rank has left or never will leave, in a launched world.
    pub(crate) rounds: AtomicU32,
    /// In a world of several nodes: the same for the ranks of this node.
    pub(crate) left_here: AtomicU32,
    /// 1 after the bridge to the other nodes has ended.
    pub(crate) severed: AtomicU32,
    /// The number of rounds whose end one rank of this node, or its launcher, has seen: see `renewal`.
    pub(crate) seen_over: AtomicU32,
    /// The futexes on which threads of all ranks sleep while they wait for interrupts: one for each seat.
    pub(crate) interrupts: [CachePadded<Futex>; SEATS],
    pub(crate) name: Text<{ NAME / 8 }>,
    /// Where the ranks run.
    pub(crate) cpus: CachePadded<Cpus>,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for WorldControl {}

/// A bit in `first_failed`: the rest of the word belongs to a round that is over.
const OVER: u32 = 1 << 31;

impl WorldControl {
    /// Announces that a rank was lost, or that MPBs were revoked. The caller must ring all sleepers afterwards.
    pub(crate) fn tell_news(&self) {
        // Release: pairs with the Acquire in `News::number` and `Context::wait`.
        self.news.fetch_add(1, Ordering::Release);
    }

    /// Begins a round for a rank. The first rank to do so clears the failure of the previous round.
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

    /// Records that the rank's code failed, unless that of another rank failed before. Must be called before other
    /// ranks can learn of the failure and fail in turn.
    pub(crate) fn note_failure(&self, rank: u32) {
        let first = &self.first_failed;
        let _ = first.compare_exchange(0, rank + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the round, and the first rank whose code failed in it. Returns `None` if none has failed or the round is
    /// over.
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
    /// 1 if the rank's process has ended.
    dead: AtomicU32,
    /// The number of rounds that the rank has left.
    pub(crate) left: AtomicU32,
    /// How the rank's process ended, as an `Ending`'s word. It is stored before `dead`.
    pub(crate) ending: AtomicU32,
    /// The id of the process that was started as this rank and has detected this; 0 if there is none yet.
    pub(crate) claimed: AtomicU32,
    /// The id of the process that has entered the world as this rank. For a thread, this is the process of all ranks.
    pub(crate) pid: AtomicU32,
    /// The last-level cache and the package of the CPU that the rank is bound to, each plus 1; 0 if it is not bound.
    /// Written before any rank is started.
    seat: [AtomicU32; 2],
    /// The futex on which the rank sleeps.
    pub(crate) doorbell: CachePadded<Futex>,
    /// What the rank waits for.
    pub(crate) record: CachePadded<WaitRecord>,
    /// Where the rank was last seen.
    pub(crate) seen: Seen,
    /// The sends that other threads do for the rank.
    pub(crate) delegations: CachePadded<Delegations>,
    /// The block of the rank's result, by its key, and the result's length in bytes.
    pub(crate) outcome: AtomicU64,
    pub(crate) outcome_len: AtomicU64,
    /// What the rank asks of the launcher, and the answer, by the keys of their blocks.
    pub(crate) request: AtomicU64,
    pub(crate) answer: AtomicU64,
    /// What a rank that is started later is told, by the key of the block. Written before it is started.
    pub(crate) family: AtomicU64,
    /// The rank's tables of held buffers, by the keys of their blocks.
    pub(crate) tables: [AtomicU64; TABLES],
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for RankControl {}

/// The largest number of channels that are recorded for a rank's blocked delegated sends.
const BLOCKED: usize = 12;

/// The state of a rank's delegated sends, as far as other ranks need to know it. It is written when lanes are made and
/// when the threads that serve them go to sleep, never on the path of a message. The threads that attend to the rank's
/// interrupts count as lanes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Delegations {
    lanes: AtomicU32,
    /// The number of lanes whose thread sleeps.
    resting: AtomicU32,
    /// The number of awake threads that the world counts for this rank.
    pub(crate) helpers: AtomicU32,
    /// The channels in which a lane's thread waits for room, by the places of their descriptors; 0 for none.
    blocked: [AtomicU64; BLOCKED],
}

impl Delegations {
    pub(crate) fn begin(&self) {
        self.lanes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.lanes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a lane's thread goes to sleep, either without work or because the channel `blocked` is full.
    pub(crate) fn rest(&self, blocked: Option<u64>) {
        if let Some(channel) = blocked {
            let free = |place: &&AtomicU64| {
                place.compare_exchange(0, channel, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            let _ = self.blocked.iter().find(free);
        }
        self.resting.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a lane's thread wakes again. `blocked` is the same as in the call of `rest`.
    pub(crate) fn wake(&self, blocked: Option<u64>) {
        self.resting.fetch_sub(1, Ordering::Relaxed);
        if let Some(channel) = blocked {
            let own = |place: &&AtomicU64| {
                place.compare_exchange(channel, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            let _ = self.blocked.iter().find(own);
        }
    }

    /// Returns whether a lane's thread may be at work.
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
    /// Records the CPU to which the rank is bound, or that it is not bound.
    pub(crate) fn set_seat(&self, seat: Option<Seat>) {
        let numbers =
            seat.map_or([0; 2], |Seat { cache, package }| [cache, package].map(|at| at as u32 + 1));
        for (word, number) in self.seat.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
    }

    /// Returns where the rank is bound, if it is.
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
        // Release: pairs with the Acquire in `state`: a rank that sees the state also sees all that this rank did
        // before.
        self.state.store(state as u32, Ordering::Release);
    }

    /// Returns whether the rank's process has ended, so that nothing that the rank has begun continues.
    pub(crate) fn is_dead(&self) -> bool {
        // Acquire: pairs with the Release in `set_dead`: all stores of the dead rank are visible.
        self.dead.load(Ordering::Acquire) != 0
    }

    /// Marks the rank as dead. Must be called after the kernel has reported the end of the process, and before a look
    /// at the rank's state: see `renew`.
    pub(crate) fn set_dead(&self) {
        // Release: pairs with the Acquire in `is_dead`.
        self.dead.store(1, Ordering::Release);
        // The fence orders the store before the caller's load of the state. It pairs with the fence in `renew`.
        fence(Ordering::SeqCst);
    }

    /// Changes an ended rank's state back to `Expected`. Returns false if the rank is dead, so that it will never come.
    /// If the rank's process ends at this moment, either the burial sees the state `Expected` and marks the rank as
    /// lost, or this call sees that the rank is dead.
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
