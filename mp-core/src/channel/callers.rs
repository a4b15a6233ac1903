//! The ranks that have opened a channel of a name to this rank, and the ranks that will open none.
//!
//! A receiver that takes messages from any rank would need a channel from each of them. If all ranks did so, there
//! would be as many channels as there are pairs of ranks. Instead, the receiver opens its [`Callers`] of the name. This
//! is a block of the heap, its *roll*, which lists each rank that makes a channel of this name to the receiver, and
//! each rank that has ended or [withdrawn](super::farewell). The receiver opens the channels of the ranks that have
//! called, and no others.
//!
//! All changes happen under the heap's lock. The receiver looks without the lock at one word that tells whether there
//! is news. A rank that makes news rings the receiver's doorbell afterwards, whether the receiver sleeps or not, since
//! that happens once for each pair.

use std::{cell::Cell, sync::Arc};

use crossbeam_utils::CachePadded;

use super::{
    directory::{Agreement, End, NAME, Opened},
    farewell,
    select::Selectable,
};
use crate::{
    ErrorKind,
    context::{Context, Namespace, RankSet, RankState, Text, hash},
    error::Error,
    segment::{BlockKey, BlockKind, LockedHeap, Offset, SegmentError, Shared},
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// The news for a receiver, in the segment.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Roll {
    /// Changes when anything below does.
    news: CachePadded<AtomicU32>,
    /// The rank that owns the roll.
    rank: AtomicU32,
    /// A [`Namespace`]'s word.
    namespace: AtomicU64,
    name: Text<{ NAME / 8 }>,
    /// Ranks that the receiver waits for, as reports show them.
    awaited: RankSet,
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
            news: CachePadded::new(AtomicU32::new(0)),
            rank: AtomicU32::new(0),
            namespace: AtomicU64::new(0),
            name: Text::new(),
            awaited: RankSet::new(),
            called: RankSet::new(),
            gone: RankSet::new(),
            lost: RankSet::new(),
        }
    }

    /// Notes that a rank has made a channel. The receiver must be rung afterwards.
    pub(super) fn enter(&self, rank: u32) {
        self.called.insert(rank);
        self.tell();
    }

    /// Notes that a rank makes no more channels. The receiver must be rung afterwards.
    pub(super) fn leave(&self, rank: u32, lost: bool) {
        // Only what had not withdrawn before it was lost.
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
        // In this order: a rank calls before it goes.
        (self.gone.contains(rank) && !self.called.contains(rank)).then(|| self.lost.contains(rank))
    }

    /// Returns the ranks that the receiver waits for and that are not gone.
    fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        self.awaited.iter().filter(|&rank| !self.gone.contains(rank))
    }
}

fn hash_of(namespace: Namespace, name: &str, rank: u32) -> u64 {
    let words = [namespace.word(), u64::from(rank)].into_iter();
    hash(words.chain(name.bytes().map(u64::from)))
}

fn at(context: &Context, key: BlockKey) -> Result<&Roll, SegmentError> {
    context.segment.at(Offset::new(key.payload()))
}

/// Returns the roll of a rank, if the rank has one of this name.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    (namespace, name): (Namespace, &str),
    rank: u32,
) -> Result<Option<&'a Roll>, SegmentError> {
    let blocks = heap.by_hash(hash_of(namespace, name, rank))?;
    for block in blocks.iter().filter(|block| block.kind == BlockKind::Roll) {
        let roll = at(context, block.key)?;
        if roll.rank.load(Ordering::Relaxed) == rank
            && roll.namespace.load(Ordering::Relaxed) == namespace.word()
            && roll.name.read() == *name
        {
            return Ok(Some(roll));
        }
    }
    Ok(None)
}

/// Notes that a rank has ended. It makes no more channels, and when it is `released`, its own roll is of no use.
pub(super) fn retire(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    key: BlockKey,
    rank: u32,
    (lost, released): (bool, bool),
) -> Result<(), SegmentError> {
    let roll = at(context, key)?;
    if roll.rank.load(Ordering::Relaxed) != rank {
        roll.leave(rank, lost);
    } else if released {
        heap.delist(key)?;
        heap.free(key)?;
    }
    Ok(())
}

/// Returns what the roll at `payload` shows to an outsider: its name, its receiver, and the ranks that the receiver
/// waits for.
pub(crate) fn outline_of_callers(
    context: &Context,
    payload: u64,
) -> Result<(String, u32, Vec<u32>), SegmentError> {
    let payload = context.segment.heap().payload_of(payload, BlockKind::Roll)?;
    let roll: &Roll = context.segment.at(Offset::new(payload))?;
    Ok((roll.name.read(), roll.rank.load(Ordering::Relaxed), roll.awaited().collect()))
}

/// The ranks that open channels of one name to this rank. Opened by
/// [`Rank::callers`](crate::Rank::callers).
pub struct Callers {
    context: Arc<Context>,
    key: BlockKey,
    namespace: Namespace,
    name: Box<str>,
    /// The news at the last look.
    heard: Cell<u32>,
}

