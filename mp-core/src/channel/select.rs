//! Waiting for several channels at once, until one of them has something.

use crate::{
    context::Context,
    error::{ErrorKind, Result},
    wait::{Doing, Flag, Operation, Wait},
};

/// An end that can be waited for together with others. [`Receiver`](crate::Receiver), [`Sender`](crate::Sender) and
/// [`Callers`](crate::channel::Callers) implement it. It is sealed in effect, because its methods can't be called or written outside.
pub(crate) trait Selectable {
    /// Returns whether a receive call would find a message, or a send call room, or whether there will never be any.
    fn ready(&self) -> bool;
    fn raise(&self);
    fn lower(&self);
    fn context(&self) -> &Context;
    fn channel(&self) -> u64;
}

/// Several receivers, of any types, that are waited for at once. The collector of a farm uses this.
///
/// ```
/// use onchip::{Channel, ErrorKind, Result, Select, World};
///
/// World::threads(3).run(|rank| {
///     if rank.id() > 0 {
///         let mut results = rank.sender::<u64>("results", 0, Channel::degree(4))?;
///         return results.send(&(rank.id() as u64 * 10));
///     }
///     let from: Vec<_> = (1..3)
///         .map(|worker| rank.receiver::<u64>("results", worker, Channel::degree(4)))
///         .collect::<Result<_>>()?;
///     let mut select = Select::new();
///     for receiver in &from {
///         select.add(receiver);
///     }
///     let mut sum = 0;
///     while !select.is_empty() {
///         let which = select.ready()?;
///         match from[which].try_receive() {
///             Ok(Some(result)) => sum += *result,
///             Ok(None) => {}
///             Err(error) if matches!(error.kind(), ErrorKind::Disconnected { .. }) => {
///                 select.remove(which);
///             }
///             Err(error) => return Err(error),
///         }
///     }
///     assert_eq!(sum, 30);
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Default)]
pub struct Select<'a> {
    /// The ends by index; `None` once removed.
    ends: Vec<Option<&'a dyn Selectable>>,
    /// Where the next look begins, so that a busy channel does not starve the others.
    next: usize,
}

struct All<'s, 'a>(&'s [Option<&'a dyn Selectable>]);

impl Flag for All<'_, '_> {
    fn raise(&self) {
        self.0.iter().flatten().for_each(|receiver| receiver.raise());
    }

    fn lower(&self) {
        self.0.iter().flatten().for_each(|receiver| receiver.lower());
    }

    fn further(&self) -> Vec<u64> {
        self.0.iter().flatten().skip(1).map(|receiver| receiver.channel()).collect()
    }
}

impl<'a> Select<'a> {
    /// Makes a select that waits for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a receiver. Returns its index, counted from 0 in the order of adding.
    pub fn add<M: crate::Message + ?Sized>(&mut self, receiver: &'a crate::Receiver<M>) -> usize {
        self.ends.push(Some(receiver));
        self.ends.len() - 1
    }

    /// Adds a sender, which is ready when a message would find room, or when none ever will. This is for a rank that
    /// goes on receiving while it waits to send. Returns the sender's index, counted with those of the receivers. At
    /// degree 0 it is ready while a receiver waits in a receive call.
    pub fn add_sender<M: crate::Message + ?Sized>(
        &mut self,
        sender: &'a crate::Sender<M>,
    ) -> usize {
        self.ends.push(Some(sender));
        self.ends.len() - 1
    }

    /// Adds the callers of a name, which are ready when there is [news](crate::names::Callers::has_news).
    /// Returns their index, counted with those of the receivers.
    pub fn add_callers(&mut self, callers: &'a crate::names::Callers) -> usize {
        self.ends.push(Some(callers));
        self.ends.len() - 1
    }

    /// Stops waiting for the receiver with this index. The others keep their indices.
    pub fn remove(&mut self, index: usize) {
        if let Some(receiver) = self.ends.get_mut(index) {
            *receiver = None;
        }
    }

    /// Returns whether no receiver is left.
    pub fn is_empty(&self) -> bool {
        self.ends.iter().all(Option::is_none)
    }

