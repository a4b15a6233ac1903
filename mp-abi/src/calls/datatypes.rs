//! Datatypes, and packing by hand.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::{
    ffi::{c_char, c_int, c_void},
    ptr::{null_mut, without_provenance_mut},
    slice,
    sync::{Arc, atomic::Ordering},
};

use crate::{
    calls::communicators::cut,
    comm::{array, within},
    constants::{
        MPI_COMBINER_NAMED, MPI_DATATYPE_NULL, MPI_MAX_OBJECT_NAME, MPI_TYPECLASS_COMPLEX,
        MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL,
    },
    datatype::{Datatype, TypeRef, arrays, constructors as make, data::Data, look},
    error::{Class, Error},
    ints::Ints,
    program::{plainly, put, put_text, text},
    types::{Count, Handle},
};

/// Makes a datatype from another one.
///
/// # Safety
/// The handle is one of a datatype, and the address is null or can be written to.
unsafe fn made_of(
    of: Handle,
    to: *mut Handle,
    function: &'static str,
    make: impl FnOnce(&TypeRef) -> Result<Datatype, Error>,
) -> c_int {
    plainly(function, || {
        // SAFETY: the caller says so.
        unsafe {
            // Without a result the program has no type to free.
            put(to, MPI_DATATYPE_NULL)?;
            let made = make(&TypeRef::keep(of)?)?;
            put(to, TypeRef::Made(Arc::new(made)).into_handle())
        }
    })
}

/// Returns the numbers of an array of the program.
///
/// # Safety
/// The array has as many numbers, or is null.
unsafe fn numbers(from: Ints, count: Count) -> Result<Vec<i64>, Error> {
    match usize::try_from(count) {
        Ok(0) => Ok(Vec::new()),
        Ok(_) if from.is_null() => Err(Error::new(Class::Arg, "an array is a null pointer")),
        // SAFETY: the caller says so.
        Ok(count) => Ok((0..count).map(|place| unsafe { from.get(place) }).collect()),
        Err(_) => Err(Error::new(Class::Count, format!("the count is negative: {count}"))),
    }
}

/// `MPI_Type_contiguous`.
pub unsafe fn type_contiguous(count: Count, of: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a datatype, and a place for the result.
    unsafe { made_of(of, to, "MPI_Type_contiguous", |of| make::contiguous(count, of)) }
}

/// `MPI_Type_vector`.
pub unsafe fn type_vector(
    count: Count,
    length: Count,
    stride: Count,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, and a place for the result.
    unsafe { made_of(of, to, "MPI_Type_vector", |of| make::vector(count, length, stride, of)) }
}

/// `MPI_Type_create_hvector`.
pub unsafe fn type_create_hvector(
    count: Count,
    length: Count,
    stride: Count,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_create_hvector", |of| make::hvector(count, length, stride, of))
    }
}

/// `MPI_Type_indexed`.
pub unsafe fn type_indexed(
    count: Count,
    lengths: Ints,
    displacements: Ints,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, arrays of this length, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_indexed", |of| {
            make::indexed(&numbers(lengths, count)?, &numbers(displacements, count)?, of)
        })
    }
}

/// `MPI_Type_create_hindexed`.
pub unsafe fn type_create_hindexed(
    count: Count,
    lengths: Ints,
    displacements: Ints,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, arrays of this length, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_create_hindexed", |of| {
            make::hindexed(&numbers(lengths, count)?, &numbers(displacements, count)?, of)
        })
    }
}

/// `MPI_Type_create_indexed_block`.
pub unsafe fn type_create_indexed_block(
    count: Count,
    length: Count,
    displacements: Ints,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, arrays of this length, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_create_indexed_block", |of| {
            make::indexed_block(length, &numbers(displacements, count)?, of)
        })
    }
}

/// `MPI_Type_create_hindexed_block`.
pub unsafe fn type_create_hindexed_block(
    count: Count,
    length: Count,
    displacements: Ints,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, arrays of this length, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_create_hindexed_block", |of| {
            make::hindexed_block(length, &numbers(displacements, count)?, of)
        })
    }
}

/// `MPI_Type_create_struct`.
pub unsafe fn type_create_struct(
    count: Count,
    lengths: Ints,
    displacements: Ints,
    types: *const Handle,
    to: *mut Handle,
) -> c_int {
    plainly("MPI_Type_create_struct", || {
        // SAFETY: the program gives arrays of this length, and a place for the result.
        unsafe {
            let (lengths, places) = (numbers(lengths, count)?, numbers(displacements, count)?);
            let types = array(types, lengths.len() as c_int)?;
            let types =
                types.iter().map(|&one| TypeRef::keep(one)).collect::<Result<Vec<_>, _>>()?;
            let made = make::structure(&lengths, &places, &types)?;
            put(to, TypeRef::Made(Arc::new(made)).into_handle())
        }
    })
}