impl Callers {
    pub(crate) fn open(
        context: Arc<Context>,
        namespace: Namespace,
        name: &str,
    ) -> Result<Self, Error> {
        let bad =
            |reason: String| Error::from(ErrorKind::BadChannel { channel: name.into(), reason });
        if name.len() > NAME || name.is_empty() || name.contains('\0') {
            return Err(bad(format!("its name must have 1 to {NAME} bytes, none of them zero")));
        }
        farewell::listen(&context, namespace, name)?;
        let me = context.me;
        let (heap, key) = context.find_or_make(
            |heap| match of(&context, heap, (namespace, name), me)? {
                Some(_) => Err(bad(
                    "this rank has its callers of that name already: use them, or drop them first"
                        .to_owned(),
                )),
                None => Ok(None),
            },
            || Ok(make(&context, namespace, name)?),
            |heap, key| announce(&context, heap, key, (namespace, name)),
        )?;
        drop(heap);
        let (name, heard) = (name.into(), Cell::new(0));
        Ok(Self { context, key, namespace, name, heard })
    }

    fn roll(&self) -> Option<&Roll> {
        at(&self.context, self.key).ok()
    }

    /// Returns the roll, and the rank's number if there is such a rank.
    fn of(&self, rank: usize) -> Option<(&Roll, u32)> {
        Some((self.roll()?, self.context.check_rank(rank).ok()?))
    }

    fn news(&self) -> u32 {
        self.roll().map_or(0, Roll::news)
    }

    /// Notes that the receiver waits for this rank, so that a [report](crate::report) shows it.
    pub fn await_call(&self, rank: usize) {
        if let Some((roll, rank)) = self.of(rank) {
            roll.awaited.insert(rank);
        }
    }

    /// Returns whether there is news since the last call of this method.
    pub fn has_news(&self) -> bool {
        let news = self.news();
        self.heard.replace(news) != news
    }

    /// Returns whether the rank has made a channel of this name to this rank, which the receiver can open.
    pub fn has_called(&self, rank: usize) -> bool {
        self.of(rank).is_some_and(|(roll, rank)| roll.has_called(rank))
    }

    /// Returns whether the rank was lost, if it has made no channel of this name to this rank and will make none,
    /// because it has ended or [withdrawn](crate::Rank::withdraw). Otherwise returns `None`.
    pub fn absent(&self, rank: usize) -> Option<bool> {
        let (roll, rank) = self.of(rank)?;
        roll.absent(rank)
    }
}

/// Makes a roll that no other rank can find yet.
fn make(context: &Context, namespace: Namespace, name: &str) -> Result<BlockKey, SegmentError> {
    let key = context.allocate(BlockKind::Roll, size_of::<Roll>() as u64)?;
    let roll = at(context, key)?;
    // Not what was heard of last.
    roll.news.store(1, Ordering::Relaxed);
    roll.rank.store(context.me, Ordering::Relaxed);
    roll.namespace.store(namespace.word(), Ordering::Relaxed);
    roll.name.write(name);
    for set in [&roll.awaited, &roll.called, &roll.gone, &roll.lost] {
        set.assign(&[]);
    }
    Ok(key)
}

/// Enters the ranks that have called before and the ranks that have gone, and puts the roll where the other ranks find
/// it.
fn announce(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    key: BlockKey,
    (namespace, name): (Namespace, &str),
) -> Result<(), Error> {
    let (roll, me) = (at(context, key)?, context.me);
    let farewell = farewell::of(context, heap, namespace, name)?;
    for rank in (0..context.size() as u32).filter(|&rank| rank != me) {
        let channel = Agreement::between(namespace, name, rank, me);
        if Opened::find(context, heap, &channel, End::Receiver)?.is_some() {
            roll.enter(rank);
        }
        let state = context.rank(rank)?.state();
        if state.ended() || farewell.is_some_and(|(_, farewell)| farewell.contains(rank)) {
            roll.leave(rank, state == RankState::Lost);
        }
    }
    Ok(heap.enlist(key, hash_of(namespace, name, me))?)
}

impl Selectable for Callers {
    /// Returns whether there is news.
    fn ready(&self) -> bool {
        self.news() != self.heard.get()
    }

    // It is rung whether it sleeps or not.
    fn raise(&self) {}

    fn lower(&self) {}

    fn context(&self) -> &Context {
        &self.context
    }

    fn channel(&self) -> u64 {
        self.key.payload()
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        let closed = || -> Result<(), SegmentError> {
            let mut heap = self.context.lock_heap()?;
            farewell::listen_no_more(&self.context, &heap, self.namespace, &self.name)?;
            heap.delist(self.key)?;
            heap.free(self.key)
        };
        // A heap too broken for that is found by the next who allocates.
        let _ = closed();
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").field("name", &self.name).finish_non_exhaustive()
    }
}
