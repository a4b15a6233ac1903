//! Windows: memory of ranks that other ranks access without their help.
//!
//! | file | what is in it |
//! |---|---|
//! | `making.rs` | how ranks make a window together |
//! | `mapping.rs`, `allocated.rs` | memory that processes share; what programs have from `MPI_Alloc_mem` |
//! | `target.rs` | the memory of a rank, as others reach it |
//! | `operations.rs` | put, get and accumulate |
//! | `epochs.rs` | when a rank may do that |
//! | `locks.rs` | the locks of the ranks' memory |
//! | `synchronization.rs` | fences, post and start, locks |
//!
//! Memory of `MPI_Win_allocate`, `MPI_Win_allocate_shared` and `MPI_Alloc_mem` is mapped by all ranks, so that a put or a
//! get copies to or from it. Other memory is copied by the system.

pub(crate) mod allocated;
mod epochs;
mod locks;
pub(crate) mod making;
mod mapping;
pub(crate) mod operations;
mod synchronization;
pub(crate) mod target;

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
};

use self::{epochs::Epochs, locks::Locks, mapping::Mapping, target::Target};
use crate::{
    attributes::Attributes,
    boxed::Boxed,
    comm::Comm,
    constants::{
        MPI_PROC_NULL, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT,
        MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_MODEL, MPI_WIN_SIZE,
    },
    errhandler::{Object, Slot, with},
    error::{Class, Error},
    info::Info,
    types::{Aint, Handle},
};

type Result<T> = std::result::Result<T, Error>;

/// The values of predefined attributes. Programs get their addresses.
#[derive(Debug)]
struct Values {
    base: *mut c_void,
    bytes: Aint,
    unit: c_int,
    flavor: c_int,
    model: c_int,
}

/// `MPI_Win`.
pub(crate) struct Win {
    /// A communicator of its ranks, for the window's own messages.
    pub comm: Comm,
    locks: Locks,
    pub targets: Vec<Target>,
    epochs: RefCell<Epochs>,
    /// Whether this rank has accessed memory since its last flush.
    unflushed: Cell<bool>,
    values: Values,
    /// The memory that this rank has attached: addresses and lengths.
    attached: RefCell<Vec<(usize, usize)>>,
    pub attributes: Attributes,
    pub name: RefCell<String>,
    errhandler: Slot,
    pub hints: Info,
    /// The memory that the targets lie in.
    _memory: Vec<Mapping>,
}

impl Object for Win {
    fn handle(&self) -> Handle {
        (&raw const *self).cast_mut().cast()
    }

    fn errhandler(&self) -> &Slot {
        &self.errhandler
    }
}

impl Boxed for Win {
    const NAME: &'static str = "a window";
    const CLASS: Class = Class::Win;
}

impl Win {
    /// Frees a window, when all ranks do so.
    ///
    /// # Safety
    /// As for [`look`](Self::look), and the handle is not used afterwards.
    pub unsafe fn free(handle: Handle) -> Result<()> {
        // SAFETY: the caller says so.
        unsafe {
            let window = Self::look(handle)?;
            window.epochs.borrow().check_closed()?;
            window.attributes.delete_all(handle)?;
            window.barrier()?;
            Self::release(handle)
        }
    }

    /// Returns the number of a rank in the window.
    #[inline]
    fn rank(&self, rank: c_int) -> Result<usize> {
        let found = usize::try_from(rank).ok().filter(|&rank| rank < self.targets.len());
        found.ok_or_else(|| {
            let size = self.targets.len();
            Error::new(Class::Rank, format!("there is no rank {rank} in a window of {size}"))
        })
    }

    /// Returns the number of a rank whose memory this rank accesses now, or `None` for `MPI_PROC_NULL`.
    // See `Data::new`.
    #[inline(always)]
    pub fn accessed(&self, rank: c_int) -> Result<Option<usize>> {
        if rank == MPI_PROC_NULL {
            return Ok(None);
        }
        let rank = self.rank(rank)?;
        self.epochs.borrow_mut().access(rank)?;
        Ok(Some(rank))
    }

    /// Notes that this rank accesses memory, for the next flush.
    #[inline]
    pub fn note_access(&self) {
        self.unflushed.set(true);
    }

    /// Returns the memory of a rank.
    pub fn target(&self, rank: c_int) -> Result<&Target> {
        Ok(&self.targets[self.rank(rank)?])
    }

    /// Attaches memory to a dynamic window.
    pub fn attach(&self, address: usize, bytes: usize) -> Result<()> {
        self.check_dynamic()?;
        let mut attached = self.attached.borrow_mut();
        let end = address.saturating_add(bytes);
        if attached.iter().any(|&(other, length)| address < other + length && other < end) {
            let text = "the memory overlaps memory that is attached";
            return Err(Error::new(Class::RmaAttach, text));
        }
        attached.push((address, bytes));
        Ok(())
    }

    /// Detaches memory from a dynamic window.
    pub fn detach(&self, address: usize) -> Result<()> {
        self.check_dynamic()?;
        let mut attached = self.attached.borrow_mut();
        let Some(place) = attached.iter().position(|&(other, _)| other == address) else {
            return Err(Error::new(Class::RmaAttach, "no memory at this address is attached"));
        };
        attached.swap_remove(place);
        Ok(())
    }

    fn check_dynamic(&self) -> Result<()> {
        match self.values.flavor {
            MPI_WIN_FLAVOR_DYNAMIC => Ok(()),
            _ => Err(Error::new(Class::RmaFlavor, "memory is attached to dynamic windows only")),
        }
    }

    /// Returns the value of a predefined attribute, as programs get it.
    pub fn predefined(&self, key: c_int) -> Option<*mut c_void> {
        let values = &self.values;
        Some(match key {
            MPI_WIN_BASE => values.base,
            MPI_WIN_SIZE => (&raw const values.bytes).cast_mut().cast(),
            MPI_WIN_DISP_UNIT => (&raw const values.unit).cast_mut().cast(),
            MPI_WIN_CREATE_FLAVOR => (&raw const values.flavor).cast_mut().cast(),
            MPI_WIN_MODEL => (&raw const values.model).cast_mut().cast(),
            _ => return None,
        })
    }

    /// Returns the address of this rank's memory.
    pub fn base(&self) -> *mut c_void {
        self.values.base
    }
}

/// Calls a function with the window of a handle, and returns its result as MPI does.
///
/// # Safety
/// As for [`Win::look`].
#[inline]
pub(crate) unsafe fn within(
    handle: Handle,
    function: &'static str,
    call: impl FnOnce(&Win) -> Result<()>,
) -> c_int {
    // SAFETY: the caller says so.
    with(unsafe { Win::look(handle) }, function, call)
}
