//! The lines of a lane, and where they come from.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::OnceLock,
};

use super::{
    cargo::{Verbs, WORDS},
    discard::discard,
};
use crate::{
    error::Error,
    sync::{AtomicU32, Ordering, RaceMarker},
    wait::Asymmetry,
};

/// The node is empty: the submitter may use it.
pub(super) const FREE: u32 = 0;
/// The node belongs to the server, which is to send what is in it.
pub(super) const SUBMITTED: u32 = 1;
/// The node belongs to the holder of the request: it was sent.
pub(super) const SENT: u32 = 2;
/// The node belongs to the holder of the request: it was not sent, and the node says why.
pub(super) const UNSENT: u32 = 3;
/// The thread that changed the state to this has the node to itself.
pub(super) const TAKEN: u32 = 4;
/// The node belongs to the server, which skips it: the holder of the request has taken the cargo back.
pub(super) const WITHDRAWN: u32 = 5;

/// The holder of the request sleeps.
pub(super) const WAITING: u32 = 1;
/// A task waits for the request.
pub(super) const WAKER: u32 = 2;
/// Nobody holds the request any more.
pub(super) const DETACHED: u32 = 4;
/// The holder of the request wants to take the cargo back, so that it must not be sent any more.
pub(super) const CANCEL: u32 = 8;
/// From this bit on, the word says how heavy the message is, in lines, if it was weighed.
pub(super) const WEIGHT: u32 = 4;

/// In `next`: the position is too far from the one before in this lane for 32 bits to express it.
pub(super) const FAR: u32 = 1 << 31;

/// The part of a node that is not in its line, because it is almost never needed.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) verbs: &'static Verbs,
}

#[repr(C, align(64))]
struct Node {
    state: AtomicU32,
    /// What the holder of the request wants. The submitter writes it before it submits, and the holder writes it
    /// afterwards.
    wish: AtomicU32,
    /// The position to fill, modulo 2³².
    position: u32,
    /// The node that will be submitted after this one, and [`FAR`].
    next: u32,
    /// `Verbs`, or in state `UNSENT` a `Failure`.
    verbs: *const (),
    cargo: MaybeUninit<[u64; WORDS]>,
    race: RaceMarker,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node>() == 64);

/// One node of a pool that is alive. The fields other than `state` and `wish` belong to the thread that has the node by
/// its state. No reference is ever made to the whole node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeAt(NonNull<Node>);

impl NodeAt {
    #[inline(always)]
    pub(super) fn state<'a>(self) -> &'a AtomicU32 {
        // SAFETY: a node of a pool, which outlives whoever uses it; one atomic.
        unsafe { &(*self.0.as_ptr()).state }
    }

    #[inline(always)]
    pub(super) fn wish<'a>(self) -> &'a AtomicU32 {
        // SAFETY: as in `state`.
        unsafe { &(*self.0.as_ptr()).wish }
    }

    fn race<'a>(self) -> &'a RaceMarker {
        // SAFETY: as in `state`.
        unsafe { &(*self.0.as_ptr()).race }
    }

    #[inline(always)]
    pub(super) fn cargo(self) -> NonNull<u8> {
        // SAFETY: a field of a node.
        unsafe { NonNull::new_unchecked(&raw mut (*self.0.as_ptr()).cargo) }.cast()
    }

    /// Hands the node, with all that is in it, from the submitter to the server.
    #[inline(always)]
    pub(super) fn submit(self) {
        // Release: pairs with the Acquire in `is_submitted`.
        self.state().store(SUBMITTED, Ordering::Release);
    }

    /// Returns, to the server, whether the node belongs to it.
    #[inline(always)]
    pub(super) fn is_submitted(self) -> bool {
        // Acquire: pairs with the Release in `submit`: what is in the node.
        self.state().load(Ordering::Acquire) == SUBMITTED
    }

    /// Gives the node from the server to the holder of its request. If there is no holder, drops the cargo and frees
    /// the node. `state` says how the send ended. Returns the holder's wishes, if it has any.
    #[inline]
    pub(super) fn answer(self, state: u32, holder: Asymmetry) -> u32 {
        let wish = self.wish().load(Ordering::Relaxed);
        if wish & DETACHED != 0 {
            self.drop_detached(state);
            return 0;
        }
        // Release: pairs with the Acquire in `answered`: the cargo is as we left it.
        self.state().store(state, Ordering::Release);
        holder.light();
        // Perhaps already those of the node's next request: then a waiter looks once more than it
        // must.
        let wish = self.wish().load(Ordering::Relaxed);
        // Let go of in this moment. Only the server answers: the state is that of the same request
        // still, or it is another one. The submitter may see it at the same time.
        if wish & DETACHED != 0 && self.take(state) {
            self.drop_detached(state);
        }
        wish & (WAITING | WAKER)
    }

