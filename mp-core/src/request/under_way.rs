//! Pending operations, and what advances them.

use std::{cell::Cell, time::Duration};

use super::landing::Landing;
use crate::{
    channel::Select,
    error::Result,
    wait::{Flag, NOBODY, Operation, Wait, beside},
    world::Rank,
};

/// A request that is pending or done. Functions that wait for several requests, of different types if necessary, take
/// each as `&mut dyn Pending`. [`Request`](super::Request) and persistent requests implement it.
pub trait Pending {
    /// Returns whether the request was started. A persistent request that was not started can't become done.
    #[doc(hidden)]
    fn is_active(&self) -> bool {
        true
    }

    /// Returns what advances the operation. Returns `None` if the operation is done.
    #[doc(hidden)]
    fn under_way(&mut self) -> Option<UnderWay<'_>>;

    /// Takes the result of a request that is done.
    #[doc(hidden)]
    fn settle(&mut self) {}

    /// Ends the operation and takes its result, if that is possible without work on others. `last` says that the caller waits
    /// for nothing else, so that this may wait. Returns whether the request is done.
    #[doc(hidden)]
    fn settle_at_once(&mut self, _last: bool) -> bool {
        match self.under_way() {
            None => true,
            Some(UnderWay::Watched(watch)) => watch.attend(),
            Some(UnderWay::Driven { .. }) => false,
        }
    }
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

    fn settle_at_once(&mut self, last: bool) -> bool {
        (**self).settle_at_once(last)
    }
}

/// What advances an operation, and tells when the operation is done.
#[doc(hidden)]
pub enum UnderWay<'a> {
    /// An engine that advances several operations, and the place into which it puts the message of this one.
    Driven { driver: &'a dyn Driver, handle: usize, landing: Option<&'a mut dyn Landing> },
    /// Something other than an engine, which can only be watched.
    Watched(&'a dyn Watch),
}

/// An operation that something other than an engine completes.
#[doc(hidden)]
pub trait Watch {
    /// Returns the rank whose doorbell is rung when the operation is done.
    fn rank(&self) -> Rank;

    fn is_done(&self) -> bool;

    /// Looks for a short time whether this thread can end the operation, and does so. Returns whether it is done.
    fn attend(&self) -> bool {
        false
    }

    /// Asks for the doorbell to be rung when the operation is done. Does nothing by default, for operations at whose end
    /// it is rung in any case.
    fn raise(&self) {}

    /// Withdraws the request of [`raise`](Self::raise).
    fn lower(&self) {}

    /// Returns the time after which a sleeping thread must look at the operation again.
    fn tick(&self) -> Option<Duration> {
        None
    }

    /// Returns an error if a wait for the operation would never end, because it is made within the call that advances
    /// the operation.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Notes that a wait without a limit begins. Returns whether the end of the wait must be [noted](Self::end_wait),
    /// too.
    fn begin_wait(&self) -> bool {
        false
    }

    /// Notes that a wait for which [`begin_wait`](Self::begin_wait) returned true has ended.
    fn end_wait(&self) {}

    /// Returns what reports say about a wait for the operation: its kind, and its words in a record.
    fn waited(&self) -> (Operation, Vec<u64>);

    /// Returns the call whose operation it is, in the program's words, if that is known.
    fn call(&self) -> Option<String> {
        None
    }
}

/// An engine of messages, which advances several operations together.
#[doc(hidden)]
pub trait Driver {
    fn rank(&self) -> Rank;

    /// Returns whether the operation with this handle is done. Returns false while the engine is being driven.
    fn is_done(&self, handle: usize) -> bool;

    /// Returns the call whose operation has this handle, in the program's words, if that is known.
    fn call(&self, _handle: usize) -> Option<String> {
        None
    }

    /// Works until `enough` returns true or the limit of `wait` has expired. Returns false in the latter case. Puts
    /// data that arrive for a handle into the landing of this handle.
    ///
    /// # Errors
    /// The error because of which the wait must end early.
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

/// The requests for which a call waits besides those of the driven engine.
#[doc(hidden)]
pub struct Beside<'a> {
    pub(super) rank: &'a Rank,
    pub(super) watched: &'a [(usize, &'a dyn Watch)],
    /// Operations of other engines.
    pub(super) driven: &'a [(usize, &'a dyn Driver, usize)],
    pub(super) settled: &'a [Cell<bool>],
    pub(super) until: Until,
}

