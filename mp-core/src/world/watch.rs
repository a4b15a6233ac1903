//! The processes of a world, and the thread that starts, watches and buries them.
//!
//! That thread is the parent of all ranks and does nothing else. It sleeps in `poll` on the ranks' pidfds, so that the
//! other ranks are told of a rank's death within the time of one wake-up, whatever the threads of the program do
//! meanwhile. The library uses a thread of its own because ranks die with the thread that started them
//! (`PR_SET_PDEATHSIG`), and a thread of the program may end sooner.
//!
//! Other threads of the launcher read the ranks' output (`pump.rs`), and the caller's thread, or a thread of `mprun`,
//! prints it. So a slow reader of the output does not delay the news of a death.

use std::{
    collections::BTreeMap,
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::Sender;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        signal::Signal,
        stat::fstat,
    },
    unistd::Pid,
};

use super::{
    burial,
    dumps::Dumps,
    family::{Family, put_family},
    launch::{self, Ending, Life, Program, Stream, pidfd_open, send_signal, wait_for},
    limits, outcome,
    pump::{Outlet, Over, Pump, Running},
    spawn::{self, Answer, Command, Names, Request},
    turn::come_soon,
};
use crate::{
    context::{Context, MAX_RANKS, RankState},
    error::{Cause, Error, ErrorKind, Result},
    sync::Ordering,
};

/// The processes of one world. Dropping it ends those that still run, and leaves nothing of the world in this process:
/// no threads, descriptors or memory.
#[derive(Debug)]
pub(crate) struct Processes {
    pub(crate) context: Arc<Context>,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

/// The state that the watching thread shares with other threads.
#[derive(Debug)]
pub(super) struct Shared {
    /// The first rank that this launcher starts.
    first: usize,
    state: Mutex<State>,
    /// Becomes readable when the state has changed.
    news: EventFd,
    /// The threads that read the ranks' output.
    pumps: Mutex<Vec<JoinHandle<Result<()>>>>,
}

#[derive(Debug, Default)]
struct State {
    /// The processes of the ranks from the first on.
    children: Vec<Child>,
    /// The first rank whose process ended badly, and the rank whose code had failed first at that time, if any.
    first_failed: Option<(u32, Option<u32>)>,
    /// How the code of ranks of other nodes failed, if it did when it ended the last time.
    words_elsewhere: BTreeMap<u32, Cause>,
    /// Whether ranks were sent a signal that ends them, so that no more are started.
    is_ending: bool,
    /// The error because of which the watching thread could not continue.
    failed: Option<Error>,
}

#[derive(Clone, Debug, Default)]
struct Child {
    /// `None` for a process that was gone at once, or that has ended.
    pidfd: Option<Arc<OwnedFd>>,
    ending: Option<Ending>,
    /// The error or the panic of its code, if the process ended badly.
    last_words: Option<Cause>,
    /// Whether the process has crashed and its core is being written.
    is_dumped: bool,
    /// Whether it is of no account how the process ends, because others could not be started beside it.
    is_called_off: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock does no harm, because no change of the state can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of a rank's process, if this launcher has started it.
    fn child(&self, rank: usize) -> Option<Child> {
        self.state().children.get(rank.checked_sub(self.first)?).cloned()
    }

    /// Changes what is known of the process of a rank that this launcher has started.
    fn change(&self, rank: usize, change: impl FnOnce(&mut Child)) {
        change(&mut self.state().children[rank - self.first]);
    }

    fn pidfd(&self, rank: usize) -> Option<Arc<OwnedFd>> {
        self.child(rank)?.pidfd
    }

    /// Returns the first rank whose process ended badly, and the rank whose code had failed first at that time, if any.
    pub(super) fn first_failed(&self) -> Option<(u32, Option<u32>)> {
        self.state().first_failed
    }

    /// Notes that a rank's process has ended badly, unless another one has before.
    pub(super) fn note_failed(&self, failed: (u32, Option<u32>)) {
        self.state().first_failed.get_or_insert(failed);
    }

