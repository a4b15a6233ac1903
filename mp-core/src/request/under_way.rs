//! What is pending, and what advances it.

use std::{cell::Cell, time::Duration};

use super::landing::Landing;
use crate::{
    channel::Select,
    error::Result,
    wait::{Flag, NOBODY, Operation, Wait, beside},
    world::Rank,
};

/// Something that is pending or done. Functions that wait for several requests, of different types if necessary, take
/// it as `&mut dyn Pending`. [`Request`](super::Request) and persistent requests implement it.
pub trait Pending {
    /// Returns whether the request was started. A persistent request that was not started has nothing that could be
    /// done.
    #[doc(hidden)]
    fn is_active(&self) -> bool {
        true
    }

    /// Returns what knows when the operation is done; `None` when it is done.
    #[doc(hidden)]
    fn under_way(&mut self) -> Option<UnderWay<'_>>;

    /// Takes the result of a request that is done.
    #[doc(hidden)]
    fn settle(&mut self) {}
}

impl<P: Pending + ?Sized> Pending for &mut P {
    fn is_active(&self) -> bool {
        (**self).is_active()
    }

    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        (**self).under_way()
    }

    fn settle(&mut self) {
        (**self).settle();
    }
}

/// What advances an operation, and knows when it is done.
#[doc(hidden)]
pub enum UnderWay<'a> {
    /// An engine that advances several operations, with the place where the message of this one goes.
    Driven { driver: &'a dyn Driver, handle: usize, landing: Option<&'a mut dyn Landing> },
    /// Something other than an engine.
    Watched(&'a dyn Watch),
}

/// An operation that something other than an engine completes.
#[doc(hidden)]
pub trait Watch {
    /// Returns the rank whose doorbell is rung when the operation is done.
    fn rank(&self) -> Rank;

    fn is_done(&self) -> bool;

    /// Asks to have the doorbell rung when the operation is done.
    fn raise(&self);

    /// Withdraws that request.
    fn lower(&self);

    /// Returns the length of sleep after which the operation is to be looked at again.
    fn tick(&self) -> Option<Duration> {
        None
    }

    /// Returns an error where a wait for the operation would wait for itself: in the middle of the call that advances
    /// it.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Notes that a wait without a limit begins. Returns whether the end of the wait must be [noted](Self::end_wait),
    /// too.
    fn begin_wait(&self) -> bool {
        false
    }

    /// Notes that such a wait has ended.
    fn end_wait(&self) {}

    /// Returns what a report says of a wait for the operation: its kind, and the words that it has in a record.
    fn waited(&self) -> (Operation, Vec<u64>);
}

/// An engine of messages, which advances several operations and holds what they have in common.
#[doc(hidden)]
pub trait Driver {
    fn rank(&self) -> Rank;

    /// Returns whether the operation with this handle is done, unless the engine is just being driven.
    fn is_done(&self, handle: usize) -> bool;

    /// Works until `enough` returns true or the limit of `wait` is over; returns false in the latter case. What comes
    /// for one of the `landings`, by handle, goes there.
    ///
    /// # Errors
    /// When a wait must end early.
    fn drive(
        &self,
        handles: &[usize],
        landings: &mut [(usize, &mut dyn Landing)],
        wait: Wait,
        beside: &Beside<'_>,
        enough: &mut dyn FnMut(&mut dyn Driven) -> bool,
    ) -> Result<bool>;
}

/// An engine while it is driven.
#[doc(hidden)]
pub trait Driven {
    fn is_done(&mut self, handle: usize) -> bool;
}

/// What else is waited for while an engine is driven.
#[doc(hidden)]
pub struct Beside<'a> {
    pub(super) rank: &'a Rank,
    pub(super) watched: &'a [(usize, &'a dyn Watch)],
    /// Operations of other engines.
    pub(super) driven: &'a [(usize, &'a dyn Driver, usize)],
    pub(super) settled: &'a [Cell<bool>],
}

