//! The processes below the campaign: the orphans among them become its children.

use std::fs;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Takes the orphans below this process, and leaves no core files.
///
/// # Errors
/// The system refuses.
pub fn prepare() -> Result<(), Errno> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    prctl::set_child_subreaper(true)
}

/// Waits for the ends of all processes below this one. Returns whether all have ended in time.
pub fn reap(limit: Duration) -> bool {
    let started = Instant::now();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return true,
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::StillAlive) if started.elapsed() < limit => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// Returns the state and the parent of a process.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Lets a stopped process go on. Returns whether it need not be asked again.
pub fn go_on(pid: i32) -> bool {
    match state(pid) {
        Some(('T', _)) => kill(Pid::from_raw(pid), Signal::SIGCONT).is_ok(),
        Some(('Z' | 'X', _)) | None => true,
        Some(_) => false,
    }
}

/// Returns the processes below this one.
pub fn below() -> Vec<i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(i32, i32)> = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, state(pid)?.1)))
        .collect();
    let mut found = vec![Pid::this().as_raw()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|&&(_, of)| of == parent).map(|&(pid, _)| pid));
        next += 1;
    }
    found.split_off(1)
}

/// Returns a description of the processes below this one, and of their worlds.
pub fn facts() -> String {
    let mut text = String::new();
    let read = |pid, file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    for pid in below() {
        let environment = read(pid, "environ");
        let rank = environment.split('\0').find(|variable| variable.starts_with("ONCHIP_RANK"));
        let command = read(pid, "cmdline").replace('\0', " ");
        let state = state(pid).map_or('?', |(state, _)| state);
        text += &format!("  {pid} {state} {} {command}\n", rank.unwrap_or_default());
        for found in onchip::report::worlds_of(pid as u32).unwrap_or_default() {
            let Ok(report) = found.report else { continue };
            if report.launcher != pid as u32 {
                continue;
            }
            for rank in report.ranks {
                text += &format!("    rank {}: {:?}, {:?}\n", rank.rank, rank.stage, rank.wait);
            }
        }
    }
    text
}

/// Ends all processes below this one.
pub fn end_all() {
    for _ in 0..100 {
        let all = below();
        for pid in &all {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        if reap(Duration::from_millis(100)) {
            return;
        }
    }
}
