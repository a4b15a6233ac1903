//! Error handlers, and what becomes of an error of a call.

use std::{
    cell::{Cell, RefCell},
    ffi::c_int,
    io::Write,
    ptr::without_provenance_mut,
    rc::Rc,
};

use crate::{
    callbacks::{Kind, callbacks},
    constants::{MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_SUCCESS},
    error::{Class, Error},
    state::{self, of_rank},
    types::{ErrhandlerFunction, Handle},
};

/// An error handler of a program (`MPI_Errhandler`).
#[derive(Debug)]
pub(crate) struct Errhandler {
    pub kind: Kind,
    pub function: ErrhandlerFunction,
}

/// What an object does about errors.
#[derive(Clone, Debug)]
pub(crate) enum Handler {
    Fatal,
    Abort,
    Return,
    Program(Rc<Errhandler>),
}

impl Handler {
    /// Returns the error handler of a handle, for an object of this kind.
    ///
    /// # Safety
    /// The handle is one of an error handler that was not freed, or any number below 4096.
    pub unsafe fn keep(handle: Handle, kind: Kind) -> Result<Self, Error> {
        let wrong = |text: &str| Err(Error::new(Class::Errhandler, text));
        match handle {
            MPI_ERRORS_ARE_FATAL => Ok(Self::Fatal),
            MPI_ERRORS_ABORT => Ok(Self::Abort),
            MPI_ERRORS_RETURN => Ok(Self::Return),
            _ if handle.addr() < 4096 => wrong("the handle is not one of an error handler"),
            _ => {
                let pointer = handle.cast_const().cast::<Errhandler>();
                // SAFETY: the handle came from `into_handle`, and has a reference.
                let handler = unsafe {
                    Rc::increment_strong_count(pointer);
                    Rc::from_raw(pointer)
                };
                if handler.kind != kind {
                    return wrong("the error handler is for another kind of object");
                }
                Ok(Self::Program(handler))
            }
        }
    }

    /// Returns a handle, which has this reference until it is [released](release).
    pub fn into_handle(self) -> Handle {
        match self {
            Self::Fatal => MPI_ERRORS_ARE_FATAL,
            Self::Abort => MPI_ERRORS_ABORT,
            Self::Return => MPI_ERRORS_RETURN,
            Self::Program(handler) => Rc::into_raw(handler).cast_mut().cast(),
        }
    }
}

/// Takes back the reference that a handle has.
///
/// # Safety
/// The handle is one of an error handler that was not freed, or any number below 4096. It is not used afterwards.
pub(crate) unsafe fn release(handle: Handle) -> Result<(), Error> {
    match handle {
        // What `MPI_Comm_get_errhandler` has returned may be freed.
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN => Ok(()),
        _ if handle.addr() < 4096 => {
            Err(Error::new(Class::Errhandler, "the handle is not one of an error handler"))
        }
        _ => {
            // SAFETY: the handle came from `into_handle`.
            drop(unsafe { Rc::from_raw(handle.cast_const().cast::<Errhandler>()) });
            Ok(())
        }
    }
}

/// The error handler of an object.
#[derive(Debug)]
pub(crate) struct Slot(RefCell<Handler>);

impl Slot {
    pub const fn new(handler: Handler) -> Self {
        Self(RefCell::new(handler))
    }

    pub fn get(&self) -> Handler {
        self.0.borrow().clone()
    }

    pub fn set(&self, handler: Handler) {
        self.0.replace(handler);
    }
}

/// An object that errors can be reported to.
pub(crate) trait Object {
    /// Returns the object's handle.
    fn handle(&self) -> Handle;
    /// Returns the object's error handler.
    fn errhandler(&self) -> &Slot;
}

of_rank! {
    /// What gets the errors of calls without an object: `MPI_COMM_SELF`, while MPI is initialized.
    static DEFAULT: Cell<Option<&'static dyn Object>> = Cell::new(None);
}

of_rank! {
    /// What gets them while the first would end the program: `MPI_COMM_WORLD`, which got them before MPI 4.
    static FALLBACK: Cell<Option<&'static dyn Object>> = Cell::new(None);
}

/// Sets what gets the errors of calls without an object. Nothing does when MPI ends.
pub(crate) fn set_default(object: Option<&'static dyn Object>) {
    DEFAULT.with(|default| default.set(object));
    if object.is_none() {
        FALLBACK.with(|fallback| fallback.set(None));
    }
}

