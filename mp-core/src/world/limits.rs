//! The numbers of files that the launcher of a world and its ranks may open.

use std::{fs, sync::OnceLock};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::error::{Error, ErrorKind, Result};

/// The descriptors that the launcher keeps for each rank: two pipes and a pidfd.
const FILES_PER_RANK: u64 = 3;
/// The other descriptors that the launcher needs, some of them only while it starts a rank.
const FILES_OF_ITS_OWN: u64 = 20;

/// Makes sure that this process may open the files that `ranks` ranks need, and raises its soft limit to the hard limit
/// if necessary. Returns the previous soft limit, if it was ever raised.
pub(crate) fn make_room_for(ranks: usize) -> Result<Option<u64>> {
    static BEFORE: OnceLock<u64> = OnceLock::new();
    let (soft, hard) = limits()?;
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let needed = open + FILES_OF_ITS_OWN + FILES_PER_RANK * ranks as u64;
    if needed > hard {
        return Err(ErrorKind::OpenFiles { needed, allowed: hard }.into());
    }
    if needed > soft {
        set(hard, hard)?;
        BEFORE.get_or_init(|| soft);
    }
    Ok(BEFORE.get().copied())
}

/// Restores the previous limit in a rank, which has inherited a raised limit, because programs that use `select` rely
/// on a low limit.
pub(crate) fn restore(soft: u64) -> Result<()> {
    set(soft, limits()?.1)
}

fn limits() -> Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).map_err(Error::os("getrlimit"))
}

fn set(soft: u64, hard: u64) -> Result<()> {
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).map_err(Error::os("setrlimit"))
}
