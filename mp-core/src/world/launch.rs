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
        unix::{ffi::OsStrExt, fs::MetadataExt},
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
        stat::{Mode, fstat},
    },
    unistd::{Pid, pipe2, read},
};

use super::{
    burial, outcome,
    output::LineMixer,
    site::{Call, Past},
    summons::{LIFE_FD, OUTPUT_FD, SEGMENT_FD, VARIABLE},
};
use crate::{
    context::Context,
    error::{Cause, Error, Result},
    segment::{BlockKey, BlockKind, Root},
    sync::Ordering,
    wait::WaitPolicy,
};

/// The launcher's own descriptors are moved here or further up, away from those that ranks find theirs
/// under.
const ABOVE: RawFd = 8;

/// What a rank must know before it can enter the world; lies in the segment.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Briefing {
    /// The call of `run` that is meant; none under a launcher that knows nothing of the program.
    pub(crate) call: Option<Call>,
    /// It was made in a test, of the name of the call's thread.
    pub(crate) test: bool,
    /// Take the first call at that place: the program was given other arguments.
    pub(crate) any_call: bool,
    /// What earlier calls returned.
    pub(crate) past: Vec<Past>,
    /// How ranks wait; as the program says under a launcher that leaves it open.
    pub(crate) policy: Option<Policy>,
    /// Threads that can run at the same time.
    pub(crate) cores: u32,
    /// By rank: the CPU it is bound to.
    pub(crate) cpus: Vec<Option<usize>>,
    /// How many files a rank may open, where the launcher may open more.
    pub(crate) open_files: Option<u64>,
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

impl Stream {
    fn index(self) -> usize {
        self as usize
    }
}

/// Takes the ranks' output: from which rank, of which stream, one or more whole lines (or a piece
/// of a very long one).
pub type Sink<'a> = &'a mut dyn FnMut(usize, Stream, &[u8]);

/// How a rank's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// In a way that nobody saw: this process ignores its children's ends (`SIGCHLD`).
    Unseen,
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

/// A pipe between a launcher and its ranks, of which each opens the reading end for itself. The
/// kernel ends whoever reads when the launcher ends, in whatever way and whoever's child it is.
#[derive(Debug)]
struct Life {
    read: OwnedFd,
    write: OwnedFd,
}

impl Life {
    fn new() -> Result<Self> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(Error::os("pipe2"))?;
        Ok(Self { read: move_up(read.as_fd())?, write })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Tells the end of the world from a launcher's death: see `summons`.
        let _ = nix::unistd::write(&self.write, &[0]);
    }
}

#[derive(Debug)]
struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    ending: Option<Ending>,
    /// What its code returned or panicked with, if the process ended badly.
    last_words: Option<Cause>,
    /// Standard output and standard error.
    pipes: [Option<OwnedFd>; 2],
}

/// The processes of one world. Dropping it ends those that still run.
#[derive(Debug)]
pub(crate) struct Processes {
    pub(crate) context: Context,
    children: Vec<Child>,
    /// Ranks die when nothing can write to it any more.
    life: Life,
    mixers: [LineMixer; 2],
    /// The first rank whose process ended badly, and the rank whose code had failed before that.
    first_failed: Option<(usize, Option<u32>)>,
}

/// What a sleep until something happens was ended by.
#[derive(Debug, Default)]
pub struct Seen {
    /// Ranks whose processes ended.
    pub ended: Vec<usize>,
    /// By index: whether the descriptor to wake up for is readable.
    pub woken: Vec<bool>,
}