/// `MPI_Type_create_subarray`.
pub unsafe fn type_create_subarray(
    dimensions: c_int,
    sizes: Ints,
    subsizes: Ints,
    starts: Ints,
    order: c_int,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, arrays of this length, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_create_subarray", |of| {
            let [sizes, subsizes, starts] =
                [sizes, subsizes, starts].map(|from| numbers(from, dimensions.into()));
            arrays::subarray(&sizes?, &subsizes?, &starts?, order.into(), of)
        })
    }
}

/// `MPI_Type_create_darray`.
pub unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    dimensions: c_int,
    lengths: Ints,
    kinds: *const c_int,
    arguments: *const c_int,
    processes: *const c_int,
    order: c_int,
    of: Handle,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, arrays of this length, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_create_darray", |of| {
            let wide = |from: *const c_int| -> Result<Vec<i64>, Error> {
                Ok(array(from, dimensions)?.iter().map(|&number| number.into()).collect())
            };
            let array = arrays::Distribution {
                size: size.into(),
                rank: rank.into(),
                lengths: &numbers(lengths, dimensions.into())?,
                kinds: &wide(kinds)?,
                arguments: &wide(arguments)?,
                processes: &wide(processes)?,
                order: order.into(),
            };
            arrays::distributed(&array, of)
        })
    }
}

/// `MPI_Type_create_resized`.
pub unsafe fn type_create_resized(
    of: Handle,
    lower: Count,
    extent: Count,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a datatype, and a place for the result.
    unsafe { made_of(of, to, "MPI_Type_create_resized", |of| make::resized(of, lower, extent)) }
}

/// `MPI_Type_dup`.
pub unsafe fn type_dup(of: Handle, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a datatype, and a place for the result.
    unsafe {
        made_of(of, to, "MPI_Type_dup", |datatype| {
            make::duplicate(datatype, datatype.attributes.copy(of)?)
        })
    }
}

/// `MPI_Type_commit`.
pub unsafe fn type_commit(datatype: *mut Handle) -> c_int {
    plainly("MPI_Type_commit", || {
        // SAFETY: the program gives the address of a datatype's handle.
        unsafe { look(at(datatype)?)?.is_committed.store(true, Ordering::Relaxed) };
        Ok(())
    })
}

/// `MPI_Type_free`.
pub unsafe fn type_free(datatype: *mut Handle) -> c_int {
    plainly("MPI_Type_free", || {
        // SAFETY: the program gives the address of a datatype's handle, and does not use that any more.
        unsafe {
            TypeRef::release(at(datatype)?)?;
            put(datatype, MPI_DATATYPE_NULL)
        }
    })
}

/// Returns the handle at an address.
///
/// # Safety
/// The address is null, or that of a handle.
unsafe fn at(handle: *mut Handle) -> Result<Handle, Error> {
    // SAFETY: the caller says so.
    let handle = unsafe { handle.as_ref() }.copied();
    handle.ok_or_else(|| Error::new(Class::Type, "the address of the datatype is a null pointer"))
}

/// `MPI_Type_size`.
pub unsafe fn type_size(datatype: Handle, size: *mut Count) -> c_int {
    plainly("MPI_Type_size", || {
        // SAFETY: the program gives a datatype, and room for the answer.
        unsafe { put(size, look(datatype)?.size) }
    })
}

/// `MPI_Type_get_extent`.
pub unsafe fn type_get_extent(datatype: Handle, lower: *mut Count, extent: *mut Count) -> c_int {
    plainly("MPI_Type_get_extent", || {
        // SAFETY: the program gives a datatype, and room for the answer.
        unsafe {
            let datatype = look(datatype)?;
            put(lower, datatype.lower)?;
            put(extent, datatype.extent)
        }
    })
}

/// `MPI_Type_get_true_extent`.
pub unsafe fn type_get_true_extent(
    datatype: Handle,
    lower: *mut Count,
    extent: *mut Count,
) -> c_int {
    plainly("MPI_Type_get_true_extent", || {
        // SAFETY: the program gives a datatype, and room for the answer.
        unsafe {
            let datatype = look(datatype)?;
            put(lower, datatype.true_lower)?;
            put(extent, datatype.true_extent)
        }
    })
}

/// `MPI_Type_get_name`.
pub unsafe fn type_get_name(datatype: Handle, name: *mut c_char, length: *mut c_int) -> c_int {
    plainly("MPI_Type_get_name", || {
        // SAFETY: the program gives a datatype, and room for `MPI_MAX_OBJECT_NAME` characters.
        unsafe {
            let text = match datatype {
                MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".into(),
                _ => look(datatype)?.name(),
            };
            put_text(name, MPI_MAX_OBJECT_NAME, length, text.as_bytes())
        }
    })
}

