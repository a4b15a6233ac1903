//! Fences, post and start, and locks.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::c_int;

use crate::{
    group::Group,
    program::put,
    types::Handle,
    window::{Win, within},
};

/// `MPI_Win_fence`.
pub unsafe fn win_fence(assert: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_fence", |window| window.fence(assert)) }
}

/// `MPI_Win_start`.
pub unsafe fn win_start(group: Handle, _assert: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives two valid handles.
    unsafe { within(window, "MPI_Win_start", |window| window.start(Group::look(group)?)) }
}

/// `MPI_Win_complete`.
pub unsafe fn win_complete(window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_complete", Win::complete) }
}

/// `MPI_Win_post`.
pub unsafe fn win_post(group: Handle, _assert: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives two valid handles.
    unsafe { within(window, "MPI_Win_post", |window| window.post(Group::look(group)?)) }
}

/// `MPI_Win_wait`.
pub unsafe fn win_wait(window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_wait", Win::wait) }
}

/// `MPI_Win_test`.
pub unsafe fn win_test(window: Handle, flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe { within(window, "MPI_Win_test", |window| put(flag, window.test()?.into())) }
}

/// `MPI_Win_lock`.
pub unsafe fn win_lock(kind: c_int, rank: c_int, assert: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_lock", |window| window.lock(kind, rank, assert)) }
}

/// `MPI_Win_unlock`.
pub unsafe fn win_unlock(rank: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_unlock", |window| window.unlock(rank)) }
}

/// `MPI_Win_lock_all`.
pub unsafe fn win_lock_all(assert: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_lock_all", |window| window.lock_all(assert)) }
}

/// `MPI_Win_unlock_all`.
pub unsafe fn win_unlock_all(window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_unlock_all", Win::unlock_all) }
}

/// `MPI_Win_flush`.
pub unsafe fn win_flush(rank: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_flush", |window| window.flush(Some(rank))) }
}

/// `MPI_Win_flush_local`.
pub unsafe fn win_flush_local(rank: c_int, window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_flush_local", |window| window.flush(Some(rank))) }
}

/// `MPI_Win_flush_all`.
pub unsafe fn win_flush_all(window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_flush_all", |window| window.flush(None)) }
}

/// `MPI_Win_flush_local_all`.
pub unsafe fn win_flush_local_all(window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe { within(window, "MPI_Win_flush_local_all", |window| window.flush(None)) }
}

/// `MPI_Win_sync`.
pub unsafe fn win_sync(window: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(window, "MPI_Win_sync", |window| {
            window.sync();
            Ok(())
        })
    }
}
