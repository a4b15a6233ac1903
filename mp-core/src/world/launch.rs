//! Ranks as processes: starting them, watching them, burying them.
//!
//! The launcher is the parent of all ranks and takes part in nothing else. It sleeps in `poll` on
//! the ranks' pidfds and output pipes; a rank that dies is known within the time of one wake-up.
//! Ranks inherit the segment's descriptor and die with the launcher (`PR_SET_PDEATHSIG`), so that
//! nothing is left behind whichever of them is killed.

use std::{
    ffi::{CString, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{
        signal::{SigSet, Signal, kill},
        stat::Mode,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, pipe2, read},
};

use super::{
    burial,
    output::LineMixer,
    site::{Call, Past},
};
use crate::{
    context::{Context, RankState},
    error::{Cause, Error, Result},
    segment::{BlockKey, BlockKind, Root},
    sync::Ordering,
    wait::WaitPolicy,
};

/// The variable that tells a process which rank of which world it is.
pub(crate) const VARIABLE: &str = "ONCHIP_RANK";
/// Where ranks find the segment and their real standard output.
pub(crate) const SEGMENT_FD: RawFd = 3;
pub(crate) const OUTPUT_FD: RawFd = 4;
/// The launcher's own descriptors are moved past this, away from those two.
const ABOVE: RawFd = 64;

/// What a rank must know before it can enter the world; lies in the segment.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Briefing {
    /// The call of `run` that is meant; none under a launcher that knows nothing of the program.
    pub(crate) call: Option<Call>,
    /// Take the first call at that place: the program was given other arguments.
    pub(crate) any_call: bool,
    /// What earlier calls returned.
    pub(crate) past: Vec<Past>,
    pub(crate) policy: Policy,
    /// Threads that can run at the same time.
    pub(crate) cores: u32,
    /// By rank: the CPU it is bound to.
    pub(crate) cpus: Vec<Option<usize>>,
}

/// [`WaitPolicy`] as it travels.
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
    /// Puts it where the ranks of the world find it.
    pub(crate) fn post(&self, context: &Context) -> Result<()> {
        let bytes = postcard::to_stdvec(self)?;
        let key = context.allocate(BlockKind::World, bytes.len() as u64)?;
        let to = context.segment.range(key.payload(), bytes.len() as u64, "a briefing")?;
        // SAFETY: a fresh block of that length, known to nobody else yet.
        unsafe {
            to.copy_from_nonoverlapping(std::ptr::NonNull::from(&*bytes).cast(), bytes.len());
        }
        context.segment.heap().settle(key)?;
        context.segment.set_root(Root::Briefing, key.word());
        Ok(())
    }

    pub(crate) fn read(segment: &crate::segment::Segment) -> Result<Self> {
        let missing = || segment.corrupt("a briefing", 0, 0);
        let key = segment.root(Root::Briefing).and_then(BlockKey::from_word).ok_or_else(missing)?;
        let len = segment.heap().check(key, BlockKind::World)?;
        let from = segment.range(key.payload(), len, "a briefing")?;
        // SAFETY: in range, and written before the root was set.
        let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), len as usize) };
        Ok(postcard::from_bytes(bytes)?)
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
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl From<Ending> for Cause {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(status) => Self::Exit(status),
            Ending::Killed(signal) => Self::Signal(signal),
        }
    }
}

/// What is started as every rank.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) name: OsString,
    pub(crate) args: Vec<OsString>,
    /// Standard error comes through the launcher, too.
    pub(crate) capture_errors: bool,
    /// Rank 0's standard output is heard from the start, not only inside of `run`.
    pub(crate) first_speaks: bool,
}

#[derive(Debug)]
struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    ending: Option<Ending>,
    /// Standard output and standard error.
    pipes: [Option<OwnedFd>; 2],
}

/// The processes of one world. Dropping it ends those that still run.
#[derive(Debug)]
pub(crate) struct Processes {
    pub(crate) context: Context,
    children: Vec<Child>,
    mixers: [LineMixer; 2],
}

/// What [`Processes::step`] saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Ranks whose processes ended.
    pub(crate) ended: Vec<usize>,
    /// The descriptor given to `step` is readable.
    pub(crate) woken: bool,
}

impl Processes {
    /// Starts a process for every rank of the world.
    pub(crate) fn start(context: Context, program: &Program) -> Result<Self> {
        let size = context.size();
        let mixers = [LineMixer::new(size), LineMixer::new(size)];
        let mut processes = Self { context, children: Vec::new(), mixers };
        for rank in 0..size {
            let child = processes.spawn(rank, program)?;
            processes.children.push(child);
        }
        Ok(processes)
    }

