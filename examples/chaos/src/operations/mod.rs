//! What ranks do together. Every rank does the steps of the plan in the same order, and makes the
//! random choices that all must know with the same numbers.
//!
//! | file | what it is |
//! |---|---|
//! | `pairs` | channels between two ranks, of every degree and form |
//! | `queue` | a channel of several senders and receivers |
//! | `delegated` | sends by communication threads |
//! | `tagged` | messages with tags |
//! | `parts` | communicators of some of the ranks |
//! | `blocking` | collective operations that block |
//! | `nonblocking` | collective operations that go on meanwhile |
//! | `asynchronous` | broadcasts that call handlers |
//! | `critical` | a counter in a critical section |
//! | `healing` | a set in a critical section, used after ranks were killed |
//! | `survivors` | ranks that go on without those that were lost |

mod asynchronous;
mod blocking;
mod critical;
mod delegated;
mod healing;
mod nonblocking;
mod pairs;
mod parts;
mod queue;
mod survivors;
mod tagged;

pub use healing::Healing;
pub use queue::Queue;
pub use survivors::result_of;

use std::cell::OnceCell;

use onchip::{Communicator, Rank, Result};

use crate::content::Label;
use crate::life::Life;
use crate::plan::{Operation, Step};
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
    fn me(&self) -> usize {
        self.rank.id()
    }

    /// Returns how many ranks there are.
    fn ranks(&self) -> usize {
        self.rank.size()
    }

    /// Returns the communicator of all ranks.
    fn world(&self) -> &Communicator {
        self.world.get_or_init(|| Communicator::world(self.rank))
    }

    /// Goes on to the next call of the library.
    fn call(&self) -> Result<()> {
        self.life.next_call()
    }

    /// Returns a name of this step's own.
    fn name(&self, what: &str) -> String {
        format!("{what} {}", self.step)
    }

    /// Returns a message's label.
    fn label(&self, from: usize, number: u64) -> Label {
        Label { from, step: self.step, number }
    }

    /// Returns numbers for choices of this rank alone.
    fn own_random(&mut self) -> Random {
        Random::new(self.random.number() ^ self.me() as u64)
    }
}

/// Does a step.
///
/// # Errors
/// The error of the library, or what is not as it must be.
pub fn run(step: Step, work: Work<'_>) -> Result<()> {
    match step.operation {
        Operation::Pairs => pairs::run(work),
        Operation::Queue => queue::run(work),
        Operation::Delegated => delegated::run(work),
        Operation::Tagged => tagged::run(work),
        Operation::Parts => parts::run(work),
        Operation::Blocking => blocking::run(work),
        Operation::Nonblocking => nonblocking::run(work),
        Operation::Asynchronous => asynchronous::run(work),
        Operation::Critical => critical::run(work),
        Operation::Healing => healing::run(work),
        Operation::Survivors => survivors::run(work),
    }
}
