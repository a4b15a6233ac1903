//! Elements in the program's memory, and how they are packed and unpacked.

use std::{
    borrow::Cow,
    ffi::c_void,
    marker::PhantomData,
    ptr::{self, with_exposed_provenance, with_exposed_provenance_mut},
    slice,
};

use super::{
    definition::{Datatype, TypeRef},
    handles::look,
    pieces::Piece,
};
use crate::{
    error::{Class, Error},
    types::{Count, Handle},
};

/// Returns the error of a negative count.
#[cold]
pub(crate) fn negative(count: Count) -> Error {
    Error::new(Class::Count, format!("the count is negative: {count}"))
}

/// Elements in the program's memory. Their data may be read, and, where the call says so, written, during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    /// The address of the first element. It may be 0: then the offsets of the type are addresses.
    address: usize,
    count: usize,
    datatype: &'a Datatype,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Data<'a> {
    /// Names elements.
    ///
    /// # Safety
    /// During `'a`, the handle is one of a datatype that is not freed, the memory that `count` of its elements cover at
    /// `buffer` can be read and nobody writes to it; and if [`plain_mut`](Self::plain_mut) or [`unpack`](Self::unpack)
    /// is called, it can be written to and nobody else uses it. (MPI demands all this of the program until the
    /// operation is complete.)
    // Always inlined: a result in memory would be read in wider pieces than it was written, and such reads wait for the
    // writes. In MPI_Put, they took more time than all the rest.
    #[inline(always)]
    pub unsafe fn new(
        buffer: *const c_void,
        count: Count,
        datatype: Handle,
    ) -> Result<Self, Error> {
        // SAFETY: the caller says so.
        let datatype = unsafe { look(datatype)? };
        datatype.check_committed()?;
        let count = usize::try_from(count).map_err(|_| negative(count))?;
        let address = buffer.expose_provenance();
        let data = Self { address, count, datatype, memory: PhantomData };
        if buffer.is_null() && data.needs_address() {
            return Err(Error::new(Class::Buffer, "the buffer is a null pointer"));
        }
        Ok(data)
    }

    /// Returns whether null can't be the buffer of these elements: only types with absolute addresses have it.
    fn needs_address(&self) -> bool {
        self.bytes() > 0 && self.datatype.is_predefined
    }

    /// Names the elements at an address.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline]
    pub unsafe fn at_address(address: usize, count: usize, datatype: &'a Datatype) -> Self {
        Self { address, count, datatype, memory: PhantomData }
    }

    /// Returns `count` elements of the same type, from `offset` bytes on.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn part(&self, offset: i64, count: usize) -> Self {
        Self { address: self.address.wrapping_add_signed(offset as isize), count, ..*self }
    }

    /// Takes over the data of other elements of the same types.
    pub fn copy_from(&self, other: Data<'_>) {
        self.unpack(&other.packed());
    }

    pub fn datatype(&self) -> &'a Datatype {
        self.datatype
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the address of the first element, as functions of programs get it.
    pub fn pointer(&self) -> *mut c_void {
        with_exposed_provenance_mut(self.address)
    }

    /// Returns the number of bytes of data.
    #[inline]
    pub fn bytes(&self) -> usize {
        (self.datatype.size as usize).saturating_mul(self.count)
    }

    /// Returns the address of the data, if it lies in one piece.
    #[inline]
    pub fn start(&self) -> Option<usize> {
        let datatype = self.datatype;
        let is_plain = datatype.is_dense() || (self.count == 1 && datatype.is_one_run());
        is_plain.then(|| self.address.wrapping_add_signed(datatype.true_lower as isize))
    }

    /// Returns the data, if it lies in one piece.
    #[inline]
    pub fn plain(&self) -> Option<&'a [u8]> {
        let (start, bytes) = (self.start()?, self.bytes());
        if bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: these bytes are the data, and all of it; see `new`.
        Some(unsafe { slice::from_raw_parts(with_exposed_provenance(start), bytes) })
    }

    /// Returns the place of the data, if it lies in one piece.
    ///
    /// # Safety
    /// Nothing else of this memory is used as long as the result is.
    #[inline]
    pub unsafe fn plain_mut(&self) -> Option<&'a mut [u8]> {
        let (start, bytes) = (self.start()?, self.bytes());
        if bytes == 0 {
            return Some(&mut []);
        }
        // SAFETY: these bytes are the data, and all of it; see `new`. The caller has no other reference to it.
        Some(unsafe { slice::from_raw_parts_mut(with_exposed_provenance_mut(start), bytes) })
    }

    /// Returns where the data comes that is received: the place itself if it lies in one piece, or else `copy`, from which
    /// it is to be unpacked.
    ///
    /// # Safety
    /// As for [`plain_mut`](Self::plain_mut).
    #[inline]
    pub unsafe fn plain_or<'b>(&'b self, copy: &'b mut Vec<u8>) -> &'b mut [u8] {
        // SAFETY: the caller says so.
        match unsafe { self.plain_mut() } {
            Some(plain) => plain,
            None => {
                copy.resize(self.bytes(), 0);
                copy
            }
        }
    }

    /// Returns memory that elements fill.
    ///
    /// # Safety
    /// All of it is data that can be read, and nothing writes to it during `'a`.
    pub unsafe fn memory(address: usize, bytes: usize) -> &'a [u8] {
        // SAFETY: the caller says so.
        unsafe { slice::from_raw_parts(with_exposed_provenance(address), bytes) }
    }

    /// Returns memory that elements fill.
    ///
    /// # Safety
    /// All of it is data that may be written to, and nothing else uses it during `'a`.
    pub unsafe fn memory_mut(address: usize, bytes: usize) -> &'a mut [u8] {
        // SAFETY: the caller says so.
        unsafe { slice::from_raw_parts_mut(with_exposed_provenance_mut(address), bytes) }
    }

    /// Returns the data, one element after the other, without gaps.
    pub fn packed(&self) -> Cow<'a, [u8]> {
        match self.plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => {
                let mut bytes = Vec::new();
                self.pack(&mut bytes);
                Cow::Owned(bytes)
            }
        }
    }

    /// Appends the data to `to`, without gaps.
    pub fn pack(&self, to: &mut Vec<u8>) {
        if let Some(plain) = self.plain() {
            return to.extend_from_slice(plain);
        }
        let bytes = self.bytes();
        to.reserve(bytes);
        let mut at = to.len();
        self.each(self.count, |piece, address| {
            // SAFETY: the bytes of the piece are data of an element, which can be read, and `reserve` has made room for
            // all the data.
            unsafe {
                gather(to.as_mut_ptr().add(at), address, piece);
            }
            at += (piece.length * piece.count) as usize;
        });
        // SAFETY: the pieces of all elements have been written, and they have this length together.
        unsafe { to.set_len(at) };
    }

    /// Takes over data that is without gaps. If there is less of it than the elements have, the last ones are left as
    /// they are.
    pub fn unpack(&self, from: &[u8]) {
        let bytes = from.len().min(self.bytes());
        let from = &from[..bytes];
        if let Some(start) = self.start() {
            if bytes > 0 {
                // SAFETY: these bytes are the data; see `new`. `copy` allows that both are the same memory.
                unsafe { ptr::copy(from.as_ptr(), with_exposed_provenance_mut(start), bytes) };
            }
            return;
        }
        let size = self.datatype.size as usize;
        let whole = bytes.checked_div(size).unwrap_or(0);
        let mut rest = from;
        self.each(whole, |piece, address| {
            let (now, later) = rest.split_at((piece.length * piece.count) as usize);
            // SAFETY: the bytes of the piece are data of an element, which can be written to, and as many are there.
            unsafe { scatter(address, now.as_ptr(), piece) };
            rest = later;
        });
        let element =
            self.address.wrapping_add_signed(self.datatype.extent as isize * whole as isize);
        self.unpack_part(rest, element);
    }

    /// Takes over the first bytes of an element.
    fn unpack_part(&self, mut rest: &[u8], element: usize) {
        for piece in self.datatype.pieces.iter() {
            for run in 0..piece.count {
                let (now, later) = rest.split_at(rest.len().min(piece.length as usize));
                if now.is_empty() {
                    return;
                }
                let place = (piece.offset + run * piece.stride) as isize;
                let address = with_exposed_provenance_mut(element.wrapping_add_signed(place));
                // SAFETY: the run is data of an element, which can be written to.
                unsafe { ptr::copy(now.as_ptr(), address, now.len()) };
                rest = later;
            }
        }
    }

    /// Calls `each` with the address and the length of each run of bytes.
    pub fn runs(&self, mut each: impl FnMut(usize, usize)) {
        if let Some(start) = self.start() {
            if self.bytes() > 0 {
                each(start, self.bytes());
            }
            return;
        }
        self.each(self.count, |piece, address| {
            for run in 0..piece.count {
                each(
                    address.wrapping_add_signed((run * piece.stride) as isize),
                    piece.length as usize,
                );
            }
        });
    }

    /// Calls `each` with all pieces of the first `count` elements and their addresses.
    #[inline(always)]
    fn each(&self, count: usize, mut each: impl FnMut(&Piece, usize)) {
        let (pieces, extent) = (&*self.datatype.pieces, self.datatype.extent as isize);
        if let [piece @ Piece { count: 1, .. }] = pieces {
            // One run in each element is one piece of them all.
            let all = Piece { count: count as i64, stride: extent as i64, ..*piece };
            if count > 0 {
                each(&all, self.address.wrapping_add_signed(piece.offset as isize));
            }
            return;
        }
        for index in 0..count as isize {
            let element = self.address.wrapping_add_signed(index.wrapping_mul(extent));
            for piece in pieces {
                each(piece, element.wrapping_add_signed(piece.offset as isize));
            }
        }
    }
}

