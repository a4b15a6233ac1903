//! Objects that tools have handles of. A handle is a number that is never given twice, so that one that was freed, or is
//! of another kind, is known as such.

use std::{
    collections::BTreeMap,
    ptr::without_provenance_mut,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::types::Handle;

/// The next number. All are larger than those of the standard's own handles.
static NEXT: AtomicUsize = AtomicUsize::new(4096);

/// Objects of one kind, by the numbers of their handles.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<BTreeMap<usize, T>>);

impl<T> Kept<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<usize, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an object, and returns a handle.
    pub fn add(&self, object: T) -> Handle {
        let number = NEXT.fetch_add(1, Relaxed);
        self.objects().insert(number, object);
        without_provenance_mut(number)
    }

    /// Calls a function with the object of a handle, if there is one.
    pub fn with<R>(&self, handle: Handle, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.objects().get_mut(&handle.addr()).map(call)
    }

    /// Removes the object of a handle, if there is one.
    pub fn remove(&self, handle: Handle) -> Option<T> {
        self.objects().remove(&handle.addr())
    }

    /// Removes all objects but some.
    pub fn retain(&self, is_left: impl Fn(&T) -> bool) {
        self.objects().retain(|_, object| is_left(object));
    }

    /// Calls a function with each object.
    pub fn for_each(&self, call: impl FnMut(&mut T)) {
        self.objects().values_mut().for_each(call);
    }
}
