//! The classes of the system's errors.

use std::io;

use nix::errno::Errno;

use crate::error::{Class, Error};

fn class(errno: Errno) -> Class {
    match errno {
        Errno::ENOENT => Class::NoSuchFile,
        Errno::EEXIST => Class::FileExists,
        Errno::EACCES | Errno::EPERM => Class::Access,
        Errno::EROFS => Class::ReadOnly,
        Errno::ENOSPC => Class::NoSpace,
        Errno::EDQUOT => Class::Quota,
        Errno::EBUSY | Errno::ETXTBSY => Class::FileInUse,
        Errno::EISDIR | Errno::ENAMETOOLONG | Errno::ENOTDIR | Errno::ELOOP => Class::BadFile,
        Errno::ENOMEM => Class::NoMem,
        _ => Class::Io,
    }
}

/// Returns what went wrong with a file: `what` says what was to be done.
#[cold]
pub(crate) fn failed(what: &str, error: &io::Error) -> Error {
    let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    Error::new(class(errno), format!("{what}: {error}"))
}
