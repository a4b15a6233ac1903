//! The buffer for `MPI_Bsend`, which the library does not need: it keeps messages in memory of its own.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
};

use crate::{
    comm::within,
    constants::MPI_COMM_WORLD,
    error::{Class, Error},
    program::{plainly, put},
    types::Count,
};

thread_local! {
    /// The buffer that the program has attached, and its size.
    static ATTACHED: Cell<Option<(*mut c_void, Count)>> = const { Cell::new(None) };
}

/// `MPI_Buffer_attach`.
pub unsafe fn buffer_attach(buffer: *mut c_void, size: Count) -> c_int {
    plainly("MPI_Buffer_attach", || {
        if size < 0 {
            return Err(Error::new(Class::Arg, format!("the size is negative: {size}")));
        }
        if ATTACHED.get().is_some() {
            return Err(Error::new(Class::Buffer, "a buffer is attached already"));
        }
        ATTACHED.set(Some((buffer, size)));
        Ok(())
    })
}

/// `MPI_Buffer_detach`. Waits until all buffered messages are sent.
pub unsafe fn buffer_detach(buffer: *mut c_void, size: *mut Count) -> c_int {
    // SAFETY: the handle is predefined; the program gives the place for an address, and one for a size.
    unsafe {
        within(MPI_COMM_WORLD, "MPI_Buffer_detach", |world| {
            let nothing = || Error::new(Class::Buffer, "no buffer is attached");
            let (attached, length) = ATTACHED.get().ok_or_else(nothing)?;
            world.communicator.flush()?;
            put(buffer.cast::<*mut c_void>(), attached)?;
            put(size, length)?;
            ATTACHED.set(None);
            Ok(())
        })
    }
}

/// `MPI_Buffer_flush`. Waits until all buffered messages are sent.
pub unsafe fn buffer_flush() -> c_int {
    // SAFETY: the handle is predefined.
    unsafe { within(MPI_COMM_WORLD, "MPI_Buffer_flush", |world| Ok(world.communicator.flush()?)) }
}
