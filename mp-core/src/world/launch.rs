//! The start of a process as a rank: its briefing, its descriptors, and how it ends.
//!
//! The caller makes the segment and puts a [`Briefing`] into it. It starts its own program once for each rank (`mprun`
//! starts another program). A rank gets four descriptors: the segment, the real standard output, the reading end of the
//! *life pipe*, and a bell. Their numbers begin at 3, or behind the descriptors that the caller passes to its children
//! (`summons.rs`).
//!
//! Ranks are started by `posix_spawn`. `std::process::Command` could give a child descriptors of fixed numbers only by
//! code that runs between fork and exec, in a process that may have threads.

use std::{
    ffi::{CStr, CString, OsStr, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{
        eventfd::EventFd,
        signal::{SigHandler, SigSet, Signal, kill, signal},
        stat::Mode,
    },
    unistd::{Pid, pipe2},
};

use super::{
    notice,
    site::{self, Call, Past},
    summons::{Descriptors, VARIABLE},
};
use crate::{
    context::Context,
    error::{Cause, Error, ErrorKind, Result},
    segment::{BlockKey, BlockKind, Root},
    wait::WaitPolicy,
};

/// The information that a rank needs before it can enter the world. It is stored in the segment.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Briefing {
    /// The intended call of `run`. `None` under a launcher, which does not know the program.
    pub(crate) call: Option<Call>,
    /// Whether the call was made in a test that has the name of the call's thread.
    pub(crate) test: bool,
    /// Whether to take the first call at that place as the intended one, because the ranks get other arguments than the
    /// caller.
    pub(crate) any_call: bool,
    /// The results of earlier calls.
    pub(crate) past: Vec<Past>,
    /// The value that the call hands to every rank, encoded.
    #[serde(with = "site::bytes")]
    pub(crate) input: Vec<u8>,
    /// How ranks wait. `None` under a launcher that leaves this to the program.
    pub(crate) policy: Option<Policy>,
    /// The number of threads that can run at the same time.
    pub(crate) cores: u32,
    /// The CPU to which each rank of this node is bound.
    pub(crate) cpus: Vec<Option<usize>>,
    /// The first rank of each node, and the number of all ranks, if the ranks are divided among nodes.
    pub(crate) nodes: Option<Vec<u32>>,
    /// The number of files that a rank may open, if the launcher may open more.
    pub(crate) open_files: Option<u64>,
}

/// A [`WaitPolicy`], as it is encoded in a briefing.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Policy(u8);

impl From<WaitPolicy> for Policy {
    fn from(policy: WaitPolicy) -> Self {
        Self(match policy {
            WaitPolicy::Spin => 0,
            WaitPolicy::Adaptive => 1,
            WaitPolicy::Park => 2,
        })
    }
}

impl From<Policy> for WaitPolicy {
    fn from(Policy(code): Policy) -> Self {
        [Self::Spin, Self::Adaptive, Self::Park].get(usize::from(code)).copied().unwrap_or_default()
    }
}

impl Briefing {
    /// Stores the briefing where the ranks of the world find it.
    pub(crate) fn post(&self, context: &Context) -> Result<()> {
        let key = notice::put(context, BlockKind::World, self)?;
        context.segment.set_root(Root::Briefing, key.word());
        Ok(())
    }

    pub(crate) fn read(segment: &crate::segment::Segment) -> Result<Self> {
        let missing = || segment.corrupt("a briefing", 0, 0);
        let key = segment.root(Root::Briefing).and_then(BlockKey::from_word).ok_or_else(missing)?;
        notice::read(segment, BlockKind::World, key)
    }
}

/// One of a rank's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How a rank's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process exited with this status.
    Exited(i32),
    /// The process was killed by this signal.
    Killed(i32),
    /// The process ended in a way that this process could not see, because this process ignores `SIGCHLD` (see
    /// [`see_children`]), or because other code in it has waited for the child.
    Unseen,
}

impl Ending {
    /// Returns the word that is stored in a rank's control block, where 0 says that the process has not ended.
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::Exited(status) => 1 << 16 | status as u32 & 0xffff,
            Self::Killed(signal) => 2 << 16 | signal as u32 & 0xffff,
            Self::Unseen => 3 << 16,
        }
    }

    pub(crate) fn from_word(word: u32) -> Option<Self> {
        let number = (word & 0xffff) as i32;
        match word >> 16 {
            1 => Some(Self::Exited(number)),
            2 => Some(Self::Killed(number)),
            3 => Some(Self::Unseen),
            _ => None,
        }
    }
}

impl From<Ending> for Cause {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(status) => Self::Exit(status),
            Ending::Killed(signal) => Self::Signal(signal),
            Ending::Unseen => Self::Vanished,
        }
    }
}