impl Processes {
    /// Starts a process for every rank of the world.
    pub(crate) fn start(context: Context, program: &Program) -> Result<Self> {
        let size = context.size();
        let mixers = [LineMixer::new(size), LineMixer::new(size)];
        let life = Life::new()?;
        let mut processes =
            Self { context, children: Vec::new(), life, mixers, first_failed: None };
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
        // Opened anew by the process itself, so that the signals of this file are its own.
        let life = format!("/proc/self/fd/{}", self.life.read.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        act(actions.add_open(LIFE_FD, Path::new(&life), flags, Mode::empty()))?;
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
                let source = io::Error::from(errno);
                let text = format!("{}: {source}", program.path.display());
                let source = io::Error::new(source.kind(), text);
                Error::Os { call: "starting the program", source }
            })?;
        let pidfd = pidfd_open(pid).inspect_err(|_| {
            let _ = kill(pid, Signal::SIGKILL);
            wait_for(pid);
        })?;
        let errors = program.capture_errors.then_some(err_read);
        let pipes = [Some(out_read), errors];
        Ok(Child { pid, pidfd, ending: None, last_words: None, pipes })
    }

    /// Sleeps until something happens, forwards output, and buries the dead. Without a sink, the
    /// ranks' output stays where it is.
    pub(crate) fn step(
        &mut self,
        wake: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
        sink: Option<Sink<'_>>,
    ) -> Result<Seen> {
        enum What {
            Wake(usize),
            Pid(usize),
            Pipe,
        }
        let mut whats = Vec::new();
        let mut fds = Vec::new();
        for (index, fd) in wake.iter().enumerate() {
            whats.push(What::Wake(index));
            fds.push(PollFd::new(*fd, PollFlags::POLLIN));
        }
        for (rank, child) in self.children.iter().enumerate() {
            if child.ending.is_none() {
                whats.push(What::Pid(rank));
                fds.push(PollFd::new(child.pidfd.as_fd(), PollFlags::POLLIN));
            }
        }
        if sink.is_some() {
            for (_, _, pipe) in self.open_pipes() {
                whats.push(What::Pipe);
                fds.push(PollFd::new(pipe, PollFlags::POLLIN));
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
        let mut seen = Seen { woken: vec![false; wake.len()], ended: Vec::new() };
        let mut output = false;
        // The dead first: survivors wait for this.
        for (what, _) in whats.iter().zip(&ready).filter(|&(_, &ready)| ready) {
            match *what {
                What::Wake(index) => seen.woken[index] = true,
                What::Pid(rank) => {
                    self.reap(rank)?;
                    seen.ended.push(rank);
                }
                What::Pipe => output = true,
            }
        }
        if let Some(sink) = sink.filter(|_| output) {
            self.forward(sink)?;
        }
        Ok(seen)
    }

    fn reap(&mut self, rank: usize) -> Result<()> {
        let ending = wait_for(self.children[rank].pid);
        self.end_claimer(rank)?;
        let child = &mut self.children[rank];
        child.ending = Some(ending);
        if ending != Ending::Exited(0) {
            // Before the burial, which makes others fail and forgets what is left behind. The
            // type of good results is the program's affair; a bad one looks the same for all.
            let posted = outcome::read::<()>(&self.context, rank as u32);
            child.last_words = posted.ok().flatten().and_then(std::result::Result::err);
            let code_failed = self.context.world()?.first_failed();
            self.first_failed.get_or_insert((rank, code_failed));
        }
        Ok(burial::bury(&self.context, rank as u32)?)
    }

    /// Ends the process that is the rank, where it is not the one that was started but one that
    /// this had started, and still runs: a rank is buried only when nothing of it runs.
    fn end_claimer(&self, rank: usize) -> Result<()> {
        let pid = self.context.rank(rank as u32)?.claimed.load(Ordering::Relaxed);
        let pid = Pid::from_raw(pid as i32);
        if pid.as_raw() <= 0 || pid == self.children[rank].pid {
            return Ok(());
        }
        // By pidfd, so that it is the one that was looked at.
        let Ok(pidfd) = pidfd_open(pid) else { return Ok(()) };
        if self.has_world(pid) {
            let _ = send_signal(&pidfd, Signal::SIGKILL as i32);
            let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
            while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
        }
        Ok(())
    }

    /// Whether this process has the world's memory open: numbers in a segment may be anything.
    fn has_world(&self, pid: Pid) -> bool {
        let Some(Ok(segment)) = self.context.segment.fd().map(fstat) else { return false };
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::metadata(entry.path()).ok())
            .any(|file| (file.dev(), file.ino()) == (segment.st_dev, segment.st_ino))
    }

    /// Forwards what is there; whether there was anything.
    fn forward(&mut self, sink: Sink<'_>) -> Result<bool> {
        // What rank 0 says after a call of `run` is often about what the others did in it. So its
        // output is taken out first, and handed on last if it may come from after a call: all
        // that the others had said before is there by then.
        let mut first = Vec::new();
        for (rank, stream) in self.readable_pipes()? {
            if rank == 0 {
                first.push((stream, self.take_output(rank, stream)));
            }
        }
        let any_first = !first.is_empty();
        let after_a_call = self.context.rank(0)?.left.load(Ordering::Relaxed) > 0;
        if !after_a_call {
            for (stream, bytes) in first.drain(..) {
                self.hand_on(0, stream, &bytes, sink);
            }
        }
        let others = self.readable_pipes()?;
        let any = any_first || !others.is_empty();
        for (rank, stream) in others.into_iter().filter(|&(rank, _)| rank != 0) {
            let bytes = self.take_output(rank, stream);
            self.hand_on(rank, stream, &bytes, sink);
        }
        for (stream, bytes) in first {
            self.hand_on(0, stream, &bytes, sink);
        }
        Ok(any)
    }

    /// The pipes whose output should be taken, and that have some or have ended.
    fn readable_pipes(&self) -> Result<Vec<(usize, Stream)>> {
        let (which, mut fds): (Vec<_>, Vec<_>) = self
            .open_pipes()
            .map(|(rank, stream, fd)| ((rank, stream), PollFd::new(fd, PollFlags::POLLIN)))
            .unzip();
        match poll(&mut fds, PollTimeout::ZERO) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::os("poll")(errno)),
        }
        let ready = fds.iter().map(|fd| fd.any().unwrap_or(false));
        Ok(which.into_iter().zip(ready).filter(|&(_, ready)| ready).map(|(pipe, _)| pipe).collect())
    }

    /// Reads from a pipe that is readable; nothing, and the pipe is closed, if it has ended.
    fn take_output(&mut self, rank: usize, stream: Stream) -> Vec<u8> {
        let mut bytes = vec![0; 64 << 10];
        let pipe = &mut self.children[rank].pipes[stream.index()];
        let len = pipe.as_ref().and_then(|pipe| read(pipe, &mut bytes).ok()).unwrap_or(0);
        if len == 0 {
            *pipe = None;
        }
        bytes.truncate(len);
        bytes
    }

    fn hand_on(&mut self, rank: usize, stream: Stream, bytes: &[u8], sink: Sink<'_>) {
        let mixer = &mut self.mixers[stream.index()];
        if bytes.is_empty() {
            mixer.finish(rank, |source, lines| sink(source, stream, lines));
        } else {
            mixer.push(rank, bytes, |source, lines| sink(source, stream, lines));
        }
    }

    /// Runs until every process has ended and all their output was forwarded. `sink` returns
    /// whether it takes more: after the first refusal, ranks that print see a broken pipe, as they
    /// would without a launcher in between. Kills them when `stop` is readable.
    pub(crate) fn finish(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        sink: &mut dyn FnMut(usize, Stream, &[u8]) -> bool,
    ) -> Result<()> {
        let mut open = true;
        while self.any_running() {
            let mut sink =
                |rank: usize, stream: Stream, bytes: &[u8]| open &= sink(rank, stream, bytes);
            let seen = self.step(stop.as_slice(), None, Some(&mut sink))?;
            if seen.woken == [true] {
                self.signal(Signal::SIGKILL as i32);
            }
            if !open {
                self.close_output(Stream::Out);
                self.close_output(Stream::Err);
            }
        }
        self.drain(&mut |rank, stream, bytes| {
            sink(rank, stream, bytes);
        })
    }

    /// Forwards what the ended processes left in their pipes. Neither waits for strangers that
    /// hold a pipe open, nor listens to them for ever.
    pub(crate) fn drain(&mut self, sink: Sink<'_>) -> Result<()> {
        // A pipe holds at most 1 MiB (fs.pipe-max-size), of which each round takes 64 KiB; and in
        // between a pipe may have to wait until another one's line is over.
        let rounds = 17 * (1 + self.children.len());
        for _ in 0..rounds {
            if self.forward(sink)? {
                continue;
            }
            // A line that will not go on keeps others back no longer.
            let mut any = false;
            for stream in [Stream::Out, Stream::Err] {
                let mixer = &mut self.mixers[stream.index()];
                if let Some(rank) = mixer.open() {
                    any = true;
                    mixer.finish(rank, |source, lines| sink(source, stream, lines));
                }
            }
            if !any {
                break;
            }
        }
        for rank in 0..self.children.len() {
            for stream in [Stream::Out, Stream::Err] {
                let mixer = &mut self.mixers[stream.index()];
                mixer.finish(rank, |source, lines| sink(source, stream, lines));
            }
        }
        Ok(())
    }

    /// The pipes whose output should be taken: not while it would have to wait for the end of
    /// another rank's line.
    fn open_pipes(&self) -> impl Iterator<Item = (usize, Stream, BorrowedFd<'_>)> {
        self.children.iter().enumerate().flat_map(move |(rank, child)| {
            let streams = [Stream::Out, Stream::Err].into_iter();
            streams.filter(move |stream| self.mixers[stream.index()].ready(rank)).filter_map(
                move |stream| Some((rank, stream, child.pipes[stream.index()].as_ref()?.as_fd())),
            )
        })
    }

    pub(crate) fn any_running(&self) -> bool {
        self.children.iter().any(|child| child.ending.is_none())
    }

    pub(crate) fn ending(&self, rank: usize) -> Option<Ending> {
        self.children.get(rank)?.ending
    }

    /// Stops listening to the ranks' output: who writes more gets an error or `SIGPIPE`.
    pub(crate) fn close_output(&mut self, stream: Stream) {
        for child in &mut self.children {
            child.pipes[stream.index()] = None;
        }
    }

    /// Sends a signal to every process that still runs.
    pub(crate) fn signal(&self, signal: i32) {
        for child in self.children.iter().filter(|child| child.ending.is_none()) {
            // It may be ending at this moment, and needs no signal then.
            let _ = send_signal(&child.pidfd, signal);
        }
    }

    /// Whether a rank ever entered the world.
    pub(crate) fn entered(&self, rank: usize) -> bool {
        self.context.rank(rank as u32).is_ok_and(|control| control.pid.load(Ordering::Relaxed) != 0)
    }

    /// See [`Launched::failure`](super::Launched::failure).
    pub(crate) fn failure(&self) -> Option<(usize, Cause)> {
        let (first, code_failed) = self.first_failed?;
        let blamed = code_failed.map(|rank| rank as usize);
        if let Some(rank) = blamed
            && let Some(child) = self.children.get(rank)
        {
            match child.ending? {
                // The program has mended that failure.
                Ending::Exited(0) => {}
                ending => return Some((rank, child.last_words.clone().unwrap_or(ending.into()))),
            }
        }
        Some((first, self.ending(first)?.into()))
    }

    pub(crate) fn first_failed(&self) -> Option<usize> {
        self.first_failed.map(|(rank, _)| rank)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL as i32);
        for child in self.children.iter().filter(|child| child.ending.is_none()) {
            wait_for(child.pid);
        }
    }
}

