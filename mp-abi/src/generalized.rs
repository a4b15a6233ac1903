//! Generalized requests: operations that the program carries out itself, and says when they are complete.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ffi::{c_int, c_void},
    mem,
    rc::Rc,
};

use mp_core::{Pending, requests::UnderWay};

use crate::{
    awaited::Awaited,
    callbacks::callbacks,
    completed::Completed,
    constants::MPI_SUCCESS,
    error::{Class, Error},
    state::{self, of_rank},
    types::{GrequestCancelFunction, GrequestFreeFunction, GrequestQueryFunction, Handle, Status},
};

/// The functions of the program for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub query: GrequestQueryFunction,
    pub free: GrequestFreeFunction,
    pub cancel: GrequestCancelFunction,
    pub extra: *mut c_void,
}

/// A generalized request.
#[derive(Debug)]
pub(crate) struct Generalized {
    functions: Functions,
    waits: Awaited,
    told: Completed,
}

of_rank! {
    /// The requests that are not complete, by the addresses that their handles are.
    static OPEN: RefCell<BTreeMap<usize, Rc<Cell<bool>>>> = RefCell::new(BTreeMap::new());
}

/// Notes that a request has this handle.
pub(crate) fn open(handle: Handle, is_complete: Rc<Cell<bool>>) {
    OPEN.with(|open| open.borrow_mut().insert(handle.addr(), is_complete));
}

/// Completes the request of a handle. It is not looked at through the handle, because a wait may have it.
pub(crate) fn complete(handle: Handle) -> Result<(), Error> {
    let found = OPEN.with(|open| open.borrow_mut().remove(&handle.addr()));
    let text = "the handle is not one of a generalized request that is not complete";
    found.ok_or_else(|| Error::new(Class::Request, text))?.set(true);
    Ok(())
}

impl Generalized {
    /// Makes a request, and returns it with what [`open`] is to note.
    ///
    /// # Safety
    /// The program has given the functions for this request.
    pub unsafe fn new(functions: Functions) -> Result<(Self, Rc<Cell<bool>>), Error> {
        let is_complete = Rc::new(Cell::new(false));
        let waits = Awaited::new(Rc::clone(&is_complete), state::rank()?.clone());
        let made = Self { functions, waits, told: Completed::EMPTY };
        Ok((made, is_complete))
    }

    pub fn is_complete(&self) -> bool {
        self.waits.is_set()
    }

    /// Asks the program what the request has to say.
    pub fn query(&mut self) -> &Completed {
        let Completed { source, tag, .. } = Completed::EMPTY;
        let mut status = Status::new(source, tag, MPI_SUCCESS, 0, false);
        let Functions { query, extra, .. } = self.functions;
        // SAFETY: the program has given the function for this request.
        let code = unsafe { callbacks().query(query, extra, &mut status) };
        self.told = Completed {
            source: status.source,
            tag: status.tag,
            bytes: status.bytes() as usize,
            cancelled: status.is_cancelled(),
            error: refused(code),
        };
        &self.told
    }

    /// Tells the program that the request is gone.
    pub fn free(self) -> Option<Error> {
        let Functions { free, extra, .. } = self.functions;
        // SAFETY: the program has given the function for this request.
        refused(unsafe { callbacks().free(free, extra) })
    }

    /// Asks the program what the request has to say, and tells it that the request is gone.
    pub fn finish(mut self) -> Completed {
        self.query();
        let mut told = mem::replace(&mut self.told, Completed::EMPTY);
        let freed = self.free();
        told.error = told.error.or(freed);
        told
    }

    /// Asks the program to give up the operation.
    pub fn cancel(&self) -> Option<Error> {
        let Functions { cancel, extra, .. } = self.functions;
        // SAFETY: the program has given the function for this request.
        refused(unsafe { callbacks().cancel(cancel, extra, self.is_complete().into()) })
    }
}

fn refused(code: c_int) -> Option<Error> {
    let text = || format!("the function of a generalized request has returned {code}");
    (code != MPI_SUCCESS).then(|| Error::of_program(code, text()))
}

impl Pending for Generalized {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        self.waits.under_way()
    }
}