/// The program that is started as every rank.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) name: OsString,
    pub(crate) args: Vec<OsString>,
    /// The folder in which it runs, if that is not the launcher's.
    pub(crate) folder: Option<PathBuf>,
    /// Whether standard error goes through the launcher, too.
    pub(crate) capture_errors: bool,
    /// Whether the program is any program, as a launcher's is: its standard output is captured from the start, and the
    /// environment has the names by which programs for MPI find their rank.
    pub(crate) any_program: bool,
}

/// A pipe between a launcher and its ranks, each of which opens the reading end for itself. When the launcher ends, for
/// whatever reason, the kernel kills every rank by this pipe, whatever process is the rank's parent.
#[derive(Debug)]
pub(crate) struct Life {
    read: OwnedFd,
    write: OwnedFd,
    descriptors: Descriptors,
}

impl Life {
    pub(crate) fn new() -> Result<Self> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(Error::os("pipe2"))?;
        let descriptors = Descriptors::free();
        Ok(Self { read: move_up(read.as_fd(), descriptors)?, write, descriptors })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // This byte distinguishes the end of the world from the launcher's death: see `summons`.
        let _ = nix::unistd::write(&self.write, &[0]);
    }
}

/// A process that was just started, and the reading ends of its output pipes.
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    /// `None` if the process is already gone and its number may be another process's.
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) out: OwnedFd,
    pub(crate) err: Option<OwnedFd>,
}

/// Starts the program as a rank, which is in this place among this many that are started together. The calling thread
/// must live as long as the rank: when the thread ends, the rank ends (`PR_SET_PDEATHSIG`).
pub(crate) fn spawn(
    context: &Context,
    rank: usize,
    (place, size): (usize, usize),
    program: &Program,
    life: &Life,
    bell: &EventFd,
) -> Result<Spawned> {
    let segment = context
        .segment
        .fd()
        .ok_or_else(|| Error::from(ErrorKind::BadWorld(HEAP_ONLY.to_owned())))?;
    let descriptors = life.descriptors;
    let (segment, bell) = (move_up(segment, descriptors)?, move_up(bell.as_fd(), descriptors)?);
    let (out_read, out_write) = pipe(descriptors)?;
    let errors = program.capture_errors.then(|| pipe(descriptors)).transpose()?;

    let mut actions = PosixSpawnFileActions::init().map_err(Error::os("posix_spawn"))?;
    let act = |result: nix::Result<()>| result.map_err(Error::os("posix_spawn"));
    let null = Path::new("/dev/null");
    act(actions.add_dup2(segment.as_raw_fd(), descriptors.segment()))?;
    act(actions.add_dup2(out_write.as_raw_fd(), descriptors.output()))?;
    act(actions.add_dup2(bell.as_raw_fd(), descriptors.bell()))?;
    // The new process opens the pipe for itself, so that the signal settings of this open file are its own.
    let life = format!("/proc/self/fd/{}", life.read.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
    act(actions.add_open(descriptors.life(), Path::new(&life), flags, Mode::empty()))?;
    if rank != 0 {
        act(actions.add_open(0, null, OFlag::O_RDONLY, Mode::empty()))?;
    }
    if program.any_program {
        act(actions.add_dup2(out_write.as_raw_fd(), 1))?;
    } else {
        act(actions.add_open(1, null, OFlag::O_WRONLY, Mode::empty()))?;
    }
    if let Some((_, write)) = &errors {
        act(actions.add_dup2(write.as_raw_fd(), 2))?;
    }
    // The launcher may have blocked signals to receive them by a descriptor. The rank must not inherit that.
    let mut attributes = PosixSpawnAttr::init().map_err(Error::os("posix_spawn"))?;
    act(attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    ))?;
    act(attributes.set_sigmask(&SigSet::empty()))?;
    let mut default = SigSet::empty();
    default.add(Signal::SIGPIPE);
    act(attributes.set_sigdefault(&default))?;

    let text = |s: &OsStr| {
        CString::new(s.as_bytes()).map_err(|_| {
            Error::from(ErrorKind::BadWorld(format!(
                "{} has a zero byte, and can't be an argument or a variable of a process",
                s.display()
            )))
        })
    };
    let mut args = vec![text(&program.name)?];
    for arg in &program.args {
        args.push(text(arg)?);
    }
    let mut environment = Vec::new();
    let ours = |name: &OsStr| {
        name == VARIABLE || program.any_program && MPI_VARIABLES.iter().any(|other| name == *other)
    };
    for (name, value) in std::env::vars_os().filter(|(name, _)| !ours(name)) {
        let mut pair = name;
        pair.push("=");
        pair.push(value);
        environment.push(text(&pair)?);
    }
    let assignment = format!("{VARIABLE}={rank}:{}:{}", std::process::id(), descriptors.segment());
    environment.push(text(assignment.as_ref())?);
    if program.any_program {
        let (in_world, of) = match context.is_divided() {
            true => (rank, context.size()),
            false => (place, size),
        };
        for (name, value) in MPI_VARIABLES.into_iter().zip([in_world, of, place, size]) {
            environment.push(text(format!("{name}={value}").as_ref())?);
        }
    }
    let path = text(program.path.as_os_str())?;
    if let Some(folder) = &program.folder {
        add_folder(&mut actions, &text(folder.as_os_str())?)?;
    }
    let pid = posix_spawnp(&path, &actions, &attributes, &args, &environment).map_err(|errno| {
        let source = io::Error::from(errno);
        let text = format!("{}: {source}", program.path.display());
        let source = io::Error::new(source.kind(), text);
        Error::from(ErrorKind::Os { call: "starting the program", source })
    })?;
    let pidfd = match pidfd_open(pid) {
        Ok(fd) => Some(fd),
        // If SIGCHLD is ignored, a child that ends is gone at once.
        Err(Errno::ESRCH) => None,
        Err(errno) => {
            let _ = kill(pid, Signal::SIGKILL);
            wait_for(pid);
            return Err(Error::os("pidfd_open")(errno));
        }
    };
    Ok(Spawned { pid, pidfd, out: out_read, err: errors.map(|(read, _)| read) })
}

