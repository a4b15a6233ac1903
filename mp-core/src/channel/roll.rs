//! The roll of a receiver: a list, in the segment, of the ranks that have made channels of a name to it.
//!
//! All changes happen under the heap's lock. Without the lock, the receiver looks at one word that tells whether there
//! is news. A rank that changes the roll rings the receiver's doorbell afterwards, even if the receiver does not sleep,
//! because this happens only once for each pair of ranks.

use crossbeam_utils::CachePadded;

use crate::{
    context::Context,
    named::{Leaving, Name, Named, Object, RankSet, Title, find},
    segment::{BlockKey, BlockKind, LockedHeap, Offset, SegmentError, Shared},
    sync::{AtomicU32, Ordering},
};

/// The roll of one receiver, in the segment.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Roll {
    title: Title,
    /// Changes when `called` or `gone` changes.
    news: CachePadded<AtomicU32>,
    /// The receiver, which owns the roll.
    rank: AtomicU32,
    /// The ranks that the receiver waits for. Only reports read this.
    pub(super) awaited: RankSet,
    /// Ranks that have made a channel.
    called: RankSet,
    /// Ranks that make no more channels.
    gone: RankSet,
    /// The ranks in `gone` that were lost.
    lost: RankSet,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Roll {}

impl Roll {
    #[cfg(all(test, loom))]
    pub(super) fn new() -> Self {
        Self {
            title: Title::new(),
            news: CachePadded::new(AtomicU32::new(0)),
            rank: AtomicU32::new(0),
            awaited: RankSet::new(),
            called: RankSet::new(),
            gone: RankSet::new(),
            lost: RankSet::new(),
        }
    }

    /// Begins the roll of a rank.
    pub(super) fn begin(&self, rank: u32) {
        // The news begin at 1 because a receiver begins with 0: so its first look finds news.
        self.news.store(1, Ordering::Relaxed);
        self.rank.store(rank, Ordering::Relaxed);
    }

    /// Notes that a rank has made a channel. The receiver must be rung afterwards.
    pub(super) fn enter(&self, rank: u32) {
        self.called.insert(rank);
        self.tell();
    }

    /// Notes that a rank makes no more channels. The receiver must be rung afterwards.
    pub(super) fn leave(&self, rank: u32, lost: bool) {
        // A rank that withdrew before it was lost does not count as lost.
        if lost && !self.gone.contains(rank) {
            self.lost.insert(rank);
        }
        self.gone.insert(rank);
        self.tell();
    }

    fn tell(&self) {
        // Release: pairs with the Acquire in `news`.
        self.news.fetch_add(1, Ordering::Release);
    }

    pub(super) fn news(&self) -> u32 {
        // Acquire: pairs with the Release in `tell`.
        self.news.load(Ordering::Acquire)
    }

    pub(super) fn has_called(&self, rank: u32) -> bool {
        self.called.contains(rank)
    }

    /// Returns whether the rank was lost, if there is no channel from it and there will be none. Otherwise returns
    /// `None`.
    pub(super) fn absent(&self, rank: u32) -> Option<bool> {
        // `gone` is read first. A rank calls before it goes, so a reader that sees it in `gone` also sees it in
        // `called`.
        (self.gone.contains(rank) && !self.called.contains(rank)).then(|| self.lost.contains(rank))
    }

    fn is_of(&self, rank: u32) -> bool {
        self.rank.load(Ordering::Relaxed) == rank
    }

    /// Returns the name by which the roll of a rank is found.
    pub(super) fn name(name: Name<'_>, rank: u32) -> Name<'_> {
        name.of(std::iter::once(rank.into()))
    }
}

impl Named for Roll {
    const KIND: BlockKind = BlockKind::Roll;
    type Known = ();

    fn title(&self) -> &Title {
        &self.title
    }

    /// Notes that the rank makes no more channels. Frees the rank's own roll when the rank is released.
    fn retire(
        context: &Context,
        heap: &mut LockedHeap<'_>,
        key: BlockKey,
        rank: u32,
        ended: Leaving,
    ) -> Result<(), SegmentError> {
        let roll = Object::<Self>::at(context, key)?;
        if !roll.is_of(rank) {
            roll.leave(rank, ended.lost);
        } else if ended.released {
            heap.free(key)?;
        }
        Ok(())
    }
}

/// Returns the roll of a rank, if the rank has one of this name.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    name: Name<'_>,
    rank: u32,
) -> Result<Option<Object<'a, Roll>>, SegmentError> {
    find(context, heap, Roll::name(name, rank), |roll: &Roll| roll.is_of(rank))
}

/// Returns what the roll at `payload` shows to an outsider: its name, its receiver, and the ranks that the receiver
/// waits for.
pub(crate) fn outline_of_callers(
    context: &Context,
    payload: u64,
) -> Result<(String, u32, Vec<u32>), SegmentError> {
    let payload = context.segment.heap().payload_of(payload, BlockKind::Roll)?;
    let roll: &Roll = context.segment.at(Offset::new(payload))?;
    let awaited = roll.awaited.iter().filter(|&rank| !roll.gone.contains(rank)).collect();
    Ok((roll.title.name(), roll.rank.load(Ordering::Relaxed), awaited))
}
