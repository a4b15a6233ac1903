//! How functions of the program are called: as the standard says, or as a library with other handles does.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::OnceLock,
};

use crate::{
    constants::MPI_SUCCESS,
    types::{
        Aint, CopyAttrFunction, Count, DatarepConversionFunction, DatarepExtentFunction,
        DeleteAttrFunction, ErrhandlerFunction, GrequestCancelFunction, GrequestFreeFunction,
        GrequestQueryFunction, Handle, LargeDatarepConversionFunction, LargeUserFunction, Offset,
        Status, UserFunction,
    },
};

/// What objects a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Communicators.
    Comm,
    /// Datatypes.
    Datatype,
    /// Windows.
    Window,
}

/// What objects an error handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// Calls functions that the program has given. The methods that are here do what the standard says. Another library
/// keeps the program's functions as pointers of these types, and has methods that call them as what they are.
pub trait Callbacks: Sync {
    /// Calls the function of an operation.
    ///
    /// # Safety
    /// The program has given this function for elements of this type, of which there are as many at both addresses.
    unsafe fn combine(
        &self,
        function: UserFunction,
        (lower, upper): (*mut c_void, *mut c_void),
        mut count: c_int,
        mut datatype: Handle,
    ) {
        // SAFETY: the caller says so. The numbers live until the function returns.
        unsafe { function(lower, upper, &mut count, &mut datatype) }
    }

    /// Calls the function of an operation that takes large counts.
    ///
    /// # Safety
    /// As for [`combine`](Self::combine).
    unsafe fn combine_many(
        &self,
        function: LargeUserFunction,
        (lower, upper): (*mut c_void, *mut c_void),
        mut count: Count,
        mut datatype: Handle,
    ) {
        // SAFETY: the caller says so. The numbers live until the function returns.
        unsafe { function(lower, upper, &mut count, &mut datatype) }
    }

    /// Calls an error handler, and returns the code, which the handler may have changed.
    ///
    /// # Safety
    /// The program has given this function as an error handler for objects of this kind, of which the object is one,
    /// or it is null.
    unsafe fn handle_error(
        &self,
        function: ErrhandlerFunction,
        _kind: Kind,
        mut object: Handle,
        mut code: c_int,
    ) -> c_int {
        // SAFETY: the caller says so. The numbers live until the function returns.
        unsafe { function(&mut object, &mut code) };
        code
    }

    /// Calls the function that copies an attribute's value for a copy of the object. Returns the code of an error as an
    /// error, and no value if there is none for the copy.
    ///
    /// # Safety
    /// The program has given this function for attributes of such objects, with this key and this extra state.
    unsafe fn copy(
        &self,
        function: CopyAttrFunction,
        (_owner, object): (Owner, Handle),
        key: c_int,
        extra: *mut c_void,
        value: *mut c_void,
    ) -> Result<Option<*mut c_void>, c_int> {
        let (mut copy, mut is_copied) = (null_mut::<c_void>(), 0);
        let place = (&raw mut copy).cast();
        // SAFETY: the caller says so. The places live until the function returns.
        match unsafe { function(object, key, extra, value, place, &mut is_copied) } {
            MPI_SUCCESS => Ok((is_copied != 0).then_some(copy)),
            code => Err(code),
        }
    }

    /// Calls the function that deletes an attribute's value, and returns its code.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    unsafe fn delete(
        &self,
        function: DeleteAttrFunction,
        (_owner, object): (Owner, Handle),
        key: c_int,
        value: *mut c_void,
        extra: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(object, key, value, extra) }
    }

    /// Converts data of a file, in a representation of the program's, and returns the code.
    ///
    /// # Safety
    /// The program has given this function for such data, of which there is as much at both addresses.
    unsafe fn convert(
        &self,
        function: DatarepConversionFunction,
        (user, file): (*mut c_void, *mut c_void),
        (datatype, count): (Handle, c_int),
        position: Offset,
        extra: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(user, datatype, count, file, position, extra) }
    }

    /// Does the same by a function that takes large counts.
    ///
    /// # Safety
    /// As for [`convert`](Self::convert).
    unsafe fn convert_many(
        &self,
        function: LargeDatarepConversionFunction,
        (user, file): (*mut c_void, *mut c_void),
        (datatype, count): (Handle, Count),
        position: Offset,
        extra: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(user, datatype, count, file, position, extra) }
    }

    /// Asks how far elements are apart in a file, in a representation of the program's, and returns the code.
    ///
    /// # Safety
    /// The program has given this function for such elements.
    unsafe fn extent(
        &self,
        function: DatarepExtentFunction,
        datatype: Handle,
        extent: &mut Aint,
        extra: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(datatype, extent, extra) }
    }

    /// Asks what a generalized request has to say, and returns the code.
    ///
    /// # Safety
    /// The program has given this function for a request with this extra state.
    unsafe fn query(
        &self,
        function: GrequestQueryFunction,
        extra: *mut c_void,
        status: &mut Status,
    ) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(extra, status) }
    }

    /// Tells the program that a generalized request is gone, and returns the code.
    ///
    /// # Safety
    /// As for [`query`](Self::query).
    unsafe fn free(&self, function: GrequestFreeFunction, extra: *mut c_void) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(extra) }
    }

    /// Asks the program to give up a generalized request, and returns the code.
    ///
    /// # Safety
    /// As for [`query`](Self::query).
    unsafe fn cancel(
        &self,
        function: GrequestCancelFunction,
        extra: *mut c_void,
        is_complete: c_int,
    ) -> c_int {
        // SAFETY: the caller says so.
        unsafe { function(extra, is_complete) }
    }
}

struct Standard;

impl Callbacks for Standard {}

static CHOSEN: OnceLock<&dyn Callbacks> = OnceLock::new();

/// Chooses how functions of the program are called. The first choice stays.
pub fn choose(callbacks: &'static dyn Callbacks) {
    CHOSEN.get_or_init(|| callbacks);
}

/// Returns how functions of the program are called.
pub(crate) fn callbacks() -> &'static dyn Callbacks {
    CHOSEN.get().copied().unwrap_or(&Standard)
}
