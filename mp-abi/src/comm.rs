//! Communicators.

use std::{
    cell::{Cell, OnceCell, RefCell},
    ffi::c_int,
    rc::Rc,
};

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator, Source, Status, Tag};

use crate::{
    attached::Attached,
    attributes::Attributes,
    callbacks::Owner,
    constants::{
        MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_CONGRUENT, MPI_IDENT,
        MPI_PROC_NULL, MPI_SIMILAR, MPI_UNEQUAL,
    },
    errhandler::{Handler, Object, Slot, set_fallback, with},
    error::{Class, Error},
    group::Group,
    pairs::Pairs,
    state,
    topology::Topology,
    types::Handle,
};

/// `MPI_Comm`.
pub(crate) struct Comm {
    /// The communicator for its messages: of an intercommunicator, that of the ranks of both groups.
    pub communicator: Communicator,
    pub rank: c_int,
    pub size: c_int,
    /// The number of ranks that this rank sends to and receives from: those of an intercommunicator's remote group, or
    /// all.
    pub peers: c_int,
    /// The rank in `communicator` of the first of them.
    first_peer: usize,
    /// The world's numbers of its ranks: those of the local group.
    ranks: Vec<usize>,
    /// The world's numbers of the remote group's ranks. Only an intercommunicator has them.
    remote: Vec<usize>,
    /// Whether any of its ranks may call it from several threads at once.
    has_threads: Cell<bool>,
    by_request: Cell<bool>,
    name: RefCell<String>,
    errhandler: Slot,
    pub attributes: Attributes,
    /// The buffer for its buffered messages.
    pub attached: Attached,
    /// Its requests of partitioned messages.
    pub pairs: RefCell<Pairs>,
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
        Self::between(communicator, Vec::new(), name, errhandler)
    }

    /// Makes an intercommunicator whose remote group has these ranks of the world, in any order, or an intracommunicator
    /// if there are none. The communicator has the ranks of one group before those of the other.
    pub fn between(
        communicator: Communicator,
        remote: Vec<usize>,
        name: &str,
        errhandler: Handler,
    ) -> Self {
        let all = communicator.joint().world_ranks();
        let is_remote = |rank: &usize| remote.contains(rank);
        let first_peer = all.iter().position(is_remote).unwrap_or(0);
        let first = all.iter().position(|rank| !is_remote(rank)).unwrap_or(0);
        let (remote, ranks): (Vec<_>, Vec<_>) = all.into_iter().partition(is_remote);
        let peers = if remote.is_empty() { &ranks } else { &remote };
        Self {
            rank: (communicator.rank() - first) as c_int,
            size: ranks.len() as c_int,
            peers: peers.len() as c_int,
            first_peer,
            ranks,
            has_threads: Cell::new(false),
            by_request: Cell::new(!remote.is_empty()),
            remote,
            name: RefCell::new(name.to_owned()),
            errhandler: Slot::new(errhandler),
            attributes: Attributes::new(Owner::Comm),
            attached: Attached::default(),
            pairs: RefCell::default(),
            topology: OnceCell::new(),
            number: None,
            communicator,
        }
    }

    /// Says whether any of its ranks may call it from several threads at once.
    pub fn threaded(self, has_threads: bool) -> Self {
        self.set_threads(has_threads);
        self
    }

    /// See [`threaded`](Self::threaded).
    pub fn set_threads(&self, has_threads: bool) {
        self.has_threads.set(has_threads);
        self.by_request.set(self.is_inter() || has_threads);
    }

    /// Returns whether any of its ranks may call it from several threads at once.
    pub fn has_threads(&self) -> bool {
        self.has_threads.get()
    }

    /// Returns whether collective calls begin an operation and wait for it, because the shorter ways are not for this
    /// communicator.
    #[inline]
    pub fn by_request(&self) -> bool {
        self.by_request.get()
    }

    /// Returns whether a collective operation is done because no rank has any of its bytes.
    ///
    /// Such an operation is not counted among the rank's calls. If it has bytes at another rank, their counts differ from
    /// then on, which the ranks notice when they next compare their calls. Ranks that check all calls do so at once.
    #[inline]
    pub fn is_empty(&self, bytes: usize) -> Result<bool, Error> {
        let joint = self.communicator.joint();
        if bytes > 0 || joint.checks() {
            return Ok(false);
        }
        joint.check_revoked()?;
        Ok(true)
    }

    /// Puts `MPI_COMM_WORLD` or `MPI_COMM_SELF` into a place of the table of predefined objects, where it stays.
    pub fn predefine(self, handle: Handle, place: usize) -> &'static Self {
        let comm = Rc::into_raw(Rc::new(Self { number: Some(handle), ..self }));
        // SAFETY: the reference that was just taken out of the `Rc` is given back only when MPI ends.
        let comm = unsafe { &*comm };
        state::predefine(place, comm);
        if handle == MPI_COMM_WORLD {
            set_fallback(comm);
        }
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
    pub fn child(&self, communicator: Communicator) -> Self {
        Self::new(communicator, "", self.errhandler.get()).threaded(self.has_threads())
    }

    /// Makes a communicator of some of the ranks, which inherits the error handler. If this is an intercommunicator, so
    /// is that, and there is none if one of the groups has no rank.
    pub fn part(&self, communicator: Communicator) -> Option<Self> {
        let ranks = communicator.joint().world_ranks();
        let mut remote = self.remote.clone();
        remote.retain(|rank| ranks.contains(rank));
        if self.is_inter() && (remote.is_empty() || remote.len() == ranks.len()) {
            return None;
        }
        let made = Self::between(communicator, remote, "", self.errhandler.get());
        Some(made.threaded(self.has_threads()))
    }

    /// Makes a copy, which has the topology, too.
    pub fn copy(&self, communicator: Communicator, attributes: Attributes) -> Self {
        let made = Self::between(communicator, self.remote.clone(), "", self.errhandler.get())
            .threaded(self.has_threads());
        Self { attributes, topology: self.topology.clone(), ..made }
    }

    /// Returns whether it is an intercommunicator.
    pub fn is_inter(&self) -> bool {
        !self.remote.is_empty()
    }

    /// Returns an error if it is an intercommunicator.
    pub fn check_intra(&self) -> Result<(), Error> {
        match self.is_inter() {
            true => Err(Error::new(Class::Comm, "this is not for intercommunicators")),
            false => Ok(()),
        }
    }

    /// Returns an error if it is not an intercommunicator.
    pub fn check_inter(&self) -> Result<(), Error> {
        match self.is_inter() {
            true => Ok(()),
            false => Err(Error::new(Class::Comm, "this is only for intercommunicators")),
        }
    }

    /// Returns whether the local group is the second one in the communicator of both groups.
    pub fn is_second(&self) -> bool {
        self.is_inter() && self.first_peer == 0
    }

    /// Returns the rank in `communicator` of a rank to send to or receive from.
    pub fn peer(&self, rank: usize) -> usize {
        self.first_peer + rank
    }

    /// Returns a status with the rank in place of that in `communicator`.
    #[inline]
    pub fn told(&self, mut status: Status) -> Status {
        status.source -= self.first_peer;
        status
    }

    /// Returns the world's number of a rank of the local group.
    pub fn world_rank(&self, rank: c_int) -> usize {
        self.ranks[rank as usize]
    }

    /// Returns the world's number of a rank to send to or receive from, if there is this rank.
    pub fn world_peer(&self, rank: c_int) -> Option<usize> {
        let peers = if self.is_inter() { &self.remote } else { &self.ranks };
        peers.get(usize::try_from(rank).ok()?).copied()
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

    /// Returns the group of the ranks of the other side.
    pub fn remote_group(&self) -> Result<Group, Error> {
        self.check_inter()?;
        Ok(self.group().with(self.remote.clone()))
    }

    /// Returns `MPI_IDENT`, `MPI_CONGRUENT`, `MPI_SIMILAR` or `MPI_UNEQUAL`.
    pub fn compare(&self, other: &Self) -> c_int {
        let group = self.group();
        let remote = |comm: &Self| group.with(comm.remote.clone());
        match [group.compare(&other.group()), remote(self).compare(&remote(other))] {
            [MPI_IDENT, MPI_IDENT] if std::ptr::eq(self, other) => MPI_IDENT,
            [MPI_IDENT, MPI_IDENT] => MPI_CONGRUENT,
            [MPI_UNEQUAL, _] | [_, MPI_UNEQUAL] => MPI_UNEQUAL,
            _ => MPI_SIMILAR,
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
        let remote = if self.is_inter() { "the remote group of " } else { "" };
        format!("there is no rank {rank} in {remote}a communicator of {}", self.peers)
    }

    /// Returns a rank to send to, or `None` for `MPI_PROC_NULL`.
    #[inline]
    pub fn destination(&self, rank: c_int) -> Result<Option<usize>, Error> {
        match rank {
            0.. if rank < self.peers => Ok(Some(self.peer(rank as usize))),
            MPI_PROC_NULL => Ok(None),
            _ => Err(Error::new(Class::Rank, self.no_such_rank(rank))),
        }
    }

    /// Returns a rank to receive from, or `None` for `MPI_PROC_NULL`.
    #[inline]
    pub fn source(&self, rank: c_int) -> Result<Option<Source>, Error> {
        match rank {
            0.. if rank < self.peers => Ok(Some(Source::Rank(self.peer(rank as usize)))),
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
    with(unsafe { Comm::look(handle) }, function, call)
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