impl Beside<'_> {
    /// Returns whether none of these requests is pending.
    pub fn is_empty(&self) -> bool {
        self.watched.iter().all(|(place, _)| self.settled[*place].get())
            && self.driven.iter().all(|(place, ..)| self.settled[*place].get())
    }

    /// Returns the call that waits, in the program's words, or `None` if that of a pending request is unknown. `calls`
    /// are those of the driven engine's requests, without `more` that were not looked at.
    pub fn call(&self, (mut calls, more): (Vec<String>, usize)) -> Option<String> {
        let watched = self.watched.iter().map(|(place, watch)| (place, watch.call()));
        let driven =
            self.driven.iter().map(|(place, driver, handle)| (place, driver.call(*handle)));
        let pending = watched.chain(driven).filter(|(place, _)| !self.settled[**place].get());
        for (_, call) in pending {
            calls.push(call?);
        }
        called((&calls, more), self.until)
    }

    /// Returns whether a request is done that had not been settled before.
    pub(super) fn has_news(&self) -> bool {
        self.watched.iter().any(|(place, watch)| !self.settled[*place].get() && watch.is_done())
            || self.driven.iter().any(|(place, driver, handle)| {
                !self.settled[*place].get() && driver.is_done(*handle)
            })
    }

    /// Waits until any end of the select is ready, or any other operation is done. Returns false if the limit of `wait`
    /// has expired before. `calls` returns the calls that wait for the select's ends, as for [`call`](Self::call), for
    /// reports.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken; the
    /// [failure](crate::progress::Part::failure) of another pending operation of the rank.
    pub fn wait(
        &self,
        select: &Select<'_>,
        wait: Wait,
        calls: &dyn Fn() -> (Vec<String>, usize),
    ) -> Result<bool> {
        let (doing, flags) = select.waited();
        let call = || self.call(calls());
        let all = Watches { flags: Some(&flags), watched: self.watched, call: &call };
        let poll = || (select.is_ready() || self.has_news()).then_some(());
        self.rank.context().wait_unless(wait, doing, &all, poll)
    }
}

/// How many requests must be done for a call to return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    All,
    /// One request, if there is any to wait for.
    Any,
}

/// The largest number of requests that a report names for one call.
const TOLD: usize = 3;

/// Returns a call that waits until all of these calls, and more that were not looked at, are done, in the program's
/// words.
#[doc(hidden)]
pub fn all_of((calls, more): (&[String], usize)) -> Option<String> {
    called((calls, more), Until::All)
}

fn called((calls, more): (&[String], usize), until: Until) -> Option<String> {
    let until = match until {
        Until::All => "all",
        Until::Any => "any",
    };
    match calls {
        [] => None,
        [one] if more == 0 => Some(one.clone()),
        several => {
            let all = several.len() + more;
            let first = &several[..several.len().min(TOLD)];
            let more = match all - first.len() {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            Some(format!("wait for {until} of {all} requests ({}{more})", first.join(", ")))
        }
    }
}

/// The flags of the watched operations, together with another flag.
pub(super) struct Watches<'a> {
    pub(super) flags: Option<&'a dyn Flag>,
    pub(super) watched: &'a [(usize, &'a dyn Watch)],
    pub(super) call: &'a dyn Fn() -> Option<String>,
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
            // The wait itself has recorded the first word.
            words.remove(0);
        }
        words
    }

    fn beside(&self) -> Vec<u64> {
        let (_, others) = self.told();
        others.into_iter().flat_map(|(operation, words)| beside_words(operation, words)).collect()
    }

    fn call(&self) -> Option<String> {
        (self.call)()
    }
}

impl Watches<'_> {
    /// Returns the words that reports show as the wait itself, and then all other operations. If there are `flags`, the
    /// wait itself is that of the `flags`, and all watched operations are others. If there are none, the wait itself is
    /// the first watched operation. If this is a send, all other sends belong to it, because a record has room for the
    /// channels of several sends or for one flag.
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

/// Returns what reports say about an operation that is pending beside the wait: channels, or MPBs and the rank that
/// sets the flag. Returns nothing for an operation that the rank's own waits advance, because its part reports it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_some_of_many_requests() {
        let calls: Vec<String> = (0..5).map(|source| format!("receive from {source}")).collect();
        let told = |calls: &[String], more| all_of((calls, more));
        assert_eq!(told(&[], 0), None);
        assert_eq!(told(&calls[..1], 0).as_deref(), Some("receive from 0"));
        assert_eq!(
            told(&calls[..1], 9).as_deref(),
            Some("wait for all of 10 requests (receive from 0, and 9 more)")
        );
        let three = "receive from 0, receive from 1, receive from 2";
        assert_eq!(told(&calls[..3], 0), Some(format!("wait for all of 3 requests ({three})")));
        assert_eq!(
            told(&calls, 95),
            Some(format!("wait for all of 100 requests ({three}, and 97 more)"))
        );
    }
}
