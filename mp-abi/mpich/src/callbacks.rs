//! Functions of the program, which take handles of MPICH's ABI.
//!
//! `mp-abi` keeps them as pointers to functions of the standard ABI, which they are not, and calls none: it asks
//! [`Mpich`] to.

use std::{
    ffi::{c_int, c_void},
    mem::transmute,
    ptr::null_mut,
};

use mp_abi::{
    callbacks::{Callbacks, Kind, Owner},
    types::{
        Aint, CopyAttrFunction, Count, DatarepConversionFunction, DatarepExtentFunction,
        DeleteAttrFunction, ErrhandlerFunction, GrequestCancelFunction, GrequestFreeFunction,
        GrequestQueryFunction, Handle, LargeDatarepConversionFunction, LargeUserFunction, Offset,
        Status as Standard, UserFunction,
    },
};

use crate::{
    kinds::{Comm, Datatype, Session, Win},
    numbers::{shown_file, with_number},
    status::Status,
    values::{error, shown_error, shown_key},
};

type Combine = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
type CombineMany = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut Count, *mut c_int);
type HandleError = unsafe extern "C" fn(*mut c_int, *mut c_int, ...);
type Copy =
    unsafe extern "C" fn(c_int, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type Convert<N> =
    unsafe extern "C" fn(*mut c_void, c_int, N, *mut c_void, Offset, *mut c_void) -> c_int;
type Extent = unsafe extern "C" fn(c_int, *mut Aint, *mut c_void) -> c_int;
type Query = unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int;
type Delete = unsafe extern "C" fn(c_int, c_int, *mut c_void, *mut c_void) -> c_int;

/// How functions of programs are called that were built for MPICH.
#[derive(Debug)]
pub struct Mpich;

/// Calls a function with the number of an object that may have attributes.
fn with_owner<T>((owner, object): (Owner, Handle), call: impl FnOnce(c_int) -> T) -> T {
    match owner {
        Owner::Comm => with_number::<Comm, _>(object, call),
        Owner::Datatype => with_number::<Datatype, _>(object, call),
        Owner::Window => with_number::<Win, _>(object, call),
    }
}

impl Callbacks for Mpich {
    unsafe fn combine(
        &self,
        function: UserFunction,
        (lower, upper): (*mut c_void, *mut c_void),
        mut count: c_int,
        datatype: Handle,
    ) {
        with_number::<Datatype, _>(datatype, |mut datatype| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<UserFunction, Combine>(function);
                function(lower, upper, &mut count, &mut datatype);
            }
        });
    }

    unsafe fn combine_many(
        &self,
        function: LargeUserFunction,
        (lower, upper): (*mut c_void, *mut c_void),
        mut count: Count,
        datatype: Handle,
    ) {
        with_number::<Datatype, _>(datatype, |mut datatype| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<LargeUserFunction, CombineMany>(function);
                function(lower, upper, &mut count, &mut datatype);
            }
        });
    }

    unsafe fn handle_error(
        &self,
        function: ErrhandlerFunction,
        kind: Kind,
        object: Handle,
        code: c_int,
    ) -> c_int {
        let mut code = shown_error(code);
        let call = |mut number: c_int| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<ErrhandlerFunction, HandleError>(function);
                function(&mut number, &mut code);
            }
        };
        match kind {
            Kind::Comm => with_number::<Comm, _>(object, call),
            Kind::Win => with_number::<Win, _>(object, call),
            Kind::Session => with_number::<Session, _>(object, call),
            Kind::File => {
                let mut file = shown_file(object);
                // SAFETY: files are pointers in both ABIs, and the caller says the rest.
                unsafe { function(&mut file, &mut code) };
            }
        }
        error(code)
    }

    unsafe fn copy(
        &self,
        function: CopyAttrFunction,
        object: (Owner, Handle),
        key: c_int,
        extra: *mut c_void,
        value: *mut c_void,
    ) -> Result<Option<*mut c_void>, c_int> {
        let (mut copy, mut is_copied) = (null_mut::<c_void>(), 0);
        let place = (&raw mut copy).cast();
        let code = with_owner(object, |number| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<CopyAttrFunction, Copy>(function);
                function(number, shown_key(key), extra, value, place, &mut is_copied)
            }
        });
        match code {
            0 => Ok((is_copied != 0).then_some(copy)),
            _ => Err(error(code)),
        }
    }

    unsafe fn delete(
        &self,
        function: DeleteAttrFunction,
        object: (Owner, Handle),
        key: c_int,
        value: *mut c_void,
        extra: *mut c_void,
    ) -> c_int {
        with_owner(object, |number| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<DeleteAttrFunction, Delete>(function);
                error(function(number, shown_key(key), value, extra))
            }
        })
    }

    unsafe fn convert(
        &self,
        function: DatarepConversionFunction,
        (user, file): (*mut c_void, *mut c_void),
        (datatype, count): (Handle, c_int),
        position: Offset,
        extra: *mut c_void,
    ) -> c_int {
        with_number::<Datatype, _>(datatype, |datatype| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<DatarepConversionFunction, Convert<c_int>>(function);
                error(function(user, datatype, count, file, position, extra))
            }
        })
    }

    unsafe fn convert_many(
        &self,
        function: LargeDatarepConversionFunction,
        (user, file): (*mut c_void, *mut c_void),
        (datatype, count): (Handle, Count),
        position: Offset,
        extra: *mut c_void,
    ) -> c_int {
        with_number::<Datatype, _>(datatype, |datatype| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function =
                    transmute::<LargeDatarepConversionFunction, Convert<Count>>(function);
                error(function(user, datatype, count, file, position, extra))
            }
        })
    }

    unsafe fn extent(
        &self,
        function: DatarepExtentFunction,
        datatype: Handle,
        extent: &mut Aint,
        extra: *mut c_void,
    ) -> c_int {
        with_number::<Datatype, _>(datatype, |datatype| {
            // SAFETY: the program has given a function of this type, and the caller says the rest.
            unsafe {
                let function = transmute::<DatarepExtentFunction, Extent>(function);
                error(function(datatype, extent, extra))
            }
        })
    }

    unsafe fn query(
        &self,
        function: GrequestQueryFunction,
        extra: *mut c_void,
        status: &mut Standard,
    ) -> c_int {
        let mut shown = Status::of(status);
        // SAFETY: the program has given a function of this type, and the caller says the rest.
        let code = unsafe {
            let function = transmute::<GrequestQueryFunction, Query>(function);
            function(extra, &mut shown)
        };
        *status = shown.told();
        error(code)
    }

    unsafe fn free(&self, function: GrequestFreeFunction, extra: *mut c_void) -> c_int {
        // SAFETY: the caller says so. The function takes no handle.
        error(unsafe { function(extra) })
    }

    unsafe fn cancel(
        &self,
        function: GrequestCancelFunction,
        extra: *mut c_void,
        is_complete: c_int,
    ) -> c_int {
        // SAFETY: as above.
        error(unsafe { function(extra, is_complete) })
    }
}
