//! The end of the lanes that submits messages, or sends them itself.

use std::{borrow::Borrow, collections::HashMap, mem::ManuallyDrop, sync::Arc, sync::Mutex};

use crossbeam_utils::CachePadded;

use super::{
    Bell, Gauge, Pending, ServedLane, Untyped,
    attend::serves,
    cargo::{Cargo, Copied, Moved, load, unload},
    node::{FAR, FREE, NodeAt, Pool, SUBMITTED, WEIGHT},
    shared::{CANCELLED, CLOSED, GONE, NEAR, OFF, PARKED, Shared},
};
use crate::{
    buffer::SharedBuffer,
    channel::{Filled, Outlet, Outward, Position, Sender},
    error::{Result, SendError},
    plain::{Message, Plain},
    sync::{AtomicU32, AtomicU64, Ordering},
    wait::{Backoff, Flag, Wait},
};

/// A sending end whose messages are sent by other threads, each through a lane, or by the caller. Whichever thread
/// sends them, they arrive in the order of the calls.
///
/// When it is dropped, it waits until everything that was submitted is sent, as sends without help would have waited.
/// While the thread panics, it cancels what was not sent yet. In a thread that serves lanes it does not wait; the other
/// threads send what is left.
pub struct Outgoing<M: Message + ?Sized> {
    outlet: Arc<Outlet<M>>,
    /// The next position.
    next: u64,
    /// For messages that the caller sends: positions below this are known to be free.
    room: u64,
    lanes: Vec<Feed>,
}

/// The result of a submission.
#[derive(Debug)]
pub enum Submitted<S, U = S> {
    /// The send is pending.
    Pending(Pending<S, U>),
    /// The caller sent it, or it can't be sent.
    Here(Result<S, SendError<U>>),
}

/// The submitter's end of one lane.
struct Feed {
    shared: Arc<Shared>,
    gauge: Arc<Gauge>,
    /// The node for the next submission, which the server looks at.
    spare: (u32, NodeAt),
    /// Where the search for a free node continues.
    cursor: u32,
    chunks: usize,
    /// The position that was submitted last, or one before all of them.
    last: u64,
}

// SAFETY: nodes are used by whoever has them by their state, and hold `Send` cargo.
unsafe impl Send for Feed {}

impl<M: Message + ?Sized> Outgoing<M> {
    /// Takes over a sending end. It has no lanes yet.
    pub fn new(sender: Sender<M>) -> Self {
        let (outlet, next) = sender.into_outlet();
        Self { outlet: Arc::new(outlet), next, room: 0, lanes: Vec::new() }
    }

    /// Makes a lane to the thread that sleeps at `bell`, and returns that thread's end. Lanes are
    /// numbered from 0.
    pub fn add_lane(&mut self, bell: &Arc<Bell>, gauge: &Arc<Gauge>) -> ServedLane {
        let word = || CachePadded::new(AtomicU32::new(0));
        let shared = Arc::new(Shared {
            for_feeder: word(),
            for_server: word(),
            serving: word(),
            far: AtomicU64::new(0),
            ended: AtomicU32::new(0),
            pool: Pool::new(),
            context: Arc::clone(self.outlet.context()),
            channel: self.outlet.channel(),
            asymmetry: bell.asymmetry,
            bell: Mutex::new(Arc::clone(bell)),
            wakers: Mutex::new(HashMap::new()),
        });
        let spare = (0, shared.pool.node(0));
        self.lanes.push(Feed {
            shared: Arc::clone(&shared),
            gauge: Arc::clone(gauge),
            spare,
            cursor: 0,
            chunks: 1,
            last: self.next,
        });
        ServedLane::new(shared, Arc::clone(&self.outlet), Arc::clone(gauge), self.next)
    }

    /// Returns the channel's name.
    pub fn channel(&self) -> &Arc<str> {
        self.outlet.name()
    }

    /// Returns whether a lane takes submissions.
    #[inline]
    pub fn is_open(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(Feed::is_open)
    }

