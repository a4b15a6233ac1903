//! The end of the lanes that submits messages, or sends them in the calling thread.

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
/// Its destructor waits until everything that was submitted is sent, as ordinary sends would have waited. If the thread
/// is panicking, the destructor cancels what was not sent yet. In a thread that serves lanes it does not wait: the
/// serving threads send the remaining messages later.
pub struct Outgoing<M: Message + ?Sized> {
    outlet: Arc<Outlet<M>>,
    /// The next position.
    next: u64,
    /// For messages that the caller sends itself: the slots of positions below this are known to be free.
    room: u64,
    lanes: Vec<Feed>,
}

/// The result of a submission.
#[derive(Debug)]
pub enum Submitted<S, U = S> {
    /// The send is pending.
    Pending(Pending<S, U>),
    /// The caller has sent the message, or the message can't be sent.
    Here(Result<S, SendError<U>>),
}

/// The submitter's end of one lane.
struct Feed {
    shared: Arc<Shared>,
    gauge: Arc<Gauge>,
    /// The node for the next submission, and its index. The server looks at this node.
    spare: (u32, NodeAt),
    /// Where the search for a free node continues.
    cursor: u32,
    chunks: usize,
    /// The position that was submitted last. Before the first submission: the first position that this lane could get.
    last: u64,
}

// SAFETY: the state of a node says which thread may access its other fields, and nodes hold only `Send` cargo.
unsafe impl Send for Feed {}

impl<M: Message + ?Sized> Outgoing<M> {
    /// Takes over a sending end. It has no lanes yet.
    pub fn new(sender: Sender<M>) -> Self {
        let (outlet, next) = sender.into_outlet();
        Self { outlet: Arc::new(outlet), next, room: 0, lanes: Vec::new() }
    }

    /// Makes a lane to the thread that sleeps at `bell`, and returns that thread's end. Lanes are numbered from 0.
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
        // Relaxed: the number is only used for choices, and a wrong choice costs nothing but time.
        world.map_or(0, |world| world.helpers.load(Ordering::Relaxed).into())
    }

    /// Returns how much work waits for the thread at the other end of a lane: see [`Gauge`].
    pub fn load(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(u64::MAX, |lane| lane.gauge.lines())
    }

    /// Submits a message to a lane. The thread at the other end copies the message that `message` lends into the
    /// channel. If that thread is gone, the caller copies it.
    #[inline]
    pub fn submit<B: Borrow<M> + Send + 'static>(
        &mut self,
        lane: usize,
        message: B,
    ) -> Submitted<B> {
        // SAFETY: `B` is `'static`, so nothing that the cargo borrows can end, and `B` is `Send`.
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
        // SAFETY: the caller guarantees that what the message borrows lives until the pending send is done. `B` is
        // `Send`.
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
        // User code runs before anything is changed, because it may panic: `find` runs destructors of cargo that nobody
        // wanted back, and `weight` borrows the message.
        let upcoming = feed.find();
        let weight = feed.gauge.add(|| cargo.weight());
        let (index, node) = std::mem::replace(&mut feed.spare, upcoming);
        let number = self.next;
        self.next += 1;
        let next = upcoming.0 | feed.distance(number);
        // Before the stores below, because the clone of the `Arc` is a locked instruction, which would wait for them.
        let pending = Untyped::new(Arc::clone(&feed.shared), node, index);
        node.wish().store(weight << WEIGHT, Ordering::Relaxed);
        // SAFETY: the spare node is free, so this end has exclusive access to it until it is submitted.
        unsafe {
            node.address(number, next, C::VERBS);
            load(node.cargo(), cargo);
        }
        node.submit();
        feed.shared.asymmetry.light();
        if !feed.quiet() {
            if feed.shared.for_feeder.load(Ordering::Relaxed) & GONE != 0 && node.take(SUBMITTED) {
                feed.gauge.remove(weight);
                // SAFETY: `take` has given this thread exclusive access again, and the node still holds the cargo that
                // was loaded above.
                let cargo = unsafe { unload::<C>(node.cargo()) };
                // The node is not in an answered state, so that dropping `pending` drops no cargo.
                node.free();
                drop(pending);
                // SAFETY: only this node had the number, and the node was taken back.
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
        // SAFETY: the number is the next one of the counter, so nobody else has it.
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
            // SAFETY: this call has the position with this number, and has not filled it yet.
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
            // SAFETY: `fill` has sent the cargo.
            Ok(Some(Ok(()))) => return Ok(unsafe { C::sent(cargo) }),
            Ok(Some(Err(error))) | Err(error) => error,
            Ok(None) => outlet.timed_out(wait),
        };
        drop(unfilled);
        Err(SendError { error, message: ManuallyDrop::into_inner(cargo).unsent() })
    }

    /// Ends the sends that have not been carried out yet with [`NotSent`](crate::ErrorKind::NotSent), and waits for
    /// this.
    pub fn cancel(&mut self) {
        for feed in &self.lanes {
            feed.close(CANCELLED);
        }
        self.wait_for_end();
    }

    /// Skips the positions of that many messages, as if the messages had been sent.
    #[cfg(all(test, not(loom), not(miri)))]
    pub(super) fn skip(&mut self, messages: u64) {
        self.next += messages;
        self.outlet.skip_to(self.next);
    }

    /// Waits until the closed lanes are empty.
    fn wait_for_end(&mut self) {
        let ended = |feed: &Feed| {
            // Acquire: pairs with the Release in `ServedLane::end`.
            feed.shared.ended.load(Ordering::Acquire) != 0
        };
        let poll = || self.lanes.iter().all(ended).then_some(());
        // An error means that the world is too broken to wait in. The next call that uses the world reports that.
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
        // SAFETY: a buffer borrows nothing, and it is `Send`.
        unsafe { self.submit_cargo(lane, Moved(buffer)) }
    }

    /// Sends a buffer from this thread by moving it, and otherwise does what [`send_here`](Self::send_here) does.
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
        // A serving thread does not wait: it may serve one of these lanes, and would wait for itself.
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

/// A flag that does nothing. The event that ends the wait rings the doorbell without a look at a flag.
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
            // SAFETY: the call that made this guard has the position, and has not filled it.
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

    /// Returns [`FAR`] if the node can't express the position's distance from the previous one. The whole position then
    /// goes to `Shared::far`.
    #[inline(always)]
    fn distance(&mut self, position: u64) -> u32 {
        let distance = position - self.last;
        self.last = position;
        if distance < NEAR {
            return 0;
        }
        // Relaxed: the node's submission orders this store. The server has already read the previous far position,
        // because no channel has so many slots that two of these nodes are submitted at the same time.
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
                    // The program holds requests in more than half of the nodes, so the next search would take as long
                    // as this one.
                    if looked > all / 2 && self.shared.pool.grow(self.chunks) {
                        self.chunks += 1;
                    }
                    return (self.cursor, node);
                }
            }
            if self.shared.pool.grow(self.chunks) {
                self.chunks += 1;
                // The search continues at the first of the new nodes.
                self.cursor = all - 1;
            } else {
                backoff.pause();
            }
        }
    }

    /// Tells the server that no more submissions come.
    fn close(&self, how: u32) {
        // Release: pairs with the Acquire in `ServedLane::look_further`: the server sees all submissions before it
        // ends.
        self.shared.for_server.fetch_or(how, Ordering::Release);
        self.shared.lock_bell().wake();
    }
}
