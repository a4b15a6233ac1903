//! Sends of borrowed messages.

#![allow(unsafe_code, reason = "the promise that a scope joins before what it lends ends")]

use std::{
    borrow::Borrow,
    cell::RefCell,
    marker::PhantomData,
    task::{Context, Poll},
};

use mp_core::{
    Message, Operation as Doing, Pending, Rank, Result, SendError, Wait,
    delegate::{Backoff, Submitted, Untyped},
    requests::{Operation, UnderWay, Watch},
};

use super::Delegated;

/// Lends messages to communication threads. Everything that was sent through the [`Scope`] is done when this returns,
/// also when `body` panics.
///
/// ```
/// use onchip::{Channel, World};
/// use onchip::threads::{self, CommThreads};
///
/// World::threads(2).run(|rank| {
///     let channel = Channel::degree(2).max_len(100);
///     if rank.id() == 0 {
///         let threads = CommThreads::start(1)?;
///         let mut rows = threads.delegate(rank.sender::<[u32]>("rows", 1, channel)?);
///         let row = [7; 100];
///         threads::scope(|scope| {
///             scope.send(&mut rows, &row[..]);
///             assert_eq!(row.iter().sum::<u32>(), 700); // meanwhile
///         });
///     } else {
///         assert_eq!(rank.receiver::<[u32]>("rows", 0, channel)?.receive()?.len(), 100);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope { sends: RefCell::default(), scope: PhantomData, env: PhantomData };
    // `join` is dropped even if `body` panics, and then waits for all sends.
    let join = Join(&scope.sends);
    let result = body(&scope);
    drop(join);
    result
}

/// A scope in which messages can be sent that outlive it: see [`scope`].
///
/// The lifetimes are like those of [`std::thread::Scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    sends: RefCell<Sends>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The sends of a scope whose answers have not been taken.
#[derive(Debug, Default)]
struct Sends {
    list: Vec<Entry>,
    /// The vacant places of the list.
    vacant: Vec<usize>,
}

#[derive(Debug)]
enum Entry {
    Vacant,
    /// There is a [`ScopedRequest`] for it.
    Held(Untyped),
    /// There is no request for it any more.
    Dropped(Untyped),
}

impl Sends {
    /// Makes sure that there is a vacant place. This can run the user's destructors, which can panic.
    fn make_room(&mut self) {
        if !self.vacant.is_empty() {
            return;
        }
        if self.list.len() == self.list.capacity() {
            // Before the list grows, sends that are done and have no request leave their places.
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
        // There is a vacant place, unless the user's code has used the scope since `make_room`.
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

/// Waits when it is dropped until every send of the list has ended.
struct Join<'a>(&'a RefCell<Sends>);

impl Drop for Join<'_> {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.0.borrow_mut().list);
        for entry in &mut list {
            if let Entry::Held(send) | Entry::Dropped(send) = entry {
                send.wait_done();
            }
        }
        // The lent messages are dropped now, even if a request was leaked.
        drop(list);
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Delegates a message as [`Delegated::send`] does. What the message borrows must outlive the scope.
    pub fn send<M: Message + ?Sized, B: Borrow<M> + Send + 'scope>(
        &'scope self,
        to: &mut Delegated<M>,
        message: B,
    ) -> ScopedRequest<'scope, B> {
        // Room is made first, so that nothing can panic between submitting a send and having it in the list.
        self.sends.borrow_mut().make_room();
        // SAFETY: what `B` borrows outlives 'scope, and the scope ends only after `Join` has waited for this: the send
        // is put into its list here, and taken out when it is done, or by its request, which waits for it. Leaking the
        // request leaves it in the list.
        let state = match unsafe { to.send_borrowed(message) } {
            Submitted::Pending(pending) => {
                State::Pending(self.sends.borrow_mut().add(pending.into_untyped()))
            }
            Submitted::Here(answer) => State::Here(answer),
        };
        mp_core::Request::new(ScopedSend { sends: &self.sends, state: Some(state) })
    }
}

/// A delegated send of a borrowed message: see [`Scope::send`]. It is waited for like a [`Request`](super::Request),
/// alone or together with others. If the request is dropped or leaked, the send is waited for at the end of the scope.
pub type ScopedRequest<'scope, B> = mp_core::Request<ScopedSend<'scope, B>>;

/// The operation behind a [`ScopedRequest`].
#[derive(Debug)]
pub struct ScopedSend<'scope, B> {
    sends: &'scope RefCell<Sends>,
    /// `None` once the answer was taken.
    state: Option<State<B>>,
}

