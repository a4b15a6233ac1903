//! What crosses the border to the program: results, texts and codes.

use std::ffi::{CStr, c_char, c_int};

use crate::{
    constants::MPI_SUCCESS,
    error::{Class, Error},
};

/// Returns the result of a function without an object as MPI does.
#[inline]
pub(crate) fn plainly(function: &str, call: impl FnOnce() -> Result<(), Error>) -> c_int {
    match call() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => error.raise(function, None),
    }
}

/// Writes a result where the program wants it.
///
/// # Safety
/// The address is null, or can be written to.
#[inline]
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Error> {
    check_place(to)?;
    // SAFETY: the caller says so.
    unsafe { to.write(value) };
    Ok(())
}

/// Returns an error if there is no place for a result.
#[inline]
pub(crate) fn check_place<T>(to: *mut T) -> Result<(), Error> {
    match to.is_null() {
        true => Err(Error::new(Class::Arg, "the address of a result is a null pointer")),
        false => Ok(()),
    }
}

/// Writes a text and its length where the program wants them. What is too long is cut.
///
/// # Safety
/// The first address is null, or that of `room` characters. The second is null, or can be written to.
pub(crate) unsafe fn put_text(
    to: *mut c_char,
    room: c_int,
    length: *mut c_int,
    text: &[u8],
) -> Result<(), Error> {
    let text = &text[..text.len().min(room as usize - 1)];
    // SAFETY: the caller says so.
    unsafe {
        put(length, text.len() as c_int)?;
        put_terminated(to, text)
    }
}

/// Writes a text and a null character where the program wants them.
///
/// # Safety
/// The address is null, or has room for them.
pub(crate) unsafe fn put_terminated(to: *mut c_char, text: &[u8]) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::new(Class::Arg, "the address of a text is a null pointer"));
    }
    // SAFETY: the caller says so, and the program's memory is not the library's.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// Returns a text of the program.
///
/// # Safety
/// The address is null, or that of a text that ends with a null character and stays during `'a`.
pub(crate) unsafe fn text<'a>(at: *const c_char) -> Result<&'a [u8], Error> {
    if at.is_null() {
        return Err(Error::new(Class::Arg, "a text is a null pointer"));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { CStr::from_ptr(at) }.to_bytes())
}
