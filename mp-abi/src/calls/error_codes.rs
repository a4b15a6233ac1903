//! Error classes and codes, and error handlers.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    collections::BTreeMap,
    ffi::{c_char, c_int},
    rc::Rc,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use crate::{
    callbacks::Kind,
    constants::*,
    errhandler::{Errhandler, Handler, last, release},
    error::{Class, Error},
    program::{plainly, put, put_text, text},
    types::{ErrhandlerFunction, Handle},
};

/// A class or a code that the program has added.
struct Added {
    class: c_int,
    text: Vec<u8>,
}

static ADDED: Mutex<BTreeMap<c_int, Added>> = Mutex::new(BTreeMap::new());

/// The largest class or code that there was, which is the value of the attribute `MPI_LASTUSEDCODE`.
pub(crate) static LAST_USED: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);

fn added() -> MutexGuard<'static, BTreeMap<c_int, Added>> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(code: c_int) -> Error {
    Error::new(Class::Arg, format!("{code} is not an error that there is"))
}

/// Returns what an error code means, if it is not of the program.
fn predefined(code: c_int) -> Option<String> {
    let text = match code {
        MPI_SUCCESS => "MPI_SUCCESS: no error".to_owned(),
        _ => {
            let (name, text) = Class::find(code)?.describe();
            format!("{name}: {text}")
        }
    };
    Some(text)
}

/// Returns what an error was about, if it was the last one of this thread, or else what its code means.
fn described(code: c_int) -> Option<String> {
    let facts = Class::find(code).and_then(|class| Some((class.describe().0, last(code)?)));
    match facts {
        Some((name, facts)) => Some(format!("{name}: {facts}")),
        None => predefined(code),
    }
}

/// Adds a code of a class, or a class if that is `None`.
fn add(class: Option<c_int>) -> Result<c_int, Error> {
    let mut added = added();
    if let Some(class) = class {
        let is_class = match added.get(&class) {
            Some(known) => known.class == class,
            None => predefined(class).is_some(),
        };
        if !is_class {
            return Err(unknown(class));
        }
    }
    let code = LAST_USED.fetch_add(1, Relaxed) + 1;
    added.insert(code, Added { class: class.unwrap_or(code), text: Vec::new() });
    Ok(code)
}

/// `MPI_Error_class`.
pub unsafe fn error_class(code: c_int, class: *mut c_int) -> c_int {
    plainly("MPI_Error_class", || {
        let known = match added().get(&code) {
            Some(known) => known.class,
            None => predefined(code).map(|_| code).ok_or_else(|| unknown(code))?,
        };
        // SAFETY: the program gives a place for the number.
        unsafe { put(class, known) }
    })
}

/// `MPI_Error_string`. Says what was wrong, if the code is that of the last error of this thread.
pub unsafe fn error_string(code: c_int, string: *mut c_char, length: *mut c_int) -> c_int {
    plainly("MPI_Error_string", || {
        let known = added().get(&code).map(|known| known.text.clone());
        let text = match known {
            Some(text) => text,
            None => described(code).ok_or_else(|| unknown(code))?.into_bytes(),
        };
        // SAFETY: the program gives as much room as the standard says, and a place for the length.
        unsafe { put_text(string, MPI_MAX_ERROR_STRING, length, &text) }
    })
}

/// `MPI_Add_error_class`.
pub unsafe fn add_error_class(class: *mut c_int) -> c_int {
    // SAFETY: the program gives a place for the number.
    plainly("MPI_Add_error_class", || unsafe { put(class, add(None)?) })
}

/// `MPI_Add_error_code`.
pub unsafe fn add_error_code(class: c_int, code: *mut c_int) -> c_int {
    // SAFETY: the program gives a place for the number.
    plainly("MPI_Add_error_code", || unsafe { put(code, add(Some(class))?) })
}

/// `MPI_Add_error_string`.
pub unsafe fn add_error_string(code: c_int, string: *const c_char) -> c_int {
    plainly("MPI_Add_error_string", || {
        // SAFETY: the program gives a text.
        let string = unsafe { text(string)? };
        added().get_mut(&code).ok_or_else(|| unknown(code))?.text = string.to_owned();
        Ok(())
    })
}