    fn spawn(&self, rank: usize, program: &Program) -> Result<Child> {
        let segment =
            self.context.segment.fd().ok_or_else(|| Error::BadWorld(HEAP_ONLY.to_owned()))?;
        let segment = move_up(segment)?;
        let (out_read, out_write) = pipe()?;
        let (err_read, err_write) = pipe()?;

        let mut actions = PosixSpawnFileActions::init().map_err(Error::os("posix_spawn"))?;
        let act = |result: nix::Result<()>| result.map_err(Error::os("posix_spawn"));
        let null = Path::new("/dev/null");
        act(actions.add_dup2(segment.as_raw_fd(), SEGMENT_FD))?;
        act(actions.add_dup2(out_write.as_raw_fd(), OUTPUT_FD))?;
        if rank != 0 {
            act(actions.add_open(0, null, OFlag::O_RDONLY, Mode::empty()))?;
        }
        if rank == 0 && program.first_speaks {
            act(actions.add_dup2(out_write.as_raw_fd(), 1))?;
        } else {
            act(actions.add_open(1, null, OFlag::O_WRONLY, Mode::empty()))?;
        }
        if program.capture_errors {
            act(actions.add_dup2(err_write.as_raw_fd(), 2))?;
        }
        // The launcher may have blocked signals to take them by descriptor.
        let mut attributes = PosixSpawnAttr::init().map_err(Error::os("posix_spawn"))?;
        act(attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        ))?;
        act(attributes.set_sigmask(&SigSet::empty()))?;
        let mut default = SigSet::empty();
        default.add(Signal::SIGPIPE);
        act(attributes.set_sigdefault(&default))?;

