//! Calls of `run` in a test. The standard test harness runs many tests as threads of one process, and ranks must
//! execute only the test that makes the call.

use std::ffi::OsString;

use nix::sys::prctl;

use crate::error::{Error, ErrorKind, Result};

/// Returns the name of the test that this thread runs under the standard test harness; `None` in any other program.
///
/// The harness names its threads after their tests and gives no other sign of itself. Its programs are in a directory
/// `deps`, with a hash in their names.
///
/// # Errors
/// [`BadWorld`](crate::ErrorKind::BadWorld) in a thread that a test has started, because the thread's test is not
/// known.
pub(crate) fn running_test() -> Result<Option<String>> {
    if !is_test_program().unwrap_or(false) || is_main_thread() {
        return Ok(None);
    }
    if let Some(name) = std::thread::current().name() {
        return Ok(Some(name.to_owned()));
    }
    // To the system, a thread without a name has the name of the thread that started it.
    let started_by = prctl::get_name().map_err(Error::os("prctl"))?;
    let main = std::fs::read(format!("/proc/self/task/{}/comm", std::process::id()));
    if main.is_ok_and(|main| main.trim_ascii_end() == started_by.as_bytes()) {
        return Ok(None);
    }
    Err(away_from_test(""))
}

/// Returns the error that refuses a world of processes in a thread of this name, which is not a test's thread.
pub(crate) fn away_from_test(thread: &str) -> Error {
    Error::from(ErrorKind::BadWorld(format!(
        "a world of processes is run in the thread {thread:?} of a test, and no test has this name \
         for the ranks to execute: run it in the test's own thread"
    )))
}

/// Returns arguments that make a test program execute this test alone.
pub(crate) fn arguments(test: &str) -> Vec<OsString> {
    [test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]
        .map(OsString::from)
        .to_vec()
}

/// Returns whether no other thread can have this thread's name, because it is the main thread or a test's own.
pub(crate) fn thread_is_unique() -> bool {
    is_main_thread() || running_test().is_ok_and(|test| test.is_some())
}

fn is_main_thread() -> bool {
    nix::unistd::gettid() == nix::unistd::Pid::this()
}

fn is_test_program() -> Option<bool> {
    let program = std::env::current_exe().ok()?;
    let in_deps = program.parent()?.file_name()? == "deps";
    let stem = program.file_stem()?.to_str()?;
    let hash = stem.rsplit_once('-')?.1;
    let hashed = hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    Some(in_deps && hashed)
}