/// `MPI_Type_set_name`.
pub unsafe fn type_set_name(datatype: Handle, name: *const c_char) -> c_int {
    plainly("MPI_Type_set_name", || {
        // SAFETY: the program gives a datatype, and text that ends with a zero.
        unsafe { look(datatype)?.set_name(cut(text(name)?)) };
        Ok(())
    })
}

/// `MPI_Type_match_size`.
pub unsafe fn type_match_size(class: c_int, size: c_int, datatype: *mut Handle) -> c_int {
    plainly("MPI_Type_match_size", || {
        let number = match (class, size) {
            (MPI_TYPECLASS_INTEGER, 1) => 0x2c1,
            (MPI_TYPECLASS_INTEGER, 2) => 0x2c9,
            (MPI_TYPECLASS_INTEGER, 4) => 0x2d1,
            (MPI_TYPECLASS_INTEGER, 8) => 0x2d9,
            (MPI_TYPECLASS_INTEGER, 16) => 0x2e1,
            (MPI_TYPECLASS_REAL, 2) => 0x2ca,
            (MPI_TYPECLASS_REAL, 4) => 0x2d2,
            (MPI_TYPECLASS_REAL, 8) => 0x2da,
            (MPI_TYPECLASS_REAL, 16) => 0x2e2,
            (MPI_TYPECLASS_COMPLEX, 4) => 0x2d3,
            (MPI_TYPECLASS_COMPLEX, 8) => 0x2db,
            (MPI_TYPECLASS_COMPLEX, 16) => 0x2e3,
            (MPI_TYPECLASS_COMPLEX, 32) => 0x2eb,
            _ => {
                let text = format!("there is no type of class {class} with {size} bytes");
                return Err(Error::new(Class::Arg, text));
            }
        };
        // SAFETY: the program gives a place for the result.
        unsafe { put(datatype, without_provenance_mut(number)) }
    })
}

/// `MPI_Type_get_envelope`.
pub unsafe fn type_get_envelope(
    datatype: Handle,
    integers: *mut c_int,
    addresses: *mut c_int,
    datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    plainly("MPI_Type_get_envelope", || {
        // SAFETY: the program gives a datatype, and places for the answers.
        unsafe {
            let (numbers, kind) = envelope(look(datatype)?);
            let [small, addressed, large, types] = numbers;
            if large > 0 {
                return Err(Error::new(
                    Class::Type,
                    "only the form for large counts can describe it",
                ));
            }
            put(integers, small as c_int)?;
            put(addresses, addressed as c_int)?;
            put(datatypes, types as c_int)?;
            put(combiner, kind)
        }
    })
}

/// `MPI_Type_get_envelope_c`. Numbers that no `int` can hold are large counts, together with those beside them.
pub unsafe fn type_get_envelope_c(
    datatype: Handle,
    integers: *mut Count,
    addresses: *mut Count,
    large_counts: *mut Count,
    datatypes: *mut Count,
    combiner: *mut c_int,
) -> c_int {
    plainly("MPI_Type_get_envelope_c", || {
        // SAFETY: the program gives a datatype, and places for the answers.
        unsafe {
            let (numbers, kind) = envelope(look(datatype)?);
            let places = [integers, addresses, large_counts, datatypes];
            for (place, number) in places.into_iter().zip(numbers) {
                put(place, number as Count)?;
            }
            put(combiner, kind)
        }
    })
}

/// Returns the numbers of integers, addresses, large counts and datatypes of which a type was made, and its combiner.
fn envelope(datatype: &Datatype) -> ([usize; 4], c_int) {
    match &datatype.made {
        None => ([0; 4], MPI_COMBINER_NAMED),
        Some(made) => {
            let (small, large) = made.counts();
            ([small.len(), made.addresses.len(), large.len(), made.types.len()], made.combiner)
        }
    }
}

/// `MPI_Type_get_contents`.
pub unsafe fn type_get_contents(
    datatype: Handle,
    integers_room: c_int,
    addresses_room: c_int,
    datatypes_room: c_int,
    integers: *mut c_int,
    addresses: *mut isize,
    datatypes: *mut Handle,
) -> c_int {
    let rooms = [integers_room, addresses_room, 0, datatypes_room].map(Count::from);
    plainly("MPI_Type_get_contents", || {
        // SAFETY: the program gives a datatype, and arrays of these lengths.
        unsafe { contents(datatype, rooms, integers, addresses, null_mut(), datatypes) }
    })
}