    /// Returns whether the thread at the other end of a lane sleeps, so that a submission has to wake it.
    #[inline]
    pub fn sleeps(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|feed| {
            !feed.quiet() && feed.shared.for_feeder.load(Ordering::Relaxed) & PARKED != 0
        })
    }

    /// Returns whether a message that the caller sends now finds room in the channel. It never does where messages take
    /// turns: in a rendezvous, and in a channel of several senders or receivers.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.outlet.has_room(self.next, &mut self.room)
    }

    /// Returns how many cores the ranks of the world leave free. The number is negative if there are too few cores for
    /// the ranks.
    #[inline]
    pub fn cores_left(&self) -> i64 {
        self.outlet.context().waiting.spare
    }

    /// Returns how many threads other than ranks are at work for the world now.
    #[inline]
    pub fn helpers(&self) -> i64 {
        let world = self.outlet.context().world();
        // Relaxed: for choices that cost time at most when they are wrong.
        world.map_or(0, |world| world.helpers.load(Ordering::Relaxed).into())
    }

    /// Returns how much is waiting for the thread at the other end of a lane: see [`Gauge`].
    pub fn load(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(u64::MAX, |lane| lane.gauge.lines())
    }

    /// Submits a message to a lane. The thread at the other end copies what `message` lends into the channel. If there
    /// is no such thread any more, the caller does it.
    #[inline]
    pub fn submit<B: Borrow<M> + Send + 'static>(
        &mut self,
        lane: usize,
        message: B,
    ) -> Submitted<B> {
        // SAFETY: it borrows nothing that ends.
        unsafe { self.submit_cargo(lane, Copied(message)) }
    }

    /// Submits as [`submit`](Self::submit) does, for a message that may borrow.
    ///
    /// # Safety
    /// What the message borrows lives until the pending send is done.
    #[inline]
    pub unsafe fn submit_borrowed<B: Borrow<M> + Send>(
        &mut self,
        lane: usize,
        message: B,
    ) -> Submitted<B> {
        // SAFETY: the caller's.
        unsafe { self.submit_cargo(lane, Copied(message)) }
    }

    /// Sends a message from this thread, in the same order as the submitted messages. Waits as `wait` says while the
    /// channel is full.
    ///
    /// # Errors
    /// Same as [`Sender::send_with`], with the message given back.
    pub fn send_here<B: Borrow<M>>(&mut self, message: B, wait: Wait) -> Result<B, SendError<B>> {
        self.send_cargo(Copied(message), wait)
    }

    /// # Safety
    /// What the cargo borrows lives until the pending send is done, and the cargo is `Send`.
    #[inline]
    unsafe fn submit_cargo<C: Cargo<M>>(
        &mut self,
        lane: usize,
        cargo: C,
    ) -> Submitted<C::Sent, C::Unsent> {
        if let Err(error) = cargo.check(&self.outlet) {
            return Submitted::Here(Err(SendError { error, message: cargo.unsent() }));
        }
        let Some(feed) = self.lanes.get_mut(lane).filter(|feed| feed.is_open()) else {
            return Submitted::Here(self.send_checked(cargo, Wait::forever()));
        };
        // User code comes before anything is changed: the destructors of what nobody wanted back,
        // and what lends the message to be weighed.
        let upcoming = feed.find();
        let weight = feed.gauge.add(|| cargo.weight());
        let (index, node) = std::mem::replace(&mut feed.spare, upcoming);
        let number = self.next;
        self.next += 1;
        let next = upcoming.0 | feed.distance(number);
        // Before the stores below: a locked instruction waits for those under way.
        let pending = Untyped::new(Arc::clone(&feed.shared), node, index);
        node.wish().store(weight << WEIGHT, Ordering::Relaxed);
        // SAFETY: the spare node is this end's until it is submitted.
        unsafe {
            node.address(number, next, C::VERBS);
            load(node.cargo(), cargo);
        }
        node.submit();
        feed.shared.asymmetry.light();
        if !feed.quiet() {
            if feed.shared.for_feeder.load(Ordering::Relaxed) & GONE != 0 && node.take(SUBMITTED) {
                feed.gauge.remove(weight);
                // SAFETY: taken back, with the cargo loaded above in it.
                let cargo = unsafe { unload::<C>(node.cargo()) };
                // Not answered: nothing of the node is dropped with the pending send.
                node.free();
                drop(pending);
                // SAFETY: the number was this node's only.
                let position = unsafe { Position::from_number(number) };
                return Submitted::Here(self.fill_here(cargo, position, Wait::forever()));
            }
            feed.shared.wake_server();
        }
        Submitted::Pending(Pending::new(pending))
    }

    fn send_cargo<C: Cargo<M>>(
        &mut self,
        cargo: C,
        wait: Wait,
    ) -> Result<C::Sent, SendError<C::Unsent>> {
        match cargo.check(&self.outlet) {
            Ok(()) => self.send_checked(cargo, wait),
            Err(error) => Err(SendError { error, message: cargo.unsent() }),
        }
    }

    fn send_checked<C: Cargo<M>>(
        &mut self,
        cargo: C,
        wait: Wait,
    ) -> Result<C::Sent, SendError<C::Unsent>> {
        // SAFETY: the counter's next; nobody else has it.
        let position = unsafe { Position::from_number(self.next) };
        self.next += 1;
        self.fill_here(cargo, position, wait)
    }

    fn fill_here<C: Cargo<M>>(
        &mut self,
        cargo: C,
        position: Position,
        wait: Wait,
    ) -> Result<C::Sent, SendError<C::Unsent>> {
        let outlet = Arc::clone(&self.outlet);
        let mut cargo = ManuallyDrop::new(cargo);
        let mut unfilled = Unfilled { outlet: &outlet, number: Some(position.number()) };
        let room = &mut self.room;
        let poll = || {
            let number = unfilled.number?;
            // SAFETY: the number of the position that this call has.
            let position = unsafe { Position::from_number(number) };
            match C::fill(&mut cargo, &outlet, position, room) {
                Filled::Yes => {
                    unfilled.number = None;
                    Some(Ok(()))
                }
                Filled::NotYet => None,
                Filled::No(error) => Some(Err(error)),
            }
        };
        let waited = outlet.wait(wait.or_failure(), std::ptr::null(), &Outward(&outlet), poll);
        let error = match waited {
            // SAFETY: sent.
            Ok(Some(Ok(()))) => return Ok(unsafe { C::sent(cargo) }),
            Ok(Some(Err(error))) | Err(error) => error,
            Ok(None) => outlet.timed_out(wait),
        };
        drop(unfilled);
        Err(SendError { error, message: ManuallyDrop::into_inner(cargo).unsent() })
    }

    /// Ends the sends that were not carried out yet with [`NotSent`](crate::ErrorKind::NotSent).
    pub fn cancel(&mut self) {
        for feed in &self.lanes {
            feed.close(CANCELLED);
        }
        self.wait_for_end();
    }

    /// Acts as if so many messages had been sent in another way.
    #[cfg(all(test, not(loom), not(miri)))]
    pub(super) fn skip(&mut self, messages: u64) {
        self.next += messages;
        self.outlet.skip_to(self.next);
    }

    /// Waits until nothing is left in the lanes, which have been closed.
    fn wait_for_end(&mut self) {
        let ended = |feed: &Feed| {
            // Acquire: pairs with the Release in `ServedLane::end`.
            feed.shared.ended.load(Ordering::Acquire) != 0
        };
        let poll = || self.lanes.iter().all(ended).then_some(());
        // A world too broken to wait in is found by the next who uses it.
        let _ = self.outlet.wait(Wait::forever(), std::ptr::null(), &Always, poll);
        self.lanes.clear();
    }
}

