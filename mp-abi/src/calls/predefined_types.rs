//! Datatypes that programs find by what they need.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{ffi::c_int, ptr::without_provenance_mut};

use crate::{
    constants::MPI_DATATYPE_NULL,
    datatype::{fortran, look},
    program::{plainly, put},
    types::Handle,
};

/// `MPI_Type_create_f90_real`.
pub unsafe fn type_create_f90_real(digits: c_int, range: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the result.
    plainly("MPI_Type_create_f90_real", || unsafe { put(to, fortran::real(digits, range)?) })
}

/// `MPI_Type_create_f90_complex`.
pub unsafe fn type_create_f90_complex(digits: c_int, range: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the result.
    plainly("MPI_Type_create_f90_complex", || unsafe { put(to, fortran::complex(digits, range)?) })
}

/// `MPI_Type_create_f90_integer`.
pub unsafe fn type_create_f90_integer(range: c_int, to: *mut Handle) -> c_int {
    // SAFETY: the program gives a place for the result.
    plainly("MPI_Type_create_f90_integer", || unsafe { put(to, fortran::integer(range)?) })
}

/// `MPI_Type_get_value_index`. There are pairs only of the types that the standard names.
pub unsafe fn type_get_value_index(value: Handle, index: Handle, pair: *mut Handle) -> c_int {
    plainly("MPI_Type_get_value_index", || {
        // SAFETY: the program gives two datatypes, and a place for the result.
        unsafe {
            for part in [value, index] {
                look(part)?;
            }
            let found = match (value.addr(), index.addr()) {
                (0x210, 0x209) => without_provenance_mut(0x228),
                (0x214, 0x209) => without_provenance_mut(0x229),
                (0x20a, 0x209) => without_provenance_mut(0x22a),
                (0x209, 0x209) => without_provenance_mut(0x22b),
                (0x208, 0x209) => without_provenance_mut(0x22c),
                (0x220, 0x209) => without_provenance_mut(0x22d),
                (0x21a, 0x21a) => without_provenance_mut(0x230),
                (0x21c, 0x21c) => without_provenance_mut(0x231),
                (0x219, 0x219) => without_provenance_mut(0x232),
                _ => MPI_DATATYPE_NULL,
            };
            put(pair, found)
        }
    })
}
