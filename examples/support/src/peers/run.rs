//! Compiling and running other programs with a time limit.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The reason why a program gave no figure.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It is not there on this machine. That is no failure.
    #[error("{0}")]
    Absent(String),
    /// It failed, or came to a wrong result.
    #[error("{0}")]
    Failed(String),
}

/// Turns any error into a failure of the run.
pub fn failed(e: impl std::fmt::Display) -> Trouble {
    Trouble::Failed(e.to_string())
}

/// Returns the end of what a program wrote to its standard error, which usually contains the reason.
pub fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("\n    ")
}

/// Longer than the slowest measurement takes. A program that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `command` in its own process group, and ends the group if it takes longer than `patience`.
///
/// # Errors
/// If it can't be started, or takes longer.
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

/// Returns whether a program is there: in the search path, or where its own path says.
pub fn in_path(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

/// Compiles `source` to the program `built`, unless that is newer.
///
/// # Errors
/// If the compiler fails.
pub fn compile<'a>(
    compiler: &Path,
    source: &Path,
    built: &Path,
    before: &[&str],
    after: impl Iterator<Item = &'a str>,
) -> Result<(), Trouble> {
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified());
    if let (Ok(built_at), Ok(source_at)) = (changed(built), changed(source))
        && built_at > source_at
    {
        return Ok(());
    }
    let mut command = Command::new(compiler);
    command.args(before).arg("-o").arg(built).arg(source).args(after);
    let output = within(&mut command, PATIENCE)?;
    if !output.status.success() {
        return Err(failed(format!(
            "{} could not compile {}: {}",
            compiler.display(),
            source.display(),
            last_words(&output.stderr)
        )));
    }
    Ok(())
}
