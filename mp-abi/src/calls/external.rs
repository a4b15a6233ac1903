//! Packing by hand, in a representation that is the same on all machines.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    ffi::{c_char, c_int, c_void},
    slice,
};

use super::datatypes::room;
use crate::{
    datatype::{
        TypeRef,
        data::Data,
        external::{EXTERNAL32, decode, encode, size},
    },
    error::{Class, Error},
    program::{plainly, put, text},
    types::{Count, Handle},
};

/// Returns the bytes that elements have outside.
///
/// # Safety
/// The name is null, or text that ends with a zero.
unsafe fn bytes(name: *const c_char, count: Count, of: &TypeRef) -> Result<i64, Error> {
    // SAFETY: the caller says so.
    let name = unsafe { text(name)? };
    if name != EXTERNAL32 {
        let text = format!("there is no representation {:?}", String::from_utf8_lossy(name));
        return Err(Error::new(Class::UnsupportedDatarep, text));
    }
    match count {
        0.. => Ok(size(of).saturating_mul(count)),
        _ => Err(Error::new(Class::Count, format!("the count is negative: {count}"))),
    }
}

/// `MPI_Pack_external_size`.
pub unsafe fn pack_external_size(
    name: *const c_char,
    count: Count,
    datatype: Handle,
    to: *mut Count,
) -> c_int {
    plainly("MPI_Pack_external_size", || {
        // SAFETY: the program gives text that ends with a zero, a datatype, and a place for the answer.
        unsafe { put(to, bytes(name, count, &TypeRef::keep(datatype)?)?) }
    })
}

/// `MPI_Pack_external`.
pub unsafe fn pack_external(
    name: *const c_char,
    from: *const c_void,
    count: Count,
    datatype: Handle,
    to: *mut c_void,
    length: Count,
    position: *mut Count,
) -> c_int {
    plainly("MPI_Pack_external", || {
        // SAFETY: the program gives text that ends with a zero, a datatype, data that can be read, a buffer of this
        // length, and a position in it.
        unsafe {
            let of = TypeRef::keep(datatype)?;
            let bytes = bytes(name, count, &of)?;
            let data = Data::new(from, count, datatype)?;
            let (at, room) = room(length, position)?;
            if bytes > room as i64 {
                let text = format!("{bytes} bytes do not fit into the last {room} of the buffer");
                return Err(Error::new(Class::Truncate, text));
            }
            let encoded = encode(&of, &data.packed())?;
            if !encoded.is_empty() {
                to.cast::<u8>().add(at).copy_from(encoded.as_ptr(), encoded.len());
            }
            put(position, (at + encoded.len()) as Count)
        }
    })
}

/// `MPI_Unpack_external`.
pub unsafe fn unpack_external(
    name: *const c_char,
    from: *const c_void,
    length: Count,
    position: *mut Count,
    to: *mut c_void,
    count: Count,
    datatype: Handle,
) -> c_int {
    plainly("MPI_Unpack_external", || {
        // SAFETY: the program gives text that ends with a zero, a datatype, a buffer of this length, a position in it,
        // and data that can be written to.
        unsafe {
            let of = TypeRef::keep(datatype)?;
            let bytes = bytes(name, count, &of)?;
            let data = Data::new(to, count, datatype)?;
            let (at, room) = room(length, position)?;
            let Some(bytes) = usize::try_from(bytes).ok().filter(|&bytes| bytes <= room) else {
                let text = format!("{bytes} bytes are wanted of the last {room} of the buffer");
                return Err(Error::new(Class::Truncate, text));
            };
            if bytes > 0 {
                let encoded = slice::from_raw_parts(from.cast::<u8>().add(at), bytes);
                data.unpack(&decode(&of, encoded)?);
            }
            put(position, (at + bytes) as Count)
        }
    })
}
