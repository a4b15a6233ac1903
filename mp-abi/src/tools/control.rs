//! Settings of the library (control variables). Each has the name of the environment variable that sets it before the
//! program starts.

use std::{
    env,
    ffi::{c_char, c_int, c_void},
    ptr::with_exposed_provenance_mut,
};

use mp_collectives::{
    calibration::FILE_VARIABLE,
    communicator::{CHECK_VARIABLE, Check, UNEXPECTED_VARIABLE},
};
use mp_core::WAIT_VARIABLE;

use crate::{
    comm::Comm,
    constants::{
        MPI_CHAR, MPI_INT, MPI_T_BIND_MPI_COMM, MPI_T_BIND_NO_OBJECT, MPI_T_SCOPE_GROUP_EQ,
        MPI_T_SCOPE_LOCAL, MPI_T_SCOPE_READONLY, MPI_T_VERBOSITY_TUNER_BASIC,
        MPI_T_VERBOSITY_USER_BASIC, MPI_T_VERBOSITY_USER_DETAIL, MPI_UNSIGNED_LONG,
    },
    error::Class,
    state,
    tools::{
        self, Result,
        enums::{self, Enum, SWITCH, WAIT_POLICIES},
        kept::Kept,
        limit, rank,
    },
    types::Handle,
};

/// The room for the name of a file, with the character that ends it.
const FILE_ROOM: usize = 4096;

/// A setting.
pub(crate) struct Control {
    pub name: &'static str,
    pub description: &'static str,
    pub verbosity: c_int,
    pub datatype: Handle,
    pub enumeration: Option<&'static Enum>,
    /// The number of elements.
    count: usize,
    pub bind: c_int,
    pub scope: c_int,
    setting: Setting,
}

/// What a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Wait,
    Check,
    Unexpected,
    Calibration,
}

/// All settings, in the order of their indices.
pub(crate) const CONTROLS: &[Control] = &[
    Control {
        name: WAIT_VARIABLE,
        description: "How far a call that waits goes before it gives up its core",
        verbosity: MPI_T_VERBOSITY_USER_BASIC,
        datatype: MPI_INT,
        enumeration: Some(&WAIT_POLICIES),
        count: 1,
        bind: MPI_T_BIND_NO_OBJECT,
        scope: MPI_T_SCOPE_READONLY,
        setting: Setting::Wait,
    },
    Control {
        name: CHECK_VARIABLE,
        description: "Whether the ranks compare the collective operations that they call; all ranks of the \
                      communicator must set the same between the same operations",
        verbosity: MPI_T_VERBOSITY_USER_DETAIL,
        datatype: MPI_INT,
        enumeration: Some(&SWITCH),
        count: 1,
        bind: MPI_T_BIND_MPI_COMM,
        scope: MPI_T_SCOPE_GROUP_EQ,
        setting: Setting::Check,
    },
    Control {
        name: UNEXPECTED_VARIABLE,
        description: "The bytes of unexpected messages that a rank keeps before senders keep theirs; a message of \
                      more than an eighth of them always stays with its sender until there is a receive for it",
        verbosity: MPI_T_VERBOSITY_TUNER_BASIC,
        datatype: MPI_UNSIGNED_LONG,
        enumeration: None,
        count: 1,
        bind: MPI_T_BIND_NO_OBJECT,
        scope: MPI_T_SCOPE_LOCAL,
        setting: Setting::Unexpected,
    },
    Control {
        name: FILE_VARIABLE,
        description: "The file with measurements of this machine; empty for the one in the user's cache folder",
        verbosity: MPI_T_VERBOSITY_USER_DETAIL,
        datatype: MPI_CHAR,
        enumeration: None,
        count: FILE_ROOM,
        bind: MPI_T_BIND_NO_OBJECT,
        scope: MPI_T_SCOPE_READONLY,
        setting: Setting::Calibration,
    },
];

/// A setting that a tool has a handle of, and the address of the communicator that it is of.
#[derive(Clone, Copy, Debug)]
struct Opened {
    setting: Setting,
    comm: usize,
}

static OPENED: Kept<Opened> = Kept::new();

