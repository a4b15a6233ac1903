//! Threads of the program that call MPI.
//!
//! | level | who calls | what a call does |
//! |---|---|---|
//! | `MPI_THREAD_SINGLE`, `MPI_THREAD_FUNNELED` | the main thread | nothing more |
//! | `MPI_THREAD_SERIALIZED` | one thread at a time | takes over what the thread before has left under way |
//! | `MPI_THREAD_MULTIPLE` | any thread at any time | the same, within a lock, which it lets go of while it waits |
//!
//! Onchip binds one thing to a thread: the [parts](mp_core::progress) of the rank that its waits advance. A call puts
//! them into its thread, and takes them out at its end. All else that a call uses is in objects that are used by one
//! thread at a time, by the program's care or by the lock.
//!
//! With several threads at once, a call that waits must not keep others from calling, one of which may make what it waits
//! for happen. So it waits by requests, or looks for a message whenever anything has moved (`moves`). A thread that has
//! made the last two calls waits as if it were the only one, but until any thread wants to call, too, which wakes it. As
//! long as others call, it looks at its requests, lets go of the lock, pauses, and looks again. Calls of other threads
//! advance its requests, too.
//!
//! Where several threads wait and no other has called for a while, one of them, the leader, waits for the requests of all.
//! The others stand aside: they sleep until the leader finds their requests done, or until it leaves and one of them
//! leads.

use std::{
    cell::{Cell, UnsafeCell},
    hint, mem, ptr,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use mp_collectives::communicator::{self, Pending, Status, test_all, test_some};
use mp_core::{
    Operation, Rank, Result,
    delegate::Backoff,
    progress::{Parked, ring},
    requests::{UnderWay, Watch},
};

use crate::{
    constants::{MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED},
    moves::{Moves, Sought},
    state,
    tools::waits::{self, Counted},
};

/// The lock, if several threads may call.
static LOCK: Mutex<Lock> = Mutex::new(Lock { is_taken: false, sleeper: None, aside: Vec::new() });
static IS_FREE: Condvar = Condvar::new();
/// Tells threads aside that one of them is to wake.
static WAKES: Condvar = Condvar::new();
/// How many threads wait for the lock, or wake in order to take it.
static WANTED: AtomicUsize = AtomicUsize::new(0);
/// How long a waiting call keeps the lock if no other thread waits for it. Meanwhile it looks at its requests.
const SPIN: Duration = Duration::from_micros(40);
/// After how many looks, each of which takes about as long as one at the clock, it looks at that.
const LOOKS: usize = 8;
/// How long no thread has begun a call when those that wait let one of them wait for all.
const CALM: Duration = Duration::from_millis(1);
/// The thread that is in a call, or 0.
static CALLER: AtomicUsize = AtomicUsize::new(0);
static SHARED: Shared = Shared {
    depth: Cell::new(0),
    parked: UnsafeCell::new(None),
    last: Cell::new(0),
    is_alone: Cell::new(false),
    calls: Cell::new(0),
    leader: Cell::new(0),
    aside: Cell::new(Vec::new()),
};

struct Lock {
    /// Whether a thread is in a call.
    is_taken: bool,
    /// This process, if the thread in the call sleeps and is to be woken by who wants the lock.
    sleeper: Option<Rank>,
    /// The threads aside that are not to wake yet.
    aside: Vec<usize>,
}

fn lock() -> MutexGuard<'static, Lock> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread that is in a call has.
struct Shared {
    /// How many calls it is in: functions of the program, which a call has called, may call again.
    depth: Cell<usize>,
    /// The parts of the rank, between calls.
    parked: UnsafeCell<Option<Parked>>,
    /// The thread that has last taken the rank over.
    last: Cell<usize>,
    /// Whether that was also the thread before it.
    is_alone: Cell<bool>,
    /// How many calls have begun.
    calls: Cell<u64>,
    /// The thread that waits for those aside, too, or 0 if none is aside.
    leader: Cell<usize>,
    aside: Cell<Vec<Aside>>,
}

/// A thread that sleeps until another wakes it.
struct Aside {
    thread: usize,
    /// These two are not used by the thread until it has been woken, for which this is given up.
    requests: *mut [&'static mut dyn Pending],
    needs: Needs<'static>,
}

/// What a call waits for.
#[derive(Clone, Copy)]
enum Needs<'a> {
    /// All of its requests.
    All,
    /// Any of its requests.
    Any,
    /// This message. The requests only bring messages in.
    Message(Sought<'a>),
}

// SAFETY: only the thread that is in a call uses it.
unsafe impl Sync for Shared {}

thread_local! {
    /// A variable whose address tells threads apart. It has no destructor, so that it is there in functions that the
    /// program has given to `atexit`.
    static ME: u8 = const { 0 };
}

fn me() -> usize {
    ME.with(|me| (&raw const *me).addr())
}

fn has_lock() -> bool {
    state::thread_level() == MPI_THREAD_MULTIPLE
}

/// A call of a thread, which ends when this is dropped.
#[must_use = "the call ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Turn {
    /// Whether other threads may call after this one.
    is_shared: bool,
}

/// Begins a call.
#[inline]
pub(crate) fn enter() -> Turn {
    let is_shared = state::thread_level() >= MPI_THREAD_SERIALIZED;
    if is_shared {
        begin();
    }
    Turn { is_shared }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        if self.is_shared {
            end();
        }
    }
}

