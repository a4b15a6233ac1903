//! Locks: operations are executed by whoever asks for them, one after another.

pub(super) mod clh;
pub(super) mod hyb;
pub(super) mod mcs;
#[cfg(all(test, loom))]
mod model;
pub(super) mod tas;

use super::{
    error::Stop,
    site::{Seat, Site},
};

/// What all locks do. A lock is one seat's view of it: nothing is shared but the words.
pub(super) trait Lock {
    /// Waits until nobody else has it.
    fn acquire<S: Site>(&mut self, site: &S) -> Result<(), Stop>;

    /// Gives it to the next, if there is one.
    fn release<S: Site>(&mut self, site: &S) -> Result<(), Stop>;
}

/// Executes an operation with the lock.
#[inline(always)]
pub(super) fn locked<S: Site, T>(
    lock: &mut impl Lock,
    site: &S,
    run: impl FnOnce() -> T,
) -> Result<T, Stop> {
    lock.acquire(site)?;
    let result = run();
    // It was executed, and has its result. That a rank is lost to whom the lock should go, whoever
    // takes it next finds out.
    let _ = lock.release(site);
    Ok(result)
}

/// A lock of some kind.
#[derive(Debug)]
pub(super) enum AnyLock {
    Tas(tas::Tas),
    Mcs(mcs::Mcs),
    Clh(clh::Clh),
    Hyb(hyb::Hyb),
}

/// With the hybrid lock a guard is taken and given up in the caller's own code; the others are a
/// call away, since all of them together would leave nothing of it inlined.
impl Lock for AnyLock {
    #[inline(always)]
    fn acquire<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        if let Self::Hyb(lock) = self { lock.acquire(site) } else { self.acquire_other(site) }
    }

    #[inline(always)]
    fn release<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        if let Self::Hyb(lock) = self { lock.release(site) } else { self.release_other(site) }
    }
}

impl AnyLock {
    #[inline(never)]
    fn acquire_other<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => lock.acquire(site),
            Self::Mcs(lock) => lock.acquire(site),
            Self::Clh(lock) => lock.acquire(site),
            Self::Hyb(lock) => lock.acquire(site),
        }
    }

    #[inline(never)]
    fn release_other<S: Site>(&mut self, site: &S) -> Result<(), Stop> {
        match self {
            Self::Tas(lock) => lock.release(site),
            Self::Mcs(lock) => lock.release(site),
            Self::Clh(lock) => lock.release(site),
            Self::Hyb(lock) => lock.release(site),
        }
    }
}

/// 1 + a seat in a word; 0 is nobody.
pub(super) fn someone(seat: Seat) -> u64 {
    seat as u64 + 1
}

/// Who is meant by a word that is not 0.
pub(super) fn who(word: u64) -> Seat {
    (word - 1) as usize
}
