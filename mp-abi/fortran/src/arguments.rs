//! How an argument of a subroutine becomes one of a function in C, and what is written back.

use std::{
    ffi::{c_char, c_int, c_void},
    marker::PhantomData,
    ptr::{self, without_provenance_mut},
    slice,
};

use crate::{handles::Kind, sentinels};

/// An argument of a subroutine. Fortran passes all of them by reference.
pub trait Argument: Sized {
    /// What the program passes.
    type Given;
    /// What the function in C gets.
    type Passed;

    /// Reads an argument. `size` is the length of a list or of a text.
    ///
    /// # Safety
    /// The argument is what the standard says.
    unsafe fn take(given: Self::Given, size: usize) -> Self;

    /// Returns what the function in C gets.
    fn pass(&mut self) -> Self::Passed;

    /// Writes back what the function in C has changed.
    ///
    /// # Safety
    /// As for `take`.
    unsafe fn finish(self) {}
}

/// A number, which may be a logical value, an address or an offset.
pub struct Value<T>(T);

impl Value<c_int> {
    /// Returns the length that this is of the lists of the same call.
    pub fn length(&self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }
}

impl<T: Copy> Argument for Value<T> {
    type Given = *const T;
    type Passed = T;

    unsafe fn take(given: *const T, _: usize) -> Value<T> {
        // SAFETY: as the caller says.
        Value(unsafe { given.read() })
    }

    fn pass(&mut self) -> T {
        self.0
    }
}

/// Numbers that are the same in both languages: results and lists.
pub struct At<T>(*mut T);

impl<T> Argument for At<T> {
    type Given = *mut T;
    type Passed = *mut T;

    unsafe fn take(given: *mut T, _: usize) -> At<T> {
        At(given)
    }

    fn pass(&mut self) -> *mut T {
        self.0
    }
}

/// The place of a request in a list, which begins at 1 in Fortran.
pub struct Index(*mut c_int);

impl Argument for Index {
    type Given = *mut c_int;
    type Passed = *mut c_int;

    unsafe fn take(given: *mut c_int, _: usize) -> Index {
        Index(given)
    }

    fn pass(&mut self) -> *mut c_int {
        self.0
    }

    unsafe fn finish(self) {
        // SAFETY: as the caller says.
        unsafe { count_from_one(self.0, 1) };
    }
}

/// Adds 1 to the places in a list. `MPI_UNDEFINED`, which is negative, stays.
///
/// # Safety
/// There are as many integers at this address.
pub unsafe fn count_from_one(places: *mut c_int, count: usize) {
    for at in 0..count {
        // SAFETY: as the caller says.
        let place = unsafe { &mut *places.add(at) };
        *place += c_int::from(*place >= 0);
    }
}

/// An address that is an integer, as in MPI-1.
pub struct Wide(i64);

impl Argument for Wide {
    type Given = *const c_int;
    type Passed = i64;

    unsafe fn take(given: *const c_int, _: usize) -> Wide {
        // SAFETY: as the caller says.
        Wide(i64::from(unsafe { given.read() }))
    }

    fn pass(&mut self) -> i64 {
        self.0
    }
}

/// Addresses that are integers, as in MPI-1.
pub struct WideList(Vec<i64>);

impl Argument for WideList {
    type Given = *const c_int;
    type Passed = *mut i64;

    unsafe fn take(given: *const c_int, size: usize) -> WideList {
        // SAFETY: as the caller says.
        WideList((0..size).map(|at| i64::from(unsafe { given.add(at).read() })).collect())
    }

    fn pass(&mut self) -> *mut i64 {
        self.0.as_mut_ptr()
    }
}

/// An address as a result that is an integer, as in MPI-1.
pub struct Narrow(*mut c_int, i64);

impl Argument for Narrow {
    type Given = *mut c_int;
    type Passed = *mut i64;

    unsafe fn take(given: *mut c_int, _: usize) -> Narrow {
        Narrow(given, 0)
    }

    fn pass(&mut self) -> *mut i64 {
        &mut self.1
    }

    unsafe fn finish(self) {
        // SAFETY: as the caller says. MPI-1 has no way to say that it does not fit.
        unsafe { self.0.write(self.1 as c_int) };
    }
}

/// A buffer, or one of the places in `mpif.h` that stand for no buffer.
pub struct Buffer(*mut c_void);

impl Argument for Buffer {
    type Given = *mut c_void;
    type Passed = *mut c_void;

    unsafe fn take(given: *mut c_void, _: usize) -> Buffer {
        Buffer(if sentinels::is_bottom(given) {
            ptr::null_mut()
        } else if sentinels::is_in_place(given) {
            without_provenance_mut(1)
        } else {
            given
        })
    }

    fn pass(&mut self) -> *mut c_void {
        self.0
    }
}

/// A status or a list of them, which are the same in both languages, or a place in `mpif.h` that stands for none.
pub struct Status(*mut c_int);

