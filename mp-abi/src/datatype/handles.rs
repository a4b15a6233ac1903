//! The handles of datatypes.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    definition::{Datatype, TypeRef},
    predefined::predefined,
};
use crate::{
    error::{Class, Error},
    types::Handle,
};

impl TypeRef {
    /// Returns the type of a handle, to be kept.
    ///
    /// # Safety
    /// The handle is one of a datatype that was not freed, or any number below 4096.
    pub unsafe fn keep(handle: Handle) -> Result<Self, Error> {
        let number = handle.addr();
        if number < 4096 {
            return Ok(Self::Predefined(predefined(number).ok_or_else(no_type)?, number));
        }
        let pointer = handle.cast_const().cast::<Datatype>();
        // SAFETY: the handle came from `into_handle`, and its own reference still exists.
        unsafe {
            Arc::increment_strong_count(pointer);
            Ok(Self::Made(Arc::from_raw(pointer)))
        }
    }

    /// Returns a handle, which has this reference until it is [released](Self::release).
    pub fn into_handle(self) -> Handle {
        match self {
            Self::Predefined(_, number) => std::ptr::without_provenance_mut(number),
            Self::Made(datatype) => {
                datatype.handles.fetch_add(1, Relaxed);
                Arc::into_raw(datatype).cast_mut().cast()
            }
        }
    }

    /// Takes back the reference that a handle has. With the last handle the attributes go.
    ///
    /// # Safety
    /// As for [`keep`](Self::keep), and the handle is not used afterwards.
    pub unsafe fn release(handle: Handle) -> Result<(), Error> {
        // SAFETY: the caller says so.
        if unsafe { look(handle)? }.is_predefined {
            return Err(Error::new(Class::Type, "a predefined datatype can't be freed"));
        }
        let pointer = handle.cast_const().cast::<Datatype>();
        // SAFETY: the handle came from `into_handle`, and has a reference, which is taken only when nothing has failed.
        unsafe {
            let datatype = &*pointer;
            if datatype.handles.load(Relaxed) == 1 {
                datatype.attributes.delete_all(handle)?;
            }
            datatype.handles.fetch_sub(1, Relaxed);
            drop(Arc::from_raw(pointer));
        }
        Ok(())
    }
}

/// Returns the type of a handle.
///
/// # Safety
/// The handle is one of a datatype that is not freed during `'a`, or any number below 4096.
#[inline]
pub(crate) unsafe fn look<'a>(handle: Handle) -> Result<&'a Datatype, Error> {
    let number = handle.addr();
    if number < 4096 {
        return predefined(number).ok_or_else(no_type);
    }
    // SAFETY: the handle came from `TypeRef::into_handle`, and its own reference exists.
    Ok(unsafe { &*handle.cast_const().cast::<Datatype>() })
}

#[cold]
fn no_type() -> Error {
    Error::new(Class::Type, "the handle is not one of a datatype")
}
