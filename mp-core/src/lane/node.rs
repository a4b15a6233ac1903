//! The nodes of a lane, each of which is one cache line, and the pool that allocates them.

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
/// The node belongs to the server, which is to send its cargo.
pub(super) const SUBMITTED: u32 = 1;
/// The node belongs to the holder of the request: it was sent.
pub(super) const SENT: u32 = 2;
/// The node belongs to the holder of the request: the cargo was not sent, and the node contains the reason.
pub(super) const UNSENT: u32 = 3;
/// The thread that set this state has exclusive access to the node.
pub(super) const TAKEN: u32 = 4;
/// The node belongs to the server, which skips it: the holder of the request has taken the cargo back.
pub(super) const WITHDRAWN: u32 = 5;

/// The holder of the request sleeps.
pub(super) const WAITING: u32 = 1;
/// A task waits for the request.
pub(super) const WAKER: u32 = 2;
/// The request has no holder any more.
pub(super) const DETACHED: u32 = 4;
/// The holder of the request wants to take the cargo back, so that it must not be sent any more.
pub(super) const CANCEL: u32 = 8;
/// From this bit on, the word holds the message's weight in lines, or 0 if the message was not weighed.
pub(super) const WEIGHT: u32 = 4;

/// A bit of `next`: the position is too far from the previous one in this lane to be expressed in 32 bits, and
/// `Shared::far` holds it.
pub(super) const FAR: u32 = 1 << 31;

/// The part of a node that lies outside its line, because it is needed only when a send fails.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) verbs: &'static Verbs,
}

#[repr(C, align(64))]
struct Node {
    state: AtomicU32,
    /// The wishes of the request's holder. The submitter writes this word before it submits the node, and the holder
    /// writes it afterwards.
    wish: AtomicU32,
    /// The position to fill, modulo 2³².
    position: u32,
    /// The node that will be submitted after this one, and [`FAR`].
    next: u32,
    /// The address of `Verbs`, or in state `UNSENT` of a `Failure`.
    verbs: *const (),
    cargo: MaybeUninit<[u64; WORDS]>,
    race: RaceMarker,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node>() == 64);

/// A node of a pool that still exists. Any thread may use `state` and `wish`. The other fields belong to the thread
/// that owns the node according to `state`, so no code makes a reference to the whole node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeAt(NonNull<Node>);

impl NodeAt {
    #[inline(always)]
    pub(super) fn state<'a>(self) -> &'a AtomicU32 {
        // SAFETY: the pointer leads to an initialized node of a pool that outlives all users of its nodes. The
        // reference covers a single atomic.
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
        // SAFETY: the pointer leads to a node, so the address of a field is in bounds and not null.
        unsafe { NonNull::new_unchecked(&raw mut (*self.0.as_ptr()).cargo) }.cast()
    }

    /// Hands the node and its contents from the submitter to the server.
    #[inline(always)]
    pub(super) fn submit(self) {
        // Release: pairs with the Acquire in `is_submitted`.
        self.state().store(SUBMITTED, Ordering::Release);
    }

    /// Returns, to the server, whether the node belongs to it.
    #[inline(always)]
    pub(super) fn is_submitted(self) -> bool {
        // Acquire: pairs with the Release in `submit`: the server sees the node's contents.
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
        // Release: pairs with the Acquire in `answered`: the holder sees the cargo as the server left it.
        self.state().store(state, Ordering::Release);
        holder.light();
        // These may already be the wishes of the node's next request. In that case a waiter is woken once in vain.
        let wish = self.wish().load(Ordering::Relaxed);
        // The holder has just let go of the request. The submitter may notice this at the same time, so both try to
        // take the node. If the node is still in `state`, its request is still the same one, because only the server
        // answers requests.
        if wish & DETACHED != 0 && self.take(state) {
            self.drop_detached(state);
        }
        wish & (WAITING | WAKER)
    }

    /// Drops the cargo of a request that has no holder, and frees the node. A panic of the user's destructor is caught
    /// here, because no thread waits for this request any more.
    #[cold]
    fn drop_detached(self, state: u32) {
        // SAFETY: this thread has exclusive access to the node, and nobody has taken the cargo.
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
        // Release: pairs with the Acquire in `is_free`: the submitter writes the next cargo after all accesses to this
        // one.
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
        // SAFETY: the request is answered, so the node belongs to its holder, the caller, who has not taken the cargo.
        unsafe { self.drop_cargo(state) };
    }

    /// Gives the node, whose cargo the holder of the request has taken, to the server, which skips it.
    pub(super) fn withdraw(self) {
        self.race().writing();
        // Release: pairs with the Acquire in `is_withdrawn`: the holder no longer accesses the cargo.
        self.state().store(WITHDRAWN, Ordering::Release);
    }

    /// Returns, to the server, whether the node belongs to it and has no cargo any more.
    #[inline(always)]
    pub(super) fn is_withdrawn(self) -> bool {
        // Acquire: pairs with the Release in `withdraw`.
        self.state().load(Ordering::Acquire) == WITHDRAWN
    }

    /// Lets go of a request that has not been answered, for its holder. The server notices this when it answers, or
    /// else the submitter notices it when it looks for a free node.
    pub(super) fn detach(self) {
        let weight = self.wish().load(Ordering::Relaxed) & !(WAITING | WAKER);
        self.wish().store(weight | DETACHED, Ordering::Relaxed);
    }