impl<T: Plain> Outgoing<[T]> {
    /// Submits a buffer that moves: see [`Sender::send_buffer`].
    #[inline]
    pub fn submit_buffer(
        &mut self,
        lane: usize,
        buffer: SharedBuffer<T>,
    ) -> Submitted<(), SharedBuffer<T>> {
        // SAFETY: it borrows nothing.
        unsafe { self.submit_cargo(lane, Moved(buffer)) }
    }

    /// Moves a buffer from this thread, as [`send_here`](Self::send_here) sends a message.
    ///
    /// # Errors
    /// Same as `send_here`.
    pub fn send_buffer_here(
        &mut self,
        buffer: SharedBuffer<T>,
        wait: Wait,
    ) -> Result<(), SendError<SharedBuffer<T>>> {
        self.send_cargo(Moved(buffer), wait)
    }
}

impl<M: Message + ?Sized> Drop for Outgoing<M> {
    fn drop(&mut self) {
        let how = if std::thread::panicking() {
            self.outlet.break_off();
            CANCELLED
        } else {
            CLOSED
        };
        for feed in &self.lanes {
            feed.close(how);
        }
        // A thread that serves, perhaps one of these lanes, would wait for itself.
        if !self.lanes.is_empty() && !serves() {
            self.wait_for_end();
        }
    }
}