pub(crate) const HEAP_ONLY: &str = "a world on the heap can have no process ranks";

/// How the child ended, when it has. Any signal has a number, also those that `nix` has no name
/// for.
fn wait_for(pid: Pid) -> Ending {
    use nix::libc::{WEXITSTATUS, WIFEXITED, WIFSIGNALED, WTERMSIG, waitpid};
    let mut status = 0;
    loop {
        // SAFETY: `status` is alive for the call.
        match Errno::result(unsafe { waitpid(pid.as_raw(), &mut status, 0) }) {
            Ok(_) if WIFEXITED(status) => return Ending::Exited(WEXITSTATUS(status)),
            Ok(_) if WIFSIGNALED(status) => return Ending::Killed(WTERMSIG(status)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Ending::Unseen,
        }
    }
}

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

fn send_signal(pidfd: &OwnedFd, signal: i32) -> nix::Result<()> {
    // SAFETY: no pointer but a null one.
    let sent = unsafe {
        let (fd, null) = (pidfd.as_raw_fd(), std::ptr::null::<nix::libc::siginfo_t>());
        nix::libc::syscall(nix::libc::SYS_pidfd_send_signal, fd, signal, null, 0)
    };
    Errno::result(sent).map(drop)
}

fn pidfd_open(pid: Pid) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = Errno::result(fd).map_err(Error::os("pidfd_open"))?;
    // SAFETY: the call has just made the descriptor (with close-on-exec), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
