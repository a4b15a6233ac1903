//! What a rank has at hand in a step.

use std::cell::OnceCell;

use onchip::{Communicator, Rank, Result};

use crate::content::Label;
use crate::life::Life;
use crate::random::Random;

/// One step, for one rank.
pub struct Work<'a> {
    /// The rank that does it.
    pub rank: &'a Rank,
    /// The injury planned for the rank.
    pub life: &'a Life,
    /// Whether any rank is to leave without being lost.
    pub leaves: bool,
    /// The step's number.
    pub step: usize,
    /// For choices that are the same on all ranks.
    pub random: Random,
    /// The communicator of all ranks, as soon as a step needs it.
    pub world: &'a OnceCell<Communicator>,
}

impl Work<'_> {
    /// Returns this rank's number.
    pub(super) fn me(&self) -> usize {
        self.rank.id()
    }

    /// Returns how many ranks there are.
    pub(super) fn ranks(&self) -> usize {
        self.rank.size()
    }

    /// Returns the communicator of all ranks.
    pub(super) fn world(&self) -> &Communicator {
        self.world.get_or_init(|| Communicator::world(self.rank))
    }

    /// Goes on to the next call of the library.
    pub(super) fn call(&self) -> Result<()> {
        self.life.next_call()
    }

    /// Returns a name of this step's own.
    pub(super) fn name(&self, what: &str) -> String {
        format!("{what} {}", self.step)
    }

    /// Returns a message's label.
    pub(super) fn label(&self, from: usize, number: u64) -> Label {
        Label { from, step: self.step, number }
    }

    /// Returns numbers for choices of this rank alone.
    pub(super) fn own_random(&mut self) -> Random {
        Random::new(self.random.number() ^ self.me() as u64)
    }
}
