//! The ranks that have opened a channel of a name to this rank, and the ranks that will open none.
//!
//! A receiver that takes messages from any rank would need a channel from each of them. If all ranks did so, there
//! would be as many channels as there are pairs of ranks. Instead, the receiver opens its [`Callers`] of the name. This
//! is a block of the heap, the receiver's [roll](super::roll). It lists each rank that makes a channel of this name to
//! the receiver, and each rank that has ended or [withdrawn](crate::Rank::withdraw). The receiver opens only the
//! channels of the ranks that have called.

use std::{cell::Cell, sync::Arc};

use super::{
    agreement::{Agreement, End},
    descriptor, farewell,
    roll::{self, Roll},
    selectable::Selectable,
};
use crate::{
    ErrorKind,
    context::{Context, Namespace, RankState},
    error::Error,
    named::{NAME, Name, Object, find_or_make},
    segment::{BlockKey, LockedHeap, SegmentError},
};

/// The ranks that open channels of one name to this rank. Opened by [`Rank::callers`](crate::Rank::callers).
pub struct Callers {
    context: Arc<Context>,
    key: BlockKey,
    name: Box<str>,
    /// The number of the news at the last look.
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
        let (named, me) = (Name::new(namespace, name), context.me);
        if !named.is_valid() {
            return Err(bad(format!("its name must have 1 to {NAME} bytes, none of them zero")));
        }
        let make = || {
            let (name, len) = (Roll::name(named, me), size_of::<Roll>() as u64);
            let roll = Object::<Roll>::new(&context, name, len)?;
            roll.begin(me);
            Ok(roll)
        };
        let (heap, roll, made) = find_or_make(
            &context,
            false,
            |heap| roll::of(&context, heap, named, me),
            make,
            |heap, roll| publish(heap, roll, (namespace, name)),
        )?;
        if !made {
            return Err(bad(
                "this rank has its callers of that name already: use them, or drop them first"
                    .to_owned(),
            ));
        }
        let key = roll.key;
        drop(heap);
        let (name, heard) = (name.into(), Cell::new(0));
        Ok(Self { context, key, name, heard })
    }

    fn roll(&self) -> Option<Object<'_, Roll>> {
        Object::at(&self.context, self.key).ok()
    }

    /// Returns the roll and the rank's number, or `None` if there is no such rank.
    fn of(&self, rank: usize) -> Option<(Object<'_, Roll>, u32)> {
        Some((self.roll()?, self.context.check_rank(rank).ok()?))
    }

    fn news(&self) -> u32 {
        self.roll().map_or(0, |roll| roll.news())
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

/// Enters the ranks that have already called and the ranks that are gone, and puts the roll where the other ranks find
/// it.
fn publish(
    heap: &mut LockedHeap<'_>,
    roll: &Object<'_, Roll>,
    (namespace, text): (Namespace, &str),
) -> Result<(), SegmentError> {
    let (context, me, name) = (roll.context, roll.context.me, Name::new(namespace, text));
    let farewell = farewell::of(context, heap, name)?;
    for rank in (0..context.begun()).filter(|&rank| rank != me) {
        let channel = Agreement::between(namespace, text, rank, me);
        if descriptor::of(context, heap, &channel, End::Receiver)?.is_some() {
            roll.enter(rank);
        }
        let state = context.rank(rank)?.state();
        if state.ended() || farewell.as_ref().is_some_and(|gone| gone.contains(rank)) {
            roll.leave(rank, state == RankState::Lost);
        }
    }
    roll.publish(heap, Roll::name(name, me), |_| false)
}

impl Selectable for Callers {
    /// Returns whether there is news.
    fn ready(&self) -> bool {
        self.news() != self.heard.get()
    }

    // No flag is needed, because the receiver is rung even if it does not sleep.
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
        // If the heap is broken, the next allocation reports it.
        self.context.free(self.key);
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").field("name", &self.name).finish_non_exhaustive()
    }
}
