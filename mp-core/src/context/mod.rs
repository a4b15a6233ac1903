//! One rank's view of its world: the segment, the rank's number, and how the rank waits.
//!
//! Channels and buffers are built on this module. The module that launches and ends worlds, `world`, is above it.

mod control;
mod held;
mod tables;
mod text;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        signal::kill,
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};

pub(crate) use control::{Delegations, RankControl, RankState, SEATS, WorldControl};
pub(crate) use held::{HeldAt, Reserved};
use tables::{Entry, Sweep};
pub use text::Namespace;
pub(crate) use text::{Text, hash};

use crate::{
    ErrorKind, costs,
    error::{Error, Place},
    loan::table::Loans,
    segment::{
        BlockKey, BlockKind, LockedHeap, Offset, RobustLock, Root, Segment, SegmentError,
        fingerprint,
    },
    sync::{AtomicPtr, AtomicU64, Ordering},
    wait::{Apart, Carrier, Doing, Flag, Operation, Sleeper, UNDER_WAY, Wait, Waiting, progress},
};

/// The most ranks a world can have.
pub(crate) const MAX_RANKS: usize = 1024;

/// The number of bytes of cache for which a world of several nodes makes its rings: see
/// [`Rank::cache_for_rings`](crate::Rank::cache_for_rings).
const CACHE_OF_NODES: u64 = 512 << 10;

/// Returns a fingerprint that changes when the structures here change.
pub(crate) fn layout() -> u64 {
    fingerprint([size_of::<WorldControl>(), size_of::<RankControl>(), MAX_RANKS])
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) segment: Arc<Segment>,
    control: Offset<WorldControl>,
    size: u32,
    room: u32,
    /// The first rank of this node, and the number of its ranks.
    here: [u32; 2],
    /// The first rank of each node, and at the end the number of all ranks; `None` in a world of one node.
    nodes: Option<Arc<[u32]>>,
    pub(crate) me: u32,
    pub(crate) waiting: Waiting,
    /// An entry of this rank's tables of buffers that was free recently, or null.
    free_entry: AtomicPtr<Entry>,
    /// The state of the search for a free entry, which the rank continues if that entry is taken.
    sweep: Mutex<Sweep>,
    /// See [`Rank::ordinal`](crate::Rank::ordinal).
    pub(crate) ordinals: AtomicU64,
    kept: Kept,
    /// The loans between the ranks, if they are threads.
    pub(crate) loans: Option<Arc<Loans>>,
    /// What waiting threads call, in a world of several nodes.
    carrier: Option<Arc<OnceLock<Weak<dyn Carrier>>>>,
}

/// See [`Rank::kept`](crate::Rank::kept).
type Kept = Mutex<HashMap<TypeId, Weak<dyn Any + Send + Sync>>>;

impl Context {
    /// Makes the control blocks of a world of `size` ranks, and of those that may be started later, up to `room` ranks
    /// in all, in a fresh segment. The calling process counts as one more rank, numbered `room`, because it can also hold
    /// the heap's lock.
    pub(crate) fn create(
        segment: Arc<Segment>,
        (size, room): (u32, u32),
        processes: bool,
        waiting: Waiting,
    ) -> Result<Self, SegmentError> {
        let len = size_of::<WorldControl>() + size_of::<RankControl>() * (room as usize + 1);
        let key = segment.heap().allocate(room, |_| false, BlockKind::World, len as u64)?;
        let control = Offset::<WorldControl>::new(key.payload());
        let world = segment.at(control)?;
        world.size.store(size, Ordering::Relaxed);
        world.room.store(room, Ordering::Relaxed);
        world.begun.store(size, Ordering::Relaxed);
        world.here[1].store(room, Ordering::Relaxed);
        world.processes.store(processes.into(), Ordering::Relaxed);
        world.threads.store(size, Ordering::Relaxed);
        world.launcher.store(std::process::id(), Ordering::Relaxed);
        world.since_ns.store(crate::wait::monotonic_ns(), Ordering::Relaxed);
        segment.heap().settle(key)?;
        segment.set_root(Root::World, control.bytes());
        Ok(Self {
            segment,
            control,
            size,
            room,
            here: [0, room],
            nodes: None,
            me: room,
            waiting,
            free_entry: AtomicPtr::default(),
            sweep: Mutex::default(),
            ordinals: AtomicU64::new(0),
            kept: Kept::default(),
            loans: None,
            carrier: None,
        })
    }

