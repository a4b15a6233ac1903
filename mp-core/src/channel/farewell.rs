//! Withdrawals: the names for which ranks open no more ends of channels.
//!
//! A rank that [withdraws](withdraw) from a name opens no more ends of channels of that name between it and another
//! rank. It leaves at once those channels that the other rank has already made and whose end it has not opened itself.
//! When the other rank makes a channel later, it finds the withdrawal here. There is a block of the heap for each such
//! name. Its members are all ranks, and those that have withdrawn or ended are gone.

use super::{
    agreement::{Agreement, End},
    descriptor, roll,
};
use crate::{
    context::{Context, Namespace},
    error::Error,
    named::{Leaving, Members, Name, Named, Object, Title, find, find_or_make},
    segment::{BlockKey, BlockKind, LockedHeap, SegmentError, Shared},
    sync::Ordering,
};

/// The ranks that have withdrawn from a name.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Farewell {
    title: Title,
    ranks: Members,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Farewell {}

impl Farewell {
    pub(super) fn contains(&self, rank: u32) -> bool {
        self.ranks.gone.contains(rank)
    }
}

impl Named for Farewell {
    const KIND: BlockKind = BlockKind::Farewell;
    type Known = ();

    fn title(&self) -> &Title {
        &self.title
    }

    fn sides(&self) -> &[Members] {
        std::slice::from_ref(&self.ranks)
    }
}

/// Returns the farewell of this name, if there is one.
pub(super) fn of<'a>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    name: Name<'_>,
) -> Result<Option<Object<'a, Farewell>>, SegmentError> {
    find(context, heap, name, |_| true)
}

/// Returns the farewell of this name, with the heap locked. Makes the farewell if there is none.
pub(super) fn open<'a>(
    context: &'a Context,
    name: Name<'_>,
) -> Result<(LockedHeap<'a>, Object<'a, Farewell>), SegmentError> {
    let make = || {
        let new = Object::<Farewell>::new(context, name, size_of::<Farewell>() as u64)?;
        new.ranks.all.assign(&Vec::from_iter(0..context.begun()));
        Ok(new)
    };
    let (heap, farewell, _) = find_or_make(
        context,
        false,
        |heap| of(context, heap, name),
        make,
        |heap, new| new.publish(heap, name, |_| false),
    )?;
    Ok((heap, farewell))
}

/// Withdraws this rank from a name: it opens no more ends of channels of this name between it and any other rank.
pub(crate) fn withdraw(context: &Context, namespace: Namespace, text: &str) -> Result<(), Error> {
    let (name, me) = (Name::new(namespace, text), context.me);
    let (mut heap, farewell) = open(context, name)?;
    // A bridge to other nodes looks at what is new when this number changes.
    context.world()?.channels.fetch_add(1, Ordering::Relaxed);
    farewell.take_out(&mut heap, (0, me), Leaving::CLOSED, None)?;
    for other in (0..context.begun()).filter(|&other| other != me) {
        if let Some(roll) = roll::of(context, &heap, name, other)? {
            roll.leave(me, false);
            context.ring(other);
        }
        for (end, sender, receiver) in [(End::Sender, me, other), (End::Receiver, other, me)] {
            let agreement = Agreement::between(namespace, text, sender, receiver);
            while let Some(channel) = descriptor::of(context, &heap, &agreement, end)? {
                channel.take_out(&mut heap, (end as usize, me), Leaving::CLOSED, None)?;
            }
        }
    }
    Ok(())
}

/// Returns the name of the farewell in this block, and the ranks that have withdrawn from it or have ended.
pub(crate) fn farewell_at(
    context: &Context,
    key: BlockKey,
) -> Result<(Namespace, String, Vec<u32>), SegmentError> {
    let farewell = Object::<Farewell>::at(context, key)?;
    let (title, gone) = (&farewell.title, farewell.ranks.gone.iter().collect());
    Ok((title.namespace(), title.name(), gone))
}

/// Returns whether a rank has withdrawn from this name or has ended.
pub(crate) fn has_withdrawn(
    context: &Context,
    namespace: Namespace,
    text: &str,
    rank: u32,
) -> Result<bool, Error> {
    let heap = context.lock_heap()?;
    let farewell = of(context, &heap, Name::new(namespace, text))?;
    let ended = context.rank(rank)?.state().ended();
    Ok(ended || farewell.is_some_and(|farewell| farewell.contains(rank)))
}
