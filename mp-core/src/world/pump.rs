//! The thread that reads the output of process ranks, so that ranks that write never wait for each other or for the
//! thread that watches them, but only for the reader of the output.
//!
//! The thread passes lines on through a bounded channel. When all ranks have ended, it moves the rest of the output
//! from the pipes into an unbounded channel, so that the thread ends even if nobody reads.

use std::{
    convert::Infallible,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread::JoinHandle,
};

use crossbeam_channel::{Receiver, SendError, Sender, TryRecvError, select};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::{EfdFlags, EventFd},
    unistd::read,
};

use super::{launch::Stream, output::LineMixer};
use crate::{
    context::Context,
    error::{Error, ErrorKind, Result},
    sync::Ordering,
};

/// How many pieces of output may wait for the reader. If there are more, the ranks have to wait.
const ROOM: usize = 16;

/// How many bytes are read from a pipe at once.
const READ: usize = 64 << 10;

/// Output of a rank: one or more whole lines, or a piece of a very long line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The rank.
    pub rank: usize,
    /// The output stream.
    pub stream: Stream,
    /// What the rank wrote.
    pub bytes: Vec<u8>,
}

/// The output of the ranks of a launched world, piece by piece, until all ranks have ended. Ranks that write much have
/// to wait while no reader takes the output. After this is dropped, ranks that write get an error or `SIGPIPE`. The
/// rest of the output when the world ends is kept here until it is taken.
#[derive(Debug)]
pub struct RanksOutput {
    while_running: Receiver<Piece>,
    after: Receiver<Piece>,
}

impl Iterator for RanksOutput {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        self.while_running.recv().or_else(|_| self.after.recv()).ok()
    }
}

/// The two channels into which pumps put the output.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    /// A channel with little room, so that ranks wait for a slow reader.
    while_running: Sender<Piece>,
    /// An unbounded channel for the rest in the pipes when all ranks have ended, so that no pump waits any more.
    after: Sender<Piece>,
}

impl Outlet {
    /// Hands a piece on. Returns an error if no reader takes output any more. Waits only while ranks run.
    fn put(&self, piece: Piece, over: &Over) -> std::result::Result<(), SendError<Piece>> {
        // After the first piece in the second channel, all pieces go there, so that they stay in order.
        if over.gone.try_recv() == Err(TryRecvError::Disconnected) {
            return self.after.send(piece);
        }
        select! {
            send(self.while_running, piece) -> sent => sent,
            recv(over.gone) -> _ => self.after.send(piece),
        }
    }
}

/// Makes the channels for output, and returns their two ends.
pub(crate) fn output() -> (Outlet, RanksOutput) {
    let (to_while_running, while_running) = crossbeam_channel::bounded(ROOM);
    let (to_after, after) = crossbeam_channel::unbounded();
    let outlet = Outlet { while_running: to_while_running, after: to_after };
    (outlet, RanksOutput { while_running, after })
}

/// A value whose drop tells the pumps that all ranks have ended.
pub(crate) struct Running {
    over: Arc<EventFd>,
    _alive: Sender<Infallible>,
}

/// The pumps' side of [`Running`].
#[derive(Clone)]
pub(crate) struct Over {
    /// Becomes readable, for pumps that wait for output of the ranks.
    event: Arc<EventFd>,
    /// Becomes disconnected, for pumps that wait for the reader.
    gone: Receiver<Infallible>,
}

impl Running {
    pub(crate) fn new() -> Result<(Self, Over)> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let event = Arc::new(event.map_err(Error::os("eventfd"))?);
        let (alive, gone) = crossbeam_channel::bounded(0);
        Ok((Self { over: Arc::clone(&event), _alive: alive }, Over { event, gone }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This fails only after some 2^64 writes.
        let _ = self.over.write(1);
    }
}

/// The thread's state for one output stream of all ranks.
pub(crate) struct Pump {
    context: Arc<Context>,
    stream: Stream,
    /// The rank of the first pipe.
    first: usize,
    /// The pipes, by rank.
    pipes: Vec<Option<OwnedFd>>,
    mixer: LineMixer,
    to: Outlet,
    over: Over,
    /// Whether no reader takes output any more.
    refused: bool,
}

impl Pump {
    /// Starts the thread. It ends in one of three cases: when all pipes have ended; when no reader takes the output any
    /// more (then it closes the pipes, as the reader of a single program would have done); or a moment after all ranks
    /// have ended, even if nobody reads the output. So it can be joined after the end of the ranks.
    pub(crate) fn start(
        context: Arc<Context>,
        stream: Stream,
        (first, pipes): (usize, Vec<OwnedFd>),
        to: Outlet,
        over: Over,
    ) -> Result<JoinHandle<Result<()>>> {
        let mixer = LineMixer::new(pipes.len());
        let pipes = pipes.into_iter().map(Some).collect();
        let mut pump = Self { context, stream, first, pipes, mixer, to, over, refused: false };
        std::thread::Builder::new()
            .name("onchip output".to_owned())
            .spawn(move || pump.run())
            .map_err(|source| Error::from(ErrorKind::Os { call: "starting a thread", source }))
    }

