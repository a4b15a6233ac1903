//! Sessions of tools, and their handles of performance variables.

use std::ffi::{c_int, c_void};

use crate::{
    constants::{MPI_DOUBLE, MPI_INT, MPI_T_PVAR_ALL_HANDLES},
    error::Class,
    tools::{
        self, Result,
        kept::Kept,
        performance::{Quantity, VARIABLES, Variable},
        waits,
    },
    types::Handle,
};

static SESSIONS: Kept<()> = Kept::new();
static HANDLES: Kept<Opened> = Kept::new();

/// A variable that a session has a handle of.
#[derive(Clone, Copy, Debug)]
struct Opened {
    /// The number of the session.
    session: usize,
    place: usize,
    /// What was counted until it was stopped.
    sum: u64,
    /// What there was when it was started, if it is.
    started: Option<u64>,
}

impl Opened {
    fn variable(&self) -> &'static Variable {
        &VARIABLES[self.place]
    }

    fn quantity(&self) -> Quantity {
        self.variable().quantity
    }

    fn start(&mut self) -> Result {
        if !self.quantity().is_counted() {
            return Err(Class::ToolNoStartStop);
        }
        if self.started.is_none() {
            waits::count();
            self.started = Some(self.quantity().now()?);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result {
        if !self.quantity().is_counted() {
            return Err(Class::ToolNoStartStop);
        }
        self.sum = self.value_at(self.quantity().now()?);
        self.started = None;
        Ok(())
    }

    /// Makes it count from a value on. Returns the value before.
    fn set(&mut self, value: u64) -> Result<u64> {
        if !self.quantity().is_counted() {
            return Err(Class::ToolNoWrite);
        }
        let now = self.quantity().now()?;
        let before = self.value_at(now);
        self.sum = value;
        self.started = self.started.map(|_| now);
        Ok(before)
    }

    /// Returns the value, given what there is now.
    fn value_at(&self, now: u64) -> u64 {
        match (self.quantity().is_counted(), self.started) {
            (false, _) => now,
            (true, Some(started)) => self.sum.wrapping_add(now - started),
            (true, None) => self.sum,
        }
    }

    /// Writes a value where the tool wants it.
    ///
    /// # Safety
    /// The address is null, or there is room for an element.
    unsafe fn give(&self, value: u64, to: *mut c_void) -> Result {
        // SAFETY: the caller says so.
        unsafe {
            match self.variable().datatype {
                MPI_INT => tools::put(to.cast(), value as c_int),
                MPI_DOUBLE => tools::put(to.cast(), value as f64 / 1e9),
                _ => tools::put(to.cast(), value),
            }
        }
    }
}

/// Begins a session.
pub(crate) fn begin() -> Handle {
    SESSIONS.add(())
}

/// Ends a session, and frees its handles.
pub(crate) fn end(session: Handle) -> Result {
    SESSIONS.remove(session).ok_or(Class::ToolSession)?;
    HANDLES.retain(|opened| opened.session != session.addr());
    Ok(())
}

fn check(session: Handle) -> Result {
    SESSIONS.with(session, |_| ()).ok_or(Class::ToolSession)
}

/// Returns a handle of a variable, which has one element.
pub(crate) fn open(session: Handle, index: c_int) -> Result<Handle> {
    check(session)?;
    tools::at(VARIABLES, index)?;
    let place = index as usize;
    Ok(HANDLES.add(Opened { session: session.addr(), place, sum: 0, started: None }))
}

/// Frees a handle.
pub(crate) fn close(session: Handle, handle: Handle) -> Result {
    with(session, handle, |_| Ok(()))?;
    HANDLES.remove(handle).map(|_| ()).ok_or(Class::ToolHandle)
}

/// Calls a function with the variable of a handle.
fn with<R>(
    session: Handle,
    handle: Handle,
    call: impl FnOnce(&mut Opened) -> Result<R>,
) -> Result<R> {
    check(session)?;
    let mine = |opened: &mut Opened| match opened.session == session.addr() {
        true => call(opened),
        false => Err(Class::ToolHandle),
    };
    HANDLES.with(handle, mine).unwrap_or(Err(Class::ToolHandle))
}

/// Calls a function with the variable of a handle, or with all of a session that handles can start and stop.
fn with_any(session: Handle, handle: Handle, call: impl Fn(&mut Opened) -> Result) -> Result {
    if handle != MPI_T_PVAR_ALL_HANDLES {
        return with(session, handle, call);
    }
    check(session)?;
    let mut result = Ok(());
    HANDLES.for_each(|opened| {
        if opened.session == session.addr() && opened.quantity().is_counted() {
            result = result.and(call(opened));
        }
    });
    result
}

/// Starts a variable, or all.
pub(crate) fn start(session: Handle, handle: Handle) -> Result {
    with_any(session, handle, Opened::start)
}

/// Stops a variable, or all.
pub(crate) fn stop(session: Handle, handle: Handle) -> Result {
    with_any(session, handle, Opened::stop)
}

/// Makes a variable start from 0 again, or all.
pub(crate) fn reset(session: Handle, handle: Handle) -> Result {
    with_any(session, handle, |opened| opened.set(0).map(|_| ()))
}

/// Writes the value of a variable where the tool wants it.
///
/// # Safety
/// The address is null, or there is room for an element.
pub(crate) unsafe fn read(session: Handle, handle: Handle, to: *mut c_void) -> Result {
    with(session, handle, |opened| {
        let value = opened.value_at(opened.quantity().now()?);
        // SAFETY: the caller says so.
        unsafe { opened.give(value, to) }
    })
}

/// Writes the value of a variable where the tool wants it, and makes the variable start from 0 again.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn read_and_reset(session: Handle, handle: Handle, to: *mut c_void) -> Result {
    with(session, handle, |opened| {
        if !opened.quantity().is_counted() {
            return Err(Class::ToolNoAtomic);
        }
        let value = opened.set(0)?;
        // SAFETY: the caller says so.
        unsafe { opened.give(value, to) }
    })
}

/// Sets a variable.
///
/// # Safety
/// The address is null, or that of an element.
pub(crate) unsafe fn write(session: Handle, handle: Handle, from: *const c_void) -> Result {
    with(session, handle, |opened| {
        if !opened.quantity().is_counted() {
            return Err(Class::ToolNoWrite);
        }
        if from.is_null() {
            return Err(Class::ToolInvalid);
        }
        // SAFETY: the caller says so.
        let value = unsafe {
            match opened.variable().datatype {
                MPI_DOUBLE => (from.cast::<f64>().read() * 1e9) as u64,
                _ => from.cast::<u64>().read(),
            }
        };
        opened.set(value).map(|_| ())
    })
}
