//! Errors: the classes of the standard, and what went wrong in a call.

use std::ffi::c_int;

use mp_core::ErrorKind;

use crate::constants::*;

macro_rules! classes {
    ($($class:ident $name:ident $text:literal)*) => {
        /// A class of errors.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Class {
            $(#[doc = $text] $class = $name,)*
        }

        impl Class {
            /// Returns the name of the class in C, and what it means.
            pub fn describe(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$class => (stringify!($name), $text),)*
                }
            }

            /// Returns the class of this number.
            pub fn find(number: c_int) -> Option<Self> {
                match number {
                    $($name => Some(Self::$class),)*
                    _ => None,
                }
            }
        }
    };
}

classes! {
    Buffer MPI_ERR_BUFFER "the buffer is not valid"
    Count MPI_ERR_COUNT "the count is not valid"
    Type MPI_ERR_TYPE "the datatype is not valid"
    Tag MPI_ERR_TAG "the tag is not valid"
    Comm MPI_ERR_COMM "the communicator is not valid"
    Rank MPI_ERR_RANK "the rank is not valid"
    Request MPI_ERR_REQUEST "the request is not valid"
    Root MPI_ERR_ROOT "the root is not valid"
    Group MPI_ERR_GROUP "the group is not valid"
    Op MPI_ERR_OP "the operation is not valid"
    Topology MPI_ERR_TOPOLOGY "the topology is not valid"
    Dims MPI_ERR_DIMS "the dimensions are not valid"
    Arg MPI_ERR_ARG "an argument is not valid"
    Unknown MPI_ERR_UNKNOWN "the error is not known"
    Truncate MPI_ERR_TRUNCATE "the message is longer than the buffer"
    Other MPI_ERR_OTHER "another error"
    Intern MPI_ERR_INTERN "an error inside of the library"
    Pending MPI_ERR_PENDING "the request is not complete"
    InStatus MPI_ERR_IN_STATUS "the statuses have the errors"
    Access MPI_ERR_ACCESS "the file may not be accessed"
    Amode MPI_ERR_AMODE "the file's access mode is not valid"
    Assert MPI_ERR_ASSERT "the assertion is not valid"
    BadFile MPI_ERR_BAD_FILE "the name of the file is not valid"
    Base MPI_ERR_BASE "the memory to free is not from MPI_Alloc_mem"
    Conversion MPI_ERR_CONVERSION "the conversion of data failed"
    Disp MPI_ERR_DISP "the displacement is not valid"
    DupDatarep MPI_ERR_DUP_DATAREP "the data representation exists already"
    FileExists MPI_ERR_FILE_EXISTS "the file exists already"
    FileInUse MPI_ERR_FILE_IN_USE "the file is in use"
    File MPI_ERR_FILE "the file is not valid"
    InfoKey MPI_ERR_INFO_KEY "the key is empty or too long"
    InfoNokey MPI_ERR_INFO_NOKEY "there is no such key"
    InfoValue MPI_ERR_INFO_VALUE "the value is too long"
    Info MPI_ERR_INFO "the info object is not valid"
    Io MPI_ERR_IO "an error of input or output"
    Keyval MPI_ERR_KEYVAL "the key of the attribute is not valid"
    Locktype MPI_ERR_LOCKTYPE "the kind of lock is not valid"
    Name MPI_ERR_NAME "the name is not published"
    NoMem MPI_ERR_NO_MEM "there is no memory"
    NotSame MPI_ERR_NOT_SAME "the ranks' arguments differ"
    NoSpace MPI_ERR_NO_SPACE "there is no space on the device"
    NoSuchFile MPI_ERR_NO_SUCH_FILE "there is no such file"
    Port MPI_ERR_PORT "the port is not valid"
    Quota MPI_ERR_QUOTA "the quota is used up"
    ReadOnly MPI_ERR_READ_ONLY "the file or file system can only be read"
    RmaAttach MPI_ERR_RMA_ATTACH "the memory can't be attached"
    RmaConflict MPI_ERR_RMA_CONFLICT "accesses to the window conflict"
    RmaRange MPI_ERR_RMA_RANGE "the memory is not part of the window"
    RmaShared MPI_ERR_RMA_SHARED "the memory can't be shared"
    RmaSync MPI_ERR_RMA_SYNC "the window's calls are in a wrong order"
    Service MPI_ERR_SERVICE "the name to unpublish is not published"
    Size MPI_ERR_SIZE "the size is not valid"
    Spawn MPI_ERR_SPAWN "the processes can't be started"
    UnsupportedDatarep MPI_ERR_UNSUPPORTED_DATAREP "the data representation is not supported"
    UnsupportedOperation MPI_ERR_UNSUPPORTED_OPERATION "the operation is not supported"
    Win MPI_ERR_WIN "the window is not valid"
    RmaFlavor MPI_ERR_RMA_FLAVOR "the window is of a wrong flavor"
    ProcAborted MPI_ERR_PROC_ABORTED "a rank has ended"
    ValueTooLarge MPI_ERR_VALUE_TOO_LARGE "the value is too large for its type"
    Session MPI_ERR_SESSION "the session is not valid"
    Errhandler MPI_ERR_ERRHANDLER "the error handler is not valid"
    Abi MPI_ERR_ABI "the setting of the ABI can't be changed"
    ToolCannotInit MPI_T_ERR_CANNOT_INIT "the tools interface can't be initialized"
    ToolNotAccessible MPI_T_ERR_NOT_ACCESSIBLE "the variable is not accessible now, or not from this thread"
    ToolNotInitialized MPI_T_ERR_NOT_INITIALIZED "the tools interface is not initialized"
    ToolNotSupported MPI_T_ERR_NOT_SUPPORTED "the function of the tools interface is not supported"
    ToolMemory MPI_T_ERR_MEMORY "there is no memory for the tools interface"
    ToolInvalid MPI_T_ERR_INVALID "an argument is not valid"
    ToolIndex MPI_T_ERR_INVALID_INDEX "there is nothing with this index"
    ToolItem MPI_T_ERR_INVALID_ITEM "there is no item with this index"
    ToolSession MPI_T_ERR_INVALID_SESSION "the session is not valid"
    ToolHandle MPI_T_ERR_INVALID_HANDLE "the handle is not valid"
    ToolName MPI_T_ERR_INVALID_NAME "there is nothing with this name"
    ToolOutOfHandles MPI_T_ERR_OUT_OF_HANDLES "there are no more handles"
    ToolOutOfSessions MPI_T_ERR_OUT_OF_SESSIONS "there are no more sessions"
    ToolSetNotNow MPI_T_ERR_CVAR_SET_NOT_NOW "the variable can't be set now"
    ToolSetNever MPI_T_ERR_CVAR_SET_NEVER "the variable can't be set while the program runs"
    ToolNoWrite MPI_T_ERR_PVAR_NO_WRITE "the variable can't be written or reset"
    ToolNoStartStop MPI_T_ERR_PVAR_NO_STARTSTOP "the variable can't be started or stopped"
    ToolNoAtomic MPI_T_ERR_PVAR_NO_ATOMIC "the variable can't be read and reset at once"
}

