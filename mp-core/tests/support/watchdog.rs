//! Ends a test that hangs, and prints the state of its processes and threads.

use std::{
    fs,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::Duration,
};

/// How long a part of a test may take. This is far more than it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Kills this process unless it is dropped in time. Rank processes die with this process.
#[derive(Debug)]
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the part of the test up to the watchdog's drop.
    pub fn start() -> Self {
        Self::with_limit(LIMIT)
    }

    pub fn with_limit(limit: Duration) -> Self {
        Self::with(limit, String::new())
    }

    /// Starts a watchdog that also prints this text if the part hangs.
    pub fn telling(text: String) -> Self {
        Self::with(LIMIT, text)
    }

    fn with(limit: Duration, text: String) -> Self {
        let test = std::thread::current().name().unwrap_or("a thread without a name").to_owned();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let _ = nix::unistd::write(std::io::stderr(), text.as_bytes());
                report(&test, limit);
                std::process::abort();
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes directly to standard error, because the harness would keep the text of a test that never ends.
fn report(test: &str, limit: Duration) {
    let mut text = format!("\n{test} hangs: not done after {limit:?}\n");
    let me = std::process::id();
    for process in std::iter::once(me).chain(children_of(me)) {
        text += &format!("process {process}:\n");
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let read =
                |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let (stat, wait) = (read("stat"), read("wchan"));
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
            text += &format!("  {:<24} {} {wait}\n", read("comm").trim(), state.unwrap_or('?'));
        }
    }
    let _ = nix::unistd::write(std::io::stderr(), text.as_bytes());
    // This comes after the processes, because a look at a broken world might fail.
    let text = worlds(me);
    let _ = nix::unistd::write(std::io::stderr(), text.as_bytes());
}

/// Returns which rank waits for which, in all worlds of this process (including those of other tests).
fn worlds(me: u32) -> String {
    let mut text = String::new();
    for found in mp_core::report::worlds_of(me).into_iter().flatten() {
        let report = match found.report {
            Ok(report) => report,
            Err(error) => {
                text += &format!("a world that can't be read: {error}\n");
                continue;
            }
        };
        text += &format!("world of {:?}, {:?} old:\n", report.kind, report.age);
        for rank in report.ranks {
            text += &format!("  rank {} is {:?}", rank.rank, rank.stage);
            if let Some(wait) = rank.wait {
                let channels: Vec<_> = wait.channels.into_iter().map(|c| c.name).collect();
                let (operation, peers, since) = (wait.operation, wait.peers, wait.since);
                text += &format!(": {operation} {channels:?} of ranks {peers:?} for {since:?}");
            }
            text += if rank.stuck { ", stuck\n" } else { "\n" };
        }
    }
    text
}

/// Returns the processes whose parent is `parent`.
pub fn children_of(parent: u32) -> Vec<u32> {
    let of = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| of(pid) == Some(parent))
        .collect()
}