#[cold]
fn begin() {
    let me = me();
    // If this thread is in a call, nobody else has changed the word since.
    if CALLER.load(Relaxed) == me {
        SHARED.depth.set(SHARED.depth.get() + 1);
    } else {
        take(me, 1);
        SHARED.calls.set(SHARED.calls.get().wrapping_add(1));
    }
}

#[cold]
fn end() {
    match SHARED.depth.get() {
        1 => give(),
        depth => SHARED.depth.set(depth - 1),
    }
}

/// Takes the rank over, as a thread that is in this many calls.
fn take(me: usize, depth: usize) {
    if has_lock() {
        WANTED.fetch_add(1, Relaxed);
        take_wanted(me, depth, lock());
    } else {
        take_parts(me, depth);
    }
}

/// Takes the rank over, as a thread that has counted itself as one that waits for the lock.
fn take_wanted(me: usize, depth: usize, mut lock: MutexGuard<'_, Lock>) {
    while lock.is_taken {
        lock.sleeper.take().iter().for_each(ring);
        lock = IS_FREE.wait(lock).unwrap_or_else(PoisonError::into_inner);
    }
    lock.is_taken = true;
    WANTED.fetch_sub(1, Relaxed);
    drop(lock);
    take_parts(me, depth);
}

fn take_parts(me: usize, depth: usize) {
    CALLER.store(me, Relaxed);
    SHARED.depth.set(depth);
    SHARED.is_alone.set(SHARED.last.replace(me) == me);
    // SAFETY: this thread is in a call now.
    if let Some(parked) = unsafe { (*SHARED.parked.get()).take() } {
        parked.put();
    }
}

/// Lets other threads call.
fn give() {
    // SAFETY: this thread is still in a call. The next thread that is in one uses the objects of the parts, and comes
    // after this one, by the lock or by the program's care.
    unsafe { *SHARED.parked.get() = Some(Parked::take()) };
    SHARED.depth.set(0);
    CALLER.store(0, Relaxed);
    if has_lock() {
        lock().is_taken = false;
        // A waiting thread counts itself before it looks. If none waits, a call of the system is saved.
        if WANTED.load(Relaxed) > 0 {
            IS_FREE.notify_one();
        }
    }
}

/// Returns whether several threads may call at once, so that a call must not block.
#[inline]
pub(crate) fn are_many() -> bool {
    has_lock()
}

/// How a call waits while it lets other threads call.
struct Pauses {
    began: Instant,
    backoff: Backoff,
    counted: Option<Counted>,
    is_crowded: bool,
    /// How many calls had begun when this was last looked at, and since when it is that number.
    calls: u64,
    since: Instant,
}