    fn pumps(&self) -> MutexGuard<'_, Vec<JoinHandle<Result<()>>>> {
        self.pumps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill_all(&self) {
        for pidfd in self.state().children.iter().filter_map(|child| child.pidfd.as_ref()) {
            send_signal(pidfd.as_fd(), Signal::SIGKILL as i32);
        }
    }

    /// Notes how the code of a rank of another node has ended.
    pub(super) fn note_words(&self, rank: u32, failure: Option<Cause>) {
        let words = &mut self.state().words_elsewhere;
        match failure {
            Some(cause) => words.insert(rank, cause),
            None => words.remove(&rank),
        };
    }

    /// Wakes the thread that waits for news of the ranks.
    pub(super) fn tell(&self) {
        // This fails only after some 2^64 writes that nobody has read.
        let _ = self.news.write(1);
    }
}

fn eventfd() -> Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
        .map_err(Error::os("eventfd"))
}

fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<Vec<bool>> {
    let timeout = match timeout {
        None => PollTimeout::NONE,
        Some(t) => PollTimeout::try_from(t.as_micros().div_ceil(1000).min(i32::MAX as u128))
            .unwrap_or(PollTimeout::MAX),
    };
    match poll(fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(Error::os("poll")(errno)),
    }
    Ok(fds.iter().map(|fd| fd.any().unwrap_or(false)).collect())
}

impl Processes {
    /// Starts a process for every rank of the world. Their standard output goes to `out`, and their standard error to
    /// `err` if the program says so. They are killed when `stop` is readable.
    pub(crate) fn start(
        context: Context,
        program: Program,
        out: Outlet,
        err: Outlet,
        stop: Option<OwnedFd>,
    ) -> Result<Self> {
        let context = Arc::new(context);
        let first = context.here().start as usize;
        let shared = Arc::new(Shared {
            first,
            state: Mutex::default(),
            news: eventfd()?,
            pumps: Mutex::default(),
        });
        let bell = eventfd()?;
        let (running, over) = Running::new()?;
        let (started, result) = crossbeam_channel::bounded(1);
        let watch = Watch {
            context: Arc::clone(&context),
            shared: Arc::clone(&shared),
            life: Life::new()?,
            bell,
            stop,
            running,
            outlets: Outlets { out, err, over },
            pids: Vec::new(),
            first,
            names: Names::default(),
        };
        let thread_failed =
            |source| Error::from(ErrorKind::Os { call: "starting a thread", source });
        let watcher = std::thread::Builder::new()
            .name("onchip launcher".to_owned())
            .spawn(move || watch.run(&program, &started))
            .map_err(thread_failed)?;
        let processes = Self { context, shared, watcher: Some(watcher) };
        result.recv().unwrap_or_else(|_| Err(watcher_panicked()))?;
        Ok(processes)
    }

    /// Sleeps until a rank ends, or its code fails, or one of `wake` is readable, or `timeout` has expired. Returns for
    /// each of `wake` whether it is readable.
    pub(crate) fn step(
        &self,
        wake: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Vec<bool>> {
        let fds = std::iter::once(self.shared.news.as_fd()).chain(wake.iter().copied());
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let ready = wait(&mut fds, timeout)?;
        if ready[0] {
            let _ = self.shared.news.read();
        }
        self.shared.state().failed.take().map_or(Ok(ready[1..].to_vec()), Err)
    }

    /// Waits until all processes and all threads of this world have ended. Output that is not taken yet is kept for its
    /// reader.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let watched = self.watcher.take().map_or(Ok(()), JoinHandle::join);
        // All threads are joined, even if one of them has failed.
        let pumps = std::mem::take(&mut *self.shared.pumps());
        let pumped: Vec<_> = pumps.into_iter().map(JoinHandle::join).collect();
        watched.map_err(|_| watcher_panicked())?;
        for pumped in pumped {
            pumped.map_err(|_| {
                Error::from(ErrorKind::BadWorld("the output's thread panicked".into()))
            })??;
        }
        self.shared.state().failed.take().map_or(Ok(()), Err)
    }