impl Beside<'_> {
    /// Returns whether nothing else is pending.
    pub fn is_empty(&self) -> bool {
        self.watched.iter().all(|(place, _)| self.settled[*place].get())
            && self.driven.iter().all(|(place, ..)| self.settled[*place].get())
    }

    /// Returns whether anything is done that was not done before.
    pub(super) fn has_news(&self) -> bool {
        self.watched.iter().any(|(place, watch)| !self.settled[*place].get() && watch.is_done())
            || self.driven.iter().any(|(place, driver, handle)| {
                !self.settled[*place].get() && driver.is_done(*handle)
            })
    }

    /// Waits until any end of the select is ready, or any other operation is done. Returns false if the limit of `wait`
    /// was over before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken; the
    /// [failure](crate::progress::Part::failure) of another pending operation of the rank.
    pub fn wait(&self, select: &Select<'_>, wait: Wait) -> Result<bool> {
        let (doing, flags) = select.waited();
        let all = Watches { flags: Some(&flags), watched: self.watched };
        let poll = || (select.is_ready() || self.has_news()).then_some(());
        self.rank.context().wait_unless(wait, doing, &all, poll)
    }
}

/// The flags of what is watched, and of what else is waited for.
pub(super) struct Watches<'a> {
    pub(super) flags: Option<&'a dyn Flag>,
    pub(super) watched: &'a [(usize, &'a dyn Watch)],
}

impl Flag for Watches<'_> {
    fn raise(&self) {
        self.flags.iter().for_each(|flags| flags.raise());
        self.watched.iter().for_each(|(_, watch)| watch.raise());
    }

    fn lower(&self) {
        self.flags.iter().for_each(|flags| flags.lower());
        self.watched.iter().for_each(|(_, watch)| watch.lower());
    }

    fn tick(&self) -> Option<Duration> {
        let ticks = self.watched.iter().filter_map(|(_, watch)| watch.tick());
        self.flags.and_then(Flag::tick).into_iter().chain(ticks).min()
    }

    fn further(&self) -> Vec<u64> {
        if let Some(flags) = self.flags {
            return flags.further();
        }
        let (mut words, _) = self.told();
        if !words.is_empty() {
            // The wait itself has told of the first.
            words.remove(0);
        }
        words
    }

    fn beside(&self) -> Vec<u64> {
        let (_, others) = self.told();
        others.into_iter().flat_map(|(operation, words)| beside_words(operation, words)).collect()
    }
}

impl Watches<'_> {
    /// Returns the words of what is reported as what the rank waits for, and then all others. The former are those of
    /// the first operation that is watched, with all other sends if it is a send. There is room for the channels of
    /// several sends, and for one flag. Where there are flags, they are reported instead.
    pub(super) fn told(&self) -> (Vec<u64>, Vec<(Operation, Vec<u64>)>) {
        let mut first = None;
        let (told, others): (Vec<_>, Vec<_>) =
            self.watched.iter().map(|(_, watch)| watch.waited()).partition(|&(operation, _)| {
                let is_first = self.flags.is_none() && first.is_none();
                first.get_or_insert(operation);
                is_first
                    || self.flags.is_none()
                        && (first, operation) == (Some(Operation::Send), Operation::Send)
            });
        (told.into_iter().flat_map(|(_, words)| words).collect(), others)
    }
}

/// Returns what a report says of a wait beside another one: channels, or MPBs and the rank that sets the flag. What the
/// rank's own waits bring about says itself what it waits for.
fn beside_words(operation: Operation, words: Vec<u64>) -> Vec<u64> {
    match words[..] {
        _ if operation != Operation::Flag => words,
        [_, _, NOBODY] => Vec::new(),
        [mpbs, _, setter] => {
            vec![beside(mpbs, setter.checked_sub(1).map(|setter| setter as usize))]
        }
        _ => Vec::new(),
    }
}
