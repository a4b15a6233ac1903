//! The locks of a window's ranks: words of memory that all of them share, taken without the help of the rank whose
//! memory they protect.
//!
//! Each rank has two words. The first is the lock of programs:
//!
//! | value | meaning |
//! |---|---|
//! | 0 | nobody has the lock |
//! | `n` | `n` ranks share the lock |
//! | [`EXCLUSIVE`] | one rank has the lock alone |
//! | + [`WANTED`] | a rank waits to have it alone, so that nobody else shares it |
//! | + [`WAITING`] | ranks wait, and are to be woken |
//!
//! The second is held while an accumulate changes the rank's memory: it is 0, or 1 + the number of the rank that has it.

use std::cell::Cell;

use mp_collectives::communicator::{Communicator, Pending};
use mp_core::{
    Operation, Rank,
    delegate::Backoff,
    memory::{Region, Word},
    names::Namespace,
    requests::{UnderWay, Watch},
};

use crate::{
    error::{Class, Error},
    threads,
};

type Result<T> = std::result::Result<T, Error>;

const NAMES: Namespace = Namespace::new("windows");
const EXCLUSIVE: u64 = 1 << 32;
const WANTED: u64 = 1 << 33;
const WAITING: u64 = 1 << 34;
/// The distance between words, so that no two are in neighbouring cache lines.
const APART: usize = 16;

/// How a rank has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Shared,
    Exclusive,
}

/// The locks of all ranks of a window.
#[derive(Debug)]
pub(crate) struct Locks {
    region: Region,
    rank: Rank,
}

/// A wait for a rank's lock during which other threads may call. It is done when the lock is taken, or can't be.
struct Taking<'a> {
    locks: &'a Locks,
    target: usize,
    way: Way,
    /// Distinguishes it from this rank's other waits.
    number: u32,
    is_taken: Cell<bool>,
}

impl Pending for Taking<'_> {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        (!self.is_done()).then_some(UnderWay::Watched(self))
    }
}

impl Watch for Taking<'_> {
    fn rank(&self) -> Rank {
        self.locks.rank.clone()
    }

    /// Takes the lock as soon as that is possible, whichever thread looks.
    fn is_done(&self) -> bool {
        if !self.is_taken.get() {
            self.is_taken.set(self.locks.try_take(self.target, self.way));
        }
        self.is_taken.get() || self.locks.check(None).is_err()
    }

    fn raise(&self) {
        self.locks.region.raise(self.target, self.number);
    }

    fn lower(&self) {
        self.locks.region.lower(self.target, self.number);
    }

    fn waited(&self) -> (Operation, Vec<u64>) {
        self.locks.region.awaits(self.target)
    }

    fn call(&self) -> Option<String> {
        Some(format!("lock of the memory of rank {}", self.target))
    }
}

/// The right to change a rank's memory, until this is dropped.
#[must_use = "the right ends when this is dropped"]
pub(crate) struct Changing<'a>(&'a Word);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.store(0);
    }
}

impl Locks {
    /// Opens the locks of the ranks of a communicator, which has no other window.
    pub fn open(communicator: &Communicator) -> Result<Self> {
        let joint = communicator.joint();
        let (ranks, name) = (joint.world_ranks(), joint.name("window"));
        let words = 2 * APART * ranks.len();
        let rank = joint.rank();
        let region = Region::open_of(&rank, NAMES, &name, &ranks, words, 0)?;
        Ok(Self { region, rank })
    }

    fn word(&self, target: usize) -> &Word {
        &self.region.words()[2 * APART * target]
    }

    /// Takes a lock if that is possible now. If not, the word says that this rank waits.
    fn try_take(&self, target: usize, way: Way) -> bool {
        let word = self.word(target);
        loop {
            let now = word.load();
            let taken = match way {
                Way::Shared if now & (EXCLUSIVE | WANTED) == 0 => Some(now + 1),
                Way::Exclusive if now & !(WANTED | WAITING) == 0 => Some(now & !WANTED | EXCLUSIVE),
                _ => None,
            };
            let waits = match way {
                Way::Shared => now | WAITING,
                Way::Exclusive => now | WAITING | WANTED,
            };
            let next = taken.unwrap_or(waits);
            if next == now || word.compare_exchange(now, next).is_ok() {
                return taken.is_some();
            }
        }
    }