/// `MPI_Type_get_contents_c`.
pub unsafe fn type_get_contents_c(
    datatype: Handle,
    integers_room: Count,
    addresses_room: Count,
    large_counts_room: Count,
    datatypes_room: Count,
    integers: *mut c_int,
    addresses: *mut isize,
    large_counts: *mut Count,
    datatypes: *mut Handle,
) -> c_int {
    let rooms = [integers_room, addresses_room, large_counts_room, datatypes_room];
    plainly("MPI_Type_get_contents_c", || {
        // SAFETY: the program gives a datatype, and arrays of these lengths.
        unsafe { contents(datatype, rooms, integers, addresses, large_counts, datatypes) }
    })
}

/// Writes of what a type was made.
///
/// # Safety
/// The handle is one of a datatype, and the arrays have these lengths.
unsafe fn contents(
    datatype: Handle,
    rooms: [Count; 4],
    integers: *mut c_int,
    addresses: *mut isize,
    large_counts: *mut Count,
    datatypes: *mut Handle,
) -> Result<(), Error> {
    // SAFETY: the caller says so, and the lengths are checked.
    unsafe {
        let datatype = look(datatype)?;
        let Some(made) = &datatype.made else {
            return Err(Error::new(Class::Type, "a predefined datatype has no contents"));
        };
        let (numbers, _) = envelope(datatype);
        if numbers.iter().zip(rooms).any(|(&number, room)| room < number as Count) {
            return Err(Error::new(Class::Arg, "an array is too short for the contents"));
        }
        let (small, large) = made.counts();
        for (place, &number) in small.iter().enumerate() {
            put(integers.add(place), number as c_int)?;
        }
        for (place, &number) in made.addresses.iter().enumerate() {
            put(addresses.add(place), number as isize)?;
        }
        for (place, &number) in large.iter().enumerate() {
            put(large_counts.add(place), number)?;
        }
        for (place, datatype) in made.types.iter().enumerate() {
            put(datatypes.add(place), datatype.clone().into_handle())?;
        }
        Ok(())
    }
}

/// `MPI_Pack_size`.
pub unsafe fn pack_size(count: Count, datatype: Handle, comm: Handle, size: *mut Count) -> c_int {
    // SAFETY: the program gives valid handles, and a place for the answer.
    unsafe {
        within(comm, "MPI_Pack_size", |_| {
            if count < 0 {
                return Err(Error::new(Class::Count, format!("the count is negative: {count}")));
            }
            put(size, look(datatype)?.size.saturating_mul(count))
        })
    }
}

/// Returns the bytes of a buffer of packed data from a position on.
///
/// # Safety
/// The buffer has `size` bytes, and the last address is null, or that of a position.
pub(super) unsafe fn room(size: Count, position: *const Count) -> Result<(usize, usize), Error> {
    // SAFETY: the caller says so.
    let position = unsafe { position.as_ref() }.copied().unwrap_or(-1);
    match (usize::try_from(size), usize::try_from(position)) {
        (Ok(size), Ok(position)) if position <= size => Ok((position, size - position)),
        _ => Err(Error::new(
            Class::Arg,
            format!("position {position} is not in a buffer of {size} bytes"),
        )),
    }
}

/// `MPI_Pack`.
pub unsafe fn pack(
    from: *const c_void,
    count: Count,
    datatype: Handle,
    to: *mut c_void,
    size: Count,
    position: *mut Count,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, a buffer of this size, and a position in it.
    unsafe {
        within(comm, "MPI_Pack", |_| {
            let data = Data::new(from, count, datatype)?;
            let (at, room) = room(size, position)?;
            let bytes = data.packed();
            if bytes.len() > room {
                let text =
                    format!("{} bytes do not fit into the last {room} of the buffer", bytes.len());
                return Err(Error::new(Class::Truncate, text));
            }
            if !bytes.is_empty() {
                to.cast::<u8>().add(at).copy_from(bytes.as_ptr(), bytes.len());
            }
            put(position, (at + bytes.len()) as Count)
        })
    }
}

/// `MPI_Unpack`.
pub unsafe fn unpack(
    from: *const c_void,
    size: Count,
    position: *mut Count,
    to: *mut c_void,
    count: Count,
    datatype: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, a buffer of this size, a position in it, and data that can be written to.
    unsafe {
        within(comm, "MPI_Unpack", |_| {
            let data = Data::new(to, count, datatype)?;
            let (at, room) = room(size, position)?;
            let bytes = data.bytes();
            if bytes > room {
                let text = format!("{bytes} bytes are wanted of the last {room} of the buffer");
                return Err(Error::new(Class::Truncate, text));
            }
            if bytes > 0 {
                data.unpack(slice::from_raw_parts(from.cast::<u8>().add(at), bytes));
            }
            put(position, (at + bytes) as Count)
        })
    }
}
