//! Functions that differ in more than their arguments one by one. The build script finds them here.

#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use mp_abi::{
    calls::{
        conversions::{fromint, toint},
        datatypes, tool_controls,
    },
    constants::{MPI_COMBINER_DARRAY, MPI_COMBINER_SUBARRAY, MPI_SUCCESS, MPI_T_BIND_MPI_COMM},
    types::{Aint, Count, Handle},
};

use crate::{
    kinds::{Comm, Datatype},
    list::List,
    numbers::{file, handle, number, shown_file},
    status::Status,
    values::{shown_distribution, shown_distribution_argument, shown_error, shown_order},
};

/// Gives the program the types and the integers of what a type was made of, after a call that returned this code.
///
/// # Safety
/// The type is that of the call, and the program gives as many places as the call has written.
unsafe fn give_contents(
    code: c_int,
    datatype: Handle,
    integers: *mut c_int,
    types: *mut c_int,
    mut came: List<Handle>,
) -> c_int {
    if code != MPI_SUCCESS {
        return shown_error(code);
    }
    for (place, one) in came.elements().iter().enumerate().filter(|(_, one)| !one.is_null()) {
        // SAFETY: the caller says so.
        unsafe { types.add(place).write(number::<Datatype>(*one)) };
    }
    let (mut counts, mut combiner) = ([0; 4], 0);
    let [small, addresses, large, of] = &mut counts;
    // SAFETY: the caller says so of the type, and the places are those of variables.
    unsafe {
        datatypes::type_get_envelope_c(datatype, small, addresses, large, of, &mut combiner);
    }
    let show = |place: usize, show: fn(c_int) -> c_int| {
        // SAFETY: the caller says so of the integers of such a type.
        unsafe { *integers.add(place) = show(*integers.add(place)) };
    };
    let last = (counts[0] - 1).max(0) as usize;
    match combiner {
        MPI_COMBINER_SUBARRAY => show(last, shown_order),
        MPI_COMBINER_DARRAY => {
            show(last, shown_order);
            // There are three numbers, and then four or, with large sizes, three lists for the dimensions: the sizes,
            // how they are distributed, an argument of that, and the processes.
            let lists = if counts[2] == 0 { 4 } else { 3 };
            let dimensions = (counts[0] as usize - 4) / lists;
            let distributions = 3 + (lists - 3) * dimensions;
            for place in distributions..distributions + dimensions {
                show(place, shown_distribution);
                show(place + dimensions, shown_distribution_argument);
            }
        }
        _ => {}
    }
    MPI_SUCCESS
}

/// `MPI_Type_get_contents`.
pub unsafe fn type_get_contents(
    datatype: c_int,
    integers_room: c_int,
    addresses_room: c_int,
    types_room: c_int,
    integers: *mut c_int,
    addresses: *mut Aint,
    types: *mut c_int,
) -> c_int {
    let datatype = handle::<Datatype>(datatype);
    let mut came = List::new(types_room.try_into().unwrap_or(0), null_mut(), |_| null_mut());
    // SAFETY: the program gives a datatype, and arrays of these lengths.
    unsafe {
        let code = datatypes::type_get_contents(
            datatype,
            integers_room,
            addresses_room,
            types_room,
            integers,
            addresses,
            came.elements().as_mut_ptr(),
        );
        give_contents(code, datatype, integers, types, came)
    }
}

/// `MPI_Type_get_contents_c`.
pub unsafe fn type_get_contents_c(
    datatype: c_int,
    integers_room: Count,
    addresses_room: Count,
    large_counts_room: Count,
    types_room: Count,
    integers: *mut c_int,
    addresses: *mut Aint,
    large_counts: *mut Count,
    types: *mut c_int,
) -> c_int {
    let datatype = handle::<Datatype>(datatype);
    let mut came = List::new(types_room.try_into().unwrap_or(0), null_mut(), |_| null_mut());
    // SAFETY: the program gives a datatype, and arrays of these lengths.
    unsafe {
        let code = datatypes::type_get_contents_c(
            datatype,
            integers_room,
            addresses_room,
            large_counts_room,
            types_room,
            integers,
            addresses,
            large_counts,
            came.elements().as_mut_ptr(),
        );
        give_contents(code, datatype, integers, types, came)
    }
}

/// `MPI_T_cvar_handle_alloc`. What the object is depends on the variable.
pub unsafe fn t_cvar_handle_alloc(
    index: c_int,
    object: *mut c_void,
    opened: *mut Handle,
    count: *mut c_int,
) -> c_int {
    let mut bind = 0;
    // SAFETY: in this and the next block: the tool gives places for the results, and the address of a handle of what the
    // variable is bound to. The results that the first call has no places for are not wanted.
    unsafe {
        tool_controls::t_cvar_get_info(
            index,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            &mut bind,
            null_mut(),
        )
    };
    // SAFETY: see above.
    unsafe {
        let mut comm = match bind == MPI_T_BIND_MPI_COMM && !object.is_null() {
            true => handle::<Comm>(object.cast::<c_int>().read()),
            false => null_mut(),
        };
        let object = if comm.is_null() { null_mut() } else { (&raw mut comm).cast() };
        shown_error(tool_controls::t_cvar_handle_alloc(index, object, opened, count))
    }
}

/// `MPI_Abi_get_version`. This library has not the standard's ABI, and says so as MPICH's does.
pub unsafe fn abi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    for to in [version, subversion].into_iter().filter(|to| !to.is_null()) {
        // SAFETY: the program gives places for the numbers.
        unsafe { to.write(-1) };
    }
    MPI_SUCCESS
}

/// `MPI_File_toint`.
pub unsafe fn file_toint(given: Handle) -> c_int {
    if given.is_null() {
        return 0;
    }
    // SAFETY: the function does not look at what the handle points to.
    unsafe { toint(given) }
}

/// `MPI_File_fromint`.
pub unsafe fn file_fromint(number: c_int) -> Handle {
    // SAFETY: the function takes any number.
    shown_file(file(unsafe { fromint(number) }))
}

/// `MPI_File_c2f`.
pub unsafe fn file_c2f(given: Handle) -> c_int {
    // SAFETY: as there.
    unsafe { file_toint(given) }
}

/// `MPI_File_f2c`.
pub unsafe fn file_f2c(number: c_int) -> Handle {
    // SAFETY: as there.
    unsafe { file_fromint(number) }
}

/// Copies a status. Those of C and of Fortran are the same bytes, but may not be aligned as C's are.
unsafe fn copy_status(from: *const Status, to: *mut Status) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { to.write_unaligned(from.read_unaligned()) };
    MPI_SUCCESS
}

/// `MPI_Status_c2f`.
pub unsafe fn status_c2f(from: *const Status, to: *mut c_int) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { copy_status(from, to.cast()) }
}

/// `MPI_Status_f2c`.
pub unsafe fn status_f2c(from: *const c_int, to: *mut Status) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { copy_status(from.cast(), to) }
}

/// `MPI_Status_c2f08`.
pub unsafe fn status_c2f08(from: *const Status, to: *mut Status) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { copy_status(from, to) }
}

/// `MPI_Status_f082c`.
pub unsafe fn status_f082c(from: *const Status, to: *mut Status) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { copy_status(from, to) }
}

/// `MPI_Status_f2f08`.
pub unsafe fn status_f2f08(from: *const c_int, to: *mut Status) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { copy_status(from.cast(), to) }
}

/// `MPI_Status_f082f`.
pub unsafe fn status_f082f(from: *const Status, to: *mut c_int) -> c_int {
    // SAFETY: the program gives two statuses.
    unsafe { copy_status(from, to.cast()) }
}
