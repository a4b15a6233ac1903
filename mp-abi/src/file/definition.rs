//! What an open file is, its handles, and who gets the errors.

use std::{
    cell::{Cell, RefCell},
    ffi::c_int,
    fs,
    path::PathBuf,
    rc::Rc,
};

use mp_core::memory::Region;

use super::{together::Together, view::View};
use crate::{
    boxed::Boxed,
    completed::Completed,
    constants::{
        MPI_FILE_NULL, MPI_MODE_RDONLY, MPI_MODE_SEQUENTIAL, MPI_MODE_WRONLY, MPI_SUCCESS,
    },
    errhandler::{Handler, Object, Slot, with},
    error::{Class, Error},
    group::Group,
    state::of_rank,
    types::Handle,
};

/// `MPI_File`.
pub(crate) struct File {
    pub(super) file: fs::File,
    pub(super) path: PathBuf,
    pub mode: c_int,
    pub group: Group,
    pub(super) together: Together,
    /// What the ranks share: a word with the position of the shared pointer.
    pub(super) shared: Region,
    pub(super) view: RefCell<Rc<View>>,
    /// The position of the pointer of this rank.
    pub(super) position: Cell<i64>,
    /// Whether each access is done as a whole, with regard to those of other ranks.
    pub(super) is_atomic: Cell<bool>,
    /// Whether this rank has written what may not be on the device yet.
    pub(super) is_written: Cell<bool>,
    /// The call that has begun a collective access, and what that has to say.
    pub(super) begun: RefCell<Option<(&'static str, Completed)>>,
    pub(super) errhandler: Slot,
}

impl Object for File {
    fn handle(&self) -> Handle {
        (&raw const *self).cast_mut().cast()
    }

    fn errhandler(&self) -> &Slot {
        &self.errhandler
    }
}

/// What `MPI_FILE_NULL` names: it has the error handler that files begin with, and gets the errors without a file.
struct NoFile(Slot);

of_rank! {
    static NO_FILE: NoFile = NoFile(Slot::new(Handler::Return));
}

impl Object for NoFile {
    fn handle(&self) -> Handle {
        MPI_FILE_NULL
    }

    fn errhandler(&self) -> &Slot {
        &self.0
    }
}

impl Boxed for File {
    const NAME: &'static str = "a file";
    const CLASS: Class = Class::File;
}

impl File {
    pub fn view(&self) -> Rc<View> {
        Rc::clone(&self.view.borrow())
    }

    pub(super) fn has(&self, mode: c_int) -> bool {
        self.mode & mode != 0
    }

    /// Returns an error if the file may not be written to.
    pub fn check_writable(&self) -> Result<(), Error> {
        match self.has(MPI_MODE_RDONLY) {
            true => Err(Error::new(Class::ReadOnly, "the file was opened to be read only")),
            false => Ok(()),
        }
    }

    /// Returns an error if the file may not be read.
    pub(super) fn check_readable(&self) -> Result<(), Error> {
        match self.has(MPI_MODE_WRONLY) {
            true => Err(Error::new(Class::Access, "the file was opened to be written only")),
            false => Ok(()),
        }
    }

    /// Returns an error if the file was opened for access by the shared pointer alone.
    pub fn check_random(&self) -> Result<(), Error> {
        match self.has(MPI_MODE_SEQUENTIAL) {
            true => Err(Error::new(
                Class::UnsupportedOperation,
                "the file was opened with MPI_MODE_SEQUENTIAL",
            )),
            false => Ok(()),
        }
    }
}

/// Calls a function with the object of a handle whose error handler is meant: a file, or no file for `MPI_FILE_NULL`.
///
/// # Safety
/// As for [`File::look`].
pub(crate) unsafe fn with_object(
    handle: Handle,
    call: impl FnOnce(&dyn Object) -> Result<(), Error>,
) -> Result<(), Error> {
    match handle {
        MPI_FILE_NULL => NO_FILE.with(|none| call(&**none)),
        // SAFETY: the caller says so.
        _ => unsafe { call(File::look(handle)?) },
    }
}

/// Returns the error handler that a new file gets.
pub(super) fn first_handler() -> Handler {
    NO_FILE.with(|none| none.errhandler().get())
}

/// Calls a function, and returns its result as MPI does for calls without a file.
pub(crate) fn within_none(
    function: &'static str,
    call: impl FnOnce() -> Result<(), Error>,
) -> c_int {
    match call() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => NO_FILE.with(|none| error.raise(function, Some(&**none))),
    }
}

/// Calls a function with the file of a handle, and returns its result as MPI does.
///
/// # Safety
/// As for [`File::look`].
pub(crate) unsafe fn within(
    handle: Handle,
    function: &'static str,
    call: impl FnOnce(&File) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller says so.
    match unsafe { File::look(handle) } {
        Ok(file) => with(Ok(file), function, call),
        Err(error) => within_none(function, || Err(error)),
    }
}
