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
mod work;

pub use healing::Healing;
pub use queue::Queue;
pub use survivors::result_of;
pub use work::Work;

use onchip::Result;

use crate::plan::{Operation, Step};

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