/// Returns a handle of a setting, and its number of elements.
///
/// # Safety
/// If the setting is one of communicators, the address is null, or that of the handle of one.
pub(crate) unsafe fn open(index: c_int, object: *const c_void) -> Result<(Handle, c_int)> {
    let control = tools::at(CONTROLS, index)?;
    let mut comm = 0;
    if control.bind == MPI_T_BIND_MPI_COMM {
        rank::all()?;
        // SAFETY: the caller says so.
        let handle = unsafe { object.cast::<Handle>().as_ref() }.ok_or(Class::ToolHandle)?;
        // SAFETY: as above.
        unsafe { Comm::look(*handle) }.map_err(|_| Class::ToolHandle)?;
        comm = handle.expose_provenance();
    }
    let handle = OPENED.add(Opened { setting: control.setting, comm });
    Ok((handle, control.count as c_int))
}

/// Frees a handle.
pub(crate) fn close(handle: Handle) -> Result {
    OPENED.remove(handle).map(|_| ()).ok_or(Class::ToolHandle)
}

impl Opened {
    fn of(handle: Handle) -> Result<Self> {
        OPENED.with(handle, |opened| *opened).ok_or(Class::ToolHandle)
    }

    /// Returns the communicator that the setting is of.
    ///
    /// # Safety
    /// The program has not freed it.
    unsafe fn comm(&self) -> Result<&'static Comm> {
        rank::all()?;
        // SAFETY: the caller says so.
        unsafe { Comm::look(with_exposed_provenance_mut(self.comm)) }.map_err(|_| Class::ToolHandle)
    }
}

/// Writes the value of a setting where the tool wants it.
///
/// # Safety
/// There is room for the elements, and the object of the setting is not freed.
pub(crate) unsafe fn read(handle: Handle, to: *mut c_void) -> Result {
    let opened = Opened::of(handle)?;
    // SAFETY: in all of this block, the caller says so.
    unsafe {
        match opened.setting {
            Setting::Wait => {
                let told = env::var(WAIT_VARIABLE).ok().and_then(|name| name.parse().ok());
                tools::put(to.cast(), enums::of_policy(told.unwrap_or_default()))
            }
            Setting::Check => {
                let checks = opened.comm()?.communicator.joint().checks();
                tools::put(to.cast(), c_int::from(checks))
            }
            Setting::Unexpected => {
                let bytes = match limit::get() {
                    Some(bytes) => bytes,
                    None => rank::all()?.communicator.unexpected().limit,
                };
                tools::put(to.cast(), bytes)
            }
            Setting::Calibration => {
                let name = env::var_os(FILE_VARIABLE).unwrap_or_default();
                let name = name.as_encoded_bytes();
                let name = &name[..name.len().min(FILE_ROOM - 1)];
                if to.is_null() {
                    return Err(Class::ToolInvalid);
                }
                to.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), name.len());
                to.cast::<c_char>().add(name.len()).write(0);
                Ok(())
            }
        }
    }
}

/// Sets a setting.
///
/// # Safety
/// There is a value, and the object of the setting is not freed.
pub(crate) unsafe fn write(handle: Handle, from: *const c_void) -> Result {
    let opened = Opened::of(handle)?;
    match opened.setting {
        Setting::Wait | Setting::Calibration => Err(Class::ToolSetNever),
        _ if from.is_null() => Err(Class::ToolInvalid),
        Setting::Check => {
            // SAFETY: the caller says so.
            let (comm, value) = unsafe { (opened.comm()?, from.cast::<c_int>().read()) };
            let check = match value {
                0 => Check::Off,
                1 => Check::On,
                _ => return Err(Class::ToolInvalid),
            };
            comm.communicator.joint().set_check(check);
            Ok(())
        }
        Setting::Unexpected => {
            // SAFETY: the caller says so.
            let bytes = unsafe { from.cast::<usize>().read() };
            match rank::all() {
                Ok(all) => all.communicator.set_unexpected_limit(bytes),
                Err(_) if state::has_joined() => return Err(Class::ToolSetNotNow),
                Err(_) => limit::set(bytes),
            }
            Ok(())
        }
    }
}
