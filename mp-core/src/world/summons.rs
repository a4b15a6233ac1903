//! Detection of whether this process was started as a rank.
//!
//! A launcher tells a process its rank by an environment variable and four descriptors. The first program with this
//! library that finds them takes them, and marks them as taken for the programs that it starts later. So a rank may be
//! started through a shell or a tracer, and the programs that a rank starts are not ranks.
//!
//! This should happen before the program starts other programs, before it has threads that read the environment, and
//! before it could work for long without its launcher. So a function that runs before `main` does it where this library
//! is part of the program. A shared library may also be loaded into a process that is not meant to be the rank, such as a
//! shell for which it is preloaded. There the rank is taken by the first call that needs it; before `main`, the process is
//! only made to end with its launcher, if that has started it.
//!
//! | variable | descriptors | life pipe | this process |
//! |---|---|---|---|
//! | none, or marked as taken | | | is no rank |
//! | there | a launcher's | open | is the rank: it marks the variable as taken, and ends with its launcher |
//! | there | a launcher's | the launcher was killed | kills itself, like the other ranks |
//! | there | a launcher's | the world has ended, as a byte says | is no rank |
//! | there | others, or none | | gets an error from `run` while the launcher lives, and is no rank after that |
//!
//! It does not matter which process is the parent. The kernel kills a rank when its parent ends (`PR_SET_PDEATHSIG`),
//! and when its launcher ends: the rank's end of the life pipe sends `SIGKILL` when the last process that could write
//! to the pipe has ended.

use std::{
    ffi::CString,
    fs::File,
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
    unistd::{Pid, dup2_stdout},
};

use crate::segment::MEMFD_NAME;

/// The environment variable that tells a process which rank of which launcher it is. Its form is `rank:launcher:first`,
/// where `launcher` is the id of a process and `first` is the number of the first descriptor. For programs that a rank
/// starts, it is `rank:launcher:taken`.
pub(crate) const VARIABLE: &str = "ONCHIP_RANK";
const TAKEN: &str = "taken";

/// The numbers of a launcher's descriptors in its ranks, which are consecutive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    first: RawFd,
}

impl Descriptors {
    /// Returns the lowest numbers that do not replace a descriptor that the caller passes to the programs it starts.
    pub(crate) fn free() -> Self {
        let handed_on = |fd: &RawFd| {
            // SAFETY: the borrow ends with the call, and `F_GETFD` only fails if the number is not open.
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

    /// Returns the first number after these descriptors.
    pub(crate) fn end(self) -> RawFd {
        self.bell() + 1
    }
}

/// The instruction of a launcher to this process.
#[derive(Debug)]
pub(crate) enum Summons {
    /// There is none, or it does not hold any more.
    None,
    /// The process is this rank.
    Rank(u32, Descriptors),
    /// The process can't follow the instruction, for this reason.
    Refused(String),
}

/// Returns the instruction of a launcher to this process. The first call takes it.
pub(crate) fn summons() -> &'static Summons {
    static SUMMONS: OnceLock<Summons> = OnceLock::new();
    SUMMONS.get_or_init(take)
}

#[cfg(not(any(loom, miri)))]
extern "C" fn before_main() {
    match is_in_program() {
        true => drop(summons()),
        false => heed(),
    }
}

/// Returns whether this code is part of the program, and not of a shared library.
fn is_in_program() -> bool {
    /// Looks at the first object, which is the program, and asks for no other.
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        let here = is_in_program as *const () as usize;
        // SAFETY: the C library passes an object and its table of parts, and the caller's place for the answer.
        unsafe {
            let object = &*object;
            let parts = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
            let is_in = |part: &libc::Elf64_Phdr| {
                let start = (object.dlpi_addr + part.p_vaddr) as usize;
                part.p_type == libc::PT_LOAD
                    && (start..start + part.p_memsz as usize).contains(&here)
            };
            *found.cast::<bool>() = parts.iter().any(is_in);
        }
        1
    }
    let mut found = false;
    // SAFETY: the function has the required form, and the place for the answer is there during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// Makes the process end with its launcher, if that has started it and it may still become the rank.
#[cfg(not(any(loom, miri)))]
fn heed() {
    let Ok(Some(Told { launcher, .. })) = told() else { return };
    if Pid::parent() != launcher {
        return;
    }
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    while Pid::parent() != launcher {
        // The launcher ended before the signal was set up.
        let _ = kill(Pid::this(), Signal::SIGKILL);
    }
}

// SAFETY: the section is the table of functions that the C library calls before `main` (or when a library is loaded).
// It passes arguments, which this function ignores. The function needs nothing that Rust sets up for `main`, and does
// not unwind.
#[cfg(not(any(loom, miri)))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// What the variable says to a process that may take it.
struct Told {
    rank: u32,
    launcher: Pid,
    descriptors: Descriptors,
}

/// Reads the variable. Returns `None` if there is none, or it is marked as taken, and the reason if no launcher has written
/// it.
fn told() -> Result<Option<Told>, String> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let mut parts = text.to_str().unwrap_or_default().split(':');
    let rank = parts.next().and_then(|rank| rank.parse().ok());
    let launcher = parts.next().and_then(|pid| pid.parse().ok()).map(Pid::from_raw);
    let (Some(rank), Some(launcher), Some(first), None) =
        (rank, launcher, parts.next(), parts.next())
    else {
        return Err(malformed(&text));
    };
    if first == TAKEN {
        return Ok(None);
    }
    // The system has no descriptors with higher numbers than about a million.
    let Some(first) = first.parse().ok().filter(|first| (3..1 << 20).contains(first)) else {
        return Err(malformed(&text));
    };
    Ok(Some(Told { rank, launcher, descriptors: Descriptors { first } }))
}