        let text = |s: &std::ffi::OsStr| {
            CString::new(s.as_bytes())
                .map_err(|_| Error::BadWorld(format!("a zero byte in {}", s.display())))
        };
        let mut args = vec![text(&program.name)?];
        for arg in &program.args {
            args.push(text(arg)?);
        }
        let mut environment = Vec::new();
        for (name, value) in std::env::vars_os().filter(|(name, _)| name != VARIABLE) {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            environment.push(text(&pair)?);
        }
        let assignment = format!("{VARIABLE}={rank}:{}", std::process::id());
        environment.push(text(assignment.as_ref())?);
        let path = text(program.path.as_os_str())?;
        let pid =
            posix_spawnp(&path, &actions, &attributes, &args, &environment).map_err(|errno| {
                Error::Os {
                    call: "starting the program",
                    source: io::Error::other(format!(
                        "{}: {}",
                        program.path.display(),
                        io::Error::from(errno)
                    )),
                }
            })?;
        let pidfd = pidfd_open(pid).inspect_err(|_| {
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        })?;
        let errors = program.capture_errors.then_some(err_read);
        Ok(Child { pid, pidfd, ending: None, pipes: [Some(out_read), errors] })
    }

    /// Sleeps until something happens, forwards output, and buries the dead.
    pub(crate) fn step(
        &mut self,
        wake: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
        sink: &mut dyn FnMut(usize, Stream, &[u8]),
    ) -> Result<Seen> {
        enum What {
            Wake,
            Pid(usize),
            Pipe(usize, usize),
        }
        let mut whats = Vec::new();
        let mut fds = Vec::new();
        if let Some(fd) = wake {
            whats.push(What::Wake);
            fds.push(PollFd::new(fd, PollFlags::POLLIN));
        }
        for (rank, child) in self.children.iter().enumerate() {
            if child.ending.is_none() {
                whats.push(What::Pid(rank));
                fds.push(PollFd::new(child.pidfd.as_fd(), PollFlags::POLLIN));
            }
            for (stream, pipe) in child.pipes.iter().enumerate() {
                if let Some(pipe) = pipe
                    && self.mixers[stream].ready(rank)
                {
                    whats.push(What::Pipe(rank, stream));
                    fds.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
                }
            }
        }
        let timeout = match timeout {
            None => PollTimeout::NONE,
            Some(t) => PollTimeout::try_from(t.as_micros().div_ceil(1000).min(i32::MAX as u128))
                .unwrap_or(PollTimeout::MAX),
        };
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::os("poll")(errno)),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        drop(fds);
        let mut seen = Seen::default();
        // The dead first: survivors wait for this.
        for (what, _) in whats.iter().zip(&ready).filter(|&(_, &ready)| ready) {
            match *what {
                What::Wake => seen.woken = true,
                What::Pid(rank) => {
                    self.reap(rank)?;
                    seen.ended.push(rank);
                }
                What::Pipe(..) => {}
            }
        }
        for (what, _) in whats.iter().zip(&ready).filter(|&(_, &ready)| ready) {
            // One of the pipes before it may have begun a long line just now.
            if let What::Pipe(rank, stream) = *what
                && self.mixers[stream].ready(rank)
            {
                self.forward(rank, stream, sink);
            }
        }
        Ok(seen)
    }

    fn reap(&mut self, rank: usize) -> Result<()> {
        let child = &mut self.children[rank];
        child.ending = Some(match waitpid(child.pid, None) {
            Ok(WaitStatus::Exited(_, status)) => Ending::Exited(status),
            Ok(WaitStatus::Signaled(_, signal, _)) => Ending::Killed(signal as i32),
            Ok(_) => Ending::Exited(-1),
            Err(errno) => return Err(Error::os("waitpid")(errno)),
        });
        Ok(burial::bury(&self.context, rank as u32)?)
    }

    fn forward(&mut self, rank: usize, stream: usize, sink: &mut dyn FnMut(usize, Stream, &[u8])) {
        let mut bytes = [0; 64 << 10];
        let Some(pipe) = &self.children[rank].pipes[stream] else { return };
        let kind = if stream == 0 { Stream::Out } else { Stream::Err };
        let mixer = &mut self.mixers[stream];
        match read(pipe, &mut bytes) {
            Ok(0) | Err(_) => {
                self.children[rank].pipes[stream] = None;
                mixer.finish(rank, |lines| sink(rank, kind, lines));
            }
            Ok(n) => mixer.push(rank, &bytes[..n], |lines| sink(rank, kind, lines)),
        }
    }

    /// Runs until every process has ended and all their output was forwarded.
    pub(crate) fn finish(&mut self, sink: &mut dyn FnMut(usize, Stream, &[u8])) -> Result<()> {
        while self.any_running() {
            self.step(None, None, sink)?;
        }
        self.drain(sink)
    }

    /// Forwards what the ended processes left in their pipes. Does not wait for strangers that
    /// hold a pipe open.
    pub(crate) fn drain(&mut self, sink: &mut dyn FnMut(usize, Stream, &[u8])) -> Result<()> {
        loop {
            let fds: Vec<_> = self.open_pipes().map(|(_, _, fd)| fd).collect();
            let mut fds: Vec<_> =
                fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
            if fds.is_empty() || poll(&mut fds, PollTimeout::ZERO).map_err(Error::os("poll"))? == 0
            {
                break;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            drop(fds);
            let which: Vec<_> = self.open_pipes().map(|(rank, stream, _)| (rank, stream)).collect();
            let mut forwarded = false;
            for ((rank, stream), _) in which.into_iter().zip(ready).filter(|&(_, ready)| ready) {
                if self.mixers[stream].ready(rank) {
                    forwarded = true;
                    self.forward(rank, stream, sink);
                }
            }
            if !forwarded {
                // All that is there waits for the end of a line that will never end.
                for rank in 0..self.children.len() {
                    for (stream, kind) in [(0, Stream::Out), (1, Stream::Err)] {
                        if self.mixers[stream].is_open(rank) {
                            self.mixers[stream].finish(rank, |rest| sink(rank, kind, rest));
                        }
                    }
                }
            }
        }
        for rank in 0..self.children.len() {
            for (stream, kind) in [(0, Stream::Out), (1, Stream::Err)] {
                self.mixers[stream].finish(rank, |rest| sink(rank, kind, rest));
            }
        }
        Ok(())
    }

    fn open_pipes(&self) -> impl Iterator<Item = (usize, usize, BorrowedFd<'_>)> {
        self.children.iter().enumerate().flat_map(|(rank, child)| {
            child
                .pipes
                .iter()
                .enumerate()
                .filter_map(move |(stream, pipe)| Some((rank, stream, pipe.as_ref()?.as_fd())))
        })
    }

    pub(crate) fn any_running(&self) -> bool {
        self.children.iter().any(|child| child.ending.is_none())
    }

    pub(crate) fn ending(&self, rank: usize) -> Option<Ending> {
        self.children.get(rank)?.ending
    }

    /// Sends a signal to every process that still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        for child in self.children.iter().filter(|child| child.ending.is_none()) {
            // Not reaped yet, so that the number is still this child's.
            let _ = kill(child.pid, signal);
        }
    }

    /// Whether a rank ever entered the world.
    pub(crate) fn entered(&self, rank: usize) -> bool {
        self.context.rank(rank as u32).is_ok_and(|control| control.pid.load(Ordering::Relaxed) != 0)
    }

    /// Whether a rank's code came to an end by itself.
    pub(crate) fn finished(&self, rank: usize) -> bool {
        self.context.rank(rank as u32).is_ok_and(|c| c.state() == RankState::Finished)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        for child in self.children.iter().filter(|child| child.ending.is_none()) {
            let _ = waitpid(child.pid, None);
        }
    }
}

pub(crate) const HEAP_ONLY: &str = "a world on the heap can have no process ranks";

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(Error::os("pipe2"))?;
    Ok((read, move_up(write.as_fd())?))
}

/// The same file under a number that `dup2` in the child can't overwrite.
fn move_up(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    let moved = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(ABOVE)).map_err(Error::os("fcntl"))?;
    // SAFETY: fcntl has just made the descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

fn pidfd_open(pid: Pid) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = Errno::result(fd).map_err(Error::os("pidfd_open"))?;
    // SAFETY: the call has just made the descriptor (with close-on-exec), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
