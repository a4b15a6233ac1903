//! Info objects.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{CStr, c_char, c_int};

use crate::{
    constants::MPI_INFO_NULL,
    error::{Class, Error},
    info::Info,
    program::{plainly, put, put_terminated, text},
    types::Handle,
};

/// `MPI_Info_create`.
pub unsafe fn info_create(info: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_Info_create", || unsafe { put(info, Info::default().into_handle()) })
}

/// `MPI_Info_create_env`.
pub unsafe fn info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut Handle) -> c_int {
    plainly("MPI_Info_create_env", || {
        let mut arguments = Vec::new();
        if !argv.is_null() {
            for place in 0..argc.max(0) as usize {
                // SAFETY: the program gives as many arguments as it says.
                let argument = unsafe { CStr::from_ptr(*argv.add(place)) };
                arguments.push(argument.to_string_lossy().into_owned());
            }
        }
        // SAFETY: the program gives a place for the handle.
        unsafe { put(info, Info::of_environment(&arguments).into_handle()) }
    })
}

/// `MPI_Info_dup`.
pub unsafe fn info_dup(info: Handle, copy: *mut Handle) -> c_int {
    plainly("MPI_Info_dup", || {
        // SAFETY: the program gives a valid handle, and a place for the other.
        unsafe { put(copy, Info::look(info)?.clone().into_handle()) }
    })
}

/// `MPI_Info_free`.
pub unsafe fn info_free(info: *mut Handle) -> c_int {
    plainly("MPI_Info_free", || {
        if info.is_null() {
            return Err(Error::new(Class::Arg, "the address of the handle is a null pointer"));
        }
        // SAFETY: the program gives the address of a valid handle, and does not use that any more.
        unsafe {
            Info::free(*info)?;
            *info = MPI_INFO_NULL;
        }
        Ok(())
    })
}

/// `MPI_Info_set`.
pub unsafe fn info_set(info: Handle, key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the program gives a valid handle and two texts.
    plainly("MPI_Info_set", || unsafe { Info::own(info)?.set(text(key)?, text(value)?) })
}

/// `MPI_Info_delete`.
pub unsafe fn info_delete(info: Handle, key: *const c_char) -> c_int {
    // SAFETY: the program gives a valid handle and a text.
    plainly("MPI_Info_delete", || unsafe { Info::own(info)?.delete(text(key)?) })
}

/// `MPI_Info_get`.
pub unsafe fn info_get(
    info: Handle,
    key: *const c_char,
    length: c_int,
    value: *mut c_char,
    is_there: *mut c_int,
) -> c_int {
    plainly("MPI_Info_get", || {
        // SAFETY: the program gives a valid handle, a text, and room for one more character than it says.
        unsafe {
            let found = Info::look(info)?.get(text(key)?)?;
            put(is_there, found.is_some().into())?;
            let Some(found) = found else { return Ok(()) };
            let Ok(room) = usize::try_from(length) else {
                let text = format!("the length of the value is negative: {length}");
                return Err(Error::new(Class::Arg, text));
            };
            put_terminated(value, &found[..found.len().min(room)])
        }
    })
}

/// `MPI_Info_get_string`.
pub unsafe fn info_get_string(
    info: Handle,
    key: *const c_char,
    room: *mut c_int,
    value: *mut c_char,
    is_there: *mut c_int,
) -> c_int {
    plainly("MPI_Info_get_string", || {
        // SAFETY: the program gives a valid handle, a text, a number, and room for as many characters as it says.
        unsafe {
            let found = Info::look(info)?.get(text(key)?)?;
            put(is_there, found.is_some().into())?;
            let Some(found) = found else { return Ok(()) };
            if room.is_null() {
                return Err(Error::new(Class::Arg, "the address of the length is a null pointer"));
            }
            if let letters @ 0.. = *room - 1 {
                put_terminated(value, &found[..found.len().min(letters as usize)])?;
            }
            *room = found.len() as c_int + 1;
            Ok(())
        }
    })
}

/// `MPI_Info_get_valuelen`.
pub unsafe fn info_get_valuelen(
    info: Handle,
    key: *const c_char,
    length: *mut c_int,
    is_there: *mut c_int,
) -> c_int {
    plainly("MPI_Info_get_valuelen", || {
        // SAFETY: the program gives a valid handle, a text, and places for the numbers.
        unsafe {
            let found = Info::look(info)?.get(text(key)?)?;
            put(is_there, found.is_some().into())?;
            found.map_or(Ok(()), |found| put(length, found.len() as c_int))
        }
    })
}

/// `MPI_Info_get_nkeys`.
pub unsafe fn info_get_nkeys(info: Handle, count: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the number.
    plainly("MPI_Info_get_nkeys", || unsafe {
        put(count, Info::look(info)?.pairs().len() as c_int)
    })
}

/// `MPI_Info_get_nthkey`.
pub unsafe fn info_get_nthkey(info: Handle, place: c_int, key: *mut c_char) -> c_int {
    plainly("MPI_Info_get_nthkey", || {
        // SAFETY: the program gives a valid handle, and room for the longest key.
        unsafe {
            let pairs = Info::look(info)?.pairs();
            let pair = usize::try_from(place).ok().and_then(|place| pairs.get(place));
            let Some((found, _)) = pair else {
                let text = format!("there is no key {place} of {}", pairs.len());
                return Err(Error::new(Class::Arg, text));
            };
            put_terminated(key, found)
        }
    })
}
