//! The beginning and the end: for the world (from `MPI_Init` to `MPI_Finalize`), and for sessions.
//!
//! The first that begins makes the process a rank. `MPI_Finalize` ends the rank, unless there are sessions. Without that,
//! the process remains a rank until its exit, because other ranks need not begin and end as many sessions.

use std::{
    ffi::c_int,
    rc::Rc,
    sync::{Mutex, Once, PoisonError},
};

use mp_collectives::{collectives::Settings, communicator::Communicator};
use mp_delegate::threads::Progress;
use nix::libc;

use crate::{
    buffered,
    comm::Comm,
    connecting::forget_ports,
    constants::{MPI_COMM_SELF, MPI_COMM_WORLD, MPI_THREAD_MULTIPLE},
    errhandler::{Handler, set_default},
    error::Error,
    everyone::{all, drop_everyone, set_all, take_all},
    founding::{Founders, tag_of},
    request, spawning, state, threads,
    tools::limit,
    trace,
};

type Result<T> = std::result::Result<T, Error>;

/// Makes this process a rank, unless it is one already.
fn join() -> Result<()> {
    static BEGINNING: Mutex<()> = Mutex::new(());
    let _beginning = BEGINNING.lock().unwrap_or_else(PoisonError::into_inner);
    if !state::join()? {
        return Ok(());
    }
    let all = Communicator::family(state::rank()?)?;
    all.set_name("MPI_COMM_WORLD");
    // The functions of the program's operations are called in its own threads, and only within MPI.
    all.set_nonblocking(Progress::InCalls)?;
    // Where ranks share cores, waiting until others have copied costs more than a copy.
    let rank = state::rank()?;
    if rank.size() <= rank.cores() {
        all.set_collectives(Settings { direct: true, ..Settings::default() })?;
        all.set_direct();
    }
    limit::apply(&all);
    set_all(Comm::new(all, "MPI_COMM_WORLD", Handler::Fatal));
    trace::begin()
}

/// Returns whether threads of this rank call MPI at once.
pub(crate) fn has_threads() -> bool {
    state::thread_level() == MPI_THREAD_MULTIPLE
}

/// Begins the world, with the two communicators that there are from the beginning.
pub(crate) fn begin_world(level: c_int) -> Result<()> {
    state::initialize()?;
    join()?;
    state::raise_thread_level(level);
    // From here on, other threads may call.
    let _turn = threads::enter();
    let of_all = all()?;
    let joint = of_all.communicator.joint();
    let group = of_all.group();
    let (via, tag) = (&of_all.communicator, tag_of(0)?);
    let founders = Founders { via, group: &group, tag, has_threads: has_threads() };
    let (has_threads, _) = founders.agree(|| Ok(0))?;
    of_all.set_threads(has_threads);
    let alone = joint.communicator_of(&[group.me], joint.number()?, "MPI_COMM_SELF")?;
    let alone = Comm::new(alone, "MPI_COMM_SELF", Handler::Fatal).threaded(has_threads);
    state::predefine(MPI_COMM_WORLD.addr(), of_all);
    set_default(Some(alone.predefine(MPI_COMM_SELF, MPI_COMM_SELF.addr())));
    spawning::meet_parent()
}

/// Ends the world.
pub(crate) fn end_world() -> Result<()> {
    let all = all()?;
    // SAFETY: `begin_world` has made the communicator, and MPI can still be used in the program's functions.
    if let Ok(alone) = unsafe { Comm::look(MPI_COMM_SELF) } {
        // SAFETY: as above.
        unsafe { alone.attributes.delete_all(MPI_COMM_SELF)? };
    }
    spawning::leave_parent();
    set_default(None);
    // SAFETY: both were set by `begin_world`, with this type. From now on the program does not use them.
    let [_, alone] = [MPI_COMM_WORLD, MPI_COMM_SELF]
        .map(|handle| unsafe { state::take_predefined::<Comm>(handle.addr()) });
    // No rank ends while others still want to send it something. Of a rank that was lost the launcher tells.
    let _ = all.communicator.barrier();
    state::finalize();
    if let Some(alone) = alone {
        // SAFETY: nobody uses the communicator any more.
        unsafe { drop_predefined(alone) };
    }
    if state::has_sessions() { Ok(()) } else { leave() }
}

/// Drops an object that was predefined.
///
/// # Safety
/// Nobody uses it any more.
unsafe fn drop_predefined(comm: &'static Comm) {
    // SAFETY: `Comm::predefine` has taken it out of an `Rc`.
    drop(unsafe { Rc::from_raw(comm) });
}

/// Ends the rank.
fn leave() -> Result<()> {
    request::drop_freed();
    buffered::let_go();
    forget_ports();
    drop_everyone();
    if let Some(all) = take_all() {
        // SAFETY: the world has ended, and there is no session.
        unsafe { drop_predefined(all) };
    }
    trace::end();
    state::leave()
}

/// Begins a session.
pub(crate) fn begin_session(level: c_int) -> Result<()> {
    static AT_EXIT: Once = Once::new();
    join()?;
    state::raise_thread_level(level);
    state::add_session();
    AT_EXIT.call_once(|| {
        // If there is no memory for that, the rank is one that has not left.
        // SAFETY: the function only keeps the address of the other, which stays, because the library is not unloaded.
        let _ = unsafe { libc::atexit(at_exit) };
    });
    // From here on, other threads may call.
    drop(threads::enter());
    Ok(())
}

/// Ends a session.
pub(crate) fn end_session() {
    state::remove_session();
}

/// Ends the rank at the exit of a process whose sessions have ended.
extern "C" fn at_exit() {
    let _turn = threads::enter();
    let Ok(all) = all() else { return };
    let is_world_open = state::is_initialized() && !state::is_finalized();
    if is_world_open || state::has_sessions() {
        return;
    }
    if !state::is_initialized() {
        // As at the end of the world.
        let _ = all.communicator.barrier();
    }
    // Of ranks that have failed the launcher tells.
    let _ = leave();
}
