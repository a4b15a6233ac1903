//! Ranks that ranks have had started: the launcher starts them under the next numbers of the world, and the leaders of
//! parents and children meet in the communicator of everyone.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString, c_char, c_int},
    os::unix::ffi::OsStrExt,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use mp_core::starting::Command;

use crate::{
    comm::Comm,
    connecting::meet,
    constants::{MPI_COMM_NULL, MPI_COMM_WORLD, MPI_INFO_NULL},
    error::{Class, Error},
    founding::tag_of,
    info::Info,
    program::text,
    state::{self, of_rank},
    types::Handle,
    words::{receive, send_to_others},
};

type Result<T> = std::result::Result<T, Error>;

/// The value of `MPI_APPNUM`: which of the programs that were started together this one is.
pub(crate) static APPNUM: AtomicI32 = AtomicI32::new(0);
/// The value of `MPI_UNIVERSE_SIZE`.
pub(crate) static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(1);

of_rank! {
    /// The intercommunicator with the ranks that have spawned this one, until it is freed.
    static PARENT: Cell<Handle> = const { Cell::new(MPI_COMM_NULL) };
}

/// Meets the ranks that have spawned this one, if there are any. All ranks that were spawned together do so when the
/// world begins.
pub(crate) fn meet_parent() -> Result<()> {
    let rank = state::rank()?;
    let family = rank.family()?;
    let ends = family.programs.iter().scan(family.first, |end, ranks| {
        *end += ranks;
        Some(*end)
    });
    APPNUM.store(ends.take_while(|&end| end <= rank.id()).count() as c_int, Relaxed);
    UNIVERSE_SIZE.store(rank.room() as c_int, Relaxed);
    let Some(parent) = family.parent else { return Ok(()) };
    // SAFETY: the world has just begun.
    let world = unsafe { Comm::look(MPI_COMM_WORLD)? };
    let met = meet(world, 0, || Ok(parent))?;
    met.set_name("MPI_COMM_PARENT");
    PARENT.with(|parent| parent.set(met.into_handle()));
    Ok(())
}

/// Returns the handle of the intercommunicator with the ranks that have spawned this one.
pub(crate) fn parent() -> Handle {
    PARENT.with(|parent| parent.get())
}

/// Forgets that intercommunicator, if this was it.
pub(crate) fn forget_parent(freed: Handle) {
    PARENT.with(|parent| {
        if parent.get() == freed {
            parent.set(MPI_COMM_NULL);
        }
    });
}

/// Frees that intercommunicator at the end of the world, unless the program has.
pub(crate) fn leave_parent() {
    let parent = PARENT.with(|parent| parent.replace(MPI_COMM_NULL));
    if parent != MPI_COMM_NULL {
        // SAFETY: the handle is from `meet_parent`, and the program may not use it any more.
        let _ = unsafe { Comm::release(parent) };
    }
}

/// Starts programs as ranks, and meets them. `programs` is called by the root only. Returns also how many ranks were
/// asked for, even if they can't be started.
pub(crate) fn spawn(
    comm: &Comm,
    root: c_int,
    programs: impl FnOnce() -> Result<Programs>,
) -> Result<(usize, Result<Comm>)> {
    comm.check_intra()?;
    let (via, tag, leader) = (&comm.communicator, tag_of(0)?, comm.root(root)?);
    let mut programs = (comm.rank == root).then(programs);
    let asked = match &programs {
        Some(programs) => {
            let asked = programs.as_ref().map_or(0, |programs| programs.ranks);
            let all: Vec<_> = (0..via.size()).collect();
            send_to_others(via, &[asked as u64], &all, tag)?;
            asked
        }
        None => receive(via, 1, leader, tag)?[0] as usize,
    };
    let start = || {
        let programs = programs.take().transpose()?.unwrap_or_default();
        let number = via.joint().number()?;
        let started = state::rank()?.start(&programs.commands, number);
        started.map_err(|error| Error::new(Class::Spawn, error.to_string()))
    };
    let met = meet(comm, root, start).map_err(|error| {
        let text = || format!("the new ranks have not come into the world: {}", error.text);
        // If a rank of the group is lost, either no rank is started, or the launcher ends those that were.
        let is_one_lost = !via.failed_ranks().is_empty();
        match Class::find(error.code()) {
            Some(Class::ProcAborted) if !is_one_lost => Error::new(Class::Spawn, text()),
            Some(Class::Spawn) if is_one_lost => Error::new(Class::ProcAborted, text()),
            _ => error,
        }
    });
    Ok((asked, met))
}

/// Programs to start.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    commands: Vec<Command>,
    /// As how many ranks all of them are to be started.
    ranks: usize,
}

