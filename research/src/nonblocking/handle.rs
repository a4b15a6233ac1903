//! The common parts of handles of both kinds: a region, and the number of handles.

use std::{
    cell::Cell,
    hash::{DefaultHasher, Hash, Hasher},
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mp_core::{Error, ErrorKind, Rank, Result, memory::Region};
use mp_delegate::critical::internals::{BLOCK, OBJECTS, Stop, open_region, stopped};

use super::NUMBERS;

/// The index of the word that says what the region was opened as.
const SPEC: usize = 0;
/// The index at which an object's own words begin.
pub(super) const OWN: usize = BLOCK;

/// A region, and one of the rank's handles of it.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) region: Region,
    /// The number of handles that the rank has open.
    open: Arc<Mutex<usize>>,
    most: usize,
    /// A handle executes one operation at a time.
    _not_sync: PhantomData<Cell<()>>,
}

fn locked(mutex: &Mutex<usize>) -> MutexGuard<'_, usize> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bad(object: &str, reason: &str) -> Error {
    ErrorKind::BadObject { object: object.into(), reason: reason.to_owned() }.into()
}

impl Handle {
    /// Opens an object of this `kind`. `words` returns the number of words for a number of places: the capacity plus
    /// one place for each possible handle, or for all but one.
    pub(super) fn open(
        rank: &Rank,
        name: &str,
        kind: &str,
        (capacity, handles): (usize, usize),
        words: impl FnOnce(usize) -> usize,
    ) -> Result<(Self, usize)> {
        if capacity == 0 || handles == 0 {
            return Err(bad(name, "capacity and handles are at least 1"));
        }
        let places = handles.checked_mul(rank.size()).and_then(|all| all.checked_add(capacity));
        let places = places.filter(|&places| places < NUMBERS as usize);
        let places = places.ok_or_else(|| bad(name, "there are too many places"))?;
        let region = open_region(rank, OBJECTS, name, words(places), 0)?;
        let mut hasher = DefaultHasher::new();
        (kind, capacity, handles).hash(&mut hasher);
        let spec = hasher.finish().max(1);
        match region.words()[SPEC].compare_exchange(0, spec) {
            Err(other) if other != spec => {
                Err(ErrorKind::ObjectMismatch { object: name.into() }.into())
            }
            _ => Ok((Self::with(region, Arc::new(Mutex::new(1)), handles), places)),
        }
    }

    fn with(region: Region, open: Arc<Mutex<usize>>, most: usize) -> Self {
        Self { region, open, most, _not_sync: PhantomData }
    }

    /// Opens one more handle of the same rank.
    pub(super) fn another(&self) -> Result<Self> {
        let mut open = locked(&self.open);
        if *open == self.most {
            return Err(bad(self.region.name(), "all handles of the rank are open"));
        }
        *open += 1;
        Ok(Self::with(self.region.clone(), Arc::clone(&self.open), self.most))
    }

    #[cold]
    pub(super) fn stopped(&self, stop: Stop) -> Error {
        stopped(self.region.name(), stop)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        *locked(&self.open) -= 1;
    }
}