    /// Returns an error if a rank, or any if none is given, has ended without closing the window.
    #[inline]
    pub fn check(&self, target: Option<usize>) -> Result<()> {
        match self.region.ends() {
            0 => Ok(()),
            _ => self.check_slowly(target),
        }
    }

    #[cold]
    fn check_slowly(&self, target: Option<usize>) -> Result<()> {
        let is_lost = |&rank: &usize| self.region.is_lost(rank);
        match target {
            Some(target) if is_lost(&target) => Err(lost(target)),
            Some(_) => Ok(()),
            None => (0..self.region.ranks()).find(is_lost).map_or(Ok(()), |rank| Err(lost(rank))),
        }
    }

    /// Takes the lock of a rank. Waits as long as others have it.
    pub fn take(&self, target: usize, way: Way) -> Result<()> {
        self.check(Some(target))?;
        if threads::are_many() {
            return self.take_meanwhile(target, way);
        }
        self.region.wait(target, None, Some(self.word(target)), || {
            match self.try_take(target, way) {
                true => Some(Ok(())),
                // The rank that has the lock may be any.
                false => self.check(None).err().map(Err),
            }
        })?
    }

    /// Takes the lock of a rank. Lets other threads call as long as others have it.
    fn take_meanwhile(&self, target: usize, way: Way) -> Result<()> {
        if self.try_take(target, way) {
            return Ok(());
        }
        let (number, is_taken) = (self.region.next_wait(), Cell::new(false));
        let mut taking = Taking { locks: self, target, way, number, is_taken };
        let waited = threads::wait_all(&mut [&mut taking]);
        match taking.is_taken.get() {
            true => Ok(()),
            false => waited.map_err(Error::from).and_then(|()| self.check(None)),
        }
    }

    /// Shares the locks of all ranks. While it waits for one it has none, so that ranks that hold several can go on.
    pub fn share_all(&self) -> Result<()> {
        let ranks = self.region.ranks();
        self.check(None)?;
        loop {
            let free = (0..ranks).take_while(|&target| self.try_take(target, Way::Shared)).count();
            if free == ranks {
                return Ok(());
            }
            (0..free).for_each(|target| self.give(target, Way::Shared));
            // The lock is taken and given back: then it was free.
            self.take(free, Way::Shared)?;
            self.give(free, Way::Shared);
        }
    }

    /// Gives back a lock that this rank has.
    pub fn give(&self, target: usize, way: Way) {
        let word = self.word(target);
        loop {
            let now = word.load();
            let left = match way {
                Way::Shared => now - 1,
                Way::Exclusive => now & !EXCLUSIVE,
            };
            let is_free = left & !(WANTED | WAITING) == 0;
            let next = if is_free { left & !(WANTED | WAITING) } else { left };
            if word.compare_exchange(now, next).is_ok() {
                if is_free && left & WAITING != 0 {
                    (0..self.region.ranks()).for_each(|rank| self.region.wake(rank, target));
                }
                return;
            }
        }
    }

    /// Waits until no other rank changes the memory of rank `target` by an accumulate. Other ranks can't do so until the
    /// result is dropped. A rank that waits here is not woken, and looks again after a pause: an accumulate is short, and
    /// would otherwise have to check at its end whether a rank waits.
    pub fn change(&self, target: usize) -> Result<Changing<'_>> {
        let word = &self.region.words()[(2 * target + 1) * APART];
        let me = 1 + self.region.rank() as u64;
        let mut backoff = Backoff::new();
        while word.load_relaxed() != 0 || word.compare_exchange(0, me).is_err() {
            match word.load_relaxed() {
                0 => {}
                other if self.region.is_lost(other as usize - 1) => {
                    return Err(lost(other as usize - 1));
                }
                _ => backoff.pause(),
            }
        }
        Ok(Changing(word))
    }
}

#[cold]
fn lost(rank: usize) -> Error {
    Error::new(Class::ProcAborted, format!("rank {rank} of the window has ended"))
}
