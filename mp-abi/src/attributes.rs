//! Attributes: values that a program keeps with an object, under keys that it has made.

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::{
    callbacks::{Owner, callbacks},
    constants::{MPI_SUCCESS, MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WIN_BASE, MPI_WIN_MODEL},
    error::{Class, Error},
    types::{CopyAttrFunction, DeleteAttrFunction, Handle},
};

/// The first key of a program. Those before it are predefined.
const FIRST: c_int = 1 << 16;

/// What a program has said about a key. It is kept by the key's name, until that is freed, and by attributes.
#[derive(Debug)]
struct Key {
    number: c_int,
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    extra: *mut c_void,
}

// SAFETY: the library only hands the pointer back to the program's functions.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        keys(|keys| keys.remove(&self.number));
    }
}

/// A key that has a name or attributes.
struct Entry {
    owner: Owner,
    about: Weak<Key>,
    /// The same, until the program frees the key.
    named: Option<Arc<Key>>,
}

static KEYS: Mutex<BTreeMap<c_int, Entry>> = Mutex::new(BTreeMap::new());

/// Calls a function with the keys. It may not drop a [`Key`], which takes itself from them.
fn keys<T>(act: impl FnOnce(&mut BTreeMap<c_int, Entry>) -> T) -> T {
    act(&mut KEYS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a key.
pub(crate) fn create_key(
    owner: Owner,
    copy: Option<CopyAttrFunction>,
    delete: Option<DeleteAttrFunction>,
    extra: *mut c_void,
) -> c_int {
    keys(|keys| {
        let number =
            keys.last_key_value().map_or(FIRST, |(&last, _)| last.wrapping_add(1).max(FIRST));
        let key = Arc::new(Key { number, copy, delete, extra });
        keys.insert(number, Entry { owner, about: Arc::downgrade(&key), named: Some(key) });
        number
    })
}

/// Frees a key. One that attributes still have may be freed again.
pub(crate) fn free_key(owner: Owner, key: c_int) -> Result<(), Error> {
    let freed = keys(|keys| match keys.get_mut(&key) {
        Some(entry) if entry.owner == owner => Ok(entry.named.take()),
        _ => Err(no_key(owner, key)),
    });
    freed.map(drop)
}

fn refused(code: c_int) -> Error {
    Error::of_program(code, format!("the function of an attribute has returned {code}"))
}

#[cold]
fn no_key(owner: Owner, key: c_int) -> Error {
    let of = match owner {
        Owner::Comm => "communicators",
        Owner::Datatype => "datatypes",
        Owner::Window => "windows",
    };
    let text = format!("{key} is no key that the program has made for attributes of {of}");
    Error::new(Class::Keyval, text)
}

/// Returns what objects have a predefined attribute with this key.
fn predefined(key: c_int) -> Option<Owner> {
    match key {
        MPI_TAG_UB..=MPI_UNIVERSE_SIZE => Some(Owner::Comm),
        MPI_WIN_BASE..=MPI_WIN_MODEL => Some(Owner::Window),
        _ => None,
    }
}

#[derive(Clone, Debug)]
struct Attribute {
    about: Arc<Key>,
    value: *mut c_void,
}

// SAFETY: the library only hands the pointer back to the program.
unsafe impl Send for Attribute {}

/// The attributes of an object, in the order in which they were set.
#[derive(Debug)]
pub(crate) struct Attributes {
    owner: Owner,
    all: Mutex<Vec<Attribute>>,
}

impl Attributes {
    pub const fn new(owner: Owner) -> Self {
        Self { owner, all: Mutex::new(Vec::new()) }
    }

    /// Returns the attributes. The program's functions may use them, so that none is called with the result alive.
    fn all(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: c_int) -> Option<Attribute> {
        self.all().iter().find(|one| one.about.number == key).cloned()
    }

    /// Returns a key of the program for such objects.
    fn key(&self, key: c_int) -> Result<Arc<Key>, Error> {
        let found = keys(|keys| {
            keys.get(&key).filter(|one| one.owner == self.owner).and_then(|one| one.about.upgrade())
        });
        found.ok_or_else(|| no_key(self.owner, key))
    }

    /// Returns the value of a key. One of a predefined key is not here.
    pub fn get(&self, key: c_int) -> Result<Option<*mut c_void>, Error> {
        match self.find(key) {
            Some(found) => Ok(Some(found.value)),
            None if predefined(key) == Some(self.owner) => Ok(None),
            None => self.key(key).map(|_| None),
        }
    }

    /// Sets the value of a key. The value before is deleted, as the key says.
    ///
    /// # Safety
    /// `object` has these attributes, and the program's functions are for it.
    pub unsafe fn set(&self, object: Handle, key: c_int, value: *mut c_void) -> Result<(), Error> {
        let about = self.key(key)?;
        // SAFETY: the caller says so.
        unsafe { self.delete(object, key)? };
        self.all().push(Attribute { about, value });
        Ok(())
    }

    /// Deletes the value of a key, if it has one.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    pub unsafe fn delete(&self, object: Handle, key: c_int) -> Result<(), Error> {
        let Some(Attribute { about, value }) = self.find(key) else {
            return self.key(key).map(drop);
        };
        if let Some(function) = about.delete {
            let object = (self.owner, object);
            // SAFETY: the program has given this function for such objects.
            let code = unsafe { callbacks().delete(function, object, key, value, about.extra) };
            if code != MPI_SUCCESS {
                return Err(refused(code));
            }
        }
        self.all().retain(|one| one.about.number != key);
        Ok(())
    }

    /// Deletes all values, the newest first. An error keeps the rest.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    pub unsafe fn delete_all(&self, object: Handle) -> Result<(), Error> {
        loop {
            let Some(key) = self.all().last().map(|one| one.about.number) else { return Ok(()) };
            // SAFETY: the caller says so.
            unsafe { self.delete(object, key)? };
        }
    }

    /// Copies the values that their keys let be copied, for a copy of the object.
    ///
    /// # Safety
    /// As for [`set`](Self::set).
    pub unsafe fn copy(&self, object: Handle) -> Result<Self, Error> {
        let all = self.all().clone();
        let copies = Self::new(self.owner);
        for Attribute { about, value } in all {
            let copied = match about.copy {
                None => None,
                // `MPI_COMM_DUP_FN` and its kind are this number.
                Some(function) if function as usize == 1 => Some(value),
                Some(function) => {
                    let (object, key) = ((self.owner, object), about.number);
                    // SAFETY: the program has given this function for such objects.
                    unsafe { callbacks().copy(function, object, key, about.extra, value) }
                        .map_err(refused)?
                }
            };
            if let Some(value) = copied {
                copies.all().push(Attribute { about, value });
            }
        }
        Ok(copies)
    }
}
