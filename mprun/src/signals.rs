//! Signals that `mprun` passes on to the ranks.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use nix::sys::{
    signal::{SigSet, Signal, raise},
    signalfd::{SfdFlags, SignalFd},
};

/// The signals that are passed on.
const PASSED_ON: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// The signals for the ranks, read from a descriptor instead of being delivered. From then on, only SIGKILL ends
/// `mprun` before its ranks.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Takes the signals. This must be called before any other thread is started.
    pub fn take() -> io::Result<Self> {
        let set = set();
        set.thread_block()?;
        Ok(Self { fd: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// Lets the signals be delivered again.
    pub fn give_back(&self) -> io::Result<()> {
        // Signals that come after the end of the last rank have no receiver.
        while let Some(_late) = self.fd.read_signal()? {}
        Ok(set().thread_unblock()?)
    }

    /// Returns the next signal, and whether the ranks have received it already: a terminal sends its signals to the
    /// whole foreground group, `mprun` and ranks alike.
    pub fn next(&self) -> io::Result<Option<(Signal, bool)>> {
        while let Some(info) = self.fd.read_signal()? {
            let from_terminal = info.ssi_code > 0;
            if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
                let for_all = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP];
                return Ok(Some((signal, from_terminal && for_all.contains(&signal))));
            }
        }
        Ok(None)
    }

    /// Lets a signal end this process, as it would have done.
    pub fn deliver(&self, signal: Signal) -> io::Result<()> {
        self.give_back()?;
        Ok(raise(signal)?)
    }

    /// Stops this process as SIGTSTP would have done. Returns how long it was stopped.
    pub fn stop(&self) -> io::Result<Duration> {
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTSTP);
        let stopped = Instant::now();
        raise(Signal::SIGTSTP)?;
        stop.thread_unblock()?;
        stop.thread_block()?;
        Ok(stopped.elapsed())
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Lets signals be delivered to this process while the calling thread waits for other nodes.
pub fn delivered_meanwhile<T>(wait: impl FnOnce() -> T) -> T {
    // The set is a constant one, so that neither call can fail.
    let _ = set().thread_unblock();
    let waited = wait();
    let _ = set().thread_block();
    waited
}

fn set() -> SigSet {
    PASSED_ON.into_iter().collect()
}
