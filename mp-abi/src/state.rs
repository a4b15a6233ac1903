//! What there is once in a process: whether MPI is initialized, the rank, and the objects of predefined handles.

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

use mp_core::{Joined, Rank, World};
use nix::libc;

use crate::{
    constants::{
        MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE,
    },
    error::{Class, Error},
};

const BEFORE: u8 = 0;
const INITIALIZED: u8 = 1;
const FINALIZED: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// The number of sessions.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
static LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);
/// Whether calls take turns or are recorded.
static FRAMED: AtomicBool = AtomicBool::new(false);
static MAIN: Mutex<Option<ThreadId>> = Mutex::new(None);
static MEMBER: Member = Member(UnsafeCell::new(None));
static PREDEFINED: [AtomicPtr<c_void>; 4096] = [const { AtomicPtr::new(null_mut()) }; 4096];

/// The rank of this process. It is not in a variable of the thread, because programs may finalize after the thread's
/// variables are gone, in functions that they have given to `atexit`.
struct Member(UnsafeCell<Option<Joined>>);

// SAFETY: only threads that may call MPI use it (`may_call`), one at a time.
unsafe impl Sync for Member {}

/// A value of the rank that this process is. Ranks of tests are threads, and have one each.
pub(crate) struct OfRank<T>(T);

// SAFETY: one thread at a time calls MPI: only one at all, those that the program lets in, or the one with the lock.
unsafe impl<T> Sync for OfRank<T> {}

impl<T> OfRank<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    #[cfg(not(test))]
    pub fn with<R>(&self, call: impl FnOnce(&Self) -> R) -> R {
        call(self)
    }
}

impl<T> std::ops::Deref for OfRank<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Declares a variable that each rank has.
macro_rules! of_rank {
    ($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;) => {
        #[cfg(not(test))]
        $(#[$about])*
        static $name: crate::state::OfRank<$type> = crate::state::OfRank::new($value);
        #[cfg(test)]
        thread_local! {
            $(#[$about])*
            static $name: crate::state::OfRank<$type> = const { crate::state::OfRank::new($value) };
        }
    };
}
pub(crate) use of_rank;

fn main_thread() -> MutexGuard<'static, Option<ThreadId>> {
    MAIN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether this is the thread that has initialized MPI.
pub(crate) fn is_main_thread() -> bool {
    *main_thread() == Some(thread::current().id())
}

/// Returns whether this process has become a rank, which it may be no more.
pub(crate) fn has_joined() -> bool {
    main_thread().is_some()
}

/// Returns whether this thread may call MPI.
fn may_call() -> bool {
    thread_level() >= MPI_THREAD_SERIALIZED || is_main_thread()
}

/// Returns whether MPI was initialized. It still was when it is finalized.
pub(crate) fn is_initialized() -> bool {
    PHASE.load(Relaxed) != BEFORE
}

/// Returns whether MPI is finalized.
pub(crate) fn is_finalized() -> bool {
    PHASE.load(Relaxed) == FINALIZED
}

/// Counts a session that begins.
pub(crate) fn add_session() {
    SESSIONS.fetch_add(1, Relaxed);
}

/// Counts a session that ends.
pub(crate) fn remove_session() {
    SESSIONS.fetch_sub(1, Relaxed);
}

/// Returns whether there are sessions.
pub(crate) fn has_sessions() -> bool {
    SESSIONS.load(Relaxed) > 0
}

/// Returns what threads may call MPI.
#[inline]
pub(crate) fn thread_level() -> c_int {
    LEVEL.load(Relaxed)
}

/// Returns the lowest level that lets threads do what a number asks for.
pub(crate) fn level_for(wanted: c_int) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED];
    levels.into_iter().find(|&level| wanted <= level).unwrap_or(MPI_THREAD_MULTIPLE)
}

/// Lets threads call MPI as the standard says for this level, or for the level before if that was higher.
pub(crate) fn raise_thread_level(wanted: c_int) {
    LEVEL.fetch_max(level_for(wanted), Relaxed);
    if thread_level() >= MPI_THREAD_SERIALIZED {
        frame_calls();
    }
}