/// What went wrong in a call.
#[derive(Clone, Debug)]
pub struct Error {
    code: c_int,
    /// The facts.
    pub text: String,
}

impl Error {
    /// Returns the number that the call returns: a class of the standard, or a number of the program.
    pub fn code(&self) -> c_int {
        self.code
    }

    /// Makes an error of a class.
    #[cold]
    pub fn new(class: Class, text: impl Into<String>) -> Self {
        Self { code: class as c_int, text: text.into() }
    }

    /// Makes an error from the number that a function of the program has returned.
    #[cold]
    pub fn of_program(code: c_int, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<mp_core::Error> for Error {
    #[cold]
    fn from(error: mp_core::Error) -> Self {
        let class = match error.kind() {
            ErrorKind::PeerLost { .. }
            | ErrorKind::PeerEnded { .. }
            | ErrorKind::PeerBroken { .. }
            | ErrorKind::Disconnected { .. }
            | ErrorKind::RanksFailed(_) => Class::ProcAborted,
            ErrorKind::CallsDiffer(_) => Class::NotSame,
            ErrorKind::OutOfMemory { .. } | ErrorKind::Segment(_) => Class::NoMem,
            ErrorKind::NoSuchRank { .. } => Class::Rank,
            ErrorKind::Truncated { .. } | ErrorKind::BlockTooLong { .. } => Class::Truncate,
            ErrorKind::Revoked { .. } => Class::Comm,
            _ => Class::Other,
        };
        let text = match error.kind() {
            // The library's own text says what a program in Rust can do.
            ErrorKind::PeerLost { rank, world_rank, .. } => {
                let of_world = match rank == world_rank {
                    true => String::new(),
                    false => format!(" (rank {world_rank} of the world)"),
                };
                format!("rank {rank} of the communicator{of_world} has ended before MPI_Finalize")
            }
            ErrorKind::PeerEnded { rank } => {
                format!(
                    "rank {rank} of the communicator has ended, and takes and sends nothing more"
                )
            }
            ErrorKind::Disconnected { .. } => {
                "another rank of the communicator has ended, and takes and sends nothing more"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        Self::new(class, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_the_standard_has_a_name() {
        for number in 1..=62 {
            let class = Class::find(number).unwrap();
            assert_eq!(class as c_int, number);
            assert!(class.describe().0.starts_with("MPI_ERR_"));
        }
        for number in MPI_T_ERR_CANNOT_INIT..=MPI_T_ERR_PVAR_NO_ATOMIC {
            assert!(Class::find(number).unwrap().describe().0.starts_with("MPI_T_ERR_"));
        }
        for number in [0, 63, MPI_T_ERR_CANNOT_INIT - 1, MPI_T_ERR_PVAR_NO_ATOMIC + 1] {
            assert!(Class::find(number).is_none());
        }
    }
}
