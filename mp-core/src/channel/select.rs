//! Waiting for several channels at once, until one of them has something.

use std::ops::Index;

use super::selectable::Selectable;
use crate::{
    Message, Receiver,
    error::{ErrorKind, Result},
    wait::{Called, Doing, Flag, Operation, Wait},
};

/// Several receivers, of any types, that are waited for at once. For example, the collector of a farm uses this.
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
    /// The ends by index. An end that was removed is `None`.
    ends: Vec<Option<&'a dyn Selectable>>,
    /// Where the next look begins, so that a busy channel does not starve the others.
    next: usize,
}

/// A place in a list of ends.
trait Place {
    fn end(&self) -> &dyn Selectable;
}

impl Place for &dyn Selectable {
    fn end(&self) -> &dyn Selectable {
        *self
    }
}

impl<M: Message + ?Sized> Place for Receiver<M> {
    fn end(&self) -> &dyn Selectable {
        self
    }
}

/// The ends of a list that were not removed.
struct All<'s, P>(&'s [Option<P>]);

impl<P: Place> All<'_, P> {
    fn ends(&self) -> impl Iterator<Item = &dyn Selectable> {
        self.0.iter().flatten().map(Place::end)
    }

    /// Returns the index of an end that is ready now, if there is one. The search begins at `next`, and goes round.
    fn ready(&self, next: usize) -> Option<usize> {
        let count = self.0.len();
        let is_ready = |&i: &usize| self.0[i].as_ref().is_some_and(|place| place.end().ready());
        (0..count).map(|i| (next + i) % count).find(is_ready)
    }

    /// Waits until an end is ready, and returns its index.
    fn wait(&self, next: usize, wait: Wait) -> Result<usize> {
        let Some(first) = self.ends().next() else {
            return Err(ErrorKind::BadWorld(
                "a Select has no receiver to wait for: add one first".to_owned(),
            )
            .into());
        };
        let doing = Doing { operation: Operation::Select, channel: first.channel() };
        let context = first.context();
        let same = |end: &dyn Selectable| {
            let other = end.context();
            other.me == context.me && std::ptr::eq(&*other.segment, &*context.segment)
        };
        if !self.ends().all(same) {
            // Each end rings only the doorbell of its own rank.
            let reason = "a Select has receivers of different ranks or worlds, which can't be waited \
                          for together: make one for each";
            return Err(ErrorKind::BadWorld(reason.to_owned()).into());
        }
        let poll = || self.ready(next);
        self.ends().for_each(|end| end.want(true));
        let found = context.wait(wait.or_failure(), doing, std::ptr::null(), self, poll);
        self.ends().for_each(|end| end.want(false));
        found?.ok_or_else(|| context.gave_up(Operation::Select, &"(several)".into(), wait))
    }
}

impl<P: Place> Flag for All<'_, P> {
    fn raise(&self) {
        self.ends().for_each(|end| end.raise());
    }

    fn lower(&self) {
        self.ends().for_each(|end| end.lower());
    }

    fn further(&self) -> Vec<u64> {
        self.ends().skip(1).map(|end| end.channel()).collect()
    }
}

impl<'a> Select<'a> {
    /// Makes a select that waits for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a receiver. Returns its index, counted from 0 in the order of adding.
    pub fn add<M: Message + ?Sized>(&mut self, receiver: &'a Receiver<M>) -> usize {
        self.ends.push(Some(receiver));
        self.ends.len() - 1
    }

    /// Adds a sender, which is ready when a message would find room, or when no message ever will. A rank uses this to
    /// go on receiving while it waits to send. Returns the sender's index, counted with those of the receivers. At
    /// degree 0 it is ready while a receiver waits in a receive call. That a shared channel whose slots are on another node has room is
    /// known only while [`ready`](Self::ready) waits.
    pub fn add_sender<M: Message + ?Sized>(&mut self, sender: &'a crate::Sender<M>) -> usize {
        self.ends.push(Some(sender));
        self.ends.len() - 1
    }

    /// Adds the callers of a name, which are ready when there is [news](crate::names::Callers::has_news).
    /// Returns their index, counted with those of the receivers.
    #[doc(hidden)]
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
        let which = All(&self.ends).wait(self.next, wait.into())?;
        self.next = (which + 1) % self.ends.len();
        Ok(which)
    }

    /// Waits until any end is ready. The caller finds out itself which end it is. Returns false if the limit of `wait`
    /// was over before. `call` returns the call that waits, in the program's words, for reports.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment); the [failure](crate::progress::Part::failure) of another pending
    /// operation of the rank.
    #[doc(hidden)]
    pub fn wait(&self, wait: Wait, call: &dyn Fn() -> Option<String>) -> Result<bool> {
        let Some(first) = self.ends.iter().flatten().next() else { return Ok(false) };
        let (doing, flags) = self.waited();
        let flags = Called { flag: &flags, call: Some(call), ends_here: false };
        first.context().wait_unless(wait, doing, &flags, || self.is_ready().then_some(()))
    }

    /// Returns whether any end is ready, for a [`Part`](crate::progress::Part).
    #[doc(hidden)]
    pub fn is_ready(&self) -> bool {
        self.ends.iter().flatten().any(|end| end.ready())
    }

    /// Asks all ends to ring the rank's doorbell when they are ready, for a
    /// [`Part`](crate::progress::Part).
    #[doc(hidden)]
    pub fn raise(&self) {
        All(&self.ends).raise();
    }

    /// Withdraws the request of [`raise`](Self::raise).
    #[doc(hidden)]
    pub fn lower(&self) {
        All(&self.ends).lower();
    }

    /// Returns where the ends' channels lie, for [`Part::awaits`](crate::progress::Part::awaits).
    #[doc(hidden)]
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
        let which = All(&self.ends).ready(self.next)?;
        self.next = (which + 1) % self.ends.len();
        Some(which)
    }
}

