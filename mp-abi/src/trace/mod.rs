//! A record of the calls in which a rank communicates, for `mprun --trace`.
//!
//! The launcher names a file by an environment variable. Each rank maps a part of it, where it writes each call when that
//! begins, and again when it ends. So the launcher finds there what a rank has done, however the rank ended.
//!
//! | file | what it is |
//! |---|---|
//! | `place.rs` | the rank's part of the file |
//! | `facts.rs` | what there is to say about a call |

pub(crate) mod facts;
mod place;

use std::{
    env,
    mem::MaybeUninit,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use mp_delegate::trace::now;

pub use self::facts::{Argument, Given};
use self::{facts::Facts, place::Place};
use crate::{
    constants::MPI_SUCCESS,
    error::{Class, Error},
    state,
    types::Status,
};

/// The environment variable that names the file.
const VARIABLE: &str = "ONCHIP_TRACE";

static PLACE: OnceLock<Mutex<Place>> = OnceLock::new();

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the record, if the launcher wants one.
pub(crate) fn begin() -> Result<(), Error> {
    let Some(path) = env::var_os(VARIABLE) else { return Ok(()) };
    let place = Place::of(path.as_ref(), state::rank()?.id()).map_err(|error| {
        let path = path.display();
        Error::new(Class::Io, format!("calls can't be recorded in {path}: {error}"))
    })?;
    PLACE.get_or_init(|| Mutex::new(place));
    state::frame_calls();
    Ok(())
}

/// Says that this rank has come to its end.
pub(crate) fn end() {
    if let Some(place) = PLACE.get() {
        lock(place).close(now());
    }
}

/// A call, which ends when this is dropped.
#[must_use = "the call ends when this is dropped"]
pub(crate) struct Call {
    place: &'static Mutex<Place>,
    number: u64,
    facts: Facts,
}

/// Begins to record a call of this name and kind with these arguments, if there is a record.
///
/// # Safety
/// The program has given the arguments as the standard says.
pub(crate) unsafe fn call<const N: usize>(
    name: &'static str,
    kind: &'static str,
    given: impl FnOnce() -> [Argument; N],
) -> Option<Call> {
    let place = PLACE.get()?;
    // SAFETY: the caller says so.
    let facts = unsafe { Facts::of(name, kind, &given()) };
    let number = lock(place).add(now(), &facts.text());
    Some(Call { place, number, facts })
}

impl Call {
    /// Adds what the status says of a message that this call has received.
    ///
    /// # Safety
    /// The communicator of the call is still there.
    pub unsafe fn received(&mut self, status: &Status) {
        // SAFETY: the caller says so.
        unsafe { self.facts.received(status) };
        lock(self.place).change(self.number, &self.facts.text());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        lock(self.place).end(self.number, now());
    }
}

/// A status in the form that a program has.
pub trait Told: Sized {
    /// Returns whether the program wants no status.
    fn is_ignored(at: *mut Self) -> bool;

    /// Returns the same in the form of the standard.
    fn told(&self) -> Status;
}

impl Told for Status {
    fn is_ignored(at: *mut Self) -> bool {
        at.is_null()
    }

    fn told(&self) -> Status {
        *self
    }
}

/// Makes a call that is being recorded if there is a record, and adds what its status says. If the program wants none, the
/// call gets another place for one.
///
/// # Safety
/// The address is one that the call takes, zeros are a status, and a call that succeeds has written one. It does not free
/// the communicator of the recorded call.
pub(crate) unsafe fn with_status<S: Told>(
    call: &mut Option<Call>,
    status: *mut S,
    function: impl FnOnce(*mut S) -> i32,
) -> i32 {
    let Some(call) = call else { return function(status) };
    let mut own = MaybeUninit::zeroed();
    let at = if S::is_ignored(status) { own.as_mut_ptr() } else { status };
    let code = function(at);
    if code == MPI_SUCCESS {
        // SAFETY: the call has written it, and the communicator is there, as the caller says.
        unsafe { call.received(&(*at).told()) };
    }
    code
}
