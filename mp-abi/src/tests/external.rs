//! Packing in the representation that is the same on all machines, and types that are found by what they need.

use std::ffi::CStr;

use super::*;
use crate::{
    calls::{datatypes::*, external::*, predefined_types::*, statuses::*},
    constants::{
        MPI_COMBINER_F90_COMPLEX, MPI_COMBINER_F90_INTEGER, MPI_COMBINER_F90_REAL,
        MPI_DATATYPE_NULL, MPI_ERR_ARG, MPI_ERR_CONVERSION, MPI_ERR_COUNT, MPI_ERR_TRUNCATE,
        MPI_ERR_TYPE, MPI_ERR_UNSUPPORTED_DATAREP, MPI_MAXLOC, MPI_SUM, MPI_UNDEFINED,
    },
};

const EXTERNAL32: &CStr = c"external32";

/// Packs elements, asserts what comes out, and unpacks it to the same.
fn packs<T: Copy + PartialEq + std::fmt::Debug>(
    datatype: Handle,
    count: i64,
    elements: &mut [T],
    expected: &[u8],
) {
    let name = EXTERNAL32.as_ptr();
    let mut size = 0;
    ok!(pack_external_size(name, count, datatype, &mut size));
    assert_eq!(size, expected.len() as i64);
    // The buffer has three bytes before the data, and two after it.
    let (mut bytes, mut position) = (vec![0xee_u8; expected.len() + 5], 3);
    let (room, from) = (bytes.len() as i64, address(elements));
    ok!(pack_external(name, from, count, datatype, address(&mut bytes), room, &mut position));
    assert_eq!((position, &bytes[3..bytes.len() - 2]), (size + 3, expected));
    assert_eq!((&bytes[..3], &bytes[bytes.len() - 2..]), (&[0xee; 3][..], &[0xee; 2][..]));

    let kept = elements.to_vec();
    let zero = elements.as_mut_ptr();
    // SAFETY: all zeros are a value of the types in these tests.
    unsafe { zero.write_bytes(0, elements.len()) };
    let mut at = 3;
    let (to, first) = (address(elements), address(&mut bytes));
    ok!(unpack_external(name, first, room, &mut at, to, count, datatype));
    assert_eq!((at, &*elements), (position, &kept[..]));

    // One byte less does not fit, and nothing moves.
    if size > 0 {
        let (mut before, mut after) = (3, 3);
        // SAFETY: the length that is given is less than that of the buffer.
        unsafe {
            let (to, length) = (address(&mut bytes), room - 3);
            let code = pack_external(name, to, count, datatype, to, length, &mut before);
            assert_eq!(code, MPI_ERR_TRUNCATE);
            let code = unpack_external(name, to, length, &mut after, from, count, datatype);
            assert_eq!((code, before, after), (MPI_ERR_TRUNCATE, 3, 3));
        }
    }
}

#[test]
fn numbers_have_the_most_significant_byte_first() {
    on_ranks(1, |_, _, _| {
        let hex = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        packs(predefined(INT), 2, &mut [1, -2], &hex(&[1, 0xffff_fffe]));
        packs(predefined(0x208), 1, &mut [0x1234_i16], &[0x12, 0x34]);
        packs(predefined(DOUBLE), 1, &mut [1.5f64], &hex(&[0x3ff8_0000, 0]));
        packs(predefined(0x213), 1, &mut [1.0f32, -2.0], &hex(&[0x3f80_0000, 0xc000_0000]));
        packs(predefined(0x243), 3, b"abc".clone().as_mut(), b"abc");
        // `long` has four bytes outside, and `wchar_t` two.
        packs(predefined(0x20a), 2, &mut [-3i64, 7], &hex(&[0xffff_fffd, 7]));
        packs(predefined(0x20e), 1, &mut [0xffff_ffff_u64], &hex(&[0xffff_ffff]));
        packs(predefined(0x23c), 2, &mut [0x20ac, 0x41], &[0x20, 0xac, 0, 0x41]);
        packs(predefined(0x20b), 1, &mut [-3i64], &hex(&[0xffff_ffff, 0xffff_fffd]));
        packs(predefined(0x2e1), 1, &mut [5i128], &hex(&[0, 0, 0, 5]));
        packs(predefined(0x2eb), 1, &mut [5i128, 6], &hex(&[0, 0, 0, 5, 0, 0, 0, 6]));
        packs(predefined(INT), 0, &mut [0i32; 0], &[]);
        // Pairs have no gaps outside.
        let mut pair = [9i64, 4];
        packs(predefined(0x22a), 1, &mut pair, &hex(&[9, 4]));
        let mut pair = [2.0f64.to_bits(), 4];
        packs(predefined(0x229), 1, &mut pair, &hex(&[0x4000_0000, 0, 4]));
        if cfg!(target_arch = "x86_64") {
            let mut halves = [0xc000_0000_0000_0000_u64, 0x3fff];
            packs(predefined(0x220), 1, &mut halves, &hex(&[0x3fff_8000, 0, 0, 0]));
        }
    });
}