impl Pauses {
    fn begin() -> Self {
        let is_crowded = state::rank().is_ok_and(Rank::is_crowded);
        let (began, backoff, calls) = (Instant::now(), Backoff::new(), SHARED.calls.get());
        Self { began, backoff, counted: None, is_crowded, calls, since: began }
    }

    /// Returns whether no thread has begun a call for a while.
    fn are_calm(&mut self) -> bool {
        let calls = SHARED.calls.get();
        if mem::replace(&mut self.calls, calls) != calls {
            self.since = Instant::now();
        }
        self.since.elapsed() >= CALM
    }

    /// Begins again, after something has come.
    fn restart(&mut self) {
        (self.backoff, self.counted) = (Backoff::new(), None);
    }

    fn pause(&mut self) {
        if WANTED.load(Relaxed) == 0 && self.began.elapsed() < SPIN {
            // Only threads of other ranks may need this core.
            match self.is_crowded {
                true => thread::yield_now(),
                false => hint::spin_loop(),
            }
        } else {
            self.counted = self.counted.take().or_else(waits::begin);
            outside(|| self.backoff.pause());
        }
    }

    /// Sleeps until the leader finds the requests done, or leaves.
    fn stand_aside(&mut self, requests: &mut [&mut dyn Pending], needs: Needs<'_>) {
        self.counted = self.counted.take().or_else(waits::begin);
        let (me, depth) = (me(), SHARED.depth.get());
        let mut aside = SHARED.aside.take();
        // SAFETY: this returns when the entry is gone.
        aside.push(unsafe { Aside::new(me, requests, needs) });
        SHARED.aside.set(aside);
        lock().aside.push(me);
        give();
        let is_aside = |lock: &mut Lock| lock.aside.contains(&me);
        let lock = WAKES.wait_while(lock(), is_aside).unwrap_or_else(PoisonError::into_inner);
        take_wanted(me, depth, lock);
    }
}

/// Looks for a short time for something that may be about to come, unless other threads want to call.
pub(crate) fn soon<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let mut began = None;
    loop {
        for _ in 0..LOOKS {
            let found = look()?;
            if found.is_some() || WANTED.load(Relaxed) > 0 {
                return Ok(found);
            }
        }
        if began.get_or_insert_with(Instant::now).elapsed() >= SPIN {
            return Ok(None);
        }
        if state::rank().is_ok_and(Rank::is_crowded) {
            thread::yield_now();
        }
    }
}

/// Looks at requests, and waits as long as that returns nothing.
fn until_done<T>(
    requests: &mut [&mut dyn Pending],
    needs: Needs<'_>,
    look: impl Fn(&mut [&mut dyn Pending]) -> Result<Option<T>>,
) -> Result<T> {
    if let Some(found) = look(requests)? {
        return Ok(found);
    }
    let (mut pauses, me) = (Pauses::begin(), me());
    let _leaves = Leaves { me };
    loop {
        let are_calm = pauses.are_calm();
        if SHARED.leader.get() == me && wake_done(me, requests, needs) {
            // This thread may be one of them.
            pauses.restart();
        } else if WANTED.load(Relaxed) > 0 || !(are_calm || SHARED.is_alone.get()) {
            pauses.pause();
        } else if are_calm && ![0, me].contains(&SHARED.leader.get()) {
            pauses.stand_aside(requests, needs);
        } else if sleep(me, requests, needs)? {
            // Not if others have woken this one: if they do so again and again, its pauses become as long as theirs.
            pauses.restart();
        }
        if let Some(found) = look(requests)? {
            return Ok(found);
        }
    }
}

