//! Detection, before `main`, of whether this process was started as a rank.
//!
//! A launcher tells a process its rank by an environment variable and four descriptors. The first program of this
//! library that finds them takes them; programs that it starts later see that they are taken. So a rank may run through
//! a shell or a tracer, and the programs that a rank starts are not ranks.
//!
//! This must be done before the program starts others, has threads that read the environment, or works for long without
//! a launcher. So a function that runs before `main` does it.
//!
//! | variable | descriptors | life pipe | this process |
//! |---|---|---|---|
//! | none, or marked as taken | | | is no rank |
//! | there | a launcher's | open | is the rank: it marks the variable as taken, and ends with its launcher |
//! | there | a launcher's | the launcher was killed | is killed, like the other ranks |
//! | there | a launcher's | the world has ended, as a byte says | is no rank |
//! | there | others, or none | | gets an error from `run` while the launcher lives, and is no rank after that |
//!
//! Which process is the parent makes no difference. The kernel ends a rank with its parent (`PR_SET_PDEATHSIG`) and
//! with its launcher: the rank's end of the life pipe sends `SIGKILL` when the last process that could write to it has
//! ended.

use std::{
    ffi::CString,
    io::Write,
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

/// The environment variable that tells a process which rank of which launcher it is. Its form is `rank:launcher:first`,
/// where the launcher is a process and first is the number of the first descriptor, or `rank:launcher:taken` for what a
/// rank starts.
pub(crate) const VARIABLE: &str = "ONCHIP_RANK";
const TAKEN: &str = "taken";

/// The numbers of a launcher's descriptors in its ranks, which are consecutive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    first: RawFd,
}

impl Descriptors {
    /// Returns the lowest numbers that hide nothing which the caller passes to the programs it starts.
    pub(crate) fn free() -> Self {
        let handed_on = |fd: &RawFd| {
            // SAFETY: `F_GETFD` fails on a number that is not open.
            let flags = fcntl(unsafe { BorrowedFd::borrow_raw(*fd) }, FcntlArg::F_GETFD);
            flags.is_ok_and(|flags| flags & FdFlag::FD_CLOEXEC.bits() == 0)
        };
        let mut numbers = Self { first: 3 };
        while let Some(fd) = numbers.all().into_iter().rfind(handed_on) {
            numbers.first = fd + 1;
        }
        numbers
    }

    /// Returns the descriptor of the world's memory.
    pub(crate) fn segment(self) -> RawFd {
        self.first
    }

    /// Returns the descriptor of the real standard output.
    pub(crate) fn output(self) -> RawFd {
        self.first + 1
    }

    /// Returns the descriptor of the pipe end that shows whether the launcher lives.
    pub(crate) fn life(self) -> RawFd {
        self.first + 2
    }

    /// Returns the descriptor of the launcher's bell, an eventfd that ranks ring when their code has failed.
    pub(crate) fn bell(self) -> RawFd {
        self.first + 3
    }

    fn all(self) -> [RawFd; 4] {
        [self.segment(), self.output(), self.life(), self.bell()]
    }

    /// Returns the first number after them.
    pub(crate) fn end(self) -> RawFd {
        self.bell() + 1
    }
}

/// What a launcher told this process.
#[derive(Debug)]
pub(crate) enum Summons {
    /// Nothing, or nothing that is still true.
    None,
    /// To be this rank.
    Rank(u32, Descriptors),
    /// Something that can't be followed, for this reason.
    Refused(String),
}

