//! A lock of a kind that is known at run time.

use super::{
    clh, hyb,
    lock::{Lock, take_within},
    mcs, tas,
};
#[cfg(feature = "internals")]
use crate::critical::site::Site;
use crate::critical::{
    site::{Limit, Mortal, Seat},
    stop::Stop,
};

/// Evaluates an expression with a lock of any kind.
macro_rules! with_lock {
    ($any:expr, $lock:ident => $what:expr) => {
        match $any {
            AnyLock::Tas($lock) => $what,
            AnyLock::Mcs($lock) => $what,
            AnyLock::Clh($lock) => $what,
            AnyLock::Hyb($lock) => $what,
        }
    };
}
pub(in crate::critical) use with_lock;

/// A lock of some kind.
#[derive(Debug)]
pub enum AnyLock {
    /// A test-and-set lock.
    Tas(tas::Tas),
    /// An MCS lock.
    Mcs(mcs::Mcs),
    /// A CLH lock.
    Clh(clh::Clh),
    /// HYBLOCK.
    Hyb(hyb::Hyb),
}

impl AnyLock {
    /// See [`Lock::words`].
    pub(in crate::critical) fn words(&self) -> [usize; 3] {
        with_lock!(self, lock => lock.words())
    }

    /// See [`take_within`].
    pub(in crate::critical) fn take_within<S: Mortal>(
        &self,
        site: &S,
        me: Seat,
        limit: Option<&Limit>,
        repair: impl FnMut(),
    ) -> Result<bool, Stop> {
        with_lock!(self, lock => take_within(lock, site, me, limit, repair))
    }

    /// Takes the lock at a site where no rank dies: in simulations.
    #[cfg(feature = "internals")]
    pub fn acquire<S: Site>(&self, site: &S) -> Result<(), Stop> {
        with_lock!(self, lock => lock.acquire(site))
    }

    /// Gives the lock up, under the same condition as `acquire`.
    #[cfg(feature = "internals")]
    pub fn release<S: Site>(&self, site: &S) -> Result<(), Stop> {
        with_lock!(self, lock => lock.release(site))
    }
}