    /// Enters, as rank `me`, the world in a segment made elsewhere.
    pub(crate) fn enter(
        segment: Arc<Segment>,
        me: u32,
        waiting: Waiting,
    ) -> Result<Self, SegmentError> {
        let control = segment
            .root(Root::World)
            .map(Offset::<WorldControl>::new)
            .ok_or(SegmentError::Unfinished)?;
        let world = segment.at(control)?;
        let [size, room, first, here] = [&world.size, &world.room, &world.here[0], &world.here[1]]
            .map(|word| word.load(Ordering::Relaxed));
        let context = Self {
            segment,
            control,
            size,
            room,
            here: [first, here],
            nodes: None,
            me,
            waiting,
            free_entry: AtomicPtr::default(),
            sweep: Mutex::default(),
            ordinals: AtomicU64::new(0),
            kept: Kept::default(),
            loans: None,
            carrier: None,
        };
        if size > room || room as usize > MAX_RANKS || me > room {
            let len = u64::from(room);
            return Err(context.segment.corrupt("the number of ranks", control.bytes(), len));
        }
        context.rank(room)?;
        Ok(context)
    }

    /// Returns the same world as seen by rank `me`, in the same process.
    pub(crate) fn as_rank(&self, me: u32) -> Self {
        Self {
            segment: Arc::clone(&self.segment),
            free_entry: AtomicPtr::default(),
            sweep: Mutex::default(),
            ordinals: AtomicU64::new(0),
            kept: Kept::default(),
            loans: self.loans.clone(),
            carrier: self.carrier.clone(),
            nodes: self.nodes.clone(),
            me,
            ..*self
        }
    }

    /// See [`Rank::kept`](crate::Rank::kept).
    pub(crate) fn kept<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Arc<T>, Error> {
        // A panic in `make` leaves the table as it was, so a poisoned lock does no harm.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let there = kept.get(&TypeId::of::<T>()).and_then(Weak::upgrade);
        if let Some(there) = there.and_then(|there| there.downcast().ok()) {
            return Ok(there);
        }
        let made = Arc::new(make()?);
        let known: Arc<dyn Any + Send + Sync> = made.clone();
        kept.insert(TypeId::of::<T>(), Arc::downgrade(&known));
        Ok(made)
    }

    /// Returns the number of ranks with which the world began.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns how many ranks the world can have in all.
    pub(crate) fn room(&self) -> usize {
        self.room as usize
    }

    /// Divides the ranks among nodes, of which this is one. `nodes` has the first rank of each, and at the end the number
    /// of all ranks. Must be called before any rank enters the world.
    pub(crate) fn divide(&mut self, nodes: Arc<[u32]>, node: usize) -> Result<(), SegmentError> {
        let (first, next) = (nodes[node], nodes[node + 1]);
        (self.here, self.nodes) = ([first, next - first], Some(nodes));
        self.carrier = Some(Arc::default());
        let world = self.world()?;
        for (word, number) in world.here.iter().zip(self.here) {
            word.store(number, Ordering::Relaxed);
        }
        // If what carries messages to other nodes needs a core, those who count the cores of a node leave it one.
        world.threads.store(self.here[1], Ordering::Relaxed);
        // Both ends of a channel must ask for the same, whatever the processors of their nodes are.
        world.cache.store(CACHE_OF_NODES, Ordering::Relaxed);
        Ok(())
    }

    /// Has all waiting threads of this world's ranks in this process call this: see [`Carrier`].
    pub(crate) fn set_carrier(&self, carrier: Weak<dyn Carrier>) {
        if let Some(place) = &self.carrier {
            let _ = place.set(carrier);
        }
    }