/// Waits until one more of the requests is done, or one of a thread aside, or until another thread wants to call; if any
/// of these threads looks for something, also until anything moves. Returns whether one of the requests is done.
fn sleep(me: usize, requests: &mut [&mut dyn Pending], needs: Needs<'_>) -> Result<bool> {
    let mut rank = None;
    let mut pending: Vec<&mut dyn Pending> = Vec::with_capacity(requests.len() + 1);
    for request in requests {
        match request.under_way() {
            None => continue,
            Some(UnderWay::Driven { driver, .. }) => rank = Some(driver.rank()),
            Some(UnderWay::Watched(watch)) => rank = Some(watch.rank()),
        }
        pending.push(&mut **request);
    }
    let Some(rank) = rank else { return Ok(true) };
    // Functions of the program that are called meanwhile may wait, too, but not for these.
    let mut aside = SHARED.aside.take();
    let look = needs.sought().is_some() || aside.iter().any(|other| other.needs.sought().is_some());
    let mut moves = look.then(|| Moves::begin(&rank));
    let (mut wanted, count) = (Wanted(rank), pending.len());
    pending.push(&mut wanted);
    pending.extend(moves.iter_mut().map(|moves| moves as &mut dyn Pending));
    for other in &mut aside {
        pending.extend(other.requests().iter_mut().filter_map(|request| {
            request.under_way().is_some().then_some(&mut **request as &mut dyn Pending)
        }));
    }
    let waited = communicator::wait_some(&mut pending);
    drop(pending);
    let others = !aside.is_empty();
    aside.append(&mut SHARED.aside.take());
    SHARED.aside.set(aside);
    SHARED.leader.set(me);
    match waited {
        Ok(done) => Ok(done.iter().any(|&place| place < count)),
        // It may be an error of the others: then they find it themselves.
        Err(_) if others => {
            SHARED.aside.take().into_iter().for_each(Aside::wake);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Wakes the threads aside that have what they wait for. Returns whether there are any, or whether this thread has.
///
/// Afterwards this thread can sleep, because all else that they wait for is still to come: looking for messages brings
/// others in, and completes requests. So the threads that have only requests come last, and all are looked at again when
/// messages were brought in.
fn wake_done(me: usize, requests: &mut [&mut dyn Pending], needs: Needs<'_>) -> bool {
    // SAFETY: this thread uses the requests again when this is gone.
    let mut own = unsafe { Aside::new(me, requests, needs) };
    let (mut aside, mut done, mut is_own_done) = (SHARED.aside.take(), Vec::new(), false);
    let stored = |own: &Aside, aside: &[Aside]| -> usize {
        let all = aside.iter().chain([own]);
        all.filter_map(|one| one.needs.sought()).map(Sought::stored).sum()
    };
    loop {
        let (count, before) = (aside.len(), stored(&own, &aside));
        is_own_done |= own.needs.sought().is_some() && own.is_done();
        done.extend(aside.extract_if(.., |one| one.needs.sought().is_some() && one.is_done()));
        done.extend(aside.extract_if(.., |one| one.needs.sought().is_none() && one.is_done()));
        is_own_done |= own.needs.sought().is_none() && own.is_done();
        if (aside.len(), stored(&own, &aside)) == (count, before) {
            break;
        }
    }
    SHARED.aside.set(aside);
    let are_any = !done.is_empty();
    done.into_iter().for_each(Aside::wake);
    are_any || is_own_done
}

/// The end of a wait: if this thread leads, another does.
struct Leaves {
    me: usize,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if SHARED.leader.get() == self.me {
            let mut aside = SHARED.aside.take();
            let next = aside.pop();
            SHARED.leader.set(next.as_ref().map_or(0, |next| next.thread));
            SHARED.aside.set(aside);
            next.into_iter().for_each(Aside::wake);
        }
    }
}

impl Needs<'_> {
    /// Returns the message that the thread looks for, if it does.
    fn sought(&self) -> Option<Sought<'_>> {
        match *self {
            Self::Message(sought) => Some(sought),
            Self::All | Self::Any => None,
        }
    }
}

impl Aside {
    /// Notes what a thread waits for.
    ///
    /// # Safety
    /// The thread does not use it before the result is gone.
    unsafe fn new(thread: usize, requests: &mut [&mut dyn Pending], needs: Needs<'_>) -> Self {
        let requests = ptr::slice_from_raw_parts_mut(requests.as_mut_ptr().cast(), requests.len());
        // SAFETY: what is named is there as long as the thread waits, and that is until the result is gone.
        let needs = unsafe { mem::transmute::<Needs<'_>, Needs<'static>>(needs) };
        Self { thread, requests, needs }
    }

