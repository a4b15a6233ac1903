//! Requests that the program completes.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::ffi::{c_int, c_void};

use crate::{
    error::{Class, Error},
    generalized::{self, Functions},
    program::{plainly, put},
    request::{Request, advance_freed},
    types::{GrequestCancelFunction, GrequestFreeFunction, GrequestQueryFunction, Handle},
};

/// `MPI_Grequest_start`.
pub unsafe fn grequest_start(
    query: Option<GrequestQueryFunction>,
    free: Option<GrequestFreeFunction>,
    cancel: Option<GrequestCancelFunction>,
    extra: *mut c_void,
    request: *mut Handle,
) -> c_int {
    plainly("MPI_Grequest_start", || {
        let (Some(query), Some(free), Some(cancel)) = (query, free, cancel) else {
            return Err(Error::new(Class::Arg, "a function is a null pointer"));
        };
        // SAFETY: the program gives functions for this request, and a place for the handle.
        unsafe { put(request, Request::generalized(Functions { query, free, cancel, extra })?) }
    })
}

/// `MPI_Grequest_complete`.
pub unsafe fn grequest_complete(request: Handle) -> c_int {
    plainly("MPI_Grequest_complete", || {
        generalized::complete(request)?;
        advance_freed();
        Ok(())
    })
}
