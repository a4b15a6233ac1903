use std::{ffi::c_void, ptr::without_provenance_mut};

use super::*;
use crate::datatype::{Kind, look};

/// Combines two elements of a predefined type.
fn combined<T: Copy>(op: usize, datatype: usize, lower: T, upper: T) -> T {
    let (mut lower, mut upper) = (lower, upper);
    let handle = without_provenance_mut(datatype);
    // SAFETY: both handles are predefined, and `T` is the type's type in C.
    unsafe {
        let datatype = look(handle).unwrap();
        assert_eq!(datatype.extent as usize, size_of::<T>());
        let combine = Op::keep(without_provenance_mut(op)).unwrap().on(datatype, handle).unwrap();
        let [lower, to] = [&raw mut lower, &raw mut upper].map(|one| one.cast::<c_void>());
        combine.apply(lower, to, 1);
    }
    upper
}

#[test]
fn numbers() {
    assert_eq!(combined(SUM, 0x209, 3i32, -5), -2);
    assert_eq!(combined(SUM, 0x240, 127i8, 1), -128);
    assert_eq!(combined(PROD, 0x214, 1.5f64, 4.0), 6.0);
    assert_eq!(combined(MIN, 0x20d, 1u32, u32::MAX), 1);
    assert_eq!(combined(MAX, 0x20d, 1u32, u32::MAX), u32::MAX);
    assert_eq!(combined(MAX, 0x209, 1i32, -1), 1);
    assert_eq!(combined(SUM, 0x212, [1f32, 2.0], [3.0, -1.0]), [4.0, 1.0]);
    assert_eq!(combined(PROD, 0x216, [1f64, 2.0], [3.0, -1.0]), [5.0, 5.0]);
}

#[test]
fn bits_and_truth() {
    assert_eq!(combined(BAND, 0x247, 0b1100u8, 0b1010), 0b1000);
    assert_eq!(combined(BOR, 0x249, 0b1100u16, 0b1010), 0b1110);
    assert_eq!(combined(BXOR, 0x259, 0b1100u64, 0b1010), 0b0110);
    for (a, b) in [(0, 0), (0, 7), (5, 0), (5, 7)] {
        let truth = |value: bool| i32::from(value);
        assert_eq!(combined(LAND, 0x209, a, b), truth(a != 0 && b != 0));
        assert_eq!(combined(LOR, 0x218, a, b), truth(a != 0 || b != 0));
        assert_eq!(combined(LXOR, 0x209, a, b), truth((a != 0) != (b != 0)));
        assert_eq!(combined(LOR, 0x238, a as u8, b as u8), u8::from(a != 0 || b != 0));
    }
}

#[test]
fn places() {
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct DoubleInt(f64, i32);
    let pair = |value, place| DoubleInt(value, place);
    assert_eq!(combined(MINLOC, 0x229, pair(1.0, 7), pair(2.0, 3)), pair(1.0, 7));
    assert_eq!(combined(MAXLOC, 0x229, pair(1.0, 7), pair(2.0, 3)), pair(2.0, 3));
    assert_eq!(combined(MAXLOC, 0x229, pair(2.0, 7), pair(2.0, 3)), pair(2.0, 3));
    assert_eq!(combined(MINLOC, 0x22b, [4, 1], [4, 2]), [4, 1]);
}

#[test]
fn what_is_not_defined() {
    let defined = |op: usize, datatype: usize| {
        let handle = without_provenance_mut(datatype);
        // SAFETY: both handles are predefined.
        unsafe {
            let op = Op::keep(without_provenance_mut(op)).unwrap();
            op.on(look(handle).unwrap(), handle).is_ok()
        }
    };
    assert!(!defined(MINLOC, 0x209) && !defined(SUM, 0x22b) && !defined(BAND, 0x214));
    assert!(!defined(SUM, 0x247) && defined(BAND, 0x247) && !defined(MIN, 0x212));
    assert!(!defined(SUM, 0x207) && !defined(SUM, 0x218) && defined(LAND, 0x218));
    // SAFETY: the number is below 4096.
    assert!(unsafe { Op::keep(without_provenance_mut(0x20)) }.is_err());
    assert!(kernels::find(SUM, Kind::None).is_none());
}

#[test]
fn functions_of_programs_get_the_handle_that_was_passed() {
    unsafe extern "C" fn check(
        lower: *mut c_void,
        upper: *mut c_void,
        count: *mut c_int,
        datatype: *mut Handle,
    ) {
        // SAFETY: the test passes two arrays of this length.
        unsafe {
            assert_eq!(((*datatype).addr(), *count), (0x209, 2));
            for place in 0..*count as usize {
                let (lower, upper) = (lower.cast::<i32>(), upper.cast::<i32>());
                *upper.add(place) = *lower.add(place) * 10 + *upper.add(place);
            }
        }
    }
    let op = UserOp { function: Function::Small(check), commutes: false }.into_handle();
    let handle = without_provenance_mut(0x209);
    let (mut lower, mut upper) = ([1, 2], [3, 4]);
    // SAFETY: the operation was just made, and the arrays have as many elements of this type.
    unsafe {
        let kept = Op::keep(op).unwrap();
        assert!(!kept.commutes());
        let combine = kept.on(look(handle).unwrap(), handle).unwrap();
        release(op).unwrap();
        combine.apply((&raw mut lower).cast(), (&raw mut upper).cast(), 2);
    }
    assert_eq!(upper, [13, 24]);
}
