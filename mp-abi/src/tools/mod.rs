//! What tools can ask of the library (`MPI_T`): its settings, what it counts, and how both are grouped.
//!
//! | module | what it is |
//! |---|---|
//! | `control` | settings (control variables), and handles of them |
//! | `performance` | what is counted (performance variables); `sessions` has the handles of them |
//! | `waits` | the waits of this process, which are counted from when a tool asks for it |
//! | `enums`, `categories` | names of numbers; groups of variables |
//! | `kept` | objects that tools have handles of |
//! | `limit` | what tools have set before MPI begins |
//! | `rank` | the rank, if it can be used |
//!
//! Nothing here is in the way of messages: variables are read from what the library keeps anyway, and waits are counted
//! where a call waits for longer than some microseconds.
//!
//! Tools may begin before MPI does, and end after it. What belongs to the rank can be read and written while the calling
//! thread may call MPI.

pub(crate) mod categories;
pub(crate) mod control;
pub(crate) mod enums;
mod kept;
pub(crate) mod limit;
pub(crate) mod performance;
mod rank;
pub(crate) mod sessions;
pub(crate) mod waits;

use std::{
    ffi::{CStr, c_char, c_int},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::{constants::MPI_SUCCESS, error::Class, types::Handle};

/// An error is the class that the function returns: tools get no other, and no error handler is called.
pub(crate) type Result<T = ()> = std::result::Result<T, Class>;

/// How many tools have begun and not ended.
static TOOLS: AtomicUsize = AtomicUsize::new(0);

/// Notes that a tool begins.
pub(crate) fn begin() {
    TOOLS.fetch_add(1, Relaxed);
}

/// Notes that a tool ends.
pub(crate) fn end() -> Result {
    let less = TOOLS.fetch_update(Relaxed, Relaxed, |tools| tools.checked_sub(1));
    less.map(|_| ()).map_err(|_| Class::ToolNotInitialized)
}

/// Calls a function for a tool, and returns its result as MPI does.
pub(crate) fn answer(call: impl FnOnce() -> Result) -> c_int {
    let result = match TOOLS.load(Relaxed) {
        0 => Err(Class::ToolNotInitialized),
        _ => call(),
    };
    result.map_or_else(|class| class as c_int, |()| MPI_SUCCESS)
}

/// Returns what has an index.
pub(crate) fn at<T>(table: &[T], index: c_int) -> Result<&T> {
    let place = usize::try_from(index).map_err(|_| Class::ToolIndex)?;
    table.get(place).ok_or(Class::ToolIndex)
}

/// Returns the index of a name.
///
/// # Safety
/// The address is null, or that of a text that ends with a null character.
pub(crate) unsafe fn find(
    mut names: impl Iterator<Item = &'static str>,
    name: *const c_char,
) -> Result<c_int> {
    if name.is_null() {
        return Err(Class::ToolInvalid);
    }
    // SAFETY: the caller says so.
    let name = unsafe { CStr::from_ptr(name) };
    let place = names.position(|one| one.as_bytes() == name.to_bytes());
    place.map(|place| place as c_int).ok_or(Class::ToolName)
}

/// Writes a result that the tool must want.
///
/// # Safety
/// The address is null, or can be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result {
    if to.is_null() {
        return Err(Class::ToolInvalid);
    }
    // SAFETY: the caller says so.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a new handle, which is made only if there is a place for it.
///
/// # Safety
/// The address is null, or can be written to.
pub(crate) unsafe fn put_new(to: *mut Handle, make: impl FnOnce() -> Result<Handle>) -> Result {
    if to.is_null() {
        return Err(Class::ToolInvalid);
    }
    // SAFETY: the caller says so.
    unsafe { put(to, make()?) }
}

/// Frees the object of a handle, and makes the handle null.
///
/// # Safety
/// The address is null, or can be read and written to.
pub(crate) unsafe fn release(
    handle: *mut Handle,
    null: Handle,
    free: impl FnOnce(Handle) -> Result,
) -> Result {
    // SAFETY: the caller says so.
    let handle = unsafe { handle.as_mut() }.ok_or(Class::ToolInvalid)?;
    free(*handle)?;
    *handle = null;
    Ok(())
}

/// Writes a result, unless the tool does not want it.
///
/// # Safety
/// The address is null, or can be written to.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller says so.
        unsafe { to.write(value) };
    }
}

/// Writes as much of a text as there is room for, and the room that all of it needs. Without an address or room, writes
/// only the latter; without a place for the length, nothing.
///
/// # Safety
/// The addresses are null, or can be written to; the first has room for as many characters as the length says.
pub(crate) unsafe fn give_text(to: *mut c_char, length: *mut c_int, text: &str) {
    if length.is_null() {
        return;
    }
    // SAFETY: the caller says so, and the tool's memory is not the library's.
    unsafe {
        if let (false, room @ 1..) = (to.is_null(), *length) {
            let letters = text.len().min(room as usize - 1);
            to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), letters);
            to.add(letters).write(0);
        }
        *length = text.len() as c_int + 1;
    }
}

/// Writes as many of the numbers as there is room for.
///
/// # Safety
/// The address is null, or has room for as many numbers as the length says.
pub(crate) unsafe fn give_numbers(to: *mut c_int, room: c_int, numbers: &[c_int]) -> Result {
    let room = usize::try_from(room).map_err(|_| Class::ToolInvalid)?;
    let numbers = &numbers[..numbers.len().min(room)];
    if to.is_null() && !numbers.is_empty() {
        return Err(Class::ToolInvalid);
    }
    for (place, &number) in numbers.iter().enumerate() {
        // SAFETY: the caller says so.
        unsafe { to.add(place).write(number) };
    }
    Ok(())
}
