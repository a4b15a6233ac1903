//! How the libraries' functions call those of this crate: plainly, or in a frame, which is a turn of the thread and a record
//! of the call.

use std::ffi::c_int;

use crate::{
    state,
    threads::enter,
    trace::{self, Argument, Told},
};

/// Returns whether calls are to be made in turns, because other threads than this one may call, or are recorded.
#[inline(always)]
pub fn are_calls_framed() -> bool {
    state::are_calls_framed()
}

/// Calls a function in a turn of this thread, if threads take turns.
#[cold]
#[inline(never)]
pub fn call_in_turn<R>(function: impl FnOnce() -> R) -> R {
    let _turn = enter();
    function()
}

/// Calls a function of this name and kind in a turn of this thread, and records the call with these arguments, as far as
/// that is wanted.
///
/// # Safety
/// The program has given the arguments as the standard says.
#[cold]
#[inline(never)]
pub unsafe fn call_in_frame<R, const N: usize>(
    (name, kind): (&'static str, &'static str),
    given: impl FnOnce() -> [Argument; N],
    function: impl FnOnce() -> R,
) -> R {
    let _turn = enter();
    // SAFETY: the caller says so.
    let _call = unsafe { trace::call(name, kind, given) };
    function()
}

/// Does the same with a function that gives the program a status of what it has received.
///
/// # Safety
/// As for [`call_in_frame`], zeros are a status, and the function gets the address of one.
#[cold]
#[inline(never)]
pub unsafe fn receive_in_frame<S: Told, const N: usize>(
    (name, kind): (&'static str, &'static str),
    given: impl FnOnce() -> [Argument; N],
    status: *mut S,
    function: impl FnOnce(*mut S) -> c_int,
) -> c_int {
    let _turn = enter();
    // SAFETY: the caller says so.
    let mut call = unsafe { trace::call(name, kind, given) };
    // SAFETY: the caller says so, and receives free no communicator.
    unsafe { trace::with_status(&mut call, status, function) }
}
