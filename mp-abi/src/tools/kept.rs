//! Objects that tools have handles of. A handle is a number that is never given twice, so that one that was freed is
//! known as such.

use std::{
    collections::BTreeMap,
    ptr::without_provenance_mut,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::types::Handle;

/// The first number, which is larger than those of the standard's own handles.
const FIRST: usize = 4096;

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<Objects<T>>);

#[derive(Debug)]
struct Objects<T> {
    next: usize,
    by_number: BTreeMap<usize, T>,
}

impl<T> Kept<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Objects { next: FIRST, by_number: BTreeMap::new() }))
    }

    fn objects(&self) -> MutexGuard<'_, Objects<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an object, and returns a handle.
    pub fn add(&self, object: T) -> Handle {
        let mut objects = self.objects();
        let number = objects.next;
        objects.next += 1;
        objects.by_number.insert(number, object);
        without_provenance_mut(number)
    }

    /// Calls a function with the object of a handle, if there is one.
    pub fn with<R>(&self, handle: Handle, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.objects().by_number.get_mut(&handle.addr()).map(call)
    }

    /// Removes the object of a handle, if there is one.
    pub fn remove(&self, handle: Handle) -> Option<T> {
        self.objects().by_number.remove(&handle.addr())
    }

    /// Removes all objects but some.
    pub fn retain(&self, is_left: impl Fn(&T) -> bool) {
        self.objects().by_number.retain(|_, object| is_left(object));
    }

    /// Calls a function with each object.
    pub fn for_each(&self, call: impl FnMut(&mut T)) {
        self.objects().by_number.values_mut().for_each(call);
    }
}
