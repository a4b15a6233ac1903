//! Operations of reductions that a program in Fortran defines.

use std::{
    ffi::{c_int, c_void},
    sync::{Mutex, PoisonError},
};

use crate::{
    arguments::{Argument, Out, Value},
    handles::{Datatype, Kind, Op},
};

/// The subroutine of a program: two vectors, their length, and the type of their elements.
type Subroutine = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
/// What the library of C calls.
type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut *mut c_void);

/// `MPI_ERR_INTERN`.
const NO_ROOM: c_int = 17;

/// The subroutines, by place. A function of C gets no word of its own, so that each place has a function. A subroutine
/// that was given before keeps its place, and places are not freed.
static SUBROUTINES: Mutex<Vec<Subroutine>> = Mutex::new(Vec::new());

/// Calls the subroutine at a place.
unsafe extern "C" fn call<const PLACE: usize>(
    from: *mut c_void,
    to: *mut c_void,
    count: *mut c_int,
    datatype: *mut *mut c_void,
) {
    let subroutine = SUBROUTINES.lock().unwrap_or_else(PoisonError::into_inner)[PLACE];
    // SAFETY: the library of C passes what the standard says, and the subroutine takes it.
    unsafe {
        let mut number = Datatype::number(*datatype);
        subroutine(from, to, count, &mut number);
    }
}

macro_rules! functions {
    ($($place:literal)*) => { [$(call::<$place>),*] };
}

static FUNCTIONS: [Function; 32] = functions!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);

unsafe extern "C" {
    fn MPI_Op_create(function: Function, commutes: c_int, op: *mut *mut c_void) -> c_int;
}

/// `MPI_OP_CREATE`, for up to 32 different subroutines.
///
/// # Safety
/// As the standard says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_op_create_(
    subroutine: Subroutine,
    commutes: *const c_int,
    op: *mut c_int,
    error: *mut c_int,
) {
    let mut all = SUBROUTINES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().position(|&one| std::ptr::fn_addr_eq(one, subroutine));
    let place = known.unwrap_or(all.len());
    let code = match FUNCTIONS.get(place) {
        None => NO_ROOM,
        Some(&function) => {
            if known.is_none() {
                all.push(subroutine);
            }
            drop(all);
            // SAFETY: the program calls as the standard says.
            unsafe {
                let (mut commutes, mut op) = (Value::take(commutes, 0), Out::<Op>::take(op, 0));
                let code = MPI_Op_create(function, commutes.pass(), op.pass());
                op.finish();
                code
            }
        }
    };
    // SAFETY: as above.
    unsafe { error.write(code) };
}