    /// Drops what no holder wants back, and frees the node. A panic of the user's destructor ends here: the message is
    /// on its way, and no thread waits for the rest.
    #[cold]
    fn drop_detached(self, state: u32) {
        // SAFETY: the node is this thread's, with the cargo in it.
        discard(catch_unwind(AssertUnwindSafe(|| unsafe { self.drop_cargo(state) })));
        self.free();
    }

    /// Returns, to the holder of the request, how the send ended, if it did. The node then belongs to the holder.
    #[inline(always)]
    pub(super) fn answered(self) -> Option<u32> {
        // Acquire: pairs with the Release in `answer`.
        let state = self.state().load(Ordering::Acquire);
        matches!(state, SENT | UNSENT).then_some(state)
    }

    /// Lets the submitter use the node again. The caller has the node to itself.
    #[inline(always)]
    pub(super) fn free(self) {
        // Release: pairs with the Acquire in `is_free`: the next cargo comes after this one.
        self.state().store(FREE, Ordering::Release);
    }

    /// Drops the cargo of an answered request for its holder. Frees the node even if the user's destructor panics.
    pub(super) fn drop_answered(self, state: u32) {
        struct Free(NodeAt);
        impl Drop for Free {
            fn drop(&mut self) {
                self.0.free();
            }
        }
        let _free = Free(self);
        // SAFETY: answered: the holder's, who has not taken the cargo.
        unsafe { self.drop_cargo(state) };
    }

    /// Leaves the rest to the server, when the holder of the request has taken the node and its cargo.
    pub(super) fn withdraw(self) {
        self.race().writing();
        // Release: pairs with the Acquire in `is_withdrawn`: the cargo is not touched any more.
        self.state().store(WITHDRAWN, Ordering::Release);
    }

    /// Returns, to the server, whether the node belongs to it, without cargo.
    #[inline(always)]
    pub(super) fn is_withdrawn(self) -> bool {
        // Acquire: pairs with the Release in `withdraw`.
        self.state().load(Ordering::Acquire) == WITHDRAWN
    }

    /// Lets go of a request that has not been answered, for its holder. The server will see that, or the submitter when
    /// it looks for a free node.
    pub(super) fn detach(self) {
        let weight = self.wish().load(Ordering::Relaxed) & !(WAITING | WAKER);
        self.wish().store(weight | DETACHED, Ordering::Relaxed);
    }