    /// Returns whether the process of any rank runs, on whatever node.
    pub(crate) fn any_running(&self) -> bool {
        self.shared.state().children.iter().any(|child| child.ending.is_none())
            || self.context.elsewhere().any(|rank| !self.context.dead(rank))
    }

    /// Returns the ranks that this launcher has started.
    pub(crate) fn here(&self) -> Range<usize> {
        let first = self.shared.first;
        first..first + self.shared.state().children.len()
    }

    /// Returns what the thread that watches the ranks shares with others.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn ending(&self, rank: usize) -> Option<Ending> {
        if self.is_elsewhere(rank) {
            let control = self.context.rank(rank as u32).ok()?;
            return Ending::from_word(control.ending.load(Ordering::Relaxed));
        }
        self.shared.child(rank)?.ending
    }

    fn is_elsewhere(&self, rank: usize) -> bool {
        rank < self.context.size() && !self.context.is_here(rank as u32)
    }

    /// Sends a signal to the rank's process, if it still runs.
    pub(crate) fn signal(&self, rank: usize, signal: i32) {
        self.shared.state().is_ending |=
            [Signal::SIGTERM, Signal::SIGKILL].map(|one| one as i32).contains(&signal);
        // A signal would cut off a core dump.
        let running = self.ending(rank).is_none() && !self.is_dumped(rank);
        if let Some(pidfd) = self.shared.pidfd(rank).filter(|_| running) {
            send_signal(pidfd.as_fd(), signal);
        }
    }

    /// Returns whether a rank ever entered the world. Those of other nodes are taken to have.
    pub(crate) fn entered(&self, rank: usize) -> bool {
        self.is_elsewhere(rank)
            || self
                .context
                .rank(rank as u32)
                .is_ok_and(|control| control.pid.load(Ordering::Relaxed) != 0)
    }

    /// See [`Launched::failing`](super::Launched::failing).
    pub(crate) fn failing(&self) -> Option<(u32, usize)> {
        let (round, rank) = self.context.world().ok()?.failing()?;
        Some((round, rank as usize))
    }

    /// See [`Launched::awaits_others`](super::Launched::awaits_others).
    pub(crate) fn awaits_others(&self, rank: usize) -> bool {
        let (Ok(world), Ok(control)) = (self.context.world(), self.context.rank(rank as u32))
        else {
            return false;
        };
        let left = control.left.load(Ordering::Relaxed);
        left == world.rounds.load(Ordering::Relaxed) && control.state().ended()
    }

    /// Returns the failure of the rank's code, if it has failed.
    pub(crate) fn last_words(&self, rank: usize) -> Option<Cause> {
        if self.is_elsewhere(rank) {
            return self.shared.state().words_elsewhere.get(&(rank as u32)).cloned();
        }
        if let Some(Child { ending: Some(_), last_words, .. }) = self.shared.child(rank) {
            return last_words;
        }
        // The heap's lock is held, because the rank may otherwise go on and free its outcome.
        let _kept = self.context.lock_heap().ok()?;
        outcome::read::<()>(&self.context, rank as u32).ok()??.err()
    }

    /// See [`Launched::failure`](super::Launched::failure).
    pub(crate) fn failure(&self, now: bool) -> Option<(usize, Cause)> {
        let (first, code_failed) = self.shared.first_failed()?;
        let first = first as usize;
        let blamed = code_failed.map(|rank| rank as usize).filter(|&rank| rank != first);
        if let Some(rank) = blamed.filter(|&rank| rank < self.context.begun() as usize) {
            match (self.ending(rank), self.last_words(rank)) {
                // The program has recovered from that failure.
                (Some(Ending::Exited(0)), _) => {}
                (Some(ending), words) => return Some((rank, words.unwrap_or(ending.into()))),
                (None, _) if !now || self.is_dumped(rank) => return None,
                (None, Some(words)) => return Some((rank, words)),
                (None, None) => {}
            }
        }
        let words = self.last_words(first).filter(|_| code_failed == Some(first as u32));
        Some((first, words.unwrap_or(self.ending(first)?.into())))
    }

    fn is_dumped(&self, rank: usize) -> bool {
        self.shared.child(rank).is_some_and(|child| child.is_dumped)
    }

    pub(crate) fn first_failed(&self) -> Option<usize> {
        self.shared.first_failed().map(|(rank, _)| rank as usize)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if self.watcher.is_some() {
            self.shared.kill_all();
        }
        let _ = self.finish();
    }
}

