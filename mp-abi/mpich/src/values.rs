//! Numbers with a meaning, in both ABIs. The build script writes most functions here from `constants.tsv`: `X` makes the
//! standard's number of MPICH's, and `shown_X` goes back.

use std::{
    ffi::{c_int, c_void},
    ptr::without_provenance,
};

use mp_abi::{
    constants::{
        MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_DISPLACEMENT_CURRENT, MPI_DISTRIBUTE_DFLT_DARG,
        MPI_ERR_LASTCODE, MPI_KEYVAL_INVALID, MPI_PROC_NULL, MPI_ROOT, MPI_T_PVAR_ALL_HANDLES,
        MPI_UNDEFINED,
    },
    types::{Handle, Offset},
};

use crate::variables::is_all_handles;

mod translations {
    use std::ffi::c_int;

    use super::{MPI_UNDEFINED, NOTHING};

    include!(concat!(env!("OUT_DIR"), "/values.rs"));
}
pub use translations::*;

/// What stands for a number that has no meaning, and has none in the standard ABI.
const NOTHING: c_int = c_int::MIN;

/// The first error code that is not one of MPICH's classes.
const CODES: c_int = 82;
/// The largest error code before those that the program adds.
const LAST_CODE: c_int = 0x3fff_ffff;

/// Makes a rank, or what may be in its place.
#[inline]
pub fn rank(given: c_int) -> c_int {
    match given {
        0.. => given,
        -1 => MPI_PROC_NULL,
        -2 => MPI_ANY_SOURCE,
        -3 => MPI_ROOT,
        MPI_UNDEFINED => given,
        _ => NOTHING,
    }
}

/// Goes back from [`rank`].
#[inline]
pub fn shown_rank(rank: c_int) -> c_int {
    match rank {
        0.. => rank,
        MPI_PROC_NULL => -1,
        MPI_ANY_SOURCE => -2,
        MPI_ROOT => -3,
        _ => rank,
    }
}

/// Makes a tag, or `MPI_ANY_TAG`.
#[inline]
pub fn tag(given: c_int) -> c_int {
    match given {
        0.. => given,
        -1 => MPI_ANY_TAG,
        _ => NOTHING,
    }
}

/// Goes back from [`tag`].
#[inline]
pub fn shown_tag(tag: c_int) -> c_int {
    if tag == MPI_ANY_TAG { -1 } else { tag }
}

/// Makes an argument of a distribution.
pub fn distribution_argument(given: c_int) -> c_int {
    if given == -49767 { MPI_DISTRIBUTE_DFLT_DARG } else { given }
}

/// Goes back from [`distribution_argument`].
pub fn shown_distribution_argument(argument: c_int) -> c_int {
    if argument == MPI_DISTRIBUTE_DFLT_DARG { -49767 } else { argument }
}

/// Makes the displacement of a view, or `MPI_DISPLACEMENT_CURRENT`.
pub fn displacement(given: Offset) -> Offset {
    match given {
        -54_278_278 => MPI_DISPLACEMENT_CURRENT.into(),
        0.. => given,
        _ => Offset::MIN,
    }
}

/// Makes a key of attributes. Those of the program are the same in both.
pub fn key(given: c_int) -> c_int {
    const INVALID: c_int = 0x24000000;
    match given {
        INVALID => MPI_KEYVAL_INVALID,
        0x10000..INVALID => given,
        _ => predefined_key(given),
    }
}

/// Goes back from [`key`].
pub fn shown_key(key: c_int) -> c_int {
    if key == MPI_KEYVAL_INVALID { 0x24000000 } else { shown_predefined_key(key) }
}

/// Makes an error code. Codes that the program adds follow the largest other one. Numbers that are no codes in MPICH's
/// ABI become such that are none in the standard one, where they keep apart from codes.
pub fn error(given: c_int) -> c_int {
    match given {
        0..CODES => error_class(given),
        CODES..=LAST_CODE => given.wrapping_add(c_int::MIN),
        _ if given > LAST_CODE => given - LAST_CODE + MPI_ERR_LASTCODE,
        _ => given,
    }
}

/// Goes back from [`error`].
#[inline]
pub fn shown_error(code: c_int) -> c_int {
    if code == 0 { 0 } else { shown_failure(code) }
}

// Within the functions, it would take registers from them.
#[cold]
#[inline(never)]
fn shown_failure(code: c_int) -> c_int {
    const NO_CODE: c_int = c_int::MIN + LAST_CODE;
    match code {
        ..=NO_CODE => code.wrapping_add(c_int::MIN),
        MPI_ERR_LASTCODE.. => code - MPI_ERR_LASTCODE + LAST_CODE,
        _ => shown_error_class(code),
    }
}

/// Makes the address of a buffer, or what may be in its place: `MPI_IN_PLACE` or `MPI_BUFFER_AUTOMATIC`.
#[inline]
pub fn buffer(given: *const c_void) -> *const c_void {
    match given.addr().cast_signed() {
        -1 => without_provenance(1),
        -2 => without_provenance(2),
        _ => given,
    }
}

/// Makes the handle of a variable of tools, or the one that stands for all.
pub fn all_handles(given: Handle) -> Handle {
    if is_all_handles(given) { MPI_T_PVAR_ALL_HANDLES } else { given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for class in 0..CODES {
            let code = error(class);
            assert!(code == NOTHING || shown_error(code) == class, "{class}");
        }
        for code in [82, 999, 16383, 16384, LAST_CODE, LAST_CODE + 1, c_int::MAX, -1, -5] {
            assert_eq!(shown_error(error(code)), code);
        }
        assert_eq!(error(LAST_CODE + 1), MPI_ERR_LASTCODE + 1);
        for number in -3..9 {
            assert_eq!(shown_rank(rank(number)), number);
        }
        assert_eq!([rank(-4), tag(-2), order(1), amode(512) & 511], [NOTHING, NOTHING, NOTHING, 0]);
        for bits in 0..512 {
            assert_eq!(shown_amode(amode(bits)), bits);
        }
        assert_eq!(assertion(1024 | 8192), 1024 | 2048);
        for number in [0x24000000, 0x10000, 0x64400001, 0x66000009] {
            assert_eq!(shown_key(key(number)), number);
        }
        assert_eq!([displacement(-54_278_278), displacement(8)], [-1, 8]);
        assert_eq!([displacement(-1), displacement(-2)], [Offset::MIN; 2]);
        assert_eq!([shown_tag(tag(-1)), shown_tag(7), thread(3)], [-1, 7, 4096]);
        assert_eq!([shown_combiner(113), shown_topology(MPI_UNDEFINED)], [15, MPI_UNDEFINED]);
    }
}
