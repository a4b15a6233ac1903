//! A launcher gets its turn soon where ranks compute on all CPUs.
//!
//! Linux gives a thread that is woken its turn by its deadline, which a thread with a short time slice has sooner than
//! the ranks have theirs (from Linux 6.12 on; no privilege is needed). Without this, each thread between the death of a
//! rank and the message about it waited for up to the time slices of all ranks on its CPU.

use std::{mem::size_of, time::Duration};

use nix::libc;

/// The shortest time slice that the system allows. A launcher's thread works for less than that at a time.
const SLICE: Duration = Duration::from_micros(100);

/// Asks the system to let the calling thread run soon after each wake-up. The threads and processes that it starts
/// afterwards do not inherit this. It is a wish: a system that does not know of it ignores it.
pub fn come_soon() {
    let Some(mut now) = attributes() else { return };
    // The ranks must inherit a higher priority of the launcher. The flag below would keep them from that.
    if now.sched_policy != libc::SCHED_OTHER as u32 || now.sched_nice < 0 {
        return;
    }
    now.sched_runtime = SLICE.as_nanos() as u64;
    now.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    // SAFETY: the system reads as many bytes as the structure says that it has.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0) };
}

/// Returns how the calling thread is scheduled, if the system says so.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: all fields are numbers.
    let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the system writes at most `size` bytes.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
    (got == 0).then_some(now)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_comes_soon_has_a_short_slice_and_those_that_it_starts_have_not() {
        // Some systems that only look like Linux do not say.
        if attributes().is_none() {
            return;
        }
        let outcome = std::thread::spawn(|| {
            let usual = of_a_new_thread();
            come_soon();
            let now = scheduled();
            assert_eq!((now.0, now.1), (usual.0, usual.1));
            assert_eq!(of_a_new_thread(), usual);
            if now.1 >= 0 && can_ask() {
                assert_eq!(now.2, SLICE.as_nanos() as u64);
            }
        });
        outcome.join().unwrap();
    }

    fn of_a_new_thread() -> (u32, i32, u64) {
        std::thread::spawn(scheduled).join().unwrap()
    }

    /// Returns the policy, the priority and the time slice of the calling thread.
    fn scheduled() -> (u32, i32, u64) {
        let now = attributes().unwrap();
        (now.sched_policy, now.sched_nice, now.sched_runtime)
    }

    /// Returns whether threads can ask for a time slice: from Linux 6.12 on.
    fn can_ask() -> bool {
        let release = nix::sys::utsname::uname().unwrap().release().to_str().unwrap().to_owned();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        (numbers.next().unwrap().unwrap(), numbers.next().unwrap().unwrap()) >= (6, 12)
    }
}
