//! Running programs under a watchdog, and looking for what they leave behind.

use std::os::unix::process::CommandExt;
use std::{
    fs,
    io::Read,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub use nix::sys::signal::Signal;

/// Longer than any test here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const MARK: &str = "ONCHIP_TEST_MARK";

/// A running command. It is ended by force when it is dropped or takes too long.
pub struct Run {
    child: Child,
    mark: String,
    out: Reader,
    err: Reader,
}

/// The results of a command that ended.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn expect_err(self, text: &str) -> Self {
        assert!(self.err.contains(text), "no {text:?} in {self:#?}");
        self
    }

    pub fn lines(&self) -> Vec<&str> {
        self.out.lines().collect()
    }
}

/// Collects a stream in a separate thread, so that its writer never has to wait.
struct Reader {
    seen: mpsc::Receiver<Vec<u8>>,
    text: Vec<u8>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn new(mut from: impl Read + Send + 'static) -> Self {
        let (to, seen) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                let _ = to.send(bytes[..n].to_vec());
            }
        });
        Self { seen, text: Vec::new(), thread: Some(thread) }
    }

    fn text(&mut self) -> String {
        self.seen.try_iter().for_each(|bytes| self.text.extend(bytes));
        String::from_utf8_lossy(&self.text).into_owned()
    }

    fn finish(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.text()
    }
}

/// Starts `mprun` with these arguments.
pub fn mprun(args: &[&str]) -> Run {
    start(env!("CARGO_BIN_EXE_mprun"), args, Stdio::null())
}

/// Starts `mprun` with these arguments and environment variables.
pub fn mprun_with(variables: &[(&str, &str)], args: &[&str]) -> Run {
    start_with(variables, env!("CARGO_BIN_EXE_mprun"), args)
}

/// Starts a program with these arguments and environment variables.
pub fn start_with(variables: &[(&str, &str)], program: &str, args: &[&str]) -> Run {
    let mut command = command(program, args);
    command.envs(variables.iter().copied());
    spawn(command, Stdio::null())
}

/// Starts `mprun` with these options, and lets it launch one of the programs in this file's crate.
pub fn launch(options: &[&str], program: &[&str]) -> Run {
    launch_with_input(options, program, Stdio::null())
}

pub fn launch_with_input(options: &[&str], program: &[&str], input: Stdio) -> Run {
    let this = this_program();
    let args = [options, &[this, "--program"], program].concat();
    start(env!("CARGO_BIN_EXE_mprun"), &args, input)
}

/// Starts one of the programs in this crate without `mprun`.
pub fn alone(program: &[&str]) -> Run {
    start(this_program(), &[&["--program"], program].concat(), Stdio::null())
}

pub fn this_program() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| std::env::current_exe().unwrap().to_str().unwrap().to_owned())
}

/// Starts a program with these arguments.
pub fn start(program: &str, args: &[&str], input: Stdio) -> Run {
    spawn(command(program, args), input)
}

fn spawn(mut command: Command, input: Stdio) -> Run {
    let mark = mark();
    let mut child = command
        .env(MARK, &mark)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = Reader::new(child.stdout.take().unwrap());
    let err = Reader::new(child.stderr.take().unwrap());
    Run { child, mark, out, err }
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    // The command gets a process group of its own, because an orphaned group, as under a daemon, could not be stopped.
    command.process_group(0);
    command.args(args).env_remove("ONCHIP_WAIT").env_remove("ONCHIP_RANK");
    command
}

/// Starts `mprun` without reading its standard output. Returns the process, and the mark of its processes.
pub fn unread(options: &[&str], program: &[&str]) -> (Child, String) {
    let args = [options, &[this_program(), "--program"], program].concat();
    let mark = mark();
    let mut command = command(env!("CARGO_BIN_EXE_mprun"), &args);
    command.env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    (command.spawn().unwrap(), mark)
}

fn mark() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the processes that were started under a mark, directly or not.
pub fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let carries = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|vars| vars.split(|&b| b == 0).any(|var| var == wanted.as_bytes()))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(carries)
        .collect()
}

/// Sends a signal to a process, if it is still there.
pub fn kill(pid: i32, signal: Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}

/// Waits until `done` returns a value.
#[track_caller]
pub fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = done() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Run {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid() as i32, signal);
    }

    /// Returns the processes of this run that still exist.
    pub fn processes(&self) -> Vec<i32> {
        marked(&self.mark)
    }

    /// Waits until the standard output has this text, and returns it.
    #[track_caller]
    pub fn await_out(&mut self, text: &str) -> String {
        until(text, || Some(self.out.text()).filter(|out| out.contains(text)))
    }

    /// Waits for the end of the run, and until it has left no process behind.
    #[track_caller]
    pub fn done(mut self) -> Done {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.end();
                let (out, err) = (self.out.text(), self.err.text());
                panic!("did not end; output {out:?}, errors {err:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        until("an end of all processes", || self.processes().is_empty().then_some(()));
        Done { status, out: self.out.finish(), err: self.err.finish() }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        for pid in self.processes() {
            kill(pid, Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end();
    }
}