/// Has the new process begin in a folder.
fn add_folder(actions: &mut PosixSpawnFileActions, folder: &CStr) -> Result<()> {
    let raw = std::ptr::from_mut(actions).cast::<nix::libc::posix_spawn_file_actions_t>();
    // SAFETY: the type of `nix` is transparent, and has what the system's functions have made. The text is copied.
    match unsafe { nix::libc::posix_spawn_file_actions_addchdir_np(raw, folder.as_ptr()) } {
        0 => Ok(()),
        errno => Err(Error::os("posix_spawn")(Errno::from_raw(errno))),
    }
}

/// What scripts and programs for MPI look for before they call the library: the rank and the number of ranks, in the
/// world and on this machine.
const MPI_VARIABLES: [&str; 4] = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"];

const HEAP_ONLY: &str = "processes can't share a world on the heap: make it by World::processes";

/// Lets this process see how its children end, even if it has inherited from its parent that `SIGCHLD` is ignored. This
/// is for the `main` of a launcher, because a library must not decide this for a program.
///
/// # Errors
/// [`Os`](crate::ErrorKind::Os).
pub fn see_children() -> Result<()> {
    // SAFETY: the default action runs no code of this process, so no handler can be unsound.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map_err(Error::os("sigaction"))?;
    Ok(())
}

/// Sends a signal to the process.
pub(crate) fn send_signal(pidfd: BorrowedFd<'_>, signal: i32) {
    // An error is ignored, because the process may just be ending.
    // SAFETY: the only pointer is null, which the call allows.
    let _ = unsafe {
        let (fd, null) = (pidfd.as_raw_fd(), std::ptr::null::<nix::libc::siginfo_t>());
        nix::libc::syscall(nix::libc::SYS_pidfd_send_signal, fd, signal, null, 0)
    };
}

/// Waits until the child has ended, and returns how it ended. This uses the numbers of signals, because `nix` does not
/// have names for all of them.
pub(crate) fn wait_for(pid: Pid) -> Ending {
    use nix::libc::{WEXITSTATUS, WIFEXITED, WIFSIGNALED, WTERMSIG, waitpid};
    let mut status = 0;
    loop {
        // SAFETY: `status` lives until the call returns.
        match Errno::result(unsafe { waitpid(pid.as_raw(), &mut status, 0) }) {
            Ok(_) if WIFEXITED(status) => return Ending::Exited(WEXITSTATUS(status)),
            Ok(_) if WIFSIGNALED(status) => return Ending::Killed(WTERMSIG(status)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Ending::Unseen,
        }
    }
}

fn pipe(descriptors: Descriptors) -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(Error::os("pipe2"))?;
    Ok((read, move_up(write.as_fd(), descriptors)?))
}

/// Duplicates the descriptor to a number above those of a rank's descriptors, which `dup2` overwrites in the child.
fn move_up(fd: BorrowedFd<'_>, ranks: Descriptors) -> Result<OwnedFd> {
    let moved = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(ranks.end())).map_err(Error::os("fcntl"))?;
    // SAFETY: fcntl has just made the descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

pub(crate) fn pidfd_open(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = Errno::result(fd)?;
    // SAFETY: the call has just made the descriptor (with close-on-exec), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
