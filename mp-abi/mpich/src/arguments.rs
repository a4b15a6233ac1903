//! Arguments that are addresses: what a call of `mp-abi` gets in their place, and how the program gets the results.
//!
//! Each type here is made of an argument before the call, gives the call an address by `place`, and gives the program
//! what has come by `give`. Without an address of the program, the call gets none.

use std::{
    ffi::{c_int, c_void},
    marker::PhantomData,
    ptr::null_mut,
};

use mp_abi::{
    constants::{
        MPI_HOST, MPI_IO, MPI_LASTUSEDCODE, MPI_SUCCESS, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL,
    },
    types::{Handle, Status as Standard},
};

use crate::{
    kinds::Kind,
    list::List,
    numbers::{end, file, handle, number, shown_file},
    status::{EMPTY, Status, show, unless_ignored},
    values::{key, shown_error, shown_flavor, shown_model, shown_rank},
    variables::{is_empty, is_unweighted},
};

/// Returns the address, or null if the program gives none.
#[inline]
fn unless_null<T, U>(given: *const T, place: *mut U) -> *mut U {
    if given.is_null() { null_mut() } else { place }
}

/// Returns the length of an array of the program.
#[inline]
fn length<T>(given: *const T, count: c_int) -> usize {
    if given.is_null() { 0 } else { count.try_into().unwrap_or(0) }
}

/// A place for a new handle.
#[derive(Debug)]
pub struct Made<K> {
    to: *mut c_int,
    handle: Handle,
    kind: PhantomData<K>,
}

impl<K: Kind> Made<K> {
    /// Makes a place.
    #[inline]
    pub fn new(to: *mut c_int) -> Self {
        Self { to, handle: null_mut(), kind: PhantomData }
    }

    /// Returns where the call is to write the handle.
    #[inline]
    pub fn place(&mut self) -> *mut Handle {
        unless_null(self.to, &mut self.handle)
    }

    /// Gives the program the handle, if there is one.
    ///
    /// # Safety
    /// The address is null, or can be written to.
    #[inline]
    pub unsafe fn give(&self) {
        if !self.handle.is_null() {
            // SAFETY: the caller says so. A handle came only if the address is not null.
            unsafe { self.to.write(number::<K>(self.handle)) };
        }
    }
}

/// Handles that the program has, which the call may change.
#[derive(Debug)]
pub struct Changed<K> {
    to: *mut c_int,
    handles: List<Handle>,
    kind: PhantomData<K>,
}

impl<K: Kind> Changed<K> {
    /// Reads the handles of an array.
    ///
    /// # Safety
    /// The address is null, or there are `count` numbers.
    #[inline]
    pub unsafe fn new(to: *mut c_int, count: c_int) -> Self {
        // SAFETY: the caller says so.
        let make = |place| handle::<K>(unsafe { *to.add(place) });
        Self { to, handles: List::new(length(to, count), null_mut(), make), kind: PhantomData }
    }

    /// Returns where the handles are.
    #[inline]
    pub fn place(&mut self) -> *mut Handle {
        unless_null(self.to, self.handles.elements().as_mut_ptr())
    }

    /// Gives the program the handles that have changed.
    ///
    /// # Safety
    /// The address is null, or the numbers can be written to, and are those that this was made of.
    #[inline]
    pub unsafe fn give(&mut self) {
        for (place, &mut now) in self.handles.elements().iter_mut().enumerate() {
            // SAFETY: the caller says so.
            unsafe {
                let at = self.to.add(place);
                if handle::<K>(*at) != now {
                    end::<K>(*at);
                    at.write(number::<K>(now));
                }
            }
        }
    }
}

/// One handle that the program has, which the call may change.
#[derive(Debug)]
pub struct ChangedOne<K> {
    to: *mut c_int,
    before: Handle,
    handle: Handle,
    kind: PhantomData<K>,
}

impl<K: Kind> ChangedOne<K> {
    /// Reads the handle.
    ///
    /// # Safety
    /// The address is null, or that of a number.
    #[inline]
    pub unsafe fn new(to: *mut c_int) -> Self {
        // SAFETY: the caller says so.
        let before = unsafe { to.as_ref() }.map_or(null_mut(), |&given| handle::<K>(given));
        Self { to, before, handle: before, kind: PhantomData }
    }

