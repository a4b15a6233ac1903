use std::{
    ffi::{CStr, c_char},
    ptr::null,
};

use super::*;
use crate::{
    calls::{datatypes::*, requests::*},
    constants::{
        MPI_COMBINER_DUP, MPI_COMBINER_INDEXED, MPI_COMBINER_NAMED, MPI_COMBINER_STRUCT,
        MPI_DATATYPE_NULL, MPI_ERR_TYPE, MPI_TYPECLASS_REAL, MPI_UNDEFINED,
    },
};

/// Returns the numbers of integers, addresses and types of which a type was made, and its combiner.
fn envelope(datatype: Handle) -> [c_int; 4] {
    let mut answer = [-1; 4];
    let [integers, addresses, types, combiner] = &mut answer;
    ok!(type_get_envelope(datatype, integers, addresses, types, combiner));
    answer
}

#[test]
fn types_tell_of_what_they_were_made() {
    on_ranks(1, |_, _, _| {
        let (mut indexed, mut both, mut copy) = (null_mut(), null_mut(), null_mut());
        let (lengths, places) = ([2, 1], [0, 5]);
        ok!(type_indexed(
            2,
            lengths.as_ptr().into(),
            places.as_ptr().into(),
            predefined(INT),
            &mut indexed,
        ));
        assert_eq!(envelope(indexed), [5, 0, 1, MPI_COMBINER_INDEXED]);
        let (mut integers, mut addresses, mut types) = ([0; 8], [0isize; 8], [null_mut(); 8]);
        ok!(type_get_contents(
            indexed,
            8,
            8,
            8,
            integers.as_mut_ptr(),
            addresses.as_mut_ptr(),
            types.as_mut_ptr(),
        ));
        assert_eq!((&integers[..5], types[0]), (&[2, 2, 1, 0, 5][..], predefined(INT)));

        let (offsets, parts) = ([0isize, 40], [indexed, predefined(DOUBLE)]);
        ok!(type_create_struct(
            2,
            lengths.as_ptr().into(),
            offsets.as_ptr().into(),
            parts.as_ptr(),
            &mut both,
        ));
        ok!(type_free(&mut indexed));
        assert_eq!(indexed, MPI_DATATYPE_NULL);
        assert_eq!(envelope(both), [3, 2, 2, MPI_COMBINER_STRUCT]);
        ok!(type_get_contents(
            both,
            3,
            2,
            2,
            integers.as_mut_ptr(),
            addresses.as_mut_ptr(),
            types.as_mut_ptr(),
        ));
        assert_eq!((&integers[..3], &addresses[..2]), (&[2, 2, 1][..], &offsets[..]));
        // What it was made of is there as a handle of its own, although the program has freed its own.
        assert_eq!(envelope(types[0]), [5, 0, 1, MPI_COMBINER_INDEXED]);
        assert_eq!(types[1], predefined(DOUBLE));
        ok!(type_free(&mut types[0]));

        ok!(type_dup(both, &mut copy));
        assert_eq!(envelope(copy), [0, 0, 1, MPI_COMBINER_DUP]);
        let (mut size, mut lower, mut extent) = (0, -1, 0);
        ok!(type_size(copy, &mut size));
        ok!(type_get_extent(copy, &mut lower, &mut extent));
        assert_eq!((size, lower, extent), (2 * 12 + 8, 0, 48));
        ok!(type_free(&mut copy));
        ok!(type_free(&mut both));

        assert_eq!(envelope(predefined(INT)), [0, 0, 0, MPI_COMBINER_NAMED]);
        // SAFETY: nothing is written for a predefined type, and the null handle is refused.
        unsafe {
            let (none, no_types) = (null_mut(), null_mut());
            let code = type_get_contents(predefined(INT), 0, 0, 0, null_mut(), none, no_types);
            assert_eq!(code, MPI_ERR_TYPE);
            assert_eq!(type_size(MPI_DATATYPE_NULL, &mut size), MPI_ERR_TYPE);
            let nothing = null::<c_int>().into();
            assert_ne!(type_indexed(1, nothing, nothing, predefined(INT), &mut copy), 0);
        }
    });
}

#[test]
fn counts_that_no_int_holds_are_large() {
    on_ranks(1, |_, _, _| {
        let (mut large, mut combiner) = (null_mut(), 0);
        ok!(type_contiguous(1 << 32, predefined(DOUBLE), &mut large));
        let mut numbers = [-1i64; 4];
        let [integers, addresses, counts, types] = &mut numbers;
        ok!(type_get_envelope_c(large, integers, addresses, counts, types, &mut combiner));
        assert_eq!(numbers, [0, 0, 1, 1]);
        let mut size = 0;
        ok!(type_size(large, &mut size));
        assert_eq!(size, 1 << 35);
        // SAFETY: the form for small counts refuses the type before it writes anything.
        let code = unsafe {
            let none = null_mut();
            type_get_envelope(large, none, none, none, none)
        };
        assert_eq!(code, MPI_ERR_TYPE);
        ok!(type_free(&mut large));
    });
}

#[test]
fn names_and_sizes() {
    on_ranks(1, |_, _, _| {
        let (mut name, mut length, mut datatype) = ([1 as c_char; 128], 0, null_mut());
        ok!(type_match_size(MPI_TYPECLASS_REAL, 8, &mut datatype));
        ok!(type_get_name(datatype, name.as_mut_ptr(), &mut length));
        // SAFETY: the call has ended the name with a zero.
        assert_eq!(unsafe { CStr::from_ptr(name.as_ptr()) }, c"MPI_REAL8");
        ok!(type_contiguous(2, predefined(INT), &mut datatype));
        ok!(type_get_name(datatype, name.as_mut_ptr(), &mut length));
        assert_eq!(length, 0);
        ok!(type_set_name(datatype, c"pair".as_ptr()));
        ok!(type_get_name(datatype, name.as_mut_ptr(), &mut length));
        assert_eq!(length, 4);
        ok!(type_free(&mut datatype));
    });
}

#[test]
fn statuses_count_elements() {
    on_ranks(1, |_, _, _| {
        // Two `int` and a `double`.
        let (lengths, places, mut datatype) = ([2, 1], [0isize, 8], null_mut());
        let parts = [predefined(INT), predefined(DOUBLE)];
        ok!(type_create_struct(
            2,
            lengths.as_ptr().into(),
            places.as_ptr().into(),
            parts.as_ptr(),
            &mut datatype,
        ));
        let undefined = i64::from(MPI_UNDEFINED);
        for (elements, bytes, whole) in
            [(0, 0, 0), (1, 4, undefined), (2, 8, undefined), (3, 16, 1), (5, 24, undefined)]
        {
            let (mut status, mut answer) = (status(), -1);
            ok!(status_set_elements(&mut status, datatype, elements));
            assert_eq!(status.bytes(), bytes);
            ok!(get_elements(&status, datatype, &mut answer));
            assert_eq!(answer, elements);
            ok!(get_count(&status, datatype, &mut answer));
            assert_eq!(answer, whole);
        }
        let (mut status, mut answer) = (status(), -1);
        ok!(status_set_elements(&mut status, predefined(0x247), 10));
        ok!(get_elements(&status, datatype, &mut answer));
        assert_eq!(answer, undefined);
        ok!(type_free(&mut datatype));
    });
}