/// Has something done before and after all calls from now on.
pub(crate) fn frame_calls() {
    FRAMED.store(true, Relaxed);
}

/// Returns whether something is to be done before and after calls.
#[inline]
pub(crate) fn are_calls_framed() -> bool {
    FRAMED.load(Relaxed)
}

/// Makes this process a rank, unless it is one already. Returns whether it was made one now.
pub(crate) fn join() -> Result<bool, Error> {
    // The lock keeps out other threads that begin to use MPI.
    let mut main = main_thread();
    // SAFETY: nobody changes this without the lock, but for threads that may call MPI, which begin nothing meanwhile.
    if unsafe { (*MEMBER.0.get()).is_some() } {
        return Ok(false);
    }
    let joined = World::join()?;
    *main = Some(thread::current().id());
    // SAFETY: there was no rank, so that nobody has a reference to it.
    unsafe { *MEMBER.0.get() = Some(joined) };
    Ok(true)
}

/// Says that this thread has initialized MPI.
pub(crate) fn initialize() -> Result<(), Error> {
    if PHASE.compare_exchange(BEFORE, INITIALIZED, Relaxed, Relaxed).is_err() {
        return Err(Error::new(Class::Other, "MPI was initialized before in this process"));
    }
    *main_thread() = Some(thread::current().id());
    Ok(())
}

/// Says that MPI is finalized.
pub(crate) fn finalize() {
    PHASE.store(FINALIZED, Relaxed);
}

/// Returns the rank that this process is.
pub(crate) fn rank() -> Result<&'static Rank, Error> {
    let outside = || {
        Error::new(
            Class::Other,
            "MPI is not initialized, or it is finalized, or this is another thread",
        )
    };
    if !may_call() {
        return Err(outside());
    }
    // SAFETY: this thread may call MPI. The value stays until such a thread calls `leave` or `abort`, which it does when
    // all that uses the rank is gone, or never returns.
    unsafe { (*MEMBER.0.get()).as_ref() }.map(Joined::rank).ok_or_else(outside)
}

/// Ends the rank.
pub(crate) fn leave() -> Result<(), Error> {
    rank()?;
    // SAFETY: this thread may call MPI, as `rank` has found.
    let joined = unsafe { (*MEMBER.0.get()).take() };
    joined.map_or(Ok(()), Joined::leave)?;
    Ok(())
}

/// Ends this process and the other ranks.
pub(crate) fn abort(code: c_int, reason: &str) -> ! {
    // SAFETY: without a stream, the function writes what all streams of C hold.
    unsafe { libc::fflush(null_mut()) };
    if may_call() {
        // SAFETY: this thread may call MPI, and it does not return to what uses the rank.
        if let Some(joined) = unsafe { (*MEMBER.0.get()).take() } {
            joined.fail(reason);
        }
    }
    // What the system keeps of a status is eight bits.
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    // SAFETY: the function ends the process, and does nothing before.
    unsafe { libc::_exit(status) }
}

/// Sets the object of a predefined handle's number, which has to stay.
pub(crate) fn predefine<T>(number: usize, object: &'static T) {
    PREDEFINED[number].store((&raw const *object).cast_mut().cast(), Relaxed);
}

/// Removes the object of a predefined handle's number, and returns it.
///
/// # Safety
/// The object was [set](predefine) with this type.
pub(crate) unsafe fn take_predefined<T>(number: usize) -> Option<&'static T> {
    let object = PREDEFINED[number].swap(null_mut(), Relaxed);
    // SAFETY: as in `predefined`.
    unsafe { object.cast::<T>().as_ref() }
}

/// Returns the object of a predefined handle's number, if it has one.
///
/// # Safety
/// The object was [set](predefine) with this type.
#[inline]
pub(crate) unsafe fn predefined<T>(number: usize) -> Option<&'static T> {
    let object = PREDEFINED.get(number)?.load(Relaxed);
    // SAFETY: the caller says so, and only `predefine` writes to the table.
    unsafe { object.cast::<T>().as_ref() }
}