    /// Returns where the handle is.
    #[inline]
    pub fn place(&mut self) -> *mut Handle {
        unless_null(self.to, &mut self.handle)
    }

    /// Gives the program the handle, if it has changed.
    ///
    /// # Safety
    /// The address is null, or the number can be written to, and is that which this was made of.
    #[inline]
    pub unsafe fn give(&self) {
        if self.handle != self.before {
            // SAFETY: the caller says so. The call has got no other address than this of a handle.
            unsafe {
                end::<K>(*self.to);
                self.to.write(number::<K>(self.handle));
            }
        }
    }
}

/// A place for the handle of a file, which the program may have.
#[derive(Debug)]
pub struct File {
    to: *mut Handle,
    handle: Handle,
}

impl File {
    /// Makes a place for a new handle.
    pub fn new(to: *mut Handle) -> Self {
        Self { to, handle: null_mut() }
    }

    /// Reads the handle.
    ///
    /// # Safety
    /// The address is null, or that of a handle.
    pub unsafe fn changed(to: *mut Handle) -> Self {
        // SAFETY: the caller says so.
        Self { to, handle: unsafe { to.as_ref() }.map_or(null_mut(), |&given| file(given)) }
    }

    /// Returns where the handle is.
    pub fn place(&mut self) -> *mut Handle {
        unless_null(self.to, &mut self.handle)
    }

    /// Gives the program the handle, if there is one.
    ///
    /// # Safety
    /// The address is null, or can be written to.
    pub unsafe fn give(&self) {
        if !self.handle.is_null() {
            // SAFETY: the caller says so.
            unsafe { self.to.write(shown_file(self.handle)) };
        }
    }
}

/// Numbers of an array of the program, or handles of which it has numbers, which the call only reads.
#[derive(Debug)]
pub struct Array<T, U> {
    given: *const T,
    list: List<U>,
}

impl<T: Copy, U: Copy> Array<T, U> {
    /// Reads the array.
    ///
    /// # Safety
    /// The address is null, or there are `count` elements.
    pub unsafe fn new(given: *const T, count: c_int, empty: U, make: fn(T) -> U) -> Self {
        // SAFETY: the caller says so.
        let make = |place| make(unsafe { *given.add(place) });
        Self { given, list: List::new(length(given, count), empty, make) }
    }

    /// Returns where the elements are.
    pub fn place(&mut self) -> *const U {
        unless_null(self.given, self.list.elements().as_mut_ptr())
    }
}

/// A place for a number with a meaning, which the program may have.
#[derive(Debug)]
pub struct Number {
    to: *mut c_int,
    number: c_int,
}

impl Number {
    /// Makes a place.
    #[inline]
    pub fn new(to: *mut c_int) -> Self {
        Self { to, number: 0 }
    }

    /// Reads the number.
    ///
    /// # Safety
    /// The address is null, or that of a number.
    pub unsafe fn changed(to: *mut c_int, make: fn(c_int) -> c_int) -> Self {
        // SAFETY: the caller says so.
        Self { to, number: unsafe { to.as_ref() }.map_or(0, |&given| make(given)) }
    }

    /// Returns where the number is.
    #[inline]
    pub fn place(&mut self) -> *mut c_int {
        unless_null(self.to, &mut self.number)
    }

    /// Gives the program the number after a call that returned this code.
    ///
    /// # Safety
    /// The address is null, or can be written to.
    #[inline]
    pub unsafe fn give(&self, code: c_int, show: impl FnOnce(c_int) -> c_int) {
        if code == MPI_SUCCESS && !self.to.is_null() {
            // SAFETY: the caller says so.
            unsafe { self.to.write(show(self.number)) };
        }
    }
}

/// Gives the program numbers with another meaning than those that a call, which returned this code, has written there.
///
/// # Safety
/// The address is null, or there are `count` numbers.
pub unsafe fn show_all(code: c_int, to: *mut c_int, count: c_int, show: fn(c_int) -> c_int) {
    if code == MPI_SUCCESS {
        for place in 0..length(to, count) {
            // SAFETY: the caller says so.
            unsafe { *to.add(place) = show(*to.add(place)) };
        }
    }
}