    /// Waits until a receiver has a message or has ended, and returns its index. The message stays in the channel: take
    /// it with [`try_receive`](crate::Receiver::try_receive), which finds nothing if another rank was faster at a
    /// shared channel.
    ///
    /// Receivers that are ready at the same time are served in turn.
    ///
    /// # Errors
    /// [`BadWorld`](crate::ErrorKind::BadWorld) when no receiver is left to wait for, or when the receivers do not all
    /// belong to the same rank.
    pub fn ready(&mut self) -> Result<usize> {
        self.ready_with(Wait::forever())
    }

    /// Waits until a receiver is ready, as [`ready`](Self::ready) does, but waits as `wait` says.
    ///
    /// # Errors
    /// Same as `ready`, and [`Timeout`](crate::ErrorKind::Timeout).
    pub fn ready_with(&mut self, wait: impl Into<Wait>) -> Result<usize> {
        let wait = wait.into();
        let Some(first) = self.ends.iter().flatten().next() else {
            return Err(ErrorKind::BadWorld(
                "a Select has no receiver to wait for: add one first".to_owned(),
            )
            .into());
        };
        let doing = Doing { operation: Operation::Select, channel: first.channel() };
        let context = first.context();
        let same = |receiver: &&dyn Selectable| {
            let other = receiver.context();
            other.me == context.me && std::ptr::eq(&*other.segment, &*context.segment)
        };
        if !self.ends.iter().flatten().all(same) {
            // Each would ring the doorbell of its own rank only.
            let reason = "a Select has receivers of different ranks or worlds, which can't be waited \
                          for together: make one for each";
            return Err(ErrorKind::BadWorld(reason.to_owned()).into());
        }
        let all = All(&self.ends);
        let count = self.ends.len();
        let from = self.next;
        let found = context.wait(wait.or_failure(), doing, std::ptr::null(), &all, || {
            (0..count)
                .map(|i| (from + i) % count)
                .find(|&i| self.ends[i].is_some_and(|receiver| receiver.ready()))
        })?;
        let several = || context.gave_up(Operation::Select, &"(several)".into(), wait);
        let which = found.ok_or_else(several)?;
        self.next = (which + 1) % count;
        Ok(which)
    }

    /// Waits until any end is ready, for a caller that finds out itself which one it is. Returns false if the limit of
    /// `wait` was over before.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment); the [failure](crate::progress::Part::failure) of another pending
    /// operation of the rank.
    pub fn wait(&self, wait: Wait) -> Result<bool> {
        let Some(first) = self.ends.iter().flatten().next() else { return Ok(false) };
        let (doing, flags) = self.waited();
        first.context().wait_unless(wait, doing, &flags, || self.is_ready().then_some(()))
    }

    /// Returns whether any end is ready, for a [`Part`](crate::progress::Part).
    pub fn is_ready(&self) -> bool {
        self.ends.iter().flatten().any(|end| end.ready())
    }

    /// Asks all ends to ring the rank's doorbell when they are ready, for a
    /// [`Part`](crate::progress::Part).
    pub fn raise(&self) {
        All(&self.ends).raise();
    }

    /// Withdraws that request.
    pub fn lower(&self) {
        All(&self.ends).lower();
    }

    /// Returns where the ends' channels lie, for [`Part::awaits`](crate::progress::Part::awaits).
    pub fn awaits(&self) -> Vec<u64> {
        self.ends.iter().flatten().map(|end| end.channel()).collect()
    }

    /// Returns how a wait for all ends is reported, and the flags that it raises.
    pub(crate) fn waited(&self) -> (Doing, impl Flag) {
        let channel = self.ends.iter().flatten().next().map_or(0, |end| end.channel());
        (Doing { operation: Operation::Select, channel }, All(&self.ends))
    }

    /// Returns the index of a receiver that is ready now, if there is one.
    pub fn try_ready(&mut self) -> Option<usize> {
        let count = self.ends.len();
        let which = (0..count)
            .map(|i| (self.next + i) % count)
            .find(|&i| self.ends[i].is_some_and(|receiver| receiver.ready()))?;
        self.next = (which + 1) % count;
        Some(which)
    }
}

impl std::fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Select").field("ends", &self.ends.len()).finish_non_exhaustive()
    }
}
