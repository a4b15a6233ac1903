//! Whether this process was started as a rank, found out before `main`.
//!
//! A launcher tells a process its rank by a variable of the environment and four descriptors. The
//! first program of this library that finds them takes them: programs that it starts later see that
//! they are taken. So a rank may run through a shell or a tracer, and what a rank starts is none.
//!
//! That must be done before the program starts others, has threads that read the environment, or
//! works for long without a launcher; so it is done by a function that runs before `main`.

use std::{
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::OnceLock,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl, readlink},
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{Signal, kill},
        stat::{SFlag, fstat},
    },
    unistd::Pid,
};

use crate::segment::MEMFD_NAME;

/// The variable that tells a process which rank of which launcher it is: `rank:launcher`, where
/// the launcher is a process; `rank:launcher:taken` for what a rank starts.
pub(crate) const VARIABLE: &str = "ONCHIP_RANK";
const TAKEN: &str = "taken";

/// Where ranks find the segment, their real standard output, the end of a pipe that shows whether the
/// launcher lives, and the launcher's bell, an eventfd that they ring when their code has failed.
pub(crate) const SEGMENT_FD: RawFd = 3;
pub(crate) const OUTPUT_FD: RawFd = 4;
pub(crate) const LIFE_FD: RawFd = 5;
pub(crate) const BELL_FD: RawFd = 6;

/// What a launcher told this process.
#[derive(Debug)]
pub(crate) enum Summons {
    /// Nothing, or nothing that is still true.
    None,
    /// To be this rank.
    Rank(u32),
    /// Something that can't be followed, for this reason.
    Refused(String),
}

/// What a launcher told this process. The first call takes it.
pub(crate) fn summons() -> &'static Summons {
    static SUMMONS: OnceLock<Summons> = OnceLock::new();
    SUMMONS.get_or_init(take)
}

#[cfg(not(any(loom, miri)))]
extern "C" fn before_main() {
    summons();
}

// SAFETY: the linker's table of functions that the C library calls, with arguments that this one
// does not look at, before `main` (or when a library is loaded). The function needs nothing that
// Rust sets up for `main`, and does not unwind.
#[cfg(not(any(loom, miri)))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

fn take() -> Summons {
    let Some(text) = std::env::var_os(VARIABLE) else { return Summons::None };
    let mut parts = text.to_str().unwrap_or_default().split(':');
    let rank = parts.next().and_then(|rank| rank.parse().ok());
    let launcher = parts.next().and_then(|pid| pid.parse().ok()).map(Pid::from_raw);
    let (Some(rank), Some(launcher), taken, None) = (rank, launcher, parts.next(), parts.next())
    else {
        return malformed(&text);
    };
    match taken {
        Some(TAKEN) => return Summons::None,
        Some(_) => return malformed(&text),
        None => {}
    }
    if !are_a_launchers() {
        // A shell of an earlier world, perhaps.
        if kill(launcher, None) == Err(Errno::ESRCH) {
            return Summons::None;
        }
        return Summons::Refused(format!(
            "{VARIABLE} is {}, but descriptors {SEGMENT_FD} to {BELL_FD} are not the launcher's: the program in between must hand them on, or remove the variable",
            text.display()
        ));
    }
    // First the signals, then the look: a launcher that ends in between is seen by one of them.
    die_with_launcher();
    match life() {
        Life::On => {}
        Life::Over => {
            let _ = prctl::set_pdeathsig(None);
            return Summons::None;
        }
        Life::Cut => loop {
            // What the signals do whose cause has come too early.
            let _ = kill(Pid::this(), Signal::SIGKILL);
        },
    }
    for fd in [SEGMENT_FD, OUTPUT_FD, LIFE_FD, BELL_FD] {
        // SAFETY: open: it was looked at above, and nothing else of this program has run yet.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    // SAFETY: before `main` there are no other threads that could read the environment.
    unsafe { std::env::set_var(VARIABLE, format!("{rank}:{launcher}:{TAKEN}")) };
    Summons::Rank(rank)
}

fn malformed(text: &std::ffi::OsStr) -> Summons {
    Summons::Refused(format!("{VARIABLE} has the value {}", text.display()))
}

/// Whether the descriptors are what a launcher hands on, and not somebody else's of these numbers.
fn are_a_launchers() -> bool {
    let named = |fd: RawFd, start: &str| {
        let name = readlink(format!("/proc/self/fd/{fd}").as_str());
        name.is_ok_and(|name| name.to_str().is_some_and(|name| name.starts_with(start)))
    };
    named(SEGMENT_FD, &format!("/memfd:{MEMFD_NAME} "))
        && named(BELL_FD, "anon_inode:[eventfd]")
        && [OUTPUT_FD, LIFE_FD].into_iter().all(|fd| {
            // SAFETY: `fstat` fails on a number that is not open.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fstat(fd).is_ok_and(|file| {
                SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO
            })
        })
}

/// Has the kernel end this process when its launcher ends, also if that is not its parent; or when
/// its parent ends, which its launcher takes for the rank.
fn die_with_launcher() {
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    // SAFETY: no pointers; the descriptor is open. Its file is this process's own: the launcher
    // opens the pipe anew for each rank.
    unsafe {
        libc::fcntl(LIFE_FD, libc::F_SETOWN, libc::getpid());
        // Any event of the pipe is the end: of the last that could write, or of the world.
        libc::fcntl(LIFE_FD, F_SETSIG, libc::SIGKILL);
        let flags = libc::fcntl(LIFE_FD, libc::F_GETFL);
        libc::fcntl(LIFE_FD, libc::F_SETFL, flags | OFlag::O_ASYNC.bits());
    }
}

/// From linux/fcntl.h; the libc crate does not name it everywhere.
const F_SETSIG: i32 = 10;

/// What the pipe says of the launcher.
enum Life {
    On,
    /// It ended the world, and has said so.
    Over,
    /// It was killed.
    Cut,
}

fn life() -> Life {
    // SAFETY: open, as `are_a_launchers` saw.
    let fd = unsafe { BorrowedFd::borrow_raw(LIFE_FD) };
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    let _ = poll(&mut fds, PollTimeout::ZERO);
    let seen = fds[0].revents().unwrap_or(PollFlags::empty());
    if seen.contains(PollFlags::POLLIN) {
        Life::Over
    } else if seen.contains(PollFlags::POLLHUP) {
        Life::Cut
    } else {
        Life::On
    }
}

/// One of the launcher's descriptors, which this process has taken. To be called once for each.
pub(crate) fn descriptor(fd: RawFd) -> OwnedFd {
    // SAFETY: a summons was taken, so that it is open, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