fn take() -> Summons {
    let Told { rank, launcher, descriptors } = match told() {
        Ok(Some(told)) => told,
        Ok(None) => return Summons::None,
        Err(reason) => return Summons::Refused(reason),
    };
    if !are_a_launchers(descriptors) {
        // The launcher may be that of an earlier world, for instance if this process was started by a shell of that
        // world.
        if kill(launcher, None) == Err(Errno::ESRCH) {
            return Summons::None;
        }
        return Summons::Refused(format!(
            "{VARIABLE} names rank {rank} of {launcher}, but descriptors {} to {} are not the launcher's: the program in between must hand them on, or remove the variable",
            descriptors.segment(),
            descriptors.bell()
        ));
    }
    // The signals are set up before the look at the pipe, so that the end of a launcher is noticed by one of the two.
    die_with_launcher(descriptors.life());
    match life(descriptors.life()) {
        Life::On => {}
        Life::Over => {
            let _ = prctl::set_pdeathsig(None);
            return Summons::None;
        }
        Life::Cut => loop {
            // The launcher ended before the signals were set up, so this process does what they would have done.
            let _ = kill(Pid::this(), Signal::SIGKILL);
        },
    }
    for fd in descriptors.all() {
        // SAFETY: the descriptor is open, as was checked above, and is the launcher's, which no other code of this program
        // closes.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    // SAFETY: before `main`, there are no other threads that could read the environment. Later, another thread may read
    // it in C: the variable is there already, so that the C library replaces a pointer, and it leaves the text to which
    // that pointed, which is the system's.
    unsafe { std::env::set_var(VARIABLE, format!("{rank}:{launcher}:{TAKEN}")) };
    // What calls a shared library does something of its own in each rank, and not the same up to a call of `run`.
    if rank != 0 && is_in_program() {
        mute();
    }
    be_named(rank);
    Summons::Rank(rank, descriptors)
}

/// Discards what this process prints, until it runs rank code: all ranks print the same up to there.
fn mute() {
    // Without `/dev/null`, the output of all ranks is heard.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(null);
    }
}

/// Shows which rank of which program this process is. The system otherwise names the process `exe`, after the file that
/// was executed, and messages of panics name the main thread of every rank `main`.
///
/// Rust has no way to name that thread, and rank code must run in it. So a panic hook writes a line, and then calls the
/// previous hook. The hook is set before `main`, so that a program's own hook replaces or calls it, as it would the
/// standard hook.
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
        // The line is written by one call, because other ranks may write at the same time.
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

fn malformed(text: &std::ffi::OsStr) -> String {
    format!(
        "{VARIABLE} has the value {}, which no launcher has given it: remove the variable",
        text.display()
    )
}

/// Returns whether the descriptors are those of a launcher, and not other descriptors with these numbers.
fn are_a_launchers(descriptors: Descriptors) -> bool {
    let named = |fd: RawFd, start: &str| {
        let name = readlink(format!("/proc/self/fd/{fd}").as_str());
        name.is_ok_and(|name| name.to_str().is_some_and(|name| name.starts_with(start)))
    };
    named(descriptors.segment(), &format!("/memfd:{MEMFD_NAME} "))
        && named(descriptors.bell(), "anon_inode:[eventfd]")
        && [descriptors.output(), descriptors.life()].into_iter().all(|fd| {
            // SAFETY: the borrow ends with the call, and `fstat` only fails if the number is not open.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fstat(fd).is_ok_and(|file| {
                SFlag::from_bits_truncate(file.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO
            })
        })
}

/// Makes the kernel kill this process when its launcher ends, even if the launcher is not its parent. The kernel also
/// kills it when its parent ends, because the launcher takes the process that it has started for the rank.
fn die_with_launcher(life: RawFd) {
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    // SAFETY: the calls take no pointers, and the descriptor is open. The settings concern only this process, because
    // each rank has opened the pipe for itself.
    unsafe {
        libc::fcntl(life, libc::F_SETOWN, libc::getpid());
        // Any event of the pipe means an end: of the last process that could write, or of the world.
        libc::fcntl(life, F_SETSIG, libc::SIGKILL);
        let flags = libc::fcntl(life, libc::F_GETFL);
        libc::fcntl(life, libc::F_SETFL, flags | OFlag::O_ASYNC.bits());
    }
}

/// This constant is from linux/fcntl.h. The libc crate does not have it on all targets.
const F_SETSIG: i32 = 10;

/// The state of the launcher, as the pipe shows it.
enum Life {
    On,
    /// The launcher has ended the world, and has said so by a byte.
    Over,
    /// The launcher was killed.
    Cut,
}

fn life(fd: RawFd) -> Life {
    // SAFETY: the descriptor is open, as `are_a_launchers` has checked.
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

/// Returns one of the launcher's descriptors, which this process has taken. Must be called only once for each
/// descriptor.
pub(crate) fn descriptor(fd: RawFd) -> OwnedFd {
    // SAFETY: this process has taken the summons, so the descriptor is open. The caller calls this only once, so nobody
    // else owns it.
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
        // The name is not cut within a character.
        assert_eq!(process_name("ééééééééé", 1), "éééééé:1");
    }
}
