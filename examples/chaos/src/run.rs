//! One run, seen from outside.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::judge;
use crate::outcome::Outcome;
use crate::plan::{How, Plan};
use crate::processes;
use crate::record::{self, Record};
use crate::report::Summary;

/// The longest time that a run may take. All runs are short, but machines can be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Does a run, and judges it. Files of the run's processes go into `folder`.
///
/// # Errors
/// The run can't be started.
pub fn run(plan: &Plan, folder: &Path) -> io::Result<(Summary, Outcome)> {
    let started = Instant::now();
    let before = possessions();
    let outcome = start(plan, folder)?;
    let mut misses = judge::judge(plan, &outcome);
    let new = possessions();
    misses.extend(new.difference(&before).map(|what| format!("the campaign is left with {what}")));
    for entry in fs::read_dir(folder)?.flatten() {
        misses.push(format!("a file is left: {}", entry.path().display()));
        let _ = fs::remove_file(entry.path());
    }
    let summary = Summary::new(plan, &outcome, misses, started.elapsed());
    Ok((summary, outcome))
}

fn start(plan: &Plan, folder: &Path) -> io::Result<Outcome> {
    let (reader, writer) = io::pipe()?;
    let mut parent = Command::new(std::env::current_exe()?)
        .args(["--part", "parent", "--seed", &plan.seed.to_string()])
        .env("TMPDIR", folder)
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()?;
    let mut left = Vec::new();
    let (text, ended) = collect(reader)?;
    if !ended {
        left.push(format!("no end after {LIMIT:?}:\n{}", processes::facts()));
        processes::end_all();
    }
    // The parent may have been reaped already, with all others.
    let _ = parent.wait();
    if !processes::reap(Duration::from_secs(5)) {
        left.push(format!("processes are left:\n{}", processes::facts()));
        processes::end_all();
    }
    let (records, rest) = record::parse(&text);
    Ok(Outcome { records, rest, left })
}

/// Reads until no process is left that could write anything, and lets stopped ones go on. Returns whether that end
/// came.
fn collect(mut reader: PipeReader) -> io::Result<(String, bool)> {
    let (started, mut bytes, mut parsed) = (Instant::now(), Vec::new(), 0);
    let mut stopped: Vec<(Instant, i32)> = Vec::new();
    let ended = loop {
        let now = Instant::now();
        stopped.retain(|&(due, pid)| due > now || !processes::go_on(pid));
        if started.elapsed() > LIMIT {
            break false;
        }
        let sleep: u16 = if stopped.is_empty() { 1000 } else { 1 };
        let mut fds = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(sleep))? == 0 {
            continue;
        }
        let mut buffer = vec![0; 64 << 10];
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break true;
        }
        bytes.extend(&buffer[..count]);
        // Whole lines only.
        let Some(end) = bytes[parsed..].iter().rposition(|&byte| byte == b'\n') else { continue };
        let (new, _) = record::parse(&String::from_utf8_lossy(&bytes[parsed..=parsed + end]));
        parsed += end + 1;
        for record in new {
            if let Record::Hurt { how: How::Stop(millis), pid, .. } = record {
                stopped.push((Instant::now() + Duration::from_millis(millis.into()), pid));
            }
        }
    };
    Ok((String::from_utf8_lossy(&bytes).into_owned(), ended))
}

/// Returns what the campaign has open, and what lies in the shared memory's folder, that is of a run.
fn possessions() -> BTreeSet<String> {
    let fds = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let names = fds.filter_map(|entry| fs::read_link(entry.path()).ok());
    let memory = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let files = memory.map(|entry| entry.path()).filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains("onchip"))
    });
    let proc = Path::new("/proc");
    let names = names.filter(|name| !name.starts_with(proc));
    names.chain(files).map(|path| path.display().to_string()).collect()
}
