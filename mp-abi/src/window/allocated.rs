//! Memory that programs have from `MPI_Alloc_mem`. It is the world's, or, where that has no room, in files. Other ranks
//! reach it in windows, and copy long messages and blocks from there.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    ptr::with_exposed_provenance_mut,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mp_core::WorldMemory;

use super::mapping::{Owned, Place};
use crate::{
    error::{Class, Error},
    state,
};

/// How many pieces of memory are in files of their own, because the program needs some of the files that a process may
/// have open.
const MOST: usize = 128;

/// Memory that a program has.
enum Memory {
    /// Memory of the world, of this many bytes. Other ranks can copy messages from there.
    World { memory: WorldMemory, bytes: usize },
    /// Memory that other processes can map.
    Mapped(Owned),
    /// Memory of this process. It is kept here until it is freed.
    Own { _lines: Box<[Line]> },
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

/// All of it, by the address.
static ALL: Mutex<BTreeMap<usize, Memory>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<usize, Memory>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where other processes find memory of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// At this place of the world's memory.
    InWorld(u64),
    /// In a file. The bytes begin at `offset`. The owner has mapped `bytes` bytes of the file.
    InFile { place: Place, offset: usize, bytes: usize },
}

/// Returns memory of this many bytes.
pub(crate) fn allocate(bytes: usize) -> Result<*mut c_void, Error> {
    let mut all = all();
    if let Some(memory) = state::rank().ok().and_then(|rank| rank.world_memory(bytes)) {
        let start = memory.start().as_ptr().expose_provenance();
        all.insert(start, Memory::World { memory, bytes });
        return Ok(with_exposed_provenance_mut(start));
    }
    let files = all.values().filter(|one| matches!(one, Memory::Mapped(_))).count();
    let (start, memory) = if files < MOST {
        let owned = Owned::new(bytes)?;
        (owned.mapping.start(), Memory::Mapped(owned))
    } else {
        let (count, mut lines) = (bytes.div_ceil(size_of::<Line>()).max(1), Vec::new());
        let no_memory =
            |_| Error::new(Class::NoMem, format!("there is no memory for {bytes} bytes"));
        lines.try_reserve_exact(count).map_err(no_memory)?;
        lines.resize(count, Line { _bytes: [0; 64] });
        (lines.as_mut_ptr().expose_provenance(), Memory::Own { _lines: lines.into() })
    };
    all.insert(start, memory);
    Ok(with_exposed_provenance_mut(start))
}

/// Frees memory that [`allocate`] has returned.
pub(crate) fn free(address: usize) -> Result<(), Error> {
    let text = "the address is not one that MPI_Alloc_mem has returned";
    all().remove(&address).map(drop).ok_or_else(|| Error::new(Class::Base, text))
}

/// Returns where other processes find these bytes, if they are such memory.
pub(crate) fn find(address: usize, bytes: usize) -> Option<Found> {
    let all = all();
    let (&start, memory) = all.range(..=address).next_back()?;
    let offset = address - start;
    let is_within = |length| offset.checked_add(bytes).is_some_and(|end| end <= length);
    match memory {
        Memory::World { memory, bytes } if is_within(*bytes) => {
            Some(Found::InWorld(memory.place() + offset as u64))
        }
        Memory::Mapped(owned) if is_within(owned.mapping.bytes()) => {
            let (place, bytes) = (owned.place(), owned.mapping.bytes());
            Some(Found::InFile { place, offset, bytes })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_any_address_in_it() {
        let memory = allocate(9000).unwrap().addr();
        let found = find(memory + 10, 8990).unwrap();
        assert!(matches!(found, Found::InFile { offset: 10, bytes: 9000, .. }));
        assert_eq!(find(memory + 10, 8991), None);
        assert!(matches!(find(memory + 9000, 0), Some(Found::InFile { offset: 9000, .. })));
        free(memory).unwrap();
        assert!(find(memory, 1).is_none() && free(memory).is_err());
        // The files are used up, and memory is had all the same.
        let all: Vec<_> =
            (0..2 * MOST).map(|bytes| (allocate(bytes).unwrap().addr(), bytes)).collect();
        let mapped = all.iter().filter(|&&(memory, bytes)| find(memory, bytes).is_some()).count();
        assert!((1..=MOST).contains(&mapped));
        assert!(all.iter().all(|(memory, _)| memory.is_multiple_of(64)));
        all.into_iter().for_each(|(memory, _)| free(memory).unwrap());
    }
}
