//! Running another program, and not for ever.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::rivals::failed;
use crate::row::Trouble;

/// Longer than the slowest measurement takes; past it the program hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `command` in a process group of its own, and ends the group when it takes longer than
/// `patience`.
pub fn within(command: &mut Command, patience: Duration) -> Result<Output, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| failed(format!("cannot start {name}: {e}")))?;
    let group = Pid::from_raw(child.id() as i32);
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let hangs = ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            if hangs {
                let _ = killpg(group, Signal::SIGKILL);
            }
            hangs
        });
        let output = child.wait_with_output();
        drop(done);
        if watch.join().unwrap_or(false) {
            return Err(failed(format!("{name} took longer than {patience:?}")));
        }
        output.map_err(|e| failed(format!("{name}: {e}")))
    })
}