    /// Returns what carries messages to other nodes, if waiting threads can call it.
    pub(crate) fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        self.carrier.as_ref()?.get()?.upgrade()
    }

    /// Notes how the ranks are [divided](Self::divide), in a rank's process.
    pub(crate) fn know_nodes(&mut self, nodes: Arc<[u32]>) {
        self.nodes = Some(nodes);
    }

    /// Returns whether the ranks are divided among nodes, even if there is only one.
    pub(crate) fn is_divided(&self) -> bool {
        self.nodes.is_some()
    }

    /// Returns the ranks of a node.
    pub(crate) fn ranks_of(&self, node: usize) -> Range<u32> {
        match &self.nodes {
            Some(first) => first[node]..first[node + 1],
            None => self.here(),
        }
    }

    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.as_ref().map_or(1, |first| first.len() - 1)
    }

    /// Returns the node of a rank.
    pub(crate) fn node_of(&self, rank: u32) -> usize {
        let after = |first: &Arc<[u32]>| first.partition_point(|&first| first <= rank);
        self.nodes.as_ref().map_or(0, |first| after(first).clamp(1, first.len() - 1) - 1)
    }

    /// Returns this node.
    pub(crate) fn node_here(&self) -> usize {
        self.node_of(self.here().start)
    }

    /// Returns the ranks of this node that the world begins with.
    pub(crate) fn here(&self) -> Range<u32> {
        let [first, count] = self.here;
        first..first.saturating_add(count).min(self.size)
    }

    /// Returns whether the rank is one of this node. Ranks of other nodes have control blocks here, and a
    /// [`Bridge`](crate::bridge::Bridge) has their ends of channels.
    pub(crate) fn is_here(&self, rank: u32) -> bool {
        let [first, count] = self.here;
        rank.wrapping_sub(first) < count
    }

    /// Returns the ranks of other nodes.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = u32> {
        let here = self.here();
        (0..self.size).filter(move |rank| !here.contains(rank))
    }

    /// Returns an error if one of these ranks is on another node. `what` works only among the ranks of a node.
    pub(crate) fn check_here(
        &self,
        ranks: impl IntoIterator<Item = u32>,
        what: &'static str,
    ) -> Result<(), Error> {
        match ranks.into_iter().find(|&rank| !self.is_here(rank)) {
            Some(rank) => Err(ErrorKind::OnAnotherNode { rank: rank as usize, what }.into()),
            None => Ok(()),
        }
    }

    /// Returns how many ranks were started, those that have ended included.
    pub(crate) fn begun(&self) -> u32 {
        // Acquire: pairs with the Release in `begin_more`.
        let begun = self.world().map_or(0, |world| world.begun.load(Ordering::Acquire));
        begun.clamp(self.size, self.room)
    }

    /// Counts further ranks that are started now. Their control blocks are as from the beginning.
    pub(crate) fn begin_more(&self, ranks: u32) -> Result<(), SegmentError> {
        // Release: pairs with the Acquire in `begun`.
        self.world()?.begun.store(self.begun() + ranks, Ordering::Release);
        Ok(())
    }

    pub(crate) fn world(&self) -> Result<&WorldControl, SegmentError> {
        self.segment.at(self.control)
    }

    pub(crate) fn rank(&self, rank: u32) -> Result<&RankControl, SegmentError> {
        let first = self.control.bytes() + size_of::<WorldControl>() as u64;
        let offset = first + u64::from(rank) * size_of::<RankControl>() as u64;
        self.segment.at(Offset::new(offset))
    }

    /// Returns whether the rank's process has ended, so that others may take what the rank held. A rank can be lost and
    /// not dead: if it panicked, its process still runs. Ranks that are threads never die without their whole world.
    pub(crate) fn dead(&self, rank: u32) -> bool {
        rank < self.room && self.rank(rank).is_ok_and(RankControl::is_dead)
    }

    /// Returns whether the holder of the heap's lock is dead, or is not a rank at all. The launcher also looks whether
    /// the holder's process has ended, because no other process would mark the holder as dead.
    fn holder_dead(&self, holder: u32) -> bool {
        holder > self.room
            || self.dead(holder)
            || self.me == self.room && self.child_has_ended(holder)
    }

    fn child_has_ended(&self, rank: u32) -> bool {
        let Ok(control) = self.rank(rank) else { return false };
        let pid = Pid::from_raw(control.pid.load(Ordering::Relaxed) as i32);
        if pid == Pid::this() {
            return false;
        }
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        rank < self.room
            && !cfg!(miri)
            && match waitid(Id::Pid(pid), flags) {
                Ok(status) => status != WaitStatus::StillAlive,
                // The process was killed by a signal that `nix` has no name for.
                Err(Errno::EINVAL) => pid.as_raw() > 0,
                // The process is not a child of this one (a child may have started it), or it does not exist any more.
                Err(_) => pid.as_raw() > 0 && has_ended(pid),
            }
    }

    /// Checks a rank named by the user.
    pub(crate) fn check_rank(&self, rank: usize) -> Result<u32, Error> {
        if rank < self.size() || rank < self.begun() as usize {
            Ok(rank as u32)
        } else {
            Err(ErrorKind::NoSuchRank { rank, size: self.begun() as usize }.into())
        }
    }

    /// Wakes every thread that sleeps on the rank's doorbell.
    pub(crate) fn ring(&self, rank: u32) {
        if let Ok(rank) = self.rank(rank) {
            rank.doorbell.advance_and_wake();
        }
    }

    /// [Rings](Self::ring) every rank's doorbell.
    pub(crate) fn ring_all(&self) {
        for rank in 0..self.begun() {
            self.ring(rank);
        }
    }

    /// Returns why a [wait](Self::wait) got no answer: another operation of the rank has
    /// [failed](progress::Part::failure), or the limit has expired.
    #[cold]
    pub(crate) fn gave_up(&self, operation: Operation, channel: &Arc<str>, wait: Wait) -> Error {
        progress::take_failure().unwrap_or_else(|| {
            Error::from(ErrorKind::Timeout {
                place: Place::Named { operation, name: Arc::clone(channel) },
                limit: wait.limit.unwrap_or_default(),
            })
        })
    }

    /// Looks once, and then waits as [`Waiting::wait_slowly`] does, on this rank's doorbell. Returns `None` if the
    /// limit has expired, the news have ended the wait, or a part has failed.
    #[inline]
    pub(crate) fn wait<T>(
        &self,
        wait: Wait,
        doing: Doing,
        line: *const (),
        flags: &dyn Flag,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, SegmentError> {
        if let Some(answer) = poll() {
            return Ok(Some(answer));
        }
        let Some(heard) = wait.news else {
            return self.wait_slowly(wait, doing, line, flags, &mut poll);
        };
        let news = &self.world()?.news;
        // Acquire: pairs with the Release in `WorldControl::tell_news`.
        let others = || (news.load(Ordering::Acquire) != heard).then_some(None);
        let mut poll = || poll().map(Some).or_else(others);
        Ok(self.wait_slowly(wait, doing, line, flags, &mut poll)?.flatten())
    }

    /// [Waits](Self::wait) for several things at once. Returns whether `poll` has answered; false if the limit has
    /// expired first.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment), and a [failure](progress::Part::failure) if that ends the wait.
    pub(crate) fn wait_unless(
        &self,
        wait: Wait,
        doing: Doing,
        flags: &dyn Flag,
        poll: impl FnMut() -> Option<()>,
    ) -> Result<bool, Error> {
        match self.wait(wait, doing, std::ptr::null(), flags, poll)? {
            Some(()) => Ok(true),
            None => progress::take_failure().map_or(Ok(false), Err),
        }
    }

    fn wait_slowly<T>(
        &self,
        wait: Wait,
        doing: Doing,
        line: *const (),
        flags: &dyn Flag,
        poll: &mut dyn FnMut() -> Option<T>,
    ) -> Result<Option<T>, SegmentError> {
        // Other parts of the rank may lead to other nodes. In a crowded world, those who wait leave the work to one thread,
        // and their cores to those who have some.
        let is_far =
            self.here().len() < self.size() && !(flags.ends_here() && progress::count() == 0);
        if !is_far {
            return self.wait_here(wait, doing, line, flags, poll);
        }
        let Some(carrier) = self.carrier().filter(|_| !self.crowded()) else {
            return self.wait_here(wait, doing, line, &Far(flags), poll);
        };
        let flags = Carried { flags, carrier: &*carrier };
        let mut poll = || poll().or_else(|| if carrier.carry() { poll() } else { None });
        // No single line is awaited, because the answer may come from another node.
        self.wait_here(wait, doing, std::ptr::null(), &flags, &mut poll)
    }

    fn wait_here<T>(
        &self,
        wait: Wait,
        doing: Doing,
        line: *const (),
        flags: &dyn Flag,
        poll: &mut dyn FnMut() -> Option<T>,
    ) -> Result<Option<T>, SegmentError> {
        if progress::count() > 0
            && let Some(parts) = progress::Parts::of(self.whose())
        {
            return self.wait_and_progress(wait, doing, flags, parts, poll);
        }
        Ok(self.waiting.wait_slowly(wait, self.sleeper()?, doing, line, flags, poll))
    }

    /// Waits, and meanwhile advances the pending operations of the rank in this thread.
    #[cold]
    fn wait_and_progress<T>(
        &self,
        wait: Wait,
        doing: Doing,
        flags: &dyn Flag,
        mut parts: progress::Parts,
        poll: &mut dyn FnMut() -> Option<T>,
    ) -> Result<Option<T>, SegmentError> {
        let sleeper = self.sleeper()?;
        let began = Instant::now();
        loop {
            loop {
                let moved = parts.advance();
                if moved && let Some(answer) = poll() {
                    return Ok(Some(answer));
                }
                // Parts can move for as long as other ranks send, so the limit is checked here, too.
                if moved && wait.since(began).is_over()
                    || wait.failing == Some(true) && parts.fail()
                {
                    return Ok(None);
                }
                if !moved {
                    break;
                }
            }
            let flags = Beside { flags, parts: &parts };
            // Answers `Some(None)` when a part can continue.
            let mut poll = || match poll() {
                Some(answer) => Some(Some(answer)),
                None => parts.is_ready().then_some(None),
            };
            // No single line is awaited, because a waker may write the line of the wait or that of a part.
            let (wait, line) = (wait.since(began), std::ptr::null());
            match self.waiting.wait_slowly(wait, sleeper, doing, line, &flags, &mut poll) {
                Some(None) => {}
                Some(answer) => return Ok(answer),
                None => return Ok(None),
            }
        }
    }

    /// Returns what this rank needs to sleep.
    fn sleeper(&self) -> Result<Sleeper<'_>, SegmentError> {
        let me = self.rank(self.me)?;
        let (doorbell, record, helpers) = (&me.doorbell, &me.record, &self.world()?.helpers);
        Ok(Sleeper { doorbell, record, helpers, apart: Some(self.apart(self.me)?) })
    }

    /// Returns what is noted of the CPU of a rank.
    pub(crate) fn apart(&self, rank: u32) -> Result<Apart<'_>, SegmentError> {
        Ok(Apart { cpus: &self.world()?.cpus, seen: &self.rank(rank)?.seen, rank })
    }

    /// Returns the identity that distinguishes this rank's [parts](progress::Part) from those of other ranks.
    pub(crate) fn whose(&self) -> progress::Whose {
        progress::Whose { segment: Arc::as_ptr(&self.segment) as usize, rank: self.me }
    }

    /// Returns whether the world has more working threads than cores.
    pub(crate) fn crowded(&self) -> bool {
        self.world().is_ok_and(|world| self.waiting.crowded(&world.helpers))
    }

    /// Returns how often to look without a pause at something that is about to arrive, before the actual wait begins.
    /// Returns 0 if the sender may need this core.
    pub(crate) fn looks(&self) -> u32 {
        if self.crowded() { 0 } else { costs::looks(UNDER_WAY) }
    }

    /// Counts a thread that begins to work for ranks of this world, including this one.
    pub(crate) fn helper_begins(&self) {
        if let (Ok(world), Ok(me)) = (self.world(), self.rank(self.me)) {
            // Relaxed: the counts only influence how threads wait. The world's count is raised first here and lowered
            // last in `helper_ends`, so a rank that dies in between leaves the count too high, and it never falls below
            // zero.
            world.helpers.fetch_add(1, Ordering::Relaxed);
            me.delegations.helpers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stops counting such a thread, which goes to sleep or ends.
    pub(crate) fn helper_ends(&self) {
        if let (Ok(world), Ok(me)) = (self.world(), self.rank(self.me)) {
            me.delegations.helpers.fetch_sub(1, Ordering::Relaxed);
            world.helpers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Subtracts the helpers of a dead rank from the world's count.
    pub(crate) fn bury_helpers(&self, rank: u32) -> Result<(), SegmentError> {
        let dead = self.rank(rank)?.delegations.helpers.swap(0, Ordering::Relaxed);
        self.world()?.helpers.fetch_sub(dead, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn allocate(&self, kind: BlockKind, len: u64) -> Result<BlockKey, SegmentError> {
        self.segment.heap().allocate(self.me, |rank| self.holder_dead(rank), kind, len)
    }

    pub(crate) fn lock_heap(&self) -> Result<LockedHeap<'_>, SegmentError> {
        self.segment.heap().lock(self.me, |rank| self.holder_dead(rank))
    }

    /// Waits until no other rank makes an object that all ranks need at the same time, and locks other ranks out until
    /// the returned value is dropped. Otherwise each rank would make the object, and all but one in vain.
    pub(crate) fn make_alone(&self) -> Result<Alone<'_>, SegmentError> {
        let making = &*self.world()?.making;
        // If the last holder died, it left nothing that others can find, so nothing has to be repaired.
        making.acquire(self.me, |rank| self.holder_dead(rank));
        Ok(Alone(making))
    }

    /// Frees a block. If the heap is broken, this call ignores it, and the next allocation reports it.
    pub(crate) fn free(&self, key: BlockKey) {
        if let Ok(mut heap) = self.lock_heap() {
            let _ = heap.free(key);
        }
    }
}

/// The flags of a wait, together with those of the parts that are advanced meanwhile.
struct Beside<'a> {
    flags: &'a dyn Flag,
    parts: &'a progress::Parts,
}

impl Flag for Beside<'_> {
    fn raise(&self) {
        self.flags.raise();
        self.parts.raise();
    }

    fn lower(&self) {
        self.flags.lower();
        self.parts.lower();
    }

    fn inner(&self) -> Option<&dyn Flag> {
        Some(self.flags)
    }

    fn tick(&self) -> Option<Duration> {
        self.flags.tick().into_iter().chain(self.parts.tick()).min()
    }

    fn beside(&self) -> Vec<u64> {
        [self.flags.beside(), self.parts.awaits()].concat()
    }
}

/// The flags of a wait that another node may end.
struct Far<'a>(&'a dyn Flag);

impl Flag for Far<'_> {
    fn raise(&self) {
        self.0.raise();
    }

    fn lower(&self) {
        self.0.lower();
    }

    fn inner(&self) -> Option<&dyn Flag> {
        Some(self.0)
    }

    fn is_far(&self) -> bool {
        true
    }
}

/// The flags of a wait that calls a [`Carrier`] meanwhile.
struct Carried<'a> {
    flags: &'a dyn Flag,
    carrier: &'a dyn Carrier,
}

impl Flag for Carried<'_> {
    fn raise(&self) {
        self.flags.raise();
        self.carrier.rest();
    }

    fn lower(&self) {
        self.flags.lower();
    }

    fn inner(&self) -> Option<&dyn Flag> {
        Some(self.flags)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn looks_slowly(&self) -> bool {
        true
    }
}

/// See [`Context::make_alone`].
pub(crate) struct Alone<'a>(&'a RobustLock);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.release(true);
    }
}

/// Returns whether a process has ended. A process whose parent has not reaped it yet counts as ended.
fn has_ended(pid: Pid) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name, which stands in parentheses and may contain any characters.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        // `/proc` may be missing, or may be that of another PID namespace.
        Err(_) => kill(pid, None) == Err(Errno::ESRCH),
    }
}