    /// Takes a node that is in `state`, unless another thread does. Returns whether it did.
    pub(super) fn take(self, state: u32) -> bool {
        // Acquire: as in `is_submitted` and `answered`.
        self.state().compare_exchange(state, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Returns, to the submitter, whether the node is free, or can be freed because its request has no holder any more.
    pub(super) fn is_free(self) -> bool {
        // Acquire: pairs with the Release in `free` and `answer`.
        let state = self.state().load(Ordering::Acquire);
        if !matches!(state, SENT | UNSENT) || self.wish().load(Ordering::Relaxed) & DETACHED == 0 {
            return state == FREE;
        }
        let taken = self.take(state);
        if taken {
            // SAFETY: this thread's, with the cargo in it.
            unsafe { self.drop_cargo(state) };
            self.free();
        }
        taken
    }

    /// Writes everything beside the cargo.
    ///
    /// # Safety
    /// The caller has exclusive access to the node.
    #[inline(always)]
    pub(super) unsafe fn address(self, position: u64, next: u32, verbs: &'static Verbs) {
        self.race().writing();
        let node = self.0.as_ptr();
        // SAFETY: the caller's.
        unsafe {
            (*node).position = position as u32;
            (*node).next = next;
            (*node).verbs = std::ptr::from_ref(verbs).cast();
        }
    }

    /// # Safety
    /// The caller has exclusive access to the node, which is submitted or withdrawn.
    #[inline(always)]
    pub(super) unsafe fn read(self) -> (u32, u32, &'static Verbs) {
        self.race().reading();
        let node = self.0.as_ptr();
        // SAFETY: the caller's; written by `address`.
        unsafe { ((*node).position, (*node).next, &*(*node).verbs.cast::<Verbs>()) }
    }

    /// Records in a node why its cargo is not sent.
    ///
    /// # Safety
    /// The caller has exclusive access to the node, which is submitted, and changes its state to `UNSENT` next.
    pub(super) unsafe fn fail(self, error: Error) {
        // SAFETY: the caller's.
        let (.., verbs) = unsafe { self.read() };
        self.race().writing();
        let failure = Box::into_raw(Box::new(Failure { error, verbs }));
        // SAFETY: the caller's.
        unsafe { (*self.0.as_ptr()).verbs = failure.cast_const().cast() };
    }

    /// Takes out the reason why the cargo was not sent.
    ///
    /// # Safety
    /// The caller has exclusive access to the node, which was in state `UNSENT`, and calls this once.
    pub(super) unsafe fn failure(self) -> Box<Failure> {
        self.race().reading();
        // SAFETY: the caller's; made by `fail`.
        unsafe { Box::from_raw((*self.0.as_ptr()).verbs.cast::<Failure>().cast_mut()) }
    }

    /// Drops what is in a node that was answered with `state`.
    ///
    /// # Safety
    /// The caller has exclusive access to the node, and nobody has taken its cargo.
    pub(super) unsafe fn drop_cargo(self, state: u32) {
        // SAFETY: the caller's.
        unsafe {
            if state == SENT {
                (self.read().2.drop_sent)(self.cargo());
            } else {
                (self.failure().verbs.drop_unsent)(self.cargo());
            }
        }
    }
}

/// Number of nodes in the first chunk. Each further chunk has twice as many as the one before.
const FIRST: usize = if cfg!(loom) { 2 } else { 32 };
const CHUNKS: usize = if cfg!(loom) { 1 } else { 24 };

struct Chunk {
    first: NonNull<Node>,
    len: usize,
}

impl Chunk {
    fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not of size 0.
        let Some(first) = NonNull::new(unsafe { alloc(layout) }.cast::<Node>()) else {
            handle_alloc_error(layout)
        };
        for index in 0..len {
            let node = Node {
                state: AtomicU32::new(FREE),
                wish: AtomicU32::new(0),
                position: 0,
                next: 0,
                verbs: std::ptr::null(),
                cargo: MaybeUninit::uninit(),
                race: RaceMarker::new(),
            };
            // SAFETY: in the range just allocated, which nobody else knows.
            unsafe { first.add(index).write(node) };
        }
        Self { first, len }
    }

    fn layout(len: usize) -> Layout {
        // Pairs of lines are fetched together: two lanes must not share one.
        match Layout::array::<Node>(len).and_then(|layout| layout.align_to(128)) {
            Ok(layout) => layout,
            Err(_) => unreachable!("a chunk is far smaller than memory"),
        }
    }
}

/// The nodes of one lane. Nodes are added, never taken away.
pub(super) struct Pool {
    chunks: [OnceLock<Chunk>; CHUNKS],
}

// SAFETY: nodes are used by whoever has them by their state; what is in one can go to another
// thread, because only `Send` cargo is submitted.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(super) fn new() -> Self {
        let pool = Self { chunks: std::array::from_fn(|_| OnceLock::new()) };
        pool.chunks[0].get_or_init(|| Chunk::new(FIRST));
        pool
    }

    /// Returns how many nodes there are in `chunks` chunks.
    pub(super) fn nodes_in(chunks: usize) -> u32 {
        ((FIRST << chunks) - FIRST) as u32
    }

    /// Adds the chunk after the first `chunks` ones. Returns false if there is no place for more.
    pub(super) fn grow(&self, chunks: usize) -> bool {
        match self.chunks.get(chunks) {
            Some(place) => {
                place.get_or_init(|| Chunk::new(FIRST << chunks));
                true
            }
            None => false,
        }
    }

    /// Returns a node that was added.
    #[inline(always)]
    pub(super) fn node(&self, index: u32) -> NodeAt {
        // Chunk c begins at FIRST · (2^c - 1).
        let place = index as usize + FIRST;
        let chunk = (place.ilog2() - FIRST.ilog2()) as usize;
        match self.chunks.get(chunk).and_then(OnceLock::get) {
            // SAFETY: within the chunk, by the arithmetic above.
            Some(nodes) => NodeAt(unsafe { nodes.first.add(place - (FIRST << chunk)) }),
            None => unreachable!("node {index} was not added"),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for chunk in self.chunks.iter_mut().filter_map(OnceLock::take) {
            for index in 0..chunk.len {
                // SAFETY: a node of the chunk, which nobody else uses any more.
                let node = NodeAt(unsafe { chunk.first.add(index) });
                let state = node.state().load(Ordering::Acquire);
                if matches!(state, SENT | UNSENT) {
                    // SAFETY: answered, and nobody took the cargo.
                    unsafe { node.drop_cargo(state) };
                }
                // SAFETY: made in `Chunk::new`, used for the last time.
                unsafe { node.0.as_ptr().drop_in_place() };
            }
            // SAFETY: allocated in `Chunk::new` with this layout.
            unsafe { dealloc(chunk.first.as_ptr().cast(), Chunk::layout(chunk.len)) };
        }
    }
}