/// Copies the runs of a piece, the first of which is at `address`, to `to`, one after the other.
///
/// # Safety
/// All of this can be read and written.
unsafe fn gather(to: *mut u8, address: usize, piece: &Piece) {
    let &Piece { length, count, stride, .. } = piece;
    // SAFETY: the caller says so.
    unsafe {
        match length {
            4 => runs::<4>(to.expose_provenance(), 4, address, stride, count),
            8 => runs::<8>(to.expose_provenance(), 8, address, stride, count),
            16 => runs::<16>(to.expose_provenance(), 16, address, stride, count),
            _ => long_runs(to.expose_provenance(), length, address, stride, (length, count)),
        }
    }
}

/// Copies `from` to the runs of a piece, the first of which is at `address`.
///
/// # Safety
/// All of this can be read and written.
unsafe fn scatter(address: usize, from: *const u8, piece: &Piece) {
    let &Piece { length, count, stride, .. } = piece;
    // SAFETY: the caller says so.
    unsafe {
        match length {
            4 => runs::<4>(address, stride, from.expose_provenance(), 4, count),
            8 => runs::<8>(address, stride, from.expose_provenance(), 8, count),
            16 => runs::<16>(address, stride, from.expose_provenance(), 16, count),
            _ => long_runs(address, stride, from.expose_provenance(), length, (length, count)),
        }
    }
}