#[derive(Debug)]
enum State<B> {
    /// The send is at this place of the list.
    Pending(usize),
    Here(Result<B, SendError<B>>),
}

impl<B> ScopedSend<'_, B> {
    /// Looks at the send, if it is in the list.
    fn look<T>(&self, look: impl FnOnce(&Untyped) -> T) -> Option<T> {
        let Some(State::Pending(index)) = self.state else { return None };
        match self.sends.borrow().list.get(index) {
            Some(Entry::Held(send) | Entry::Dropped(send)) => Some(look(send)),
            _ => None,
        }
    }

    /// Takes the answer of a send that is done.
    fn answer(&mut self) -> Result<B, SendError<B>> {
        match self.state.take() {
            Some(State::Here(answer)) => answer,
            Some(State::Pending(index)) => {
                let Some(send) = self.sends.borrow_mut().take(index) else {
                    unreachable!("it stays in the list while it has a request")
                };
                // SAFETY: `Scope::send` put a `Pending<B, B>` in this place.
                match unsafe { send.typed::<B, B>() }.take() {
                    Ok(answer) => answer,
                    Err(_) => unreachable!("it is done"),
                }
            }
            None => panic!("the request has given its answer as a future"),
        }
    }
}

impl<B> Pending for ScopedSend<'_, B> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        match Watch::is_done(self) {
            true => None,
            false => Some(UnderWay::Watched(self)),
        }
    }
}

impl<B> Watch for ScopedSend<'_, B> {
    fn rank(&self) -> Rank {
        let Some(rank) = self.look(Watch::rank) else {
            unreachable!("it is done, and nobody watches it")
        };
        rank
    }

    fn is_done(&self) -> bool {
        self.look(Watch::is_done).unwrap_or(true)
    }

    fn raise(&self) {
        self.look(Watch::raise);
    }

    fn lower(&self) {
        self.look(Watch::lower);
    }

    fn waited(&self) -> (Doing, Vec<u64>) {
        let Some(waited) = self.look(Watch::waited) else {
            unreachable!("it is done, and nobody watches it")
        };
        waited
    }

    fn call(&self) -> Option<String> {
        self.look(Watch::call)?
    }
}

impl<B> Operation for ScopedSend<'_, B> {
    type Output = B;
    type Error = SendError<B>;
    type Back = B;

    fn wait(mut self) -> Result<B, SendError<B>> {
        let mut backoff = Backoff::new();
        // If the world is too broken to sleep in, this looks again and again, because the send is answered all the
        // same.
        while !self.wait_within(Wait::forever()).is_ok_and(|done| done) && !Watch::is_done(&self) {
            backoff.pause();
        }
        self.answer()
    }

    fn is_done(&self) -> bool {
        Watch::is_done(self)
    }

    fn cancel(mut self) -> Result<B, Self> {
        let Some(State::Pending(index)) = self.state else {
            assert!(self.state.is_some(), "the request has given its answer as a future");
            return Err(self);
        };
        let Some(send) = self.sends.borrow_mut().take(index) else {
            unreachable!("it stays in the list while it has a request")
        };
        self.state = None;
        // SAFETY: `Scope::send` put a `Pending<B, B>` in this place. It is not in the list any more, and not waited for
        // at the scope's end: nothing here panics or returns before the message is taken back or done.
        let answer = match unsafe { send.typed::<B, B>() }.cancel() {
            Ok(message) => return Ok(message),
            Err(done) => done.take(),
        };
        let Ok(answer) = answer else { unreachable!("it is done") };
        self.state = Some(State::Here(answer));
        Err(self)
    }

    fn poll_output(&mut self, task: &mut Context<'_>) -> Poll<Result<B, SendError<B>>> {
        if let Some(State::Pending(index)) = self.state
            && let Some(Entry::Held(send)) = self.sends.borrow_mut().list.get_mut(index)
            && send.poll_done(task).is_pending()
        {
            return Poll::Pending;
        }
        Poll::Ready(self.answer())
    }
}

impl<B> Drop for ScopedSend<'_, B> {
    fn drop(&mut self) {
        let Some(State::Pending(index)) = self.state else { return };
        let mut sends = self.sends.borrow_mut();
        // The place is gone if the scope has already joined.
        if let Some(entry) = sends.list.get_mut(index)
            && let Entry::Held(send) = std::mem::replace(entry, Entry::Vacant)
        {
            *entry = Entry::Dropped(send);
        }
    }
}