impl std::fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Select").field("ends", &self.ends.len()).finish_non_exhaustive()
    }
}

/// An owned list of receivers of one type, which are waited for at once as by a [`Select`]. A server can add and remove
/// clients while it serves others.
///
/// ```
/// use onchip::{Channel, ErrorKind, Receivers, World};
///
/// World::threads(4).run(|rank| {
///     let channel = Channel::degree(2);
///     if rank.id() > 0 {
///         return rank.sender::<u64>("requests", 0, channel)?.send(&(rank.id() as u64));
///     }
///     let mut clients = Receivers::<u64>::new();
///     for client in 1..rank.size() {
///         clients.push(rank.receiver::<u64>("requests", client, channel)?);
///     }
///     let mut sum = 0;
///     while !clients.is_empty() {
///         let which = clients.ready()?;
///         // Copied out, so that the list is free to change.
///         match clients[which].try_receive().map(|request| request.map(|request| *request)) {
///             Ok(Some(request)) => sum += request,
///             Ok(None) => {}
///             Err(error) if matches!(error.kind(), ErrorKind::Disconnected { .. }) => {
///                 clients.remove(which);
///             }
///             Err(error) => return Err(error),
///         }
///     }
///     assert_eq!(sum, 1 + 2 + 3);
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct Receivers<M: ?Sized> {
    /// The receivers by index. A receiver that was removed is `None`.
    receivers: Vec<Option<Receiver<M>>>,
    /// Where the next look begins, so that a busy channel does not starve the others.
    next: usize,
}

impl<M: Message + ?Sized> Receivers<M> {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self { receivers: Vec::new(), next: 0 }
    }

    /// Adds a receiver and returns its index: the lowest that is free.
    pub fn push(&mut self, receiver: Receiver<M>) -> usize {
        match self.receivers.iter().position(Option::is_none) {
            Some(free) => {
                self.receivers[free] = Some(receiver);
                free
            }
            None => {
                self.receivers.push(Some(receiver));
                self.receivers.len() - 1
            }
        }
    }

    /// Takes out the receiver with this index. The others keep their indices.
    pub fn remove(&mut self, index: usize) -> Option<Receiver<M>> {
        self.receivers.get_mut(index)?.take()
    }

    /// Returns the receiver with this index.
    pub fn get(&self, index: usize) -> Option<&Receiver<M>> {
        self.receivers.get(index)?.as_ref()
    }

    /// Returns the number of receivers.
    pub fn len(&self) -> usize {
        self.receivers.iter().flatten().count()
    }

    /// Returns whether there is no receiver.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a receiver has a message or has ended, and returns its index: see [`Select::ready`].
    ///
    /// # Errors
    /// The same as for [`Select::ready`].
    pub fn ready(&mut self) -> Result<usize> {
        self.ready_with(Wait::forever())
    }

    /// Waits until a receiver is ready, as [`ready`](Self::ready) does, but waits as `wait` says.
    ///
    /// # Errors
    /// The same as for [`Select::ready_with`].
    pub fn ready_with(&mut self, wait: impl Into<Wait>) -> Result<usize> {
        let which = All(&self.receivers).wait(self.next, wait.into())?;
        self.next = (which + 1) % self.receivers.len();
        Ok(which)
    }

    /// Returns the index of a receiver that is ready now, if there is one.
    pub fn try_ready(&mut self) -> Option<usize> {
        let which = All(&self.receivers).ready(self.next)?;
        self.next = (which + 1) % self.receivers.len();
        Some(which)
    }
}

impl<M: Message + ?Sized> Default for Receivers<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// # Panics
/// When there is no receiver with this index.
impl<M: Message + ?Sized> Index<usize> for Receivers<M> {
    type Output = Receiver<M>;

    fn index(&self, index: usize) -> &Receiver<M> {
        self.get(index).expect("the index of a receiver that was added and not removed")
    }
}

impl<M: Message + ?Sized> std::fmt::Debug for Receivers<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receivers").field("receivers", &self.len()).finish_non_exhaustive()
    }
}
