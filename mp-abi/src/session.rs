//! Sessions.

use crate::{
    attached::Attached,
    boxed::Boxed,
    constants::{
        MPI_INFO_NULL, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
        MPI_THREAD_SINGLE,
    },
    errhandler::{Handler, Object, Slot},
    error::{Class, Error},
    info::Info,
    state,
    types::Handle,
};

/// The sets of processes: all ranks, and this rank alone.
pub(crate) const PROCESS_SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

const LEVELS: [(&str, i32); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

/// Returns the level of threads that an info asks for.
///
/// # Safety
/// The handle is null, or one of an info.
pub(crate) unsafe fn thread_level_of(info: Handle) -> Result<i32, Error> {
    if info == MPI_INFO_NULL {
        return Ok(MPI_THREAD_SINGLE);
    }
    // SAFETY: the caller says so.
    let Some(name) = (unsafe { Info::look(info)? }).get(b"thread_level")? else {
        return Ok(MPI_THREAD_SINGLE);
    };
    let level = LEVELS.into_iter().find(|(level, _)| level.as_bytes() == name);
    level.map(|(_, level)| level).ok_or_else(|| {
        let name = name.escape_ascii();
        Error::new(Class::InfoValue, format!("there is no level {name} of threads"))
    })
}

/// `MPI_Session`.
pub(crate) struct Session {
    errhandler: Slot,
    /// The buffer for its buffered messages.
    pub attached: Attached,
}

impl Object for Session {
    fn handle(&self) -> Handle {
        (&raw const *self).cast_mut().cast()
    }

    fn errhandler(&self) -> &Slot {
        &self.errhandler
    }
}

impl Boxed for Session {
    const NAME: &'static str = "a session";
    const CLASS: Class = Class::Session;
}

impl Session {
    pub fn new(errhandler: Handler) -> Self {
        Self { errhandler: Slot::new(errhandler), attached: Attached::default() }
    }

    /// Returns what holds for sessions.
    pub fn info() -> Info {
        let now = state::thread_level();
        let level = LEVELS.into_iter().find(|&(_, level)| level == now);
        Info::new(level.map(|(name, _)| ("thread_level", name.to_owned())))
    }
}
