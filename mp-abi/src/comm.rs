//! Communicators.

use std::{
    cell::{OnceCell, RefCell},
    ffi::c_int,
    rc::Rc,
};

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator, Source, Tag};

use crate::{
    attributes::Attributes,
    constants::{
        MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_CONGRUENT, MPI_IDENT,
        MPI_PROC_NULL, MPI_SIMILAR, MPI_UNEQUAL,
    },
    errhandler::{Handler, Object, Slot},
    error::{Class, Error},
    group::Group,
    state,
    topology::Topology,
    types::Handle,
};

/// `MPI_Comm`.
pub(crate) struct Comm {
    pub communicator: Communicator,
    pub rank: c_int,
    pub size: c_int,
    /// The world's numbers of its ranks.
    ranks: Vec<usize>,
    name: RefCell<String>,
    errhandler: Slot,
    pub attributes: Attributes,
    /// The topology, if it has one.
    pub topology: OnceCell<Topology>,
    /// The handle, if it is predefined.
    number: Option<Handle>,
}

impl Object for Comm {
    fn handle(&self) -> Handle {
        self.number.unwrap_or((&raw const *self).cast_mut().cast())
    }

    fn errhandler(&self) -> &Slot {
        &self.errhandler
    }
}

impl Comm {
    pub fn new(communicator: Communicator, name: &str, errhandler: Handler) -> Self {
        Self {
            rank: communicator.rank() as c_int,
            size: communicator.size() as c_int,
            ranks: communicator.joint().world_ranks(),
            name: RefCell::new(name.to_owned()),
            errhandler: Slot::new(errhandler),
            attributes: Attributes::default(),
            topology: OnceCell::new(),
            number: None,
            communicator,
        }
    }

    /// Makes `MPI_COMM_WORLD` or `MPI_COMM_SELF`, which stays.
    pub fn predefine(communicator: Communicator, name: &str, handle: Handle) -> &'static Self {
        let comm = Self::new(communicator, name, Handler::Fatal);
        let comm = Rc::into_raw(Rc::new(Self { number: Some(handle), ..comm }));
        // SAFETY: the reference that was just taken out of the `Rc` is given back only when MPI ends.
        let comm = unsafe { &*comm };
        state::predefine(handle, comm);
        comm
    }

    /// Returns a handle, which has this reference until it is [released](Self::release).
    pub fn into_handle(self) -> Handle {
        Rc::into_raw(Rc::new(self)).cast_mut().cast()
    }

    /// Returns the communicator of a handle.
    ///
    /// # Safety
    /// The handle is one of a communicator that is not freed during `'a`, or any number below 4096.
    #[inline]
    pub unsafe fn look<'a>(handle: Handle) -> Result<&'a Self, Error> {
        match handle.addr() {
            ..4096 => predefined(handle).ok_or_else(no_comm),
            // SAFETY: the handle came from `into_handle`, and has a reference.
            _ => Ok(unsafe { &*handle.cast_const().cast::<Self>() }),
        }
    }

    /// Takes back the reference that a handle has.
    ///
    /// # Safety
    /// As for [`look`](Self::look), and the handle is not used afterwards.
    pub unsafe fn release(handle: Handle) -> Result<(), Error> {
        if handle.addr() < 4096 {
            return Err(Error::new(
                Class::Comm,
                "the handle is not one of a communicator that can be freed",
            ));
        }
        // SAFETY: the handle came from `into_handle`.
        drop(unsafe { Rc::from_raw(handle.cast_const().cast::<Self>()) });
        Ok(())
    }

    /// Returns the communicator, to be kept by a request.
    pub fn keep(&self) -> Rc<Self> {
        // SAFETY: all communicators are in an `Rc`: `into_handle` and `predefine` put them there.
        unsafe {
            Rc::increment_strong_count(self);
            Rc::from_raw(self)
        }
    }

    /// Makes a communicator that inherits the error handler.
    pub fn child(&self, communicator: Communicator, name: &str) -> Self {
        Self::new(communicator, name, self.errhandler.get())
    }

    /// Makes a copy, which has the topology, too.
    pub fn copy(&self, communicator: Communicator, attributes: Attributes) -> Self {
        Self { attributes, topology: self.topology.clone(), ..self.child(communicator, "") }
    }

    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    pub fn set_name(&self, name: &str) {
        self.communicator.set_name(name);
        self.name.replace(name.to_owned());
    }

    pub fn group(&self) -> Group {
        Group { ranks: self.ranks.clone(), me: self.ranks[self.rank as usize] }
    }

    /// Returns `MPI_IDENT`, `MPI_CONGRUENT`, `MPI_SIMILAR` or `MPI_UNEQUAL`.
    pub fn compare(&self, other: &Self) -> c_int {
        match self.group().compare(&other.group()) {
            MPI_IDENT if std::ptr::eq(self, other) => MPI_IDENT,
            MPI_IDENT => MPI_CONGRUENT,
            MPI_SIMILAR => MPI_SIMILAR,
            _ => MPI_UNEQUAL,
        }
    }

    /// Returns a root.
    pub fn root(&self, root: c_int) -> Result<usize, Error> {
        match root {
            0.. if root < self.size => Ok(root as usize),
            _ => Err(Error::new(Class::Root, self.no_such_rank(root))),
        }
    }

    #[cold]
    fn no_such_rank(&self, rank: c_int) -> String {
        format!("there is no rank {rank} in a communicator of {}", self.size)
    }

    /// Returns a rank to send to, or `None` for `MPI_PROC_NULL`.
    #[inline]
    pub fn destination(&self, rank: c_int) -> Result<Option<usize>, Error> {
        match rank {
            0.. if rank < self.size => Ok(Some(rank as usize)),
            MPI_PROC_NULL => Ok(None),
            _ => Err(Error::new(Class::Rank, self.no_such_rank(rank))),
        }
    }

    /// Returns a rank to receive from, or `None` for `MPI_PROC_NULL`.
    #[inline]
    pub fn source(&self, rank: c_int) -> Result<Option<Source>, Error> {
        match rank {
            0.. if rank < self.size => Ok(Some(Source::Rank(rank as usize))),
            MPI_ANY_SOURCE => Ok(Some(ANY_SOURCE)),
            MPI_PROC_NULL => Ok(None),
            _ => Err(Error::new(Class::Rank, self.no_such_rank(rank))),
        }
    }
}