#[test]
fn derived_types_are_packed_part_by_part() {
    on_ranks(1, |_, _, _| {
        let mut strided = every_second(3);
        packs(strided, 1, &mut [1, 0, 2, 0, 3, 0], &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);

        // A `long`, two `short`, and one of the strided type after a gap, twice.
        let (lengths, places) = ([1, 2, 1], [0isize, 8, 16]);
        let parts = [predefined(0x20a), predefined(0x208), strided];
        let (mut bare, mut datatype) = (null_mut(), null_mut());
        ok!(type_create_struct(
            3,
            lengths.as_ptr().into(),
            places.as_ptr().into(),
            parts.as_ptr(),
            &mut bare,
        ));
        // The lower bound that the strided type has set is that of the structure, unless it is set again.
        ok!(type_create_resized(bare, 0, 40, &mut datatype));
        ok!(type_free(&mut bare));
        ok!(type_commit(&mut datatype));
        let words = [1u64, 0x0003_0002, 4, 5, 6];
        let mut elements = [words, words.map(|word| word + 16)].concat();
        let outside = |add: u8| {
            let long = [0, 0, 0, 1 + add, 0, 2 + add, 0, 3];
            [&long[..], &[0, 0, 0, 4 + add, 0, 0, 0, 5 + add, 0, 0, 0, 6 + add]].concat()
        };
        packs(datatype, 2, &mut elements, &[outside(0), outside(16)].concat());
        ok!(type_free(&mut datatype));
        ok!(type_free(&mut strided));
    });
}

#[test]
fn what_can_not_be_packed_is_refused() {
    on_ranks(1, |_, _, _| {
        let (mut bytes, mut number, mut position, mut size) = ([0u8; 32], [1i64 << 40], 0, 0);
        let (from, to) = (address(&mut number), address(&mut bytes));
        let (int, long, name) = (predefined(INT), predefined(0x20a), EXTERNAL32.as_ptr());
        // SAFETY: the buffers have the lengths that are given, and other arguments are refused.
        unsafe {
            let code = pack_external(name, from, 1, long, to, 32, &mut position);
            assert_eq!((code, position), (MPI_ERR_CONVERSION, 0));
            let code = pack_external_size(c"external64".as_ptr(), 1, int, &mut size);
            assert_eq!(code, MPI_ERR_UNSUPPORTED_DATAREP);
            assert_eq!(pack_external_size(name, -1, int, &mut size), MPI_ERR_COUNT);
            let code = pack_external(name, from, 1, MPI_DATATYPE_NULL, to, 32, &mut position);
            assert_eq!(code, MPI_ERR_TYPE);
            position = 33;
            let code = unpack_external(name, to, 32, &mut position, from, 1, int);
            assert_eq!(code, MPI_ERR_ARG);
        }
    });
}

/// Returns the size, the combiner and the numbers of a type that was made for Fortran.
fn made_for(datatype: Handle) -> (i64, c_int, Vec<c_int>) {
    let (mut size, mut numbers, mut combiner) = (0, [-1; 3], 0);
    ok!(type_size(datatype, &mut size));
    let [integers, addresses, types] = &mut numbers;
    ok!(type_get_envelope(datatype, integers, addresses, types, &mut combiner));
    let [count, addresses, types] = numbers;
    assert_eq!((addresses, types), (0, 0));
    let mut integers = vec![0; count as usize];
    let (first, none) = (integers.as_mut_ptr(), null_mut());
    ok!(type_get_contents(datatype, count, 0, 0, first, none, null_mut()));
    (size, combiner, integers)
}

