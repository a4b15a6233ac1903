//! Ends a test that hangs.

use std::{
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

/// Much longer than any of the tests takes on a machine with much else to do.
const LIMIT: Duration = Duration::from_secs(240);

/// Kills this process, with a message, unless it is dropped in time.
#[derive(Debug)]
pub struct Watchdog {
    _stop: Sender<()>,
}

impl Watchdog {
    pub fn start(what: &str) -> Self {
        let (stop, stopped) = channel::<()>();
        let what = what.to_owned();
        thread::spawn(move || {
            if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(LIMIT) {
                eprintln!("{what} hangs: nothing has ended it in {LIMIT:?}");
                std::process::abort();
            }
        });
        Self { _stop: stop }
    }
}
