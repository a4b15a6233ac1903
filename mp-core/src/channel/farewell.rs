//! Names under which ranks open no more ends, and names under which they listen to all others.
//!
//! A rank that withdraws from a name is gone from every channel of that name between it and another rank whose end it
//! has not opened. It is gone at once from the channels that the other rank has already made. When the other rank makes
//! a channel later, it finds the withdrawal here. There is a block of the heap for each such name. It lists the ranks
//! that have withdrawn or ended, and it is freed when all ranks have. It also lists the ranks that have a roll of their
//! [callers](super::callers) of this name, so that no rank need look for rolls where there are none. All of this
//! happens under the heap's lock.

use super::{
    callers,
    directory::{Agreement, End, NAME, close_unopened},
};
use crate::{
    context::{Context, Namespace, RankSet, Text, hash},
    error::Error,
    segment::{BlockKey, BlockKind, LockedHeap, Offset, SegmentError, Shared},
    sync::{AtomicU64, Ordering},
};

/// The ranks that have withdrawn from a name, and the ranks that listen.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Farewell {
    /// A [`Namespace`]'s word.
    namespace: AtomicU64,
    name: Text<{ NAME / 8 }>,
    ranks: RankSet,
    /// Ranks that have a roll of this name.
    listeners: RankSet,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Farewell {}

impl Farewell {
    pub(super) fn contains(&self, rank: u32) -> bool {
        self.ranks.contains(rank)
    }

    pub(super) fn is_heard_by(&self, rank: u32) -> bool {
        self.listeners.contains(rank)
    }
}

fn hash_of(namespace: Namespace, name: &str) -> u64 {
    hash(std::iter::once(namespace.word()).chain(name.bytes().map(u64::from)))
}

fn at(context: &Context, key: BlockKey) -> Result<&Farewell, SegmentError> {
    context.segment.at(Offset::new(key.payload()))
}

/// Returns the farewell of this name, if there is one.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    namespace: Namespace,
    name: &str,
) -> Result<Option<(BlockKey, &'a Farewell)>, SegmentError> {
    let blocks = heap.by_hash(hash_of(namespace, name))?;
    for block in blocks.iter().filter(|block| block.kind == BlockKind::Farewell) {
        let farewell = at(context, block.key)?;
        if farewell.namespace.load(Ordering::Relaxed) == namespace.word()
            && farewell.name.read() == *name
        {
            return Ok(Some((block.key, farewell)));
        }
    }
    Ok(None)
}

/// Finds the block of this name, or makes it if there is none. The heap is then locked.
fn find_or_make<'a>(
    context: &'a Context,
    namespace: Namespace,
    name: &str,
) -> Result<(LockedHeap<'a>, BlockKey), SegmentError> {
    context.find_or_make(
        |heap| Ok(of(context, heap, namespace, name)?.map(|(key, _)| key)),
        || make(context, namespace, name),
        |heap, key| announce(context, heap, key, hash_of(namespace, name)),
    )
}

/// Notes that this rank will have a roll of this name.
pub(super) fn listen(
    context: &Context,
    namespace: Namespace,
    name: &str,
) -> Result<(), SegmentError> {
    let (_heap, key) = find_or_make(context, namespace, name)?;
    at(context, key)?.listeners.insert(context.me);
    Ok(())
}

/// Notes that this rank has no roll of this name any more.
pub(super) fn listen_no_more(
    context: &Context,
    heap: &LockedHeap<'_>,
    namespace: Namespace,
    name: &str,
) -> Result<(), SegmentError> {
    if let Some((_, farewell)) = of(context, heap, namespace, name)? {
        farewell.listeners.remove(context.me);
    }
    Ok(())
}

/// Withdraws this rank from a name: it opens no more ends of channels of this name between it and any other rank.
pub(crate) fn withdraw(context: &Context, namespace: Namespace, name: &str) -> Result<(), Error> {
    let (mut heap, key) = find_or_make(context, namespace, name)?;
    let farewell = at(context, key)?;
    for listener in farewell.listeners.iter().filter(|&listener| listener != context.me) {
        if let Some(roll) = callers::of(context, &heap, (namespace, name), listener)? {
            roll.leave(context.me, false);
            context.ring(listener);
        }
    }
    insert(context, &mut heap, key, farewell, context.me)?;
    for other in (0..context.size() as u32).filter(|&other| other != context.me) {
        for end in [End::Sender, End::Receiver] {
            let (senders, receivers) = match end {
                End::Sender => (context.me, other),
                End::Receiver => (other, context.me),
            };
            close_unopened(
                context,
                &mut heap,
                &Agreement::between(namespace, name, senders, receivers),
                end,
            )?;
        }
    }
    Ok(())
}

/// Returns whether a rank has withdrawn from this name or has ended.
pub(crate) fn has_withdrawn(
    context: &Context,
    namespace: Namespace,
    name: &str,
    rank: u32,
) -> Result<bool, Error> {
    let heap = context.lock_heap()?;
    let withdrawn = of(context, &heap, namespace, name)?;
    let ended = context.rank(rank)?.state().ended();
    Ok(ended || withdrawn.is_some_and(|(_, farewell)| farewell.contains(rank)))
}

/// Makes a farewell that no other rank can find yet.
fn make(context: &Context, namespace: Namespace, name: &str) -> Result<BlockKey, SegmentError> {
    let key = context.allocate(BlockKind::Farewell, size_of::<Farewell>() as u64)?;
    let farewell = at(context, key)?;
    farewell.namespace.store(namespace.word(), Ordering::Relaxed);
    farewell.name.write(name);
    farewell.ranks.assign(&[]);
    farewell.listeners.assign(&[]);
    Ok(key)
}

/// Puts the farewell where the other ranks find it.
fn announce(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    key: BlockKey,
    hash: u64,
) -> Result<(), SegmentError> {
    let farewell = at(context, key)?;
    for rank in 0..context.size() as u32 {
        if context.rank(rank)?.state().ended() {
            farewell.ranks.insert(rank);
        }
    }
    heap.enlist(key, hash)
}

fn insert(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    key: BlockKey,
    farewell: &Farewell,
    rank: u32,
) -> Result<(), SegmentError> {
    farewell.ranks.insert(rank);
    if (0..context.size() as u32).all(|rank| farewell.contains(rank)) {
        heap.delist(key)?;
        heap.free(key)?;
    }
    Ok(())
}

/// Notes that a rank has ended, and opens no more ends under any name.
pub(super) fn retire(
    context: &Context,
    heap: &mut LockedHeap<'_>,
    key: BlockKey,
    rank: u32,
) -> Result<(), SegmentError> {
    insert(context, heap, key, at(context, key)?, rank)
}
