//! A counter.

use mp_core::{Rank, Result};

use crate::critical::{Object, Protected, Section};

/// A number that starts at 0 and is added to.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Scheme, objects::Counter};
///
/// let rank = World::solo()?;
/// let hits = Counter::open(&rank, "hits", Scheme::HybLock)?;
/// assert_eq!((hits.fetch_add(2)?, hits.fetch_add(1)?), (0, 2));
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Counter;

impl Counter {
    /// Opens the counter of this name, as [`Protected::open`] does.
    ///
    /// # Errors
    /// As [`Protected::open`].
    pub fn open(rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Protected<Self>> {
        Protected::open(rank, name, section, |_| ())
    }
}

impl Object for Counter {
    type State = u64;
    /// The number to add.
    type Op = u64;
    /// The number before.
    type Ret = u64;

    fn apply(count: &mut u64, by: u64) -> u64 {
        std::mem::replace(count, count.wrapping_add(by))
    }

    /// Does nothing: the number is written at once.
    fn repair(_: &mut u64) -> bool {
        true
    }
}

impl Protected<Counter> {
    /// Adds to the number, and returns what it was before. It wraps around. Adding 0 reads it.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    #[inline]
    pub fn fetch_add(&self, by: u64) -> Result<u64> {
        self.apply(by)
    }
}