/// Returns what a launcher told this process. The first call takes it.
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
    let (Some(rank), Some(launcher), Some(first), None) =
        (rank, launcher, parts.next(), parts.next())
    else {
        return malformed(&text);
    };
    if first == TAKEN {
        return Summons::None;
    }
    // There are no higher numbers than a million.
    let Some(first) = first.parse().ok().filter(|first| (3..1 << 20).contains(first)) else {
        return malformed(&text);
    };
    let descriptors = Descriptors { first };
    if !are_a_launchers(descriptors) {
        // A shell of an earlier world, perhaps.
        if kill(launcher, None) == Err(Errno::ESRCH) {
            return Summons::None;
        }
        return Summons::Refused(format!(
            "{VARIABLE} is {}, but descriptors {} to {} are not the launcher's: the program in between must hand them on, or remove the variable",
            text.display(),
            descriptors.segment(),
            descriptors.bell()
        ));
    }
    // First the signals, then the look: a launcher that ends in between is seen by one of them.
    die_with_launcher(descriptors.life());
    match life(descriptors.life()) {
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
    for fd in descriptors.all() {
        // SAFETY: open: it was looked at above, and nothing else of this program has run yet.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    // SAFETY: before `main` there are no other threads that could read the environment.
    unsafe { std::env::set_var(VARIABLE, format!("{rank}:{launcher}:{TAKEN}")) };
    be_named(rank);
    Summons::Rank(rank, descriptors)
}

/// Shows which rank of which program this process is: to the system, which otherwise names it after the file that was
/// executed, `exe`, and in messages of panics, which name the main thread of every rank `main`.
///
/// Rust lets nobody name that thread, and rank code must run in it. So a hook writes a line, and then does what would
/// have been done without it. It is set before `main`, so that a program's own hook replaces or calls it, as it would
/// the standard one.
fn be_named(rank: u32) {
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let path = command.split(|&byte| byte == 0).next().unwrap_or_default();
    let program = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let program = String::from_utf8_lossy(program).into_owned();
    if let Ok(name) = CString::new(process_name(&program, rank)) {
        let _ = prctl::set_name(&name);
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // In one piece: other ranks may write at the same time.
        let _ = std::io::stderr().write_all(format!("rank {rank} of {program}:\n").as_bytes());
        before(panic);
    }));
}

/// Returns the name of a rank's process: as much of the program's name as there is room for, and the rank.
fn process_name(program: &str, rank: u32) -> String {
    const LONGEST: usize = 15;
    let rank = format!(":{rank}");
    let end = (0..=LONGEST - rank.len()).rev().find(|&end| program.is_char_boundary(end));
    format!("{}{rank}", &program[..end.unwrap_or_default()])
}

fn malformed(text: &std::ffi::OsStr) -> Summons {
    Summons::Refused(format!(
        "{VARIABLE} has the value {}, which no launcher has given it: remove the variable",
        text.display()
    ))
}

/// Returns whether the descriptors are what a launcher hands on, and not other descriptors with these numbers.
fn are_a_launchers(descriptors: Descriptors) -> bool {
    let named = |fd: RawFd, start: &str| {
        let name = readlink(format!("/proc/self/fd/{fd}").as_str());
        name.is_ok_and(|name| name.to_str().is_some_and(|name| name.starts_with(start)))
    };
    named(descriptors.segment(), &format!("/memfd:{MEMFD_NAME} "))
        && named(descriptors.bell(), "anon_inode:[eventfd]")
        && [descriptors.output(), descriptors.life()].into_iter().all(|fd| {
            // SAFETY: `fstat` fails on a number that is not open.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fstat(fd).is_ok_and(|file| {
                SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO
            })
        })
}

/// Has the kernel end this process when its launcher ends, even if the launcher is not its parent. The kernel also ends
/// it when its parent ends, which the launcher takes for the rank.
fn die_with_launcher(life: RawFd) {
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    // SAFETY: no pointers; the descriptor is open. Its file is this process's own: the launcher
    // opens the pipe anew for each rank.
    unsafe {
        libc::fcntl(life, libc::F_SETOWN, libc::getpid());
        // Any event of the pipe is the end: of the last that could write, or of the world.
        libc::fcntl(life, F_SETSIG, libc::SIGKILL);
        let flags = libc::fcntl(life, libc::F_GETFL);
        libc::fcntl(life, libc::F_SETFL, flags | OFlag::O_ASYNC.bits());
    }
}

/// From linux/fcntl.h; the libc crate does not name it everywhere.
const F_SETSIG: i32 = 10;

/// What the pipe says about the launcher.
enum Life {
    On,
    /// It ended the world, and has said so.
    Over,
    /// It was killed.
    Cut,
}

fn life(fd: RawFd) -> Life {
    // SAFETY: open, as `are_a_launchers` saw.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
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

/// Returns one of the launcher's descriptors, which this process has taken. Must be called only once for each.
pub(crate) fn descriptor(fd: RawFd) -> OwnedFd {
    // SAFETY: a summons was taken, so that it is open, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[cfg(test)]
mod tests {
    use super::process_name;

    #[test]
    fn a_process_is_named_after_its_program_and_rank() {
        assert_eq!(process_name("ring", 2), "ring:2");
        assert_eq!(process_name("", 0), ":0");
        assert_eq!(process_name("conjugate_gradient", 1023), "conjugate_:1023");
        // Not in the middle of a character.
        assert_eq!(process_name("ééééééééé", 1), "éééééé:1");
    }
}