fn watcher_panicked() -> Error {
    Error::from(ErrorKind::BadWorld("the thread that watches the ranks panicked".to_owned()))
}

/// The watching thread's own state.
struct Watch {
    context: Arc<Context>,
    shared: Arc<Shared>,
    /// The pipe by which the ranks die when no process can write to it any more.
    life: Life,
    /// The bell that ranks ring when their code has failed.
    bell: EventFd,
    /// If this is readable, all ranks are killed.
    stop: Option<OwnedFd>,
    /// Dropped to tell the pumps that the ranks have ended.
    running: Running,
    outlets: Outlets,
    /// The processes of the ranks from `first` on.
    pids: Vec<Pid>,
    first: usize,
    names: Names,
}

/// Where the ranks' output goes: standard output, and standard error if it is captured.
struct Outlets {
    out: Outlet,
    err: Outlet,
    over: Over,
}

impl Watch {
    fn run(mut self, program: &Program, started: &Sender<Result<()>>) {
        come_soon();
        let ranks = self.context.here().len();
        let spawned = self.spawn_all(&[(program, ranks)]);
        let failed = spawned.is_err();
        if failed {
            self.end_all();
        }
        let _ = started.send(spawned);
        if failed {
            return;
        }
        if let Err(error) = self.watch(program.capture_errors) {
            self.shared.state().failed = Some(error);
            self.end_all();
        }
        drop(self.running);
        self.shared.tell();
    }

    /// Returns the number of the rank that is started next.
    fn next(&self) -> usize {
        self.first + self.pids.len()
    }

    fn pid(&self, rank: usize) -> Pid {
        self.pids[rank - self.first]
    }

    /// Starts these programs, each as so many ranks, and the threads that read their output.
    fn spawn_all(&mut self, programs: &[(&Program, usize)]) -> Result<()> {
        let first = self.next();
        let size = programs.iter().map(|(_, ranks)| ranks).sum();
        let programs =
            programs.iter().flat_map(|&(program, ranks)| (0..ranks).map(move |_| program));
        let (mut outs, mut errs) = (Vec::new(), Vec::new());
        for (place, program) in programs.enumerate() {
            let (rank, places) = (first + place, (place, size));
            let spawned =
                launch::spawn(&self.context, rank, places, program, &self.life, &self.bell)?;
            self.pids.push(spawned.pid);
            let pidfd = spawned.pidfd.map(Arc::new);
            self.shared.state().children.push(Child { pidfd, ..Child::default() });
            outs.push(spawned.out);
            errs.extend(spawned.err);
        }
        let Outlets { out, err, over } = &self.outlets;
        for (stream, pipes, to) in [(Stream::Out, outs, out), (Stream::Err, errs, err)] {
            if !pipes.is_empty() {
                let (context, to) = (Arc::clone(&self.context), to.clone());
                let pump = Pump::start(context, stream, (first, pipes), to, over.clone())?;
                self.shared.pumps().push(pump);
            }
        }
        Ok(())
    }