/// Removes a class or a code.
fn remove(code: c_int, is_class: bool) -> Result<(), Error> {
    let mut added = added();
    let refused = |what: &str| Err(Error::new(Class::Other, format!("{code} still has {what}")));
    if is_class && added.iter().any(|(&other, one)| one.class == code && other != code) {
        return refused("codes");
    }
    match added.get(&code) {
        Some(one) if (one.class == code) != is_class => return Err(unknown(code)),
        Some(one) if !one.text.is_empty() => return refused("a text"),
        Some(_) => added.remove(&code),
        None => return Err(unknown(code)),
    };
    Ok(())
}

/// `MPI_Remove_error_class`.
pub unsafe fn remove_error_class(class: c_int) -> c_int {
    plainly("MPI_Remove_error_class", || remove(class, true))
}

/// `MPI_Remove_error_code`.
pub unsafe fn remove_error_code(code: c_int) -> c_int {
    plainly("MPI_Remove_error_code", || remove(code, false))
}

/// `MPI_Remove_error_string`.
pub unsafe fn remove_error_string(code: c_int) -> c_int {
    plainly("MPI_Remove_error_string", || {
        added().get_mut(&code).ok_or_else(|| unknown(code))?.text.clear();
        Ok(())
    })
}

/// Makes an error handler.
///
/// # Safety
/// The address is null, or can be written to.
unsafe fn create(
    kind: Kind,
    function: Option<ErrhandlerFunction>,
    errhandler: *mut Handle,
) -> Result<(), Error> {
    let null = || Error::new(Class::Arg, "the function is a null pointer");
    let made = Errhandler { kind, function: function.ok_or_else(null)? };
    // SAFETY: the caller says so.
    unsafe { put(errhandler, Handler::Program(Rc::new(made)).into_handle()) }
}

/// `MPI_Comm_create_errhandler`.
pub unsafe fn comm_create_errhandler(
    function: Option<ErrhandlerFunction>,
    errhandler: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_Comm_create_errhandler", || unsafe { create(Kind::Comm, function, errhandler) })
}

/// `MPI_Win_create_errhandler`.
pub unsafe fn win_create_errhandler(
    function: Option<ErrhandlerFunction>,
    errhandler: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_Win_create_errhandler", || unsafe { create(Kind::Win, function, errhandler) })
}

/// `MPI_File_create_errhandler`.
pub unsafe fn file_create_errhandler(
    function: Option<ErrhandlerFunction>,
    errhandler: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_File_create_errhandler", || unsafe { create(Kind::File, function, errhandler) })
}

/// `MPI_Session_create_errhandler`.
pub unsafe fn session_create_errhandler(
    function: Option<ErrhandlerFunction>,
    errhandler: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_Session_create_errhandler", || unsafe {
        create(Kind::Session, function, errhandler)
    })
}

/// `MPI_Errhandler_free`.
pub unsafe fn errhandler_free(errhandler: *mut Handle) -> c_int {
    plainly("MPI_Errhandler_free", || {
        if errhandler.is_null() {
            return Err(Error::new(Class::Arg, "the address of the handle is a null pointer"));
        }
        // SAFETY: the program gives the address of a valid handle, and does not use that any more.
        unsafe {
            release(*errhandler)?;
            *errhandler = MPI_ERRHANDLER_NULL;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_text_or_codes_stays() {
        let (mut class, mut code) = (0, 0);
        // SAFETY: the test gives places for the numbers, and texts.
        unsafe {
            assert_eq!(add_error_class(&mut class), 0);
            assert_eq!(add_error_string(class, c"class".as_ptr()), 0);
            assert_eq!(add_error_code(class, &mut code), 0);
            assert_eq!(add_error_string(code, c"code".as_ptr()), 0);
            assert!(remove(class, true).is_err() && remove(code, false).is_err());
            assert_eq!(remove_error_string(code), 0);
            assert!(remove(code, false).is_ok() && remove(class, true).is_err());
            assert_eq!(remove_error_string(class), 0);
            assert!(remove(class, true).is_ok() && remove(class, true).is_err());
        }
    }
}