    fn requests(&mut self) -> &mut [&'static mut dyn Pending] {
        // SAFETY: the thread uses them again when it has been woken, by `wake`, which takes this. Meanwhile they are used
        // by threads in a call, one at a time, like the objects that they refer to.
        unsafe { &mut *self.requests }
    }

    /// Returns whether the thread has what it waits for.
    fn is_done(&mut self) -> bool {
        let needs = self.needs;
        let mut requests = self.requests().iter_mut();
        let is_done = |request: &mut dyn Pending| match request.under_way() {
            None => true,
            Some(UnderWay::Driven { driver, handle, .. }) => driver.is_done(handle),
            Some(UnderWay::Watched(watch)) => watch.is_done(),
        };
        match needs {
            Needs::All => requests.all(|request| is_done(&mut **request)),
            Needs::Any => requests.any(|request| request.is_active() && is_done(&mut **request)),
            // If there is an error, or the requests have failed, the thread finds out why.
            Needs::Message(sought) => {
                !matches!(sought.find(), Ok(None))
                    || requests.all(|request| is_done(&mut **request))
            }
        }
    }

    /// Wakes the thread, which then waits for the lock.
    fn wake(self) {
        WANTED.fetch_add(1, Relaxed);
        lock().aside.retain(|&thread| thread != self.thread);
        WAKES.notify_all();
    }
}

/// That another thread wants to call.
struct Wanted(Rank);

impl Pending for Wanted {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        Some(UnderWay::Watched(self))
    }
}

impl Watch for Wanted {
    fn rank(&self) -> Rank {
        self.0.clone()
    }

    fn is_done(&self) -> bool {
        WANTED.load(Relaxed) > 0
    }

    /// A thread that wants the lock has counted itself before it looks, behind the mutex, whether to wake this one.
    fn raise(&self) {
        lock().sleeper = Some(self.0.clone());
    }

    fn lower(&self) {
        lock().sleeper = None;
    }

    fn waited(&self) -> (Operation, Vec<u64>) {
        (Operation::Receive, Vec::new())
    }

    fn call(&self) -> Option<String> {
        Some("a call of another thread".to_owned())
    }
}

/// Waits for all requests.
pub(crate) fn wait_all(requests: &mut [&mut dyn Pending]) -> Result<()> {
    match are_many() {
        false => communicator::wait_all(requests),
        true => until_done(requests, Needs::All, |requests| Ok(test_all(requests)?.then_some(()))),
    }
}

/// Waits until any request is done, and returns its place.
pub(crate) fn wait_any(requests: &mut [&mut dyn Pending]) -> Result<usize> {
    match are_many() {
        false => communicator::wait_any(requests),
        true => {
            until_done(requests, Needs::Any, |requests| Ok(test_some(requests)?.first().copied()))
        }
    }
}

/// Waits until any request is done, and returns the places of those that are.
pub(crate) fn wait_some(requests: &mut [&mut dyn Pending]) -> Result<Vec<usize>> {
    match are_many() {
        false => communicator::wait_some(requests),
        true => until_done(requests, Needs::Any, |requests| {
            Ok(Some(test_some(requests)?).filter(|done| !done.is_empty()))
        }),
    }
}

/// Waits until there is this message, and returns its status. As long as the requests are pending, it can come; returns
/// `None` if they are all done before.
pub(crate) fn find(
    requests: &mut [&mut dyn Pending],
    sought: Sought<'_>,
) -> Result<Option<Status>> {
    until_done(requests, Needs::Message(sought), |requests| match sought.find()? {
        Some(status) => Ok(Some(Some(status))),
        None => Ok(requests.iter_mut().all(|one| one.under_way().is_none()).then_some(None)),
    })
}

/// Lets other threads call while this function waits for something by itself.
pub(crate) fn outside<T>(wait: impl FnOnce() -> T) -> T {
    let (me, depth) = (me(), SHARED.depth.get());
    give();
    let result = wait();
    take(me, depth);
    result
}
