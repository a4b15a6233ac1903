//! Handles as numbers, which they are in MPICH's ABI: the kind of object and an index.
//!
//! | bits | what they are |
//! |---|---|
//! | 31, 30 | 0 for null handles, 1 and 2 for predefined ones, 3 for objects that the program has made |
//! | 29 to 26 | the kind of object |
//! | 25 to 0 | the [index](crate::slots) of an object of the program |
//!
//! Requests and messages have one handle each, and a wait makes it null. All sends that were complete at once are one
//! request, whose number is that of MPICH for the same. Other objects may have several handles, which programs free one
//! by one: each gives the same number, and the number ends with the last.

use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    ptr::{null_mut, without_provenance_mut},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use mp_abi::{constants::MPI_FILE_NULL, handles::sent, types::Handle};

use crate::{
    kinds::{Kind, Request},
    values::NUMBERS,
};

/// A handle that nothing has, in place of those that are none of the kind that is expected.
const NOTHING: Handle = without_provenance_mut(4095);

/// The number of the request of all sends that were complete at once: a predefined one of the kind of requests.
const SENT: c_int = 0x6c00_0000;

/// Handles below this one are predefined.
const FIRST: usize = 4096;

/// An object that has several handles.
struct Shared {
    number: c_int,
    handles: usize,
}

/// The objects that programs have handles of, but requests and messages, by their addresses.
static SHARED: LazyLock<Mutex<HashMap<usize, Shared>>> = LazyLock::new(Mutex::default);

fn shared() -> MutexGuard<'static, HashMap<usize, Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index in a handle of an object that the program has made.
#[inline]
fn index<K: Kind>(number: c_int) -> Option<u32> {
    let bits = number as u32;
    (bits >> 26 == (3 << 4 | K::BITS)).then_some(bits & ((1 << 26) - 1))
}

/// Returns the handle that a number stands for.
#[inline]
pub fn handle<K: Kind>(number: c_int) -> Handle {
    match index::<K>(number) {
        Some(index) => K::slots().get(index).unwrap_or(NOTHING),
        None if K::BITS == Request::BITS && number == SENT => sent(),
        None => K::predefined(number).map_or(NOTHING, without_provenance_mut),
    }
}

/// Returns the number for a handle that the program gets.
#[inline]
pub fn number<K: Kind>(handle: Handle) -> c_int {
    let address = handle.addr();
    if address < FIRST {
        return NUMBERS.get(address).copied().unwrap_or_default();
    }
    if K::BITS == Request::BITS && handle == sent() {
        return SENT;
    }
    let make = || ((3 << 4 | K::BITS) << 26 | K::slots().insert(handle)) as c_int;
    if !K::IS_SHARED {
        return make();
    }
    let mut shared = shared();
    let object = shared.entry(address).or_insert_with(|| Shared { number: make(), handles: 0 });
    object.handles += 1;
    object.number
}

/// Ends a handle, which the program has freed.
#[inline]
pub fn end<K: Kind>(number: c_int) {
    let Some(index) = index::<K>(number) else { return };
    if !K::IS_SHARED {
        K::slots().remove(index);
        return;
    }
    let mut shared = shared();
    let Some(address) = K::slots().get(index).map(|object| object.addr()) else { return };
    if let Some(object) = shared.get_mut(&address) {
        object.handles -= 1;
        if object.handles == 0 {
            shared.remove(&address);
            K::slots().remove(index);
        }
    }
}

/// Calls a function with the number of an object, which stays the object's until the function returns.
pub fn with_number<K: Kind, T>(handle: Handle, call: impl FnOnce(c_int) -> T) -> T {
    let number = number::<K>(handle);
    let result = call(number);
    end::<K>(number);
    result
}

/// Writes the number of a handle that has come, at the address of an `int`.
///
/// # Safety
/// The address can be written to.
pub unsafe fn put<K: Kind>(to: *mut c_void, handle: Handle) {
    // SAFETY: the caller says so.
    unsafe { to.cast::<c_int>().write(number::<K>(handle)) }
}

/// Returns the handle of a file. It is a pointer in MPICH's ABI, too.
pub fn file(given: Handle) -> Handle {
    if given.is_null() { MPI_FILE_NULL } else { given }
}

/// Returns the handle of a file as the program sees it.
pub fn shown_file(handle: Handle) -> Handle {
    if handle == MPI_FILE_NULL { null_mut() } else { handle }
}

#[cfg(test)]
mod tests {
    use mp_abi::constants::{MPI_COMM_WORLD, MPI_INT, MPI_REQUEST_NULL, MPI_SHORT_INT};

    use super::*;
    use crate::kinds::{Comm, Datatype, Op, Request};

    #[test]
    fn predefined_handles_have_the_numbers_of_the_table() {
        assert_eq!(handle::<Comm>(0x44000000), MPI_COMM_WORLD);
        assert_eq!(handle::<Datatype>(0x4c000405), MPI_INT);
        assert_eq!(number::<Datatype>(MPI_SHORT_INT) as u32, 0x8c000003);
        assert_eq!(handle::<Datatype>(0x8c000003u32 as c_int), MPI_SHORT_INT);
        assert_eq!(number::<Request>(MPI_REQUEST_NULL), 0x2c000000);
        for wrong in [0, -1, 0x4c000404, 0x4c0000ff, 0x44000002] {
            assert_eq!(handle::<Datatype>(wrong), NOTHING);
            assert_eq!(handle::<Comm>(wrong), NOTHING);
            assert_eq!(handle::<Op>(wrong), NOTHING);
        }
    }

    #[test]
    fn an_object_keeps_its_number_while_it_has_handles() {
        let objects = [1u64, 2];
        let [one, other] = objects.each_ref().map(|at| (&raw const *at).cast_mut().cast());
        let first = number::<Op>(one);
        assert_eq!(number::<Op>(one), first);
        assert_ne!(number::<Op>(other), first);
        end::<Op>(first);
        with_number::<Op, _>(one, |number| assert_eq!(number, first));
        assert_eq!(handle::<Op>(first), one);
        end::<Op>(first);
        assert_eq!(handle::<Op>(first), NOTHING);
        assert_eq!(handle::<Comm>(first), NOTHING);
        end::<Op>(first);
    }

    #[test]
    fn complete_sends_are_one_request() {
        assert_eq!(number::<Request>(sent()), SENT);
        assert_eq!(handle::<Request>(SENT), sent());
        end::<Request>(SENT);
        assert_eq!(handle::<Request>(SENT), sent());
        assert_eq!(handle::<Comm>(SENT), NOTHING);
    }

    #[test]
    fn each_request_has_a_number_of_its_own() {
        let object = 1u64;
        let one = (&raw const object).cast_mut().cast();
        let numbers = [(); 2].map(|()| number::<Request>(one));
        assert_ne!(numbers[0], numbers[1]);
        end::<Request>(numbers[0]);
        assert_eq!(handle::<Request>(numbers[0]), NOTHING);
        assert_eq!(handle::<Request>(numbers[1]), one);
        end::<Request>(numbers[1]);
    }
}
