//! Handles as numbers, and statuses as arrays of Fortran.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    collections::HashMap,
    ffi::c_int,
    ptr::{null_mut, with_exposed_provenance_mut},
    sync::{LazyLock, Mutex, PoisonError},
};

use crate::{
    constants::MPI_SUCCESS,
    types::{Handle, Status},
};

/// The first number of a handle that is not predefined.
const FIRST: usize = 4096;

/// The addresses of objects that programs have asked the numbers of. An address keeps its number for ever: an object
/// that comes to lie there later gets the same.
#[derive(Default)]
struct Numbers {
    of: HashMap<usize, usize>,
    addresses: Vec<usize>,
}

static NUMBERS: LazyLock<Mutex<Numbers>> = LazyLock::new(Mutex::default);

/// `MPI_Comm_toint`, and the same for handles of all other kinds.
pub unsafe fn toint(handle: Handle) -> c_int {
    let address = handle.expose_provenance();
    if address < FIRST {
        return address as c_int;
    }
    let Numbers { of, addresses } = &mut *NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = *of.entry(address).or_insert_with(|| {
        addresses.push(address);
        FIRST + addresses.len() - 1
    });
    number as c_int
}

/// `MPI_Comm_fromint`, and the same for handles of all other kinds. For a number that no handle has, the result is a
/// null pointer, which is never a valid handle.
pub unsafe fn fromint(number: c_int) -> Handle {
    let Ok(number) = usize::try_from(number) else { return null_mut() };
    if number < FIRST {
        return with_exposed_provenance_mut(number);
    }
    let numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let address = numbers.addresses.get(number - FIRST);
    address.map_or(null_mut(), |&address| with_exposed_provenance_mut(address))
}

/// `MPI_Status_c2f`: both forms are the same bytes.
pub unsafe fn status_c2f(from: *const Status, to: *mut c_int) -> c_int {
    // SAFETY: the program gives a status, and an array of as many bytes.
    unsafe { to.cast::<Status>().write_unaligned(*from) };
    MPI_SUCCESS
}

/// `MPI_Status_f2c`: both forms are the same bytes.
pub unsafe fn status_f2c(from: *const c_int, to: *mut Status) -> c_int {
    // SAFETY: the program gives an array of as many bytes as a status, and a status.
    unsafe { *to = from.cast::<Status>().read_unaligned() };
    MPI_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_keep_their_numbers() {
        let objects = [1u64, 2];
        // SAFETY: the functions do not look at what the handles point to.
        unsafe {
            let handles = objects.each_ref().map(|one| (&raw const *one).cast_mut().cast());
            let numbers = handles.map(|handle| toint(handle));
            assert!(numbers[0] >= 4096 && numbers[0] != numbers[1]);
            assert_eq!(numbers, handles.map(|handle| toint(handle)));
            assert_eq!(numbers.map(|number| fromint(number)), handles);
            assert_eq!(toint(fromint(0x101)), 0x101);
            assert!(fromint(-1).is_null() && fromint(c_int::MAX).is_null());
        }
    }
}
