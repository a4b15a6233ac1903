//! What there is once in a process: whether MPI is initialized, the rank, and the objects of predefined handles.

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicPtr, AtomicU8, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

use mp_core::{Joined, Rank, World};
use nix::libc;

use crate::{
    constants::{MPI_THREAD_FUNNELED, MPI_THREAD_SINGLE},
    error::{Class, Error},
    types::Handle,
};

const BEFORE: u8 = 0;
const INITIALIZED: u8 = 1;
const FINALIZED: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
static LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);
static MAIN: OnceLock<ThreadId> = OnceLock::new();
static MEMBER: Member = Member(UnsafeCell::new(None));
static PREDEFINED: [AtomicPtr<c_void>; 4096] = [const { AtomicPtr::new(null_mut()) }; 4096];

/// The rank of this process. It is not in a variable of the thread, because programs may finalize after the thread's
/// variables are gone, in functions that they have given to `atexit`.
struct Member(UnsafeCell<Option<Joined>>);

// SAFETY: only the thread that has initialized MPI uses it (`is_main_thread`).
unsafe impl Sync for Member {}

/// Returns whether this is the thread that has initialized MPI.
pub(crate) fn is_main_thread() -> bool {
    MAIN.get() == Some(&thread::current().id())
}

/// Returns whether MPI was initialized. It still was when it is finalized.
pub(crate) fn is_initialized() -> bool {
    PHASE.load(Relaxed) != BEFORE
}

/// Returns whether MPI is finalized.
pub(crate) fn is_finalized() -> bool {
    PHASE.load(Relaxed) == FINALIZED
}

/// Returns what threads may call MPI.
pub(crate) fn thread_level() -> c_int {
    LEVEL.load(Relaxed)
}

/// Makes this process a rank, whose threads want to call MPI as the standard says for this level.
pub(crate) fn join(level: c_int) -> Result<&'static Rank, Error> {
    if is_initialized() {
        return Err(Error::new(Class::Other, "MPI was initialized before in this process"));
    }
    let joined = World::join()?;
    if MAIN.set(thread::current().id()).is_err() {
        return Err(Error::new(Class::Other, "another thread initializes MPI"));
    }
    // SAFETY: this is the thread that initializes MPI, and nobody has a reference.
    unsafe { *MEMBER.0.get() = Some(joined) };
    LEVEL.store(level.min(MPI_THREAD_FUNNELED), Relaxed);
    PHASE.store(INITIALIZED, Relaxed);
    rank()
}

/// Returns the rank that this process is.
pub(crate) fn rank() -> Result<&'static Rank, Error> {
    let outside = || {
        Error::new(
            Class::Other,
            "MPI is not initialized, or it is finalized, or this is another thread",
        )
    };
    if !is_main_thread() {
        return Err(outside());
    }
    // SAFETY: this is the thread that has initialized MPI. The value stays until it calls `leave` or `abort`, which it
    // does when all that uses the rank is gone, or never returns.
    unsafe { (*MEMBER.0.get()).as_ref() }.map(Joined::rank).ok_or_else(outside)
}

/// Ends the rank. From now on MPI is finalized.
pub(crate) fn leave() -> Result<(), Error> {
    rank()?;
    // SAFETY: this is the thread that has initialized MPI, as `rank` has found.
    let joined = unsafe { (*MEMBER.0.get()).take() };
    PHASE.store(FINALIZED, Relaxed);
    joined.map_or(Ok(()), Joined::leave)?;
    Ok(())
}

/// Ends this process and the other ranks.
pub(crate) fn abort(code: c_int, reason: &str) -> ! {
    // SAFETY: without a stream, the function writes what all streams of C hold.
    unsafe { libc::fflush(null_mut()) };
    if is_main_thread() {
        // SAFETY: this is the thread that has initialized MPI, and it does not return to what uses the rank.
        if let Some(joined) = unsafe { (*MEMBER.0.get()).take() } {
            joined.fail(reason);
        }
    }
    // What the system keeps of a status is eight bits.
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    // SAFETY: the function ends the process, and does nothing before.
    unsafe { libc::_exit(status) }
}

/// Sets the object of a predefined handle, which has to stay.
pub(crate) fn predefine<T>(handle: Handle, object: &'static T) {
    PREDEFINED[handle.addr()].store((&raw const *object).cast_mut().cast(), Relaxed);
}

/// Removes the object of a predefined handle, and returns it.
///
/// # Safety
/// The object was [set](predefine) with this type.
pub(crate) unsafe fn take_predefined<T>(handle: Handle) -> Option<&'static T> {
    let object = PREDEFINED[handle.addr()].swap(null_mut(), Relaxed);
    // SAFETY: as in `predefined`.
    unsafe { object.cast::<T>().as_ref() }
}

/// Returns the object of a predefined handle, if it has one.
///
/// # Safety
/// The object was [set](predefine) with this type.
#[inline]
pub(crate) unsafe fn predefined<T>(number: usize) -> Option<&'static T> {
    let object = PREDEFINED.get(number)?.load(Relaxed);
    // SAFETY: the caller says so, and only `predefine` writes to the table.
    unsafe { object.cast::<T>().as_ref() }
}