    /// Does what ranks have asked for.
    fn serve(&mut self, capture_errors: bool) -> Result<()> {
        while let Some((rank, request)) = spawn::next_request(&self.context)? {
            if self.context.dead(rank) {
                continue;
            }
            let answer = match request {
                Request::Names(_) if self.context.nodes() > 1 => {
                    let why = "names can't be published or looked up in a world of several nodes";
                    Answer::Refused(why.to_owned())
                }
                Request::Names(request) => Answer::Value(self.names.answer(request)),
                Request::Start(commands, number) => {
                    match self.start_more((rank, number), &commands, capture_errors) {
                        Ok(first) => Answer::Started(first as u32),
                        Err(error) => Answer::Refused(error.to_string()),
                    }
                }
            };
            spawn::answer(&self.context, rank, &answer)?;
        }
        Ok(())
    }

    /// Starts further ranks for a rank, which gives them a number. Returns the first of them.
    fn start_more(
        &mut self,
        (parent, number): (u32, u32),
        commands: &[Command],
        capture_errors: bool,
    ) -> Result<usize> {
        if self.context.is_divided() {
            let why = "a world of several nodes can't have further ranks: start the program by mprun without --nodes";
            return Err(spawn::refused(why.to_owned()));
        }
        let first = self.next();
        let ranks: u64 = commands.iter().map(|command| u64::from(command.ranks())).sum();
        let free = self.context.room() - first;
        if ranks > free as u64 {
            let why = format!(
                "{ranks} more ranks were asked for, and the world has room for {free}: mprun --spare N makes room for N, up to \
                 {MAX_RANKS} ranks in all"
            );
            return Err(spawn::refused(why));
        }
        self.check_ending()?;
        let programs: Result<Vec<_>> = commands
            .iter()
            .map(|command| {
                let (path, name) = (command.file()?, command.name().to_owned());
                let folder = Some(PathBuf::from(command.in_folder()));
                let args = command.args();
                Ok(Program { path, name, args, folder, capture_errors, any_program: true })
            })
            .collect();
        let programs = programs?;
        let open_files = limits::make_room_for(ranks as usize)?;
        let sizes: Vec<_> = commands.iter().map(|command| command.ranks() as usize).collect();
        let parent = Some(parent as usize);
        let family = Family { first, programs: sizes.clone(), parent, number, open_files };
        put_family(&self.context, &family)?;
        self.context.begin_more(ranks as u32)?;
        let programs: Vec<_> = programs.iter().zip(sizes).collect();
        // Ranks that were sent a signal while these were started may not have got theirs.
        let started = self.spawn_all(&programs).and_then(|()| self.check_ending());
        started.map(|()| first).inspect_err(|_| self.call_off(first))
    }

    /// Returns an error if the ranks are to end.
    fn check_ending(&self) -> Result<()> {
        match self.shared.state().is_ending {
            true => Err(spawn::refused("the ranks of the world are being ended".to_owned())),
            false => Ok(()),
        }
    }

    /// Kills the ranks from this one on, which are not all there that belong together, and has the numbers of those that
    /// are missing used up.
    fn call_off(&mut self, first: usize) {
        let ended = Some(Ending::Exited(0));
        let mut state = self.shared.state();
        for child in &mut state.children[first - self.first..] {
            child.is_called_off = true;
            if let Some(pidfd) = &child.pidfd {
                send_signal(pidfd.as_fd(), Signal::SIGKILL as i32);
            }
        }
        for rank in self.next()..self.context.begun() as usize {
            state.children.push(Child { ending: ended, ..Child::default() });
            // No process has this number.
            self.pids.push(Pid::from_raw(0));
            // An error means that the memory is broken, which everything else reports.
            let _ = burial::bury(&self.context, rank as u32);
        }
    }

    fn running(&self) -> Vec<usize> {
        let state = self.shared.state();
        let running = |rank: &usize| state.children[rank - self.first].ending.is_none();
        (self.first..self.next()).filter(running).collect()
    }

