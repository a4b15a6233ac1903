//! How a process comes to its injury: it hurts itself, so that no moment is too early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::plan::{EXIT_STATUS, How, Injury, Plan, When, Who};
use crate::record::{Record, now};

/// The injury planned for this process.
#[derive(Debug)]
pub struct Life {
    injury: Option<Injury>,
    calls: AtomicU64,
}

/// The error with which a rank leaves.
pub const LEAVES: &str = "this rank leaves, as planned";

impl Life {
    /// Begins a life, with the first instruction of `main`.
    pub fn begin(plan: &Plan, who: Who) -> Self {
        let injury = plan.injury_of(who);
        match injury {
            Some(Injury { how, when: When::First, .. }) => hurt(who, how),
            Some(Injury { how, when: When::After(micros), .. }) => hurt_after(who, how, micros),
            _ => {}
        }
        Self { injury, calls: AtomicU64::new(0) }
    }

    /// Goes on to the next call of the library.
    ///
    /// # Errors
    /// The plan says that the rank leaves here.
    pub fn next_call(&self) -> onchip::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(Injury { who, how, when: When::Within(at, micros) }) = self.injury
            && at == call
        {
            hurt_after(who, how, micros);
        }
        self.perhaps(|when| when == When::Call(call))
    }

    /// Comes to the process's last instruction.
    ///
    /// # Errors
    /// As [`next_call`](Self::next_call).
    pub fn last(&self) -> onchip::Result<()> {
        self.perhaps(|when| when == When::Last)
    }

    fn perhaps(&self, now: impl FnOnce(When) -> bool) -> onchip::Result<()> {
        match self.injury {
            Some(Injury { who, how, when }) if now(when) => {
                hurt(who, how);
                if how == How::Leave { Err(onchip::Error::other(LEAVES)) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

/// Hurts this process later, from a thread.
fn hurt_after(who: Who, how: How, micros: u64) {
    let timer = move || {
        thread::sleep(Duration::from_micros(micros));
        hurt(who, how);
    };
    // Without the thread the process lives on, and reports no injury.
    let _ = thread::Builder::new().spawn(timer);
}

/// Hurts this process. Returns if the injury is not fatal, or if the caller must inflict it.
fn hurt(who: Who, how: How) {
    Record::Hurt { who, pid: Pid::this().as_raw(), how, at: now() }.tell();
    match how {
        How::Kill => die_of(Signal::SIGKILL),
        How::Segv => die_of(Signal::SIGSEGV),
        How::Stop(_) => drop(kill(Pid::this(), Signal::SIGSTOP)),
        // This avoids the hook, which would write to standard error.
        How::Panic => std::panic::resume_unwind(Box::new("as planned")),
        How::Exit => std::process::exit(EXIT_STATUS),
        How::Leave => {}
    }
}

fn die_of(signal: Signal) -> ! {
    loop {
        let _ = kill(Pid::this(), signal);
        thread::sleep(Duration::from_millis(1));
    }
}