/// Returns the tag of a message to send.
#[inline]
pub(crate) fn sent_tag(tag: c_int) -> Result<u32, Error> {
    u32::try_from(tag).map_err(|_| bad_tag(tag))
}

/// Returns the tag of a message to receive.
#[inline]
pub(crate) fn wanted_tag(tag: c_int) -> Result<Tag, Error> {
    match tag {
        0.. => Ok(Tag::Is(tag as u32)),
        MPI_ANY_TAG => Ok(ANY_TAG),
        _ => Err(bad_tag(tag)),
    }
}

#[cold]
fn bad_tag(tag: c_int) -> Error {
    Error::new(Class::Tag, format!("{tag} is no tag: tags are from 0 to MPI_TAG_UB"))
}

/// Returns the communicator of a predefined handle.
#[inline]
fn predefined(handle: Handle) -> Option<&'static Comm> {
    match handle {
        // SAFETY: what `Comm::predefine` has set for these handles are communicators, and only that sets them.
        MPI_COMM_WORLD | MPI_COMM_SELF => unsafe { state::predefined(handle.addr()) },
        _ => None,
    }
}

#[cold]
fn no_comm() -> Error {
    Error::new(Class::Comm, "the handle is not one of a communicator")
}

/// Calls a function with the communicator of a handle, and returns its result as MPI does.
///
/// # Safety
/// As for [`Comm::look`].
#[inline]
pub(crate) unsafe fn within(
    handle: Handle,
    function: &'static str,
    call: impl FnOnce(&Comm) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller says so.
    match unsafe { Comm::look(handle) } {
        Ok(comm) => match call(comm) {
            Ok(()) => 0,
            Err(error) => error.raise(function, Some(comm)),
        },
        Err(error) => error.raise(function, None),
    }
}

/// Returns the element at an address of the program.
///
/// # Safety
/// The address is null, or can be read.
pub(crate) unsafe fn element<T: Copy>(at: *const T) -> Result<T, Error> {
    // SAFETY: the caller says so.
    unsafe { array(at, 1) }.map(|one| one[0])
}

/// Returns the elements of an array of the program.
///
/// # Safety
/// The array is null, or has `count` elements that do not change during `'a`.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: c_int) -> Result<&'a [T], Error> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        Ok(_) if first.is_null() => Err(Error::new(Class::Arg, "an array is a null pointer")),
        // SAFETY: the caller says so.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
        Err(_) => Err(Error::new(Class::Arg, format!("the count is negative: {count}"))),
    }
}