impl Programs {
    /// Adds a program.
    ///
    /// # Safety
    /// The name is null or a text. The arguments are null, or texts with a null pointer at the end. The handle is null,
    /// or one of an info.
    pub unsafe fn add(
        &mut self,
        name: *const c_char,
        arguments: *const *mut c_char,
        ranks: c_int,
        info: Handle,
    ) -> Result<()> {
        // SAFETY: the caller says so.
        let (name, list) = unsafe { (OsStr::from_bytes(text(name)?), list(arguments)?) };
        if ranks < 1 {
            let text =
                format!("a program is started as 1 rank or more, and {ranks} were asked for");
            return Err(Error::new(Class::Arg, text));
        }
        let mut ranks = ranks as usize;
        let info = match info {
            MPI_INFO_NULL => None,
            // SAFETY: the caller says so.
            info => Some(unsafe { Info::look(info)? }),
        };
        if let Some(info) = info {
            if let Some(soft) = info.get(b"soft")? {
                ranks = most_of(&soft, ranks)?;
            }
            if let Some(host) = info.get(b"host")? {
                check_host(&host)?;
            }
        }
        let mut command = Command::new(name, list, ranks);
        if let Some(info) = info {
            if let Some(folder) = info.get(b"wdir")? {
                command = command.folder(OsStr::from_bytes(&folder));
            }
            if let Some(path) = info.get(b"path")? {
                command = command.path(OsStr::from_bytes(&path));
            }
        }
        self.commands.push(command);
        self.ranks += ranks;
        Ok(())
    }
}

/// Returns the arguments of a program.
///
/// # Safety
/// The address is null, or that of texts with a null pointer at the end.
unsafe fn list(arguments: *const *mut c_char) -> Result<Vec<OsString>> {
    let mut list = Vec::new();
    if arguments.is_null() {
        return Ok(list);
    }
    for place in 0.. {
        // SAFETY: the caller says so, and no pointer before was null.
        let one = unsafe { *arguments.add(place) };
        if one.is_null() {
            break;
        }
        // SAFETY: the caller says so.
        list.push(OsStr::from_bytes(unsafe { text(one)? }).to_owned());
    }
    Ok(list)
}

/// Returns the largest number that is in a set and not above this one. The set has the form of the standard: numbers,
/// ranges `first:last` and `first:last:step`, with commas between them.
fn most_of(set: &[u8], limit: usize) -> Result<usize> {
    let wrong = || {
        let set = set.escape_ascii();
        Error::new(Class::InfoValue, format!("there is no number of ranks up to {limit} in {set}"))
    };
    let mut most = None;
    for range in set.split(|&byte| byte == b',') {
        let text = str::from_utf8(range).map_err(|_| wrong())?;
        let numbers: std::result::Result<Vec<i64>, _> =
            text.split(':').map(|number| number.trim().parse()).collect();
        let (first, last, step) = match numbers.map_err(|_| wrong())?[..] {
            [one] => (one, one, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(wrong()),
        };
        let count = (last - first) / step;
        let numbers = (0..=count).map(|turn| first + turn * step);
        let fits = |&number: &i64| (1..=limit as i64).contains(&number);
        most = most.max(numbers.filter(fits).max());
    }
    most.map(|most| most as usize).ok_or_else(wrong)
}

/// Returns an error if ranks are to be started on another machine.
fn check_host(host: &[u8]) -> Result<()> {
    let own = nix::unistd::gethostname().unwrap_or_default();
    let short =
        |name: &[u8]| name.split(|&byte| byte == b'.' || byte == b':').next().map(<[u8]>::to_vec);
    let names = [own.as_bytes(), b"localhost", b"127"].map(short);
    match names.contains(&short(host)) {
        true => Ok(()),
        false => {
            let text =
                format!("ranks are started on this machine, and not on {}", host.escape_ascii());
            Err(Error::new(Class::Spawn, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_ranks_of_a_set_are_started() {
        for (set, limit, expected) in [
            ("3", 5, Some(3)),
            ("1:4", 3, Some(3)),
            ("0:10:4,5", 9, Some(8)),
            ("10:2:-4", 9, Some(6)),
            ("7,9", 6, None),
            ("0", 6, None),
            ("1:2:0", 6, None),
            ("many", 6, None),
        ] {
            assert_eq!(most_of(set.as_bytes(), limit).ok(), expected, "{set}");
        }
    }

    #[test]
    fn ranks_are_started_here() {
        assert!(check_host(b"localhost").is_ok() && check_host(b"127.0.0.1").is_ok());
        assert!(check_host(b"elsewhere.example").is_err());
    }
}
