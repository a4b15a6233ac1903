//! Sends of what is only borrowed.

#![allow(unsafe_code, reason = "the promise that a scope joins before what it lends ends")]

use std::{borrow::Borrow, cell::RefCell, marker::PhantomData};

use mp_core::{
    Message, Result, SendError,
    delegate::{Submitted, Untyped},
};

use super::Delegated;

/// Lends messages to communication threads: all that was sent through the [`Scope`] is done when
/// this returns, also when `body` panics.
///
/// ```
/// use mp_core::{Channel, World};
/// use mp_delegate::comm::{self, CommThreads};
///
/// World::threads(2).run(|rank| {
///     let channel = Channel::degree(2).max_len(100);
///     if rank.id() == 0 {
///         let threads = CommThreads::start(1)?;
///         let mut rows = threads.delegate(rank.sender::<[u32]>("rows", 1, channel)?);
///         let row = [7; 100];
///         comm::scope(|scope| {
///             scope.send(&mut rows, &row[..]);
///             assert_eq!(row.iter().sum::<u32>(), 700); // meanwhile
///         });
///     } else {
///         assert_eq!(rank.receiver::<[u32]>("rows", 0, channel)?.receive()?.len(), 100);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), mp_core::Error>(())
/// ```
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope { sends: RefCell::default(), scope: PhantomData, env: PhantomData };
    // Dropped in any case, and that joins.
    let join = Join(&scope.sends);
    let result = body(&scope);
    drop(join);
    result
}

/// Where messages can be sent that live longer than this: see [`scope`].
///
/// The lifetimes are as those of [`std::thread::Scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    sends: RefCell<Sends>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The sends of a scope that nobody has taken the answer of.
#[derive(Debug, Default)]
struct Sends {
    list: Vec<Entry>,
    /// Places of the list that are vacant.
    vacant: Vec<usize>,
}

#[derive(Debug)]
enum Entry {
    Vacant,
    /// Somebody has a [`ScopedRequest`] for it.
    Held(Untyped),
    /// Nobody has.
    Dropped(Untyped),
}

impl Sends {
    /// Sees to it that there is a vacant place. Can run the user's destructors, which can panic.
    fn make_room(&mut self) {
        if !self.vacant.is_empty() {
            return;
        }
        if self.list.len() == self.list.capacity() {
            // Before the list grows: what is done and wanted by nobody.
            for (index, entry) in self.list.iter_mut().enumerate() {
                if matches!(entry, Entry::Dropped(send) if send.is_done()) {
                    self.vacant.push(index);
                    *entry = Entry::Vacant;
                }
            }
        }
        if self.vacant.is_empty() {
            self.vacant.push(self.list.len());
            self.list.push(Entry::Vacant);
        }
    }

    fn add(&mut self, send: Untyped) -> usize {
        // There is one, unless the user's code has used the scope since room was made.
        let index = self.vacant.pop().unwrap_or(self.list.len());
        match self.list.get_mut(index) {
            Some(entry) => *entry = Entry::Held(send),
            None => self.list.push(Entry::Held(send)),
        }
        index
    }

    fn take(&mut self, index: usize) -> Option<Untyped> {
        match std::mem::replace(&mut self.list[index], Entry::Vacant) {
            Entry::Vacant => None,
            Entry::Held(send) | Entry::Dropped(send) => {
                self.vacant.push(index);
                Some(send)
            }
        }
    }
}

/// Waits for the end of every send of the list when dropped.
struct Join<'a>(&'a RefCell<Sends>);

