//! The memory of a window's rank, as this rank reaches it.

use std::io::{IoSlice, IoSliceMut};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev},
    unistd::Pid,
};

use crate::{
    datatype::{
        Datatype,
        data::{Data, negative},
    },
    error::{Class, Error},
    types::{Aint, Count},
};

type Result<T> = std::result::Result<T, Error>;

/// The most pieces of memory that one call of the system takes.
const MOST: usize = 1024;

/// How the memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is mapped in this process, from this address on.
    Direct(usize),
    /// It is memory of another process, from this address on, which the system copies.
    Copied(Pid, usize),
}

/// The memory of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub way: Way,
    pub bytes: usize,
    /// The bytes of a displacement of 1.
    pub unit: Aint,
    /// Whether displacements are addresses, of memory that the rank has attached.
    pub is_dynamic: bool,
}

/// Elements in the memory of a rank.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a> {
    /// For memory of another process, the addresses are that process's.
    data: Data<'a>,
    process: Option<Pid>,
}

impl Target {
    /// Returns the address of the first byte, if the memory is mapped in this process.
    pub fn start(&self) -> Option<usize> {
        match self.way {
            Way::Direct(start) => Some(start),
            Way::Copied(..) => None,
        }
    }

    /// Names elements in the memory.
    // See `Data::new`.
    #[inline(always)]
    pub fn elements<'a>(
        &self,
        displacement: Aint,
        count: Count,
        datatype: &'a Datatype,
    ) -> Result<Elements<'a>> {
        let count = usize::try_from(count).map_err(|_| negative(count))?;
        let (base, process) = match self.way {
            Way::Direct(base) => (base, None),
            Way::Copied(process, base) => (base, Some(process)),
        };
        let offset = displacement.checked_mul(self.unit);
        if !self.is_dynamic && !self.has(offset, count, datatype) {
            return Err(self.outside(displacement, count));
        }
        let address = base.wrapping_add_signed(offset.unwrap_or(0));
        // SAFETY: memory of this process was just checked to be the window's. Memory of another process is only reached
        // by calls of the system, with the addresses of `runs`.
        let data = unsafe { Data::at_address(address, count, datatype) };
        Ok(Elements { data, process })
    }

    /// Returns the error of elements that do not lie within the window.
    #[cold]
    fn outside(&self, displacement: Aint, count: usize) -> Error {
        let text = format!(
            "{count} elements at a displacement of {displacement} are not in a window of {} bytes with displacements of \
             {}",
            self.bytes, self.unit
        );
        Error::new(Class::RmaRange, text)
    }

    /// Returns whether elements lie within the window.
    fn has(&self, offset: Option<isize>, count: usize, datatype: &Datatype) -> bool {
        let Some((lower, upper)) = datatype.span(count) else { return true };
        let Some(offset) = offset.map(|offset| offset as i64) else { return false };
        let (lower, upper) = (offset.checked_add(lower), offset.checked_add(upper));
        matches!((lower, upper), (Some(0..), Some(upper)) if upper <= self.bytes as i64)
    }
}

impl<'a> Elements<'a> {
    /// Returns the elements, if they are in memory of this process.
    pub fn here(&self) -> Option<Data<'a>> {
        self.process.is_none().then_some(self.data)
    }

    pub fn datatype(&self) -> &'a Datatype {
        self.data.datatype()
    }

    /// Returns the number of bytes of data.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// Writes the elements.
    #[inline]
    pub fn write(&self, from: &[u8]) -> Result<()> {
        let Some(process) = self.process else {
            self.data.unpack(from);
            return Ok(());
        };
        self.copy(|done, runs| process_vm_writev(process, &[IoSlice::new(&from[done..])], runs))
    }

    /// Reads the elements.
    pub fn read(&self, to: &mut [u8]) -> Result<()> {
        let Some(process) = self.process else {
            let mut rest = to;
            self.data.runs(|address, bytes| {
                let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes);
                // SAFETY: the run is data of the elements, which can be read. Others may write to it meanwhile only if
                // the program breaks the standard's rules: then the bytes are any.
                now.copy_from_slice(unsafe { Data::memory(address, bytes) });
                rest = later;
            });
            return Ok(());
        };
        self.copy(|done, runs| {
            process_vm_readv(process, &mut [IoSliceMut::new(&mut to[done..])], runs)
        })
    }

    /// Has the system copy all runs: `call` gets the number of bytes that are done, and the next runs.
    fn copy(
        &self,
        mut call: impl FnMut(usize, &[RemoteIoVec]) -> nix::Result<usize>,
    ) -> Result<()> {
        let mut runs = Vec::new();
        self.data.runs(|base, len| runs.push(RemoteIoVec { base, len }));
        let (mut done, mut rest) = (0, &mut runs[..]);
        while !rest.is_empty() {
            let mut copied = call(done, &rest[..rest.len().min(MOST)]).map_err(not_copied)?;
            if copied == 0 {
                return Err(not_copied(Errno::EFAULT));
            }
            done += copied;
            while let Some(first) = rest.first_mut() {
                let of_first = first.len.min(copied);
                (first.base, first.len) = (first.base + of_first, first.len - of_first);
                copied -= of_first;
                if first.len > 0 {
                    break;
                }
                rest = &mut rest[1..];
            }
        }
        Ok(())
    }
}

/// Reads a word in the memory of another process.
pub(crate) fn word_of(process: Pid, address: usize) -> Result<u64> {
    let mut word = [0; size_of::<u64>()];
    let run = RemoteIoVec { base: address, len: word.len() };
    process_vm_readv(process, &mut [IoSliceMut::new(&mut word)], &[run]).map_err(not_copied)?;
    Ok(u64::from_ne_bytes(word))
}

#[cold]
fn not_copied(error: Errno) -> Error {
    match error {
        Errno::EPERM | Errno::ENOSYS => Error::new(
            Class::RmaShared,
            "the system does not let ranks copy each other's memory: use memory of MPI_Win_allocate or \
             MPI_Alloc_mem",
        ),
        Errno::EFAULT => Error::new(Class::RmaRange, "the rank does not have this memory"),
        Errno::ESRCH => Error::new(Class::ProcAborted, "the rank has ended"),
        _ => Error::new(Class::Other, format!("memory of another rank can't be copied: {error}")),
    }
}
