// The tests of one form of the operations: `mod.rs` includes this once for each.

use std::ptr::null;

use crate::{
    calls::{datatypes::*, operations::*},
    constants::{
        MPI_BAND, MPI_BOR, MPI_BXOR, MPI_ERR_BUFFER, MPI_ERR_OP, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MAX,
        MPI_MAXLOC, MPI_MIN, MPI_MINLOC, MPI_PROD, MPI_SUM,
    },
};

const SIZES: std::ops::RangeInclusive<usize> = 1..=5;

#[test]
fn sums_of_all_kinds() {
    for size in SIZES {
        for length in [1usize, 3, 5_000] {
            on_ranks(size, |comm, me, size| {
                sums::<i32>(comm, (me, size), INT, length, |number| number as i32);
                sums::<f64>(comm, (me, size), DOUBLE, length, |number| number as f64);
                // Not one of those that Onchip reduces by itself.
                sums::<u16>(comm, (me, size), 0x249, length, |number| number as u16);
            });
        }
    }
}

fn sums<T: Copy + Default + PartialEq + std::fmt::Debug>(
    comm: Handle,
    (me, size): (usize, usize),
    datatype: usize,
    length: usize,
    from: impl Fn(usize) -> T,
) {
    let (datatype, count) = (predefined(datatype), length as i64);
    let number = |rank: usize, place: usize| rank + 1 + place % 7;
    let of = |ranks: usize| -> Vec<T> {
        let sum = |place| from((0..ranks).map(|rank| number(rank, place)).sum());
        (0..length).map(sum).collect()
    };
    let (all, up_to_me, below) = (of(size), of(me + 1), of(me));
    let mut mine: Vec<T> = (0..length).map(|place| from(number(me, place))).collect();
    let mut result = vec![T::default(); length];
    ok!(allreduce(address(&mut mine), address(&mut result), count, datatype, MPI_SUM, comm));
    assert_eq!(result, all);
    result.clone_from(&mine);
    let to = address(&mut result);
    once(|| ok!(allreduce(in_place(), to, count, datatype, MPI_SUM, comm)));
    assert_eq!(result, all);
    for root in 0..size {
        let mut result = if me == root { mine.clone() } else { vec![] };
        let (from, to) = match me == root {
            true => (in_place(), address(&mut result)),
            false => (address(&mut mine), null_mut()),
        };
        once(|| ok!(reduce(from, to, count, datatype, MPI_SUM, root as c_int, comm)));
        assert!(me != root || result == all);
    }
    ok!(scan(address(&mut mine), address(&mut result), count, datatype, MPI_SUM, comm));
    assert_eq!(result, up_to_me);
    result.fill(T::default());
    ok!(exscan(address(&mut mine), address(&mut result), count, datatype, MPI_SUM, comm));
    assert_eq!(result, below);
    result.clone_from(&mine);
    let to = address(&mut result);
    once(|| ok!(exscan(in_place(), to, count, datatype, MPI_SUM, comm)));
    assert_eq!(result, if me == 0 { mine.clone() } else { below });

    // Blocks of different lengths, and equal ones.
    let counts: Vec<c_int> = (0..size)
        .map(|rank| ((rank + 1) * length / size - rank * length / size) as c_int)
        .collect();
    let start: usize = counts[..me].iter().map(|&count| count as usize).sum();
    let own = counts[me] as usize;
    let mut block = vec![T::default(); own];
    let lengths = counts.as_ptr().into();
    ok!(reduce_scatter(address(&mut mine), address(&mut block), lengths, datatype, MPI_SUM, comm));
    assert_eq!(block, all[start..start + own]);
    result.clone_from(&mine);
    let to = address(&mut result);
    once(|| ok!(reduce_scatter(in_place(), to, lengths, datatype, MPI_SUM, comm)));
    assert_eq!(result[..own], all[start..start + own]);
    let each = length / size;
    let mut block = vec![T::default(); each];
    ok!(reduce_scatter_block(
        address(&mut mine),
        address(&mut block),
        each as i64,
        datatype,
        MPI_SUM,
        comm,
    ));
    assert_eq!(block, all[me * each..(me + 1) * each]);
}

