//! Memory that processes share: files without names, which are gone with the last process that has them.

use std::{
    fs::File,
    os::fd::{AsRawFd, RawFd},
    process,
};

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::{Class, Error};

/// Where another process finds the file: in a process that keeps it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub process: u32,
    pub file: RawFd,
}

/// A file, and where this process has mapped it.
#[derive(Debug)]
pub(crate) struct Owned {
    file: File,
    pub mapping: Mapping,
}

impl Owned {
    /// Makes memory of at least this many bytes, which are zeros.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let no_memory = |error: std::io::Error| {
            Error::new(Class::NoMem, format!("there is no memory for {bytes} bytes: {error}"))
        };
        let file = memfd_create("onchip-window", MFdFlags::MFD_CLOEXEC);
        let file = File::from(file.map_err(|error| no_memory(error.into()))?);
        file.set_len(bytes.max(1) as u64).map_err(no_memory)?;
        let mapping = Mapping::of(&file, bytes).map_err(no_memory)?;
        Ok(Self { file, mapping })
    }

    pub fn place(&self) -> Place {
        Place { process: process::id(), file: self.file.as_raw_fd() }
    }
}

/// Memory of a file, mapped in this process.
#[derive(Debug)]
pub(crate) struct Mapping(MmapRaw);

impl Mapping {
    fn of(file: &File, bytes: usize) -> std::io::Result<Self> {
        MmapOptions::new().len(bytes.max(1)).map_raw(file).map(Self)
    }

    /// Maps a file that another process has open.
    pub fn open(place: Place, bytes: usize) -> Result<Self, Error> {
        let path = format!("/proc/{}/fd/{}", place.process, place.file);
        let opened = File::options().read(true).write(true).open(&path);
        opened.and_then(|file| Self::of(&file, bytes)).map_err(|error| {
            Error::new(Class::RmaShared, format!("the window's memory is {path}: {error}"))
        })
    }

    pub fn start(&self) -> usize {
        self.0.as_mut_ptr().expose_provenance()
    }

    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_until_all_have_dropped_it() {
        let owned = Owned::new(100_000).unwrap();
        let other = Mapping::open(owned.place(), 100_000).unwrap();
        assert_ne!(owned.mapping.start(), other.start());
        let write = std::ptr::with_exposed_provenance_mut::<u64>(owned.mapping.start() + 99_992);
        let read = std::ptr::with_exposed_provenance::<u64>(other.start() + 99_992);
        // SAFETY: both addresses are in the mappings, and aligned, and no other thread has them.
        unsafe {
            write.write(7);
            assert_eq!(read.read(), 7);
        }
        let place = owned.place();
        drop(owned);
        // SAFETY: as above.
        assert_eq!(unsafe { read.read() }, 7);
        assert!(Mapping::open(Place { file: 1 << 20, ..place }, 1).is_err());
    }
}