impl<M: Message + ?Sized> std::fmt::Debug for Outgoing<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing")
            .field("channel", self.channel())
            .field("sent", &self.next)
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

/// A flag for a wait whose end rings in any case.
struct Always;

impl Flag for Always {
    fn raise(&self) {}

    fn lower(&self) {}
}

/// A guard that gives its position up unless it was filled, even if the user's code panics.
struct Unfilled<'a, M: Message + ?Sized> {
    outlet: &'a Outlet<M>,
    number: Option<u64>,
}

impl<M: Message + ?Sized> Drop for Unfilled<'_, M> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // SAFETY: a position that this call has, not filled.
            self.outlet.give_up(unsafe { Position::from_number(number) });
        }
    }
}

impl Feed {
    #[inline(always)]
    fn quiet(&self) -> bool {
        self.shared.for_feeder.load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    fn is_open(&self) -> bool {
        self.quiet() || self.shared.for_feeder.load(Ordering::Relaxed) & (OFF | GONE) == 0
    }

    /// Returns [`FAR`] if the server must be told the whole position.
    #[inline(always)]
    fn distance(&mut self, position: u64) -> u32 {
        let distance = position - self.last;
        self.last = position;
        if distance < NEAR {
            return 0;
        }
        // Relaxed: ordered by the node's submission. No other one can be under way: no channel has
        // so many slots.
        self.shared.far.store(position, Ordering::Relaxed);
        FAR
    }

    /// Finds a free node other than the spare one.
    #[inline]
    fn find(&mut self) -> (u32, NodeAt) {
        let all = Pool::nodes_in(self.chunks);
        let index = if self.cursor + 1 == all { 0 } else { self.cursor + 1 };
        let node = self.shared.pool.node(index);
        // Acquire: as in `NodeAt::is_free`.
        if node.state().load(Ordering::Acquire) == FREE && node != self.spare.1 {
            self.cursor = index;
            return (index, node);
        }
        self.search()
    }

    #[cold]
    fn search(&mut self) -> (u32, NodeAt) {
        let mut backoff = Backoff::new();
        loop {
            let all = Pool::nodes_in(self.chunks);
            for looked in 1..=all {
                self.cursor = if self.cursor + 1 >= all { 0 } else { self.cursor + 1 };
                let node = self.shared.pool.node(self.cursor);
                if node != self.spare.1 && node.is_free() {
                    // Requests are held in more than half of the nodes: the next search would be
                    // as long.
                    if looked > all / 2 && self.shared.pool.grow(self.chunks) {
                        self.chunks += 1;
                    }
                    return (self.cursor, node);
                }
            }
            if self.shared.pool.grow(self.chunks) {
                self.chunks += 1;
                // The first of the new ones comes next.
                self.cursor = all - 1;
            } else {
                backoff.pause();
            }
        }
    }

    /// Tells the server that no more submissions come.
    fn close(&self, how: u32) {
        // Release: pairs with the Acquire in `ServedLane::serve`.
        self.shared.for_server.fetch_or(how, Ordering::Release);
        self.shared.lock_bell().wake();
    }
}