#[test]
fn all_operations_on_long_vectors_of_integers() {
    const COUNT: usize = 900;
    for size in 2..=3 {
        on_ranks(size, |comm, me, size| {
            // The fixed sizes are in the numbers.
            for number in [0x240, 0x241, 0x248, 0x249, 0x250, 0x251, 0x258, 0x259] {
                let (datatype, bytes) = (predefined(number), 1 << (number >> 3 & 7));
                let of = |rank: usize| -> Vec<u8> {
                    // Some elements are 0, which counts as false.
                    let is_zero = |place: usize| (place / bytes + rank).is_multiple_of(5);
                    let byte = |place: usize| (place * (2 * rank + 7) + place / 11) as u8;
                    (0..COUNT * bytes)
                        .map(|place| if is_zero(place) { 0 } else { byte(place) })
                        .collect()
                };
                for op in [
                    MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND,
                    MPI_LOR, MPI_LXOR,
                ] {
                    let (count, mut all) = (COUNT as i64, of(0));
                    for rank in 1..size {
                        let mut upper = of(rank);
                        ok!(reduce_local(address(&mut all), address(&mut upper), count, datatype, op));
                        all = upper;
                    }
                    let (mut mine, mut result) = (of(me), vec![0u8; COUNT * bytes]);
                    let (from, to) = (address(&mut mine), address(&mut result));
                    ok!(allreduce(from, to, count, datatype, op, comm));
                    assert!(result == all, "all-reduce of {number:#x} with {op:?}");
                    result.fill(0);
                    let to = address(&mut result);
                    ok!(reduce(from, to, count, datatype, op, 1, comm));
                    assert!(me != 1 || result == all, "reduce of {number:#x} with {op:?}");
                    let each = COUNT / size;
                    let to = address(&mut result);
                    ok!(reduce_scatter_block(from, to, each as i64, datatype, op, comm));
                    let block = each * bytes;
                    let own = &all[me * block..(me + 1) * block];
                    assert!(result[..block] == *own, "a block of {number:#x} with {op:?}");
                    // Blocks of different lengths.
                    let counts: Vec<c_int> = (1..=size as c_int).map(|rank| 100 * rank).collect();
                    let start = counts[..me].iter().sum::<c_int>() as usize * bytes;
                    let to = address(&mut result);
                    let lengths = counts.as_ptr().into();
                    ok!(reduce_scatter(from, to, lengths, datatype, op, comm));
                    let own = &all[start..][..counts[me] as usize * bytes];
                    assert!(result[..own.len()] == *own, "a block of {number:#x} with {op:?}");
                }
            }
        });
    }
}

#[test]
fn places_of_the_least_and_greatest() {
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct DoubleInt(f64, i32);
    for size in SIZES {
        on_ranks(size, |comm, me, size| {
            let pair = predefined(0x229);
            let mut mine =
                [DoubleInt((me as f64 - 1.0).abs(), me as i32), DoubleInt(4.0, me as i32)];
            let mut result = [DoubleInt(0.0, 0); 2];
            ok!(allreduce(address(&mut mine), address(&mut result), 2, pair, MPI_MINLOC, comm));
            let least = if size == 1 { DoubleInt(1.0, 0) } else { DoubleInt(0.0, 1) };
            assert_eq!(result, [least, DoubleInt(4.0, 0)]);
            ok!(allreduce(address(&mut mine), address(&mut result), 1, pair, MPI_MAXLOC, comm));
            let greatest = if size <= 3 { 0 } else { size as i32 - 1 };
            assert_eq!(result[0].1, greatest);
        });
    }
}

/// Multiplies matrices of two rows and columns, which does not commute.
unsafe extern "C" fn multiply(
    lower: *mut c_void,
    upper: *mut c_void,
    count: *mut c_int,
    _: *mut Handle,
) {
    let (lower, upper) = (lower.cast::<[i32; 4]>(), upper.cast::<[i32; 4]>());
    // SAFETY: the test reduces vectors of such matrices.
    for place in 0..unsafe { *count } as usize {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (*lower.add(place), *upper.add(place));
            *upper.add(place) = product(a, b);
        }
    }
}

fn product([a, b, c, d]: [i32; 4], [e, f, g, h]: [i32; 4]) -> [i32; 4] {
    let sum = |w: i32, x: i32, y: i32, z: i32| w.wrapping_mul(x).wrapping_add(y.wrapping_mul(z));
    [sum(a, e, b, g), sum(a, f, b, h), sum(c, e, d, g), sum(c, f, d, h)]
}