    /// Buries each rank that ends, until all have ended.
    fn watch(&mut self, capture_errors: bool) -> Result<()> {
        let mut dumps = Dumps::of(self.context.room());
        loop {
            for rank in self.running().into_iter().filter(|&rank| self.shared.pidfd(rank).is_none())
            {
                self.reap(rank)?;
            }
            let running = self.running();
            if running.is_empty() {
                return Ok(());
            }
            let pidfds: Vec<_> =
                running.iter().filter_map(|&rank| self.shared.pidfd(rank)).collect();
            let fds = pidfds.iter().map(|pidfd| pidfd.as_fd());
            let fds = std::iter::once(self.bell.as_fd()).chain(fds);
            let fds = fds.chain(self.stop.iter().map(|stop| stop.as_fd()));
            let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            let ready = wait(&mut fds, dumps.until_next_look())?;
            let told =
                dumps.look(&self.context, running.iter().map(|&rank| (rank, self.pid(rank))))?;
            for &rank in &told {
                self.shared.change(rank, |child| child.is_dumped = true);
            }
            if told.is_empty() && !ready.contains(&true) {
                continue;
            }
            for (&rank, _) in running.iter().zip(&ready[1..]).filter(|&(_, &ready)| ready) {
                self.reap(rank)?;
            }
            if ready[0] {
                let _ = self.bell.read();
                self.serve(capture_errors)?;
            }
            if ready.get(1 + running.len()) == Some(&true) {
                self.stop = None;
                self.shared.kill_all();
            }
            self.shared.tell();
        }
    }

    fn reap(&self, rank: usize) -> Result<()> {
        let ending = wait_for(self.pid(rank));
        self.end_claimer(rank)?;
        let control = self.context.rank(rank as u32)?;
        // A process that exits with status 0 within rank code has not finished its work.
        let early = control.state() == RankState::Running;
        let called_off = self.shared.child(rank).is_some_and(|child| child.is_called_off);
        let bad = !called_off && (early || ending != Ending::Exited(0));
        let mut last_words = None;
        if bad {
            // This is read before the burial, because the burial makes other ranks fail and frees the rank's memory.
            // Only a failure is decoded, which has the same form for all types of results.
            let posted = outcome::read::<()>(&self.context, rank as u32);
            last_words = posted.ok().flatten().and_then(std::result::Result::err);
            self.shared.note_failed((rank as u32, self.context.world()?.first_failed()));
        }
        control.ending.store(ending.word(), Ordering::Relaxed);
        let buried = burial::bury(&self.context, rank as u32);
        spawn::forget(&self.context, rank as u32)?;
        let ended = Child { ending: Some(ending), last_words, ..Child::default() };
        self.shared.change(rank, |child| *child = ended);
        Ok(buried?)
    }

    /// Kills the process that became the rank, if it still runs. It may be another process than the one that the
    /// launcher started: one that this process has started in turn. A rank must be buried only when no code of it runs.
    fn end_claimer(&self, rank: usize) -> Result<()> {
        let pid = self.context.rank(rank as u32)?.claimed.load(Ordering::Relaxed);
        let pid = Pid::from_raw(pid as i32);
        // Ranks can overwrite the word, so it may be any number.
        if pid.as_raw() <= 0 || pid == Pid::this() || self.pids.contains(&pid) {
            return Ok(());
        }
        // A pidfd makes sure that the process that is killed is the one that was checked.
        let Ok(pidfd) = pidfd_open(pid) else { return Ok(()) };
        if self.has_world(pid) {
            send_signal(pidfd.as_fd(), Signal::SIGKILL as i32);
            let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
            while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
        }
        Ok(())
    }

    /// Returns whether this process has the world's memory open. This is checked because the process id comes from the
    /// segment, where it may have been overwritten.
    fn has_world(&self, pid: Pid) -> bool {
        let Some(Ok(segment)) = self.context.segment.fd().map(fstat) else { return false };
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::metadata(entry.path()).ok())
            .any(|file| (file.dev(), file.ino()) == (segment.st_dev, segment.st_ino))
    }

    /// Kills all ranks that run, and waits for their ends. Does not use the world's memory, which may be damaged.
    fn end_all(&self) {
        self.shared.kill_all();
        for rank in self.running() {
            let ending = wait_for(self.pid(rank));
            self.shared.change(rank, |child| child.ending = Some(ending));
        }
    }
}
