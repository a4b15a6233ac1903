//! Objects that one handle owns.

use crate::{
    error::{Class, Error},
    types::Handle,
};

/// An object of the program that has one handle, which is its address.
pub(crate) trait Boxed: Sized {
    /// What the object is, for errors.
    const NAME: &'static str;
    /// The class of the error that a handle is not one of such an object.
    const CLASS: Class;

    /// Returns a handle, which owns the object.
    fn into_handle(self) -> Handle {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Returns the object of a handle.
    ///
    /// # Safety
    /// The handle is one of such an object that is not [released](Self::release) during `'a`, or any number below 4096.
    #[inline]
    unsafe fn look<'a>(handle: Handle) -> Result<&'a Self, Error>
    where
        Self: 'a,
    {
        if handle.addr() < 4096 {
            return Err(Error::new(
                Self::CLASS,
                format!("the handle is not one of {}", Self::NAME),
            ));
        }
        // SAFETY: the handle came from `into_handle`.
        Ok(unsafe { &*handle.cast_const().cast::<Self>() })
    }

    /// Drops the object of a handle.
    ///
    /// # Safety
    /// As for [`look`](Self::look), and the handle is not used afterwards.
    unsafe fn release(handle: Handle) -> Result<(), Error> {
        // SAFETY: the caller says so.
        unsafe {
            Self::look(handle)?;
            drop(Box::from_raw(handle.cast::<Self>()));
        }
        Ok(())
    }
}