/// Copies runs of `N` bytes.
///
/// # Safety
/// All of this can be read and written.
#[inline(always)]
unsafe fn runs<const N: usize>(
    mut to: usize,
    to_stride: i64,
    mut from: usize,
    from_stride: i64,
    count: i64,
) {
    for _ in 0..count {
        // SAFETY: the caller says so.
        unsafe {
            let run = with_exposed_provenance::<[u8; N]>(from).read();
            with_exposed_provenance_mut::<[u8; N]>(to).write(run);
        }
        to = to.wrapping_add_signed(to_stride as isize);
        from = from.wrapping_add_signed(from_stride as isize);
    }
}

/// Copies runs of any length.
///
/// # Safety
/// All of this can be read and written.
unsafe fn long_runs(
    mut to: usize,
    to_stride: i64,
    mut from: usize,
    from_stride: i64,
    (length, count): (i64, i64),
) {
    for _ in 0..count {
        // SAFETY: the caller says so. `copy` allows that the two overlap, as in a broadcast to itself.
        unsafe {
            let (from, to) = (with_exposed_provenance::<u8>(from), with_exposed_provenance_mut(to));
            ptr::copy(from, to, length as usize);
        }
        to = to.wrapping_add_signed(to_stride as isize);
        from = from.wrapping_add_signed(from_stride as isize);
    }
}

/// Elements in the program's memory, with their type, for requests.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    address: usize,
    count: usize,
    datatype: TypeRef,
}

impl Kept {
    /// Names elements that are used until a request is complete.
    ///
    /// # Safety
    /// As for [`Data::new`], until the request is complete. The handle of the datatype may be freed before.
    pub unsafe fn new(
        buffer: *const c_void,
        count: Count,
        datatype: Handle,
    ) -> Result<Self, Error> {
        // SAFETY: the caller says so.
        unsafe { Self::of(Data::new(buffer, count, datatype)?, datatype) }
    }

    /// Names elements whose type has this handle.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn of(data: Data<'_>, datatype: Handle) -> Result<Self, Error> {
        // SAFETY: the caller says so.
        let datatype = unsafe { TypeRef::keep(datatype)? };
        Ok(Self { address: data.address, count: data.count, datatype })
    }

    /// Returns `count` elements of the same type, from `offset` bytes on.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn part(&self, offset: i64, count: usize) -> Self {
        let address = self.address.wrapping_add_signed(offset as isize);
        Self { address, count, datatype: self.datatype.clone() }
    }

    /// Returns whether both are at the same address.
    pub fn is_at(&self, other: &Self) -> bool {
        self.address == other.address
    }

    pub fn data(&self) -> Data<'_> {
        let &Self { address, count, ref datatype } = self;
        Data { address, count, datatype, memory: PhantomData }
    }
}

impl Data<'_> {
    /// Has a call write the data: to the program's memory, or to a copy that is then unpacked.
    ///
    /// # Safety
    /// Nothing else uses this memory during the call.
    pub unsafe fn fill<T, E>(&self, call: impl FnOnce(&mut [u8]) -> Result<T, E>) -> Result<T, E> {
        // SAFETY: the caller says so.
        if let Some(plain) = unsafe { self.plain_mut() } {
            return call(plain);
        }
        let mut copy = vec![0; self.bytes()];
        let answer = call(&mut copy)?;
        self.unpack(&copy);
        Ok(answer)
    }
}
