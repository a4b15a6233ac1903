//! Attributes: values that a program keeps with an object, under keys that it has made.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    constants::MPI_SUCCESS,
    error::{Class, Error},
    types::{CopyAttrFunction, DeleteAttrFunction, Handle},
};

/// The first key of a program. Those before it are predefined.
const FIRST: c_int = 1 << 16;

/// What a program has said about a key.
pub(crate) struct Key {
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    extra: *mut c_void,
}

// SAFETY: the library only hands the pointer back to the program's functions.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

/// The keys that are not freed. Attributes keep their keys.
static KEYS: Mutex<BTreeMap<c_int, Arc<Key>>> = Mutex::new(BTreeMap::new());

fn keys<T>(act: impl FnOnce(&mut BTreeMap<c_int, Arc<Key>>) -> T) -> T {
    act(&mut KEYS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a key.
pub(crate) fn create_key(
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    extra: *mut c_void,
) -> c_int {
    keys(|keys| {
        let key = keys.last_key_value().map_or(FIRST, |(&last, _)| last.wrapping_add(1).max(FIRST));
        keys.insert(key, Arc::new(Key { copy, delete, extra }));
        key
    })
}

/// Frees a key.
pub(crate) fn free_key(key: c_int) -> Result<(), Error> {
    keys(|keys| keys.remove(&key)).map(drop).ok_or_else(|| no_key(key))
}

fn refused(code: c_int) -> Error {
    Error::of_program(code, format!("the function of an attribute has returned {code}"))
}

fn no_key(key: c_int) -> Error {
    Error::new(Class::Keyval, format!("{key} is no key of an attribute of the program"))
}

struct Attribute {
    key: c_int,
    about: Arc<Key>,
    value: *mut c_void,
}

/// The attributes of an object, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Attributes(RefCell<Vec<Attribute>>);

impl Attributes {
    /// Returns the value of a key.
    pub fn get(&self, key: c_int) -> Option<*mut c_void> {
        self.0.borrow().iter().find(|one| one.key == key).map(|one| one.value)
    }

    /// Sets the value of a key. The value before is deleted, as the key says.
    ///
    /// # Safety
    /// `object` has these attributes, and the program's functions are for it.
    pub unsafe fn set(&self, object: Handle, key: c_int, value: *mut c_void) -> Result<(), Error> {
        let Some(about) = keys(|keys| keys.get(&key).cloned()) else { return Err(no_key(key)) };
        if self.get(key).is_some() {
            // SAFETY: the caller says so.
            unsafe { self.delete(object, key)? };
        }
        self.0.borrow_mut().push(Attribute { key, about, value });
        Ok(())
    }

    /// Deletes the value of a key.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    pub unsafe fn delete(&self, object: Handle, key: c_int) -> Result<(), Error> {
        let found = {
            let all = self.0.borrow();
            let found = all.iter().find(|one| one.key == key);
            found.map(|one| (Arc::clone(&one.about), one.value))
        };
        let Some((about, value)) = found else { return Err(no_key(key)) };
        // The function may use attributes itself, so that nothing is borrowed here.
        if let Some(function) = about.delete {
            // SAFETY: the program has given this function for such objects.
            let code = unsafe { function(object, key, value, about.extra) };
            if code != MPI_SUCCESS {
                return Err(refused(code));
            }
        }
        self.0.borrow_mut().retain(|one| one.key != key);
        Ok(())
    }

    /// Deletes all values, the newest first. An error keeps the rest.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    pub unsafe fn delete_all(&self, object: Handle) -> Result<(), Error> {
        loop {
            let Some(key) = self.0.borrow().last().map(|one| one.key) else { return Ok(()) };
            // SAFETY: the caller says so.
            unsafe { self.delete(object, key)? };
        }
    }

    /// Copies the values that their keys let be copied, for a copy of the object.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    pub unsafe fn copy(&self, object: Handle) -> Result<Self, Error> {
        let all: Vec<_> = {
            let all = self.0.borrow();
            all.iter().map(|one| (one.key, Arc::clone(&one.about), one.value)).collect()
        };
        let copies = Self::default();
        for (key, about, value) in all {
            let copied = match about.copy {
                None => None,
                // `MPI_COMM_DUP_FN` and its kind are this number.
                Some(function) if function as usize == 1 => Some(value),
                Some(function) => {
                    let (mut copy, mut is_copied) = (std::ptr::null_mut::<c_void>(), 0);
                    // SAFETY: the program has given this function for such objects. The places live until it returns.
                    let code = unsafe {
                        let place = (&raw mut copy).cast();
                        function(object, key, about.extra, value, place, &mut is_copied)
                    };
                    if code != MPI_SUCCESS {
                        return Err(refused(code));
                    }
                    (is_copied != 0).then_some(copy)
                }
            };
            if let Some(value) = copied {
                copies.0.borrow_mut().push(Attribute { key, about, value });
            }
        }
        Ok(copies)
    }
}