    /// Takes exclusive access to a node that is in `state`. Returns false if the state has changed, for instance
    /// because another thread has taken the node.
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
            // SAFETY: this thread has taken the node, and nobody has taken the cargo.
            unsafe { self.drop_cargo(state) };
            self.free();
        }
        taken
    }

    /// Writes all fields beside the cargo.
    ///
    /// # Safety
    /// The caller has exclusive access to the node.
    #[inline(always)]
    pub(super) unsafe fn address(self, position: u64, next: u32, verbs: &'static Verbs) {
        self.race().writing();
        let node = self.0.as_ptr();
        // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
        unsafe {
            (*node).position = position as u32;
            (*node).next = next;
            (*node).verbs = std::ptr::from_ref(verbs).cast();
        }
    }

    /// # Safety
    /// The caller has exclusive access to the node, which was submitted and has not [failed](Self::fail).
    #[inline(always)]
    pub(super) unsafe fn read(self) -> (u32, u32, &'static Verbs) {
        self.race().reading();
        let node = self.0.as_ptr();
        // SAFETY: the caller has exclusive access to the node. `address` wrote the fields, and has not been followed by
        // `fail`, so that `verbs` still holds the `&'static Verbs`.
        unsafe { ((*node).position, (*node).next, &*(*node).verbs.cast::<Verbs>()) }
    }

    /// Records in a node why its cargo is not sent.
    ///
    /// # Safety
    /// The caller has exclusive access to the node, which is submitted, and changes its state to `UNSENT` next.
    pub(super) unsafe fn fail(self, error: Error) {
        // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
        let (.., verbs) = unsafe { self.read() };
        self.race().writing();
        let failure = Box::into_raw(Box::new(Failure { error, verbs }));
        // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
        unsafe { (*self.0.as_ptr()).verbs = failure.cast_const().cast() };
    }

    /// Takes out the reason why the cargo was not sent.
    ///
    /// # Safety
    /// The caller has exclusive access to the node, which was in state `UNSENT`, and calls this only once.
    pub(super) unsafe fn failure(self) -> Box<Failure> {
        self.race().reading();
        // SAFETY: the caller guarantees that the node was in state `UNSENT`, so `verbs` is the box that `fail` made.
        // This is the only call, so nobody else owns the box.
        unsafe { Box::from_raw((*self.0.as_ptr()).verbs.cast::<Failure>().cast_mut()) }
    }

    /// Drops the cargo of a node that was answered with `state`.
    ///
    /// # Safety
    /// The caller has exclusive access to the node, and nobody has taken its cargo.
    pub(super) unsafe fn drop_cargo(self, state: u32) {
        // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
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
        // SAFETY: the layout's size is not 0.
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
            // SAFETY: the place lies in the memory that was just allocated for `len` nodes, and nobody else knows it
            // yet.
            unsafe { first.add(index).write(node) };
        }
        Self { first, len }
    }

    fn layout(len: usize) -> Layout {
        // The processor fetches pairs of lines together, so two lanes must not share a pair.
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

// SAFETY: the state of a node says which thread may access its other fields. Cargo may go to another thread, because
// only `Send` cargo is submitted.
unsafe impl Send for Pool {}
// SAFETY: as for `Send`. The chunks are set once, by `OnceLock`, and a node's state lets in one thread at a time.
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

    /// Adds a chunk after the first `chunks` chunks. Returns false if the pool has no place for more.
    pub(super) fn grow(&self, chunks: usize) -> bool {
        match self.chunks.get(chunks) {
            Some(place) => {
                place.get_or_init(|| Chunk::new(FIRST << chunks));
                true
            }
            None => false,
        }
    }

    /// Returns the node with this index, which must have been added.
    #[inline(always)]
    pub(super) fn node(&self, index: u32) -> NodeAt {
        // Chunk c begins at FIRST · (2^c - 1).
        let place = index as usize + FIRST;
        let chunk = (place.ilog2() - FIRST.ilog2()) as usize;
        match self.chunks.get(chunk).and_then(OnceLock::get) {
            // SAFETY: by the arithmetic above, the node lies within the chunk.
            Some(nodes) => NodeAt(unsafe { nodes.first.add(place - (FIRST << chunk)) }),
            None => unreachable!("node {index} was not added"),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for chunk in self.chunks.iter_mut().filter_map(OnceLock::take) {
            for index in 0..chunk.len {
                // SAFETY: `index` is less than the chunk's length, so the address lies within the chunk.
                let node = NodeAt(unsafe { chunk.first.add(index) });
                let state = node.state().load(Ordering::Acquire);
                if matches!(state, SENT | UNSENT) {
                    // SAFETY: nobody else uses the nodes of a pool that is dropped. The request was answered, and
                    // nobody took its cargo.
                    unsafe { node.drop_cargo(state) };
                }
                // SAFETY: `Chunk::new` initialized the node, and nothing uses it after this.
                unsafe { node.0.as_ptr().drop_in_place() };
            }
            // SAFETY: `Chunk::new` allocated the chunk with this layout.
            unsafe { dealloc(chunk.first.as_ptr().cast(), Chunk::layout(chunk.len)) };
        }
    }
}