    fn run(&mut self) -> Result<()> {
        while !self.refused && self.pipes.iter().any(Option::is_some) {
            let mut fds = vec![PollFd::new(self.over.event.as_fd(), PollFlags::POLLIN)];
            fds.extend(self.open_pipes().map(|(_, pipe)| pipe));
            wait(&mut fds, PollTimeout::NONE)?;
            if fds[0].any().unwrap_or(false) {
                return self.drain();
            }
            self.forward()?;
        }
        Ok(())
    }

    fn open_pipes(&self) -> impl Iterator<Item = (usize, PollFd<'_>)> {
        let pipes = self.pipes.iter().enumerate();
        pipes.filter_map(|(rank, pipe)| {
            Some((rank, PollFd::new(pipe.as_ref()?.as_fd(), PollFlags::POLLIN)))
        })
    }

    /// Returns the ranks that have written something, or closed their pipes.
    fn readable(&self) -> Result<Vec<usize>> {
        let (ranks, mut fds): (Vec<_>, Vec<_>) = self.open_pipes().unzip();
        wait(&mut fds, PollTimeout::ZERO)?;
        let ready = ranks.into_iter().zip(&fds).filter(|(_, fd)| fd.any().unwrap_or(false));
        Ok(ready.map(|(rank, _)| rank).collect())
    }

    /// Passes on the output that is in the pipes. Returns whether there was any.
    fn forward(&mut self) -> Result<bool> {
        // Output of rank 0 after a call of `run` is often about the work of the other ranks in that call, and should
        // follow their output. So the pipe of rank 0 is read first. If its output may have been written after a call,
        // it is passed on last: the earlier output of the other ranks is in their pipes by then.
        let first = self.readable()?.first() == Some(&0);
        let bytes = first.then(|| self.read_from(0));
        let after_a_call = self.context.rank(0)?.left.load(Ordering::Relaxed) > 0;
        if let Some(bytes) = bytes.as_ref().filter(|_| !after_a_call) {
            self.hand_on(0, bytes);
        }
        let others = self.readable()?;
        for rank in others.iter().copied().filter(|&rank| rank != 0) {
            let bytes = self.read_from(rank);
            self.hand_on(rank, &bytes);
        }
        if let Some(bytes) = bytes.as_ref().filter(|_| after_a_call) {
            self.hand_on(0, bytes);
        }
        Ok(first || !others.is_empty())
    }

    /// Reads from a pipe that is readable. If the pipe has ended, closes it and returns nothing.
    fn read_from(&mut self, rank: usize) -> Vec<u8> {
        let mut bytes = vec![0; READ];
        let pipe = &mut self.pipes[rank];
        let len = pipe.as_ref().and_then(|pipe| read(pipe, &mut bytes).ok()).unwrap_or(0);
        if len == 0 {
            *pipe = None;
        }
        bytes.truncate(len);
        bytes
    }

    fn hand_on(&mut self, rank: usize, bytes: &[u8]) {
        let Self { mixer, stream, first, to, over, refused, .. } = self;
        let write = |place, bytes: &[u8]| {
            let piece = Piece { rank: *first + place, stream: *stream, bytes: bytes.to_vec() };
            *refused |= to.put(piece, over).is_err();
        };
        match bytes {
            [] => mixer.finish(rank, write),
            _ => mixer.push(rank, bytes, write),
        }
    }

    /// Passes on the rest that the ended processes left in their pipes. Neither waits for other processes that hold a
    /// pipe open, nor reads from them for ever.
    fn drain(&mut self) -> Result<()> {
        // A pipe holds at most 1 MiB (fs.pipe-max-size).
        for _ in 0..=(1 << 20) / READ {
            if self.refused || !self.forward()? {
                break;
            }
        }
        for rank in 0..self.pipes.len() {
            self.hand_on(rank, &[]);
        }
        Ok(())
    }
}

fn wait(fds: &mut [PollFd<'_>], timeout: PollTimeout) -> Result<()> {
    match poll(fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(Error::os("poll")(errno)),
    }
}