/// A status of the program.
#[derive(Debug)]
pub struct OneStatus {
    to: *mut Status,
    status: Standard,
}

impl OneStatus {
    /// Makes a place for a status.
    #[inline]
    pub fn new(to: *mut Status) -> Self {
        Self { to: unless_ignored(to), status: EMPTY }
    }

    /// Reads the status.
    ///
    /// # Safety
    /// The address is null, 1, or that of a status.
    pub unsafe fn given(from: *const Status) -> Self {
        let to = unless_ignored(from.cast_mut());
        // SAFETY: the caller says so.
        Self { to, status: unsafe { to.as_ref() }.map_or(EMPTY, Status::told) }
    }

    /// Returns where the status is.
    #[inline]
    pub fn place(&mut self) -> *mut Standard {
        unless_null(self.to, &mut self.status)
    }

    /// Gives the program the status.
    ///
    /// # Safety
    /// The address is null, 1, or can be written to.
    #[inline]
    pub unsafe fn give(&self) {
        if !self.to.is_null() {
            // SAFETY: the caller says so.
            unsafe { show(&self.status, self.to) };
        }
    }
}

/// An array of the program for statuses.
#[derive(Debug)]
pub struct Statuses {
    to: *mut Status,
    list: List<Standard>,
}

impl Statuses {
    /// Makes places for as many statuses.
    #[inline]
    pub fn new(to: *mut Status, count: c_int) -> Self {
        let to = unless_ignored(to);
        Self { to, list: List::new(length(to, count), EMPTY, |_| EMPTY) }
    }

    /// Returns where the statuses are.
    #[inline]
    pub fn place(&mut self) -> *mut Standard {
        unless_null(self.to, self.list.elements().as_mut_ptr())
    }

    /// Gives the program the statuses.
    ///
    /// # Safety
    /// The address is null, 1, or all of them can be written to.
    #[inline]
    pub unsafe fn give(&mut self) {
        for (place, status) in self.list.elements().iter().enumerate() {
            // SAFETY: the caller says so.
            unsafe { show(status, self.to.add(place)) };
        }
    }
}

/// Returns an array of weights, or what may be in its place.
pub fn weights<T>(given: *const T) -> *mut T {
    let number = match given.cast() {
        given if is_unweighted(given) => 10,
        given if is_empty(given) => 11,
        _ => return given.cast_mut(),
    };
    std::ptr::without_provenance_mut(number)
}

/// Gives the program the address of an attached buffer, which may be `MPI_BUFFER_AUTOMATIC`.
///
/// # Safety
/// The program gives the address of a pointer, or null.
pub unsafe fn give_attached(code: c_int, to: *mut c_void) {
    // SAFETY: the caller says so.
    if let Some(address) = unsafe { to.cast::<usize>().as_mut() }
        && code == MPI_SUCCESS
        && *address == 2
    {
        *address = usize::MAX - 1;
    }
}

/// Gives the program the value of a predefined attribute whose meaning is another in MPICH's ABI, after a call that
/// returned this code.
///
/// # Safety
/// The addresses are those of a pointer and a number, as the call has written them.
pub unsafe fn give_attribute(code: c_int, given: c_int, value: *mut c_void, flag: *const c_int) {
    let show = match key(given) {
        MPI_HOST | MPI_IO => shown_rank,
        MPI_LASTUSEDCODE => shown_error,
        MPI_WIN_CREATE_FLAVOR => shown_flavor,
        MPI_WIN_MODEL => shown_model,
        _ => return,
    };
    // SAFETY: the caller says so. The value is the address of a number.
    unsafe {
        if code == MPI_SUCCESS && *flag != 0 {
            let value = value.cast::<*const c_int>();
            *value = kept(show(**value));
        }
    }
}

/// Returns the address of a number, which stays.
fn kept(number: c_int) -> *const c_int {
    use std::{
        collections::BTreeMap,
        sync::{Mutex, PoisonError},
    };

    static KEPT: Mutex<BTreeMap<c_int, &c_int>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    *kept.entry(number).or_insert_with(|| Box::leak(Box::new(number)))
}