#[test]
fn types_for_kinds_of_numbers() {
    on_ranks(2, |comm, _, size| {
        let (mut datatype, mut again) = (null_mut(), null_mut());
        let any = MPI_UNDEFINED;
        for (digits, range, bytes) in [
            (6, 37, 4),
            (1, 1, 4),
            (any, 38, 8),
            (7, any, 8),
            (15, 307, 8),
            (15, 308, 16),
            (16, 0, 16),
            (33, 4931, 16),
        ] {
            ok!(type_create_f90_real(digits, range, &mut datatype));
            assert_eq!(made_for(datatype), (bytes, MPI_COMBINER_F90_REAL, vec![digits, range]));
            ok!(type_create_f90_real(digits, range, &mut again));
            assert_eq!(datatype, again);
            ok!(type_create_f90_complex(digits, range, &mut again));
            assert_eq!(made_for(again), (2 * bytes, MPI_COMBINER_F90_COMPLEX, vec![digits, range]));
        }
        for (digits, bytes) in [(1, 1), (2, 1), (3, 2), (9, 4), (10, 8), (18, 8), (38, 16)] {
            ok!(type_create_f90_integer(digits, &mut datatype));
            assert_eq!(made_for(datatype), (bytes, MPI_COMBINER_F90_INTEGER, vec![digits]));
        }
        // SAFETY: what there is not is refused, and so is freeing.
        unsafe {
            assert_eq!(type_create_f90_real(34, any, &mut again), MPI_ERR_ARG);
            assert_eq!(type_create_f90_complex(1, 5000, &mut again), MPI_ERR_ARG);
            assert_eq!(type_create_f90_real(any, any, &mut again), MPI_ERR_ARG);
            assert_eq!(type_create_f90_integer(39, &mut again), MPI_ERR_ARG);
            assert_eq!(type_free(&mut datatype), MPI_ERR_TYPE);
        }
        // They are used without being committed, also in reductions and in other types.
        ok!(type_create_f90_real(15, any, &mut datatype));
        let (mut own, mut sum) = ([1.5f64, 2.0], [0.0f64; 2]);
        let (from, to) = (address(&mut own), address(&mut sum));
        ok!(calls::collectives::allreduce(from, to, 2, datatype, MPI_SUM, comm));
        assert_eq!(sum, own.map(|one| one * size as f64));
        packs(datatype, 1, &mut [1.5f64], &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
        let (mut pair, mut part, mut number) = (null_mut(), null_mut(), 0);
        ok!(type_contiguous(2, datatype, &mut pair));
        ok!(type_get_contents(pair, 1, 0, 1, &mut number, null_mut(), &mut part));
        assert_eq!(part, datatype);
        ok!(type_free(&mut pair));
    });
}

#[test]
fn pairs_of_values_and_places() {
    on_ranks(3, |comm, me, _| {
        let mut pair = null_mut();
        ok!(type_get_value_index(predefined(DOUBLE), predefined(INT), &mut pair));
        #[repr(C)]
        struct At(f64, i32);
        let (mut own, mut most) = ([At(-(me as f64), me as i32)], [At(9.0, 9)]);
        let (from, to) = (address(&mut own), address(&mut most));
        ok!(calls::collectives::allreduce(from, to, 1, pair, MPI_MAXLOC, comm));
        assert_eq!((most[0].0, most[0].1), (0.0, 0));
        ok!(type_get_value_index(predefined(INT), predefined(DOUBLE), &mut pair));
        assert_eq!(pair, MPI_DATATYPE_NULL);
        // SAFETY: the null handle is refused.
        let code = unsafe { type_get_value_index(pair, predefined(INT), &mut pair) };
        assert_eq!(code, MPI_ERR_TYPE);
    });
}

#[test]
fn statuses_are_read_and_written() {
    on_ranks(1, |_, _, _| {
        let (mut status, mut answers) = (status(), [0; 3]);
        ok!(status_set_source(&mut status, 3));
        ok!(status_set_tag(&mut status, 4));
        ok!(status_set_error(&mut status, 5));
        assert_eq!((status.source, status.tag, status.error), (3, 4, 5));
        let [source, tag, error] = &mut answers;
        ok!(status_get_source(&status, source));
        ok!(status_get_tag(&status, tag));
        ok!(status_get_error(&status, error));
        assert_eq!(answers, [3, 4, 5]);
        // SAFETY: null pointers are refused.
        unsafe {
            assert_eq!(status_set_tag(null_mut(), 1), MPI_ERR_ARG);
            assert_eq!(status_get_tag(std::ptr::null(), &mut answers[0]), MPI_ERR_ARG);
            assert_eq!(status_get_tag(&status, null_mut()), MPI_ERR_ARG);
        }
    });
}