impl Drop for Join<'_> {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.0.borrow_mut().list);
        for entry in &mut list {
            if let Entry::Held(send) | Entry::Dropped(send) = entry {
                send.wait_done();
            }
        }
        // What was lent is dropped now, also where a request was leaked.
        drop(list);
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Delegates a message as [`Delegated::send`] does; what it borrows must outlive the scope.
    pub fn send<M: Message + ?Sized, B: Borrow<M> + Send + 'scope>(
        &'scope self,
        to: &mut Delegated<M>,
        message: B,
    ) -> ScopedRequest<'scope, B> {
        // Nothing can go wrong between submitting a send and having it in the list.
        self.sends.borrow_mut().make_room();
        // SAFETY: what `B` borrows outlives 'scope, and the scope ends only after `Join` has waited
        // for this: the send is put into its list here, and taken out when it is done, or by
        // `ScopedRequest::wait`, which waits for it. Leaking the request leaves it in the list.
        let state = match unsafe { to.send_borrowed(message) } {
            Submitted::Pending(pending) => {
                State::Pending(self.sends.borrow_mut().add(pending.into_untyped()))
            }
            Submitted::Here(answer) => State::Here(answer),
        };
        ScopedRequest { sends: &self.sends, state: Some(state) }
    }
}

/// A delegated send of something borrowed: see [`Scope::send`]. Dropped or leaked, it is waited for
/// at the end of the scope.
#[derive(Debug)]
pub struct ScopedRequest<'scope, B> {
    sends: &'scope RefCell<Sends>,
    /// `None` once its answer was taken.
    state: Option<State<B>>,
}

#[derive(Debug)]
enum State<B> {
    /// In this place of the list.
    Pending(usize),
    Here(Result<B, SendError<B>>),
}

impl<B> ScopedRequest<'_, B> {
    /// Waits until the send is done.
    ///
    /// # Errors
    /// As [`Request::wait`](super::Request::wait).
    pub fn wait(mut self) -> Result<B, SendError<B>> {
        match self.state.take() {
            Some(State::Here(answer)) => answer,
            Some(State::Pending(index)) => {
                // In the list while it is waited for: the wait could panic.
                let mut sends = self.sends.borrow_mut();
                if let Entry::Held(send) = &mut sends.list[index] {
                    send.wait_done();
                }
                let Some(send) = sends.take(index) else {
                    unreachable!("it stays in the list while it has a request")
                };
                // SAFETY: `Scope::send` put a `Pending<B, B>` in this place.
                match unsafe { send.typed::<B, B>() }.take() {
                    Ok(answer) => answer,
                    Err(_) => unreachable!("it is done"),
                }
            }
            None => unreachable!("only `wait` takes the answer"),
        }
    }

    /// Takes back what was to be sent.
    ///
    /// # Errors
    /// As [`Request::cancel`](super::Request::cancel).
    pub fn cancel(mut self) -> Result<B, Self> {
        let Some(State::Pending(index)) = self.state else { return Err(self) };
        let Some(send) = self.sends.borrow_mut().take(index) else {
            unreachable!("it stays in the list while it has a request")
        };
        self.state = None;
        // SAFETY: `Scope::send` put a `Pending<B, B>` in this place. It is not in the list any more,
        // and not waited for at the scope's end: nothing here panics or returns before the message
        // is taken back or done.
        let answer = match unsafe { send.typed::<B, B>() }.cancel() {
            Ok(message) => return Ok(message),
            Err(done) => done.take(),
        };
        let Ok(answer) = answer else { unreachable!("it is done") };
        self.state = Some(State::Here(answer));
        Err(self)
    }

    /// Whether the send is done, so that [`wait`](Self::wait) returns at once.
    pub fn is_done(&self) -> bool {
        match self.state {
            Some(State::Pending(index)) => match &self.sends.borrow().list[index] {
                Entry::Held(send) | Entry::Dropped(send) => send.is_done(),
                Entry::Vacant => true,
            },
            _ => true,
        }
    }
}

impl<B> Drop for ScopedRequest<'_, B> {
    fn drop(&mut self) {
        let Some(State::Pending(index)) = self.state else { return };
        let mut sends = self.sends.borrow_mut();
        // Gone, when the scope has joined already.
        if let Some(entry) = sends.list.get_mut(index)
            && let Entry::Held(send) = std::mem::replace(entry, Entry::Vacant)
        {
            *entry = Entry::Dropped(send);
        }
    }
}