impl Argument for Status {
    type Given = *mut c_int;
    type Passed = *mut c_int;

    unsafe fn take(given: *mut c_int, _: usize) -> Status {
        Status(if sentinels::is_no_status(given.cast()) { ptr::null_mut() } else { given })
    }

    fn pass(&mut self) -> *mut c_int {
        self.0
    }
}

/// A text, without the blanks at its end.
pub struct Text(Vec<u8>);

impl Argument for Text {
    type Given = *const u8;
    type Passed = *const c_char;

    unsafe fn take(given: *const u8, size: usize) -> Text {
        // SAFETY: as the caller says.
        let text = unsafe { slice::from_raw_parts(given, size) };
        let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
        Text([&text[..end], &[0]].concat())
    }

    fn pass(&mut self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// Room for a text, which is filled up with blanks.
pub struct Room {
    given: *mut u8,
    size: usize,
    text: Vec<u8>,
}

impl Room {
    /// More than the longest text that a function writes, `MPI_MAX_LIBRARY_VERSION_STRING`.
    const MOST: usize = 8193;
    /// The first byte of a text that was not written.
    const UNTOUCHED: u8 = 0xff;
}

impl Argument for Room {
    type Given = *mut u8;
    type Passed = *mut c_char;

    unsafe fn take(given: *mut u8, size: usize) -> Room {
        let mut text = vec![0; Room::MOST];
        text[0] = Room::UNTOUCHED;
        Room { given, size, text }
    }

    fn pass(&mut self) -> *mut c_char {
        self.text.as_mut_ptr().cast()
    }

    unsafe fn finish(self) {
        if self.text[0] == Room::UNTOUCHED {
            return;
        }
        let written = self.text.split(|&byte| byte == 0).next().unwrap_or_default();
        // SAFETY: as the caller says.
        let room = unsafe { slice::from_raw_parts_mut(self.given, self.size) };
        room.fill(b' ');
        let fits = written.len().min(self.size);
        room[..fits].copy_from_slice(&written[..fits]);
    }
}

/// A handle.
pub struct In<K>(c_int, PhantomData<K>);

impl<K: Kind> Argument for In<K> {
    type Given = *const c_int;
    type Passed = *mut c_void;

    unsafe fn take(given: *const c_int, _: usize) -> In<K> {
        // SAFETY: as the caller says.
        In(unsafe { given.read() }, PhantomData)
    }

    fn pass(&mut self) -> *mut c_void {
        K::handle(self.0)
    }
}

/// A handle that the function in C changes.
pub struct InOut<K>(*mut c_int, *mut c_void, PhantomData<K>);

impl<K: Kind> Argument for InOut<K> {
    type Given = *mut c_int;
    type Passed = *mut *mut c_void;

    unsafe fn take(given: *mut c_int, _: usize) -> InOut<K> {
        // SAFETY: as the caller says.
        InOut(given, K::handle(unsafe { given.read() }), PhantomData)
    }

    fn pass(&mut self) -> *mut *mut c_void {
        &mut self.1
    }

    unsafe fn finish(self) {
        // SAFETY: as the caller says.
        unsafe { self.0.write(K::number(self.1)) };
    }
}

/// A handle as a result. If the call fails, it stays as it was.
pub struct Out<K>(*mut c_int, *mut c_void, PhantomData<K>);

impl<K: Kind> Argument for Out<K> {
    type Given = *mut c_int;
    type Passed = *mut *mut c_void;

    unsafe fn take(given: *mut c_int, _: usize) -> Out<K> {
        Out(given, ptr::null_mut(), PhantomData)
    }

    fn pass(&mut self) -> *mut *mut c_void {
        &mut self.1
    }

    unsafe fn finish(self) {
        if !self.1.is_null() {
            // SAFETY: as the caller says.
            unsafe { self.0.write(K::number(self.1)) };
        }
    }
}

/// A list of handles, which the function in C may change.
pub struct List<K>(*mut c_int, Vec<*mut c_void>, PhantomData<K>);

impl<K: Kind> Argument for List<K> {
    type Given = *mut c_int;
    type Passed = *mut *mut c_void;

    unsafe fn take(given: *mut c_int, size: usize) -> List<K> {
        // SAFETY: as the caller says.
        let handles = (0..size).map(|at| K::handle(unsafe { given.add(at).read() })).collect();
        List(given, handles, PhantomData)
    }

    fn pass(&mut self) -> *mut *mut c_void {
        self.1.as_mut_ptr()
    }

    unsafe fn finish(self) {
        for (at, &handle) in self.1.iter().enumerate() {
            // SAFETY: as the caller says. What has not changed is not written: a program may pass a constant list.
            unsafe {
                let number = K::number(handle);
                if self.0.add(at).read() != number {
                    self.0.add(at).write(number);
                }
            }
        }
    }
}
