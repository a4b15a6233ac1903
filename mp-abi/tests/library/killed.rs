//! A rank is killed while all do something: the launcher says so, no other rank goes on, and nothing is left.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{compile, has_compiler, installed};

const MARK: &str = "ONCHIP_TEST_MARK";
/// Longer than any of these programs takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Returns the processes that have this mark in their environment.
fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let carries = |pid: &String| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|&byte| byte == 0).any(|one| one == wanted.as_bytes()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().into_string().ok());
    numbers.filter(|name| name.parse::<u32>().is_ok()).filter(carries).collect()
}

/// Ends everything that a run has left, however the test ends.
struct Run {
    launcher: Child,
    mark: String,
}

impl Run {
    fn kill(&self, pid: &str) {
        Command::new("kill").args(["-KILL", pid]).status().unwrap();
    }

    /// Waits until the run has left no process.
    fn end(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            let status = self.launcher.try_wait().unwrap();
            let left = marked(&self.mark);
            if let (Some(status), true) = (status, left.is_empty()) {
                return status.code().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "{left:?} do not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        marked(&self.mark).iter().for_each(|pid| self.kill(pid));
        let _ = self.launcher.wait();
    }
}

/// Reads a stream to its end on a thread of its own.
fn all_of(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// Runs the program, kills rank 1 when that says its process, and looks what becomes of the others.
fn killed(program: &Path, ranks: usize, returns: bool, what: &str) {
    let case = format!(
        "{what} of {ranks} ranks, where errors {}return",
        if returns { "" } else { "don't " }
    );
    let mark = format!("{}-{}-{ranks}-{returns}", std::process::id(), what);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("killed-{mark}"));
    fs::create_dir_all(&folder).unwrap();
    let launcher = Command::new(installed().join("bin/mpiexec"))
        // The launcher is not to end those that do not end by themselves before the watchdog does.
        .args(["--grace", "300", "-n", &ranks.to_string()])
        .arg(program)
        .arg(format!("{}{what}", if returns { "+" } else { "" }))
        .arg(folder.join("data"))
        .env(MARK, &mark)
        .env("TMPDIR", &folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut run = Run { launcher, mark };
    let errors = all_of(run.launcher.stderr.take().unwrap());
    let mut output = BufReader::new(run.launcher.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pid = line.strip_prefix("process ").unwrap_or_else(|| panic!("{case}: {line:?}"));
    run.kill(pid.trim_end());
    let output = all_of(output);
    let code = run.end();
    let (output, errors) = (output.join().unwrap(), errors.join().unwrap());
    assert_eq!(code, 137, "{case}: {output}{errors}");
    assert!(errors.contains("mprun: rank 1 was killed by SIGKILL\n"), "{case}: {errors}");
    let mut said: Vec<_> = output.lines().collect();
    said.sort_unstable();
    let others = (0..ranks).filter(|&rank| rank != 1 && returns);
    let expected: Vec<_> = others.map(|rank| format!("rank {rank}: lost")).collect();
    assert_eq!(said, expected, "{case}: {errors}");
    // A file that ranks are in the middle of writing is the program's.
    let _ = fs::remove_file(folder.join("data"));
    fs::remove_dir(&folder).unwrap_or_else(|error| panic!("{case}: {error}"));
}

#[test]
fn a_rank_is_killed_in_the_middle_of_everything() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "killed.c", include_str!("killed.c"));
    for what in ["receive", "waitall", "reduce", "keep", "lock", "write", "spawn", "compute"] {
        for ranks in [2, 4, 8] {
            for returns in [false, true] {
                killed(&program, ranks, returns, what);
            }
        }
    }
}