#[test]
fn functions_of_programs_combine_in_the_order_of_ranks() {
    for size in SIZES {
        on_ranks(size, |comm, me, size| {
            let (mut matrix, mut op) = (null_mut(), null_mut());
            ok!(type_contiguous(4, predefined(INT), &mut matrix));
            ok!(type_commit(&mut matrix));
            ok!(op_create(Some(multiply), 0, &mut op));
            let of = |rank: usize, place: usize| [1, rank as i32 + 2, place as i32 + 1, 3];
            let fold = |ranks: std::ops::Range<usize>, place| {
                ranks.map(|rank| of(rank, place)).reduce(product).unwrap()
            };
            let mut mine = [of(me, 0), of(me, 1)];
            let mut result = [[0; 4]; 2];
            ok!(allreduce(address(&mut mine), address(&mut result), 2, matrix, op, comm));
            assert_eq!(result, [fold(0..size, 0), fold(0..size, 1)]);
            for root in 0..size as c_int {
                let mut result = [[0; 4]; 2];
                ok!(reduce(address(&mut mine), address(&mut result), 2, matrix, op, root, comm));
                if me as c_int == root {
                    assert_eq!(result, [fold(0..size, 0), fold(0..size, 1)]);
                }
            }
            ok!(scan(address(&mut mine), address(&mut result), 2, matrix, op, comm));
            assert_eq!(result, [fold(0..me + 1, 0), fold(0..me + 1, 1)]);
            ok!(exscan(address(&mut mine), address(&mut result), 2, matrix, op, comm));
            if me > 0 {
                assert_eq!(result, [fold(0..me, 0), fold(0..me, 1)]);
            }
            let mut all: Vec<_> = (0..size).map(|place| of(me, place)).collect();
            let mut block = [[0; 4]];
            ok!(reduce_scatter_block(address(&mut all), address(&mut block), 1, matrix, op, comm));
            assert_eq!(block, [fold(0..size, me)]);
            let mut commutes = 1;
            ok!(op_commutative(op, &mut commutes));
            assert_eq!(commutes, 0);
            ok!(op_free(&mut op));
            ok!(type_free(&mut matrix));
        });
    }
}

#[test]
fn elements_with_gaps_and_a_lower_bound() {
    /// Adds the first and the last `int` of elements of four.
    unsafe extern "C" fn add(
        lower: *mut c_void,
        upper: *mut c_void,
        count: *mut c_int,
        _: *mut Handle,
    ) {
        // SAFETY: the elements have numbers 4 bytes and 12 bytes after their address, and are 20 bytes long.
        unsafe {
            for place in 0..*count as usize {
                for number in [1, 3] {
                    let at = place * 5 + number;
                    *upper.cast::<i32>().add(at) += *lower.cast::<i32>().add(at);
                }
            }
        }
    }
    on_ranks(3, |comm, me, _| {
        let (mut indexed, mut datatype, mut op) = (null_mut(), null_mut(), null_mut());
        let places = [1, 3];
        ok!(type_create_indexed_block(2, 1, places.as_ptr().into(), predefined(INT), &mut indexed));
        ok!(type_create_resized(indexed, 4, 20, &mut datatype));
        ok!(type_commit(&mut datatype));
        ok!(op_create(Some(add), 1, &mut op));
        let mut mine: Vec<i32> = (0..10).map(|place| place + 100 * me as i32).collect();
        let mut result = vec![-1; 10];
        ok!(allreduce(address(&mut mine), address(&mut result), 2, datatype, op, comm));
        let sum = |place: i32| 3 * place + 300;
        assert_eq!(result, [-1, sum(1), -1, sum(3), -1, -1, sum(6), -1, sum(8), -1]);
        ok!(op_free(&mut op));
        ok!(type_free(&mut datatype));
        ok!(type_free(&mut indexed));
    });
}

#[test]
fn local_reductions_and_refused_ones() {
    on_ranks(2, |comm, _, _| {
        let (mut lower, mut upper) = ([1, 8], [5, 2]);
        ok!(reduce_local(address(&mut lower), address(&mut upper), 2, predefined(INT), MPI_MAX));
        assert_eq!(upper, [5, 8]);
        let (mut mine, mut result) = ([0.5], [0.0]);
        // SAFETY: both have one element.
        unsafe {
            let [from, to] = [&mut mine, &mut result].map(|one| address(one));
            assert_eq!(allreduce(from, to, 1, predefined(DOUBLE), MPI_BXOR, comm), MPI_ERR_OP);
            assert_ne!(allreduce(from, from, 1, predefined(DOUBLE), MPI_SUM, comm), 0);
        }
        ok!(allreduce(null(), null_mut(), 0, predefined(INT), MPI_SUM, comm));
    });
}

#[test]
fn local_reductions_need_two_buffers() {
    on_ranks(1, |_, _, _| {
        let (int, mut numbers, mut others) = (predefined(INT), [1, 2], [3, 4]);
        let (one, other) = (address(&mut numbers), address(&mut others));
        // SAFETY: the buffers have two numbers.
        let codes = unsafe {
            [
                reduce_local(in_place(), one, 2, int, MPI_SUM),
                reduce_local(one, in_place(), 2, int, MPI_SUM),
                reduce_local(one, one, 2, int, MPI_SUM),
                reduce_local(one, other, 2, int, MPI_SUM),
            ]
        };
        assert_eq!(codes, [MPI_ERR_BUFFER, MPI_ERR_BUFFER, MPI_ERR_BUFFER, 0]);
        assert_eq!((numbers, others), ([1, 2], [4, 6]));
    });
}