/// Sets what gets the errors of calls without an object while the [default](set_default) would end the program.
pub(crate) fn set_fallback(object: &'static dyn Object) {
    FALLBACK.with(|fallback| fallback.set(Some(object)));
}

thread_local! {
    /// The number of the last error of this thread's calls, and what was wrong where.
    static LAST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// Returns what was wrong where, if the last error of this thread's calls has this number.
pub(crate) fn last(code: c_int) -> Option<String> {
    let of_code = |last: &RefCell<Option<(c_int, String)>>| {
        let last = last.borrow();
        last.as_ref().filter(|(number, _)| *number == code).map(|(_, facts)| facts.clone())
    };
    LAST.try_with(of_code).ok().flatten()
}

/// Returns whether errors of calls without an object are returned.
pub(crate) fn returns_without_object() -> bool {
    without_object().is_some_and(|object| matches!(object.errhandler().get(), Handler::Return))
}

/// Returns what gets the errors of calls without an object.
fn without_object() -> Option<&'static dyn Object> {
    let first = DEFAULT.with(|default| default.get())?;
    match first.errhandler().get() {
        Handler::Fatal => FALLBACK.with(|fallback| fallback.get()).or(Some(first)),
        _ => Some(first),
    }
}

/// Calls a function with an object, and returns its result as MPI does: the object's error handler gets an error.
#[inline]
pub(crate) fn with<T: Object>(
    object: Result<&T, Error>,
    function: &str,
    call: impl FnOnce(&T) -> Result<(), Error>,
) -> c_int {
    match object {
        Ok(object) => match call(object) {
            Ok(()) => MPI_SUCCESS,
            Err(error) => error.raise(function, Some(object)),
        },
        Err(error) => error.raise(function, None),
    }
}

impl Error {
    /// Gives the error of a function to the error handler of an object, and returns what the function has to return.
    #[cold]
    pub(crate) fn raise(self, function: &str, on: Option<&dyn Object>) -> c_int {
        let object = on.or_else(|| without_object().map(|object| object as _));
        let handler = object.map_or(Handler::Fatal, |object| object.errhandler().get());
        // At the end of a thread, its variables are gone before its last calls.
        let facts = (self.code(), format!("{function}: {}", self.text));
        let _ = LAST.try_with(|last| last.replace(Some(facts)));
        match handler {
            Handler::Return => {}
            Handler::Fatal | Handler::Abort => self.end(function),
            Handler::Program(handler) => {
                let &Errhandler { kind, function } = &*handler;
                let handle = object.map_or(without_provenance_mut(0), Object::handle);
                // SAFETY: the program has given this function as an error handler for objects of this kind.
                return unsafe { callbacks().handle_error(function, kind, handle, self.code()) };
            }
        }
        self.code()
    }

    fn end(self, function: &str) -> ! {
        let class =
            Class::find(self.code()).map_or("an error of the program", |class| class.describe().0);
        let rank = state::rank().map_or(String::new(), |rank| format!("rank {}: ", rank.id()));
        let report = format!("{function}: {} ({class})", self.text);
        // The line is written by one call, because other ranks may write at the same time. If standard error is closed,
        // the message is lost.
        let _ = std::io::stderr().write_all(format!("{rank}{report}\n").as_bytes());
        state::abort(self.code(), &report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(usize, Slot);

    impl Object for Named {
        fn handle(&self) -> Handle {
            without_provenance_mut(self.0)
        }

        fn errhandler(&self) -> &Slot {
            &self.1
        }
    }

    #[test]
    fn errors_without_an_object_go_to_the_world_until_the_program_says_otherwise() {
        let [alone, world] =
            [1, 2].map(|number| &*Box::leak(Box::new(Named(number, Slot::new(Handler::Fatal)))));
        let gets = || without_object().map(|object| object.handle().addr());
        assert_eq!(gets(), None);
        set_fallback(world);
        set_default(Some(alone));
        assert_eq!(gets(), Some(2));
        world.errhandler().set(Handler::Return);
        assert_eq!(gets(), Some(2));
        assert_eq!(Error::new(Class::Arg, "wrong").raise("MPI_X", None), Class::Arg as c_int);
        alone.errhandler().set(Handler::Return);
        assert_eq!(gets(), Some(1));
        set_default(None);
        assert_eq!(gets(), None);
        set_default(Some(alone));
        alone.errhandler().set(Handler::Fatal);
        assert_eq!(gets(), Some(1), "the world is gone");
    }
}
