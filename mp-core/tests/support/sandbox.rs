//! Runs a test program again in a sandbox in which the kernel refuses some system calls, like an older kernel or a
//! container.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::libc;

/// The system calls that the kernel refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `futex_waitv`, and `membarrier` from the beginning.
    Unknown,
    /// The barriers of `membarrier`, although a process can register for them.
    Barriers,
}

/// From linux/membarrier.h.
const GLOBAL_EXPEDITED: i64 = 1 << 1;
const PRIVATE_EXPEDITED: i64 = 1 << 3;
/// The offsets in `struct seccomp_data` of the call's number, and of the low half of its first argument.
const NUMBER: u32 = 0;
const FIRST: u32 = 16;

/// Runs tests of this program, chosen by `arguments` as on its command line.
///
/// # Panics
/// When one of the tests fails.
pub fn run(refused: Refused, arguments: &[&str]) {
    let program = filter(refused);
    let mut tests = Command::new(std::env::current_exe().expect("a path"));
    tests.args(arguments).stdin(Stdio::null());
    // SAFETY: between fork and exec, the closure only makes two system calls, and allocates nothing.
    unsafe { tests.pre_exec(move || confine(&program)) };
    match tests.output() {
        Ok(run) => {
            let [text, errors] = [&run.stdout, &run.stderr].map(|out| String::from_utf8_lossy(out));
            let ran = text.contains("test result: ok") && !text.contains(" 0 passed");
            assert!(run.status.success() && ran, "{refused:?}: {text}\n{errors}");
        }
        // The kernel has no filters, or another filter is already installed.
        Err(error) => eprintln!("not run where system calls are refused: {error}"),
    }
}

fn filter(refused: Refused) -> Vec<libc::sock_filter> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |from| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, from);
    let equal =
        |to: i64, jt, jf| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, to as u32);
    let answer = |what| step(libc::BPF_RET | libc::BPF_K, 0, 0, what);
    let refuse = answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
    let allow = answer(libc::SECCOMP_RET_ALLOW);
    match refused {
        Refused::Unknown => vec![
            load(NUMBER),
            equal(libc::SYS_futex_waitv, 1, 0),
            equal(libc::SYS_membarrier, 0, 1),
            refuse,
            allow,
        ],
        Refused::Barriers => vec![
            load(NUMBER),
            equal(libc::SYS_membarrier, 0, 4),
            load(FIRST),
            equal(GLOBAL_EXPEDITED, 1, 0),
            equal(PRIVATE_EXPEDITED, 0, 1),
            refuse,
            allow,
        ],
    }
}

fn confine(filter: &[libc::sock_filter]) -> std::io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program and its filter live until the calls return, and the calls only read them.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
