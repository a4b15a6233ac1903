//! Real-time signals to single threads. The threads wait for them, so there is no handler. This follows section 3.2.4
//! of the thesis, but avoids its actions that are not allowed in a signal handler.

use crate::error::Error;

/// A thread of some process, encoded in a word that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(pub(super) u64);

/// Returns the number of the signal. It is near the end of the real-time signals, which few other programs use.
#[cfg(not(miri))]
fn number() -> i32 {
    nix::libc::SIGRTMAX() - 3
}

#[cfg(not(miri))]
fn own_set() -> nix::libc::sigset_t {
    // SAFETY: zeros are a valid set. sigemptyset and sigaddset write to this set only, and the signal's number is
    // valid.
    unsafe {
        let mut set = std::mem::zeroed();
        nix::libc::sigemptyset(&raw mut set);
        nix::libc::sigaddset(&raw mut set, number());
        set
    }
}

impl Thread {
    /// Returns the calling thread. Blocks the signal in it permanently, because an unblocked signal would end the
    /// process.
    #[cfg(not(miri))]
    pub(super) fn current() -> Result<Self, Error> {
        let set = own_set();
        // SAFETY: the set is valid during the call, and a null pointer means that the old set is not returned.
        let failed = unsafe {
            nix::libc::pthread_sigmask(nix::libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
        };
        if failed != 0 {
            return Err(Error::os("pthread_sigmask")(nix::errno::Errno::from_raw(failed)));
        }
        let process = u64::from(std::process::id());
        Ok(Self(process << 32 | nix::unistd::gettid().as_raw() as u64))
    }

    /// Sends the signal. Succeeds if the thread does not exist any more.
    #[cfg(not(miri))]
    pub(super) fn signal(self) -> Result<(), Error> {
        let (process, thread) = ((self.0 >> 32) as i32, self.0 as u32 as i32);
        // SAFETY: zeros are a valid siginfo_t. The kernel only reads it, and it is valid during the call.
        let sent = unsafe {
            let mut info: nix::libc::siginfo_t = std::mem::zeroed();
            info.si_signo = number();
            info.si_code = nix::libc::SI_QUEUE;
            nix::libc::syscall(
                nix::libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                number(),
                &raw const info,
            )
        };
        match nix::errno::Errno::last() {
            _ if sent == 0 => Ok(()),
            nix::errno::Errno::ESRCH => Ok(()),
            errno => Err(Error::os("rt_tgsigqueueinfo")(errno)),
        }
    }

    /// Sleeps until the signal has come. May return early without a reason.
    #[cfg(not(miri))]
    pub(super) fn sleep() {
        let set = own_set();
        // SAFETY: the set is valid during the call, and a null pointer means that no details are returned.
        unsafe { nix::libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) };
    }

    #[cfg(miri)]
    pub(super) fn current() -> Result<Self, Error> {
        Err(Error::os("pthread_sigmask")(nix::errno::Errno::ENOSYS))
    }

    #[cfg(miri)]
    pub(super) fn signal(self) -> Result<(), Error> {
        Ok(())
    }

    #[cfg(miri)]
    pub(super) fn sleep() {
        std::thread::yield_now();
    }
}
