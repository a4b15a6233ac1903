//! Typed channels with an asynchrony degree.
//!
//! | file | what it is |
//! |---|---|
//! | `spec` | what a channel carries; how both ends compare |
//! | `slots` | how messages lie in memory |
//! | `signals` | the words through which the ends call each other |
//! | `ring` | one sender, one receiver, degree 1 and up |
//! | `rendezvous` | degree 0 |
//! | `shared_ring` | several senders or receivers |
//! | `agreement` | what both ends state about a channel |
//! | `spec_words`, `descriptor` | a channel in the segment, and what the ends that are gone leave |
//! | `opened` | how an end is opened and closed |
//! | `farewell` | names under which ranks open no more ends |
//! | `roll`, `callers` | which ranks have opened a channel of a name to this rank |
//! | `sender`, `receiver`, `select` | what users hold |
//! | `outlet` | a sending end that several threads fill |
//!
//! **Copies and moved buffers.** A channel of slices carries copied messages and moved buffers in one order, which two
//! channels could not keep. The receiver chooses: `receive` reads either kind in place, and `receive_buffer` takes
//! ownership of either. A channel of slices without `max_len` carries buffers only.
//!
//! **Cost.** After a message, each end looks at its signal, which is almost never written, and at nothing else of the
//! other end. A stream of words takes little more than a nanosecond a word at either end, and each store to another
//! line, each load and each branch costs a tenth of that. So everything that an end changes with every message is on
//! one line of its own memory, and the places in slots of single values are constants.
//!
//! **Other crates** have channels within one process. These lie in a segment, and one end outlives the death of the
//! other.

mod agreement;
mod callers;
mod descriptor;
mod farewell;
#[cfg(all(test, loom))]
mod model;
mod opened;
mod outlet;
mod outline;
mod receiver;
mod rendezvous;
mod ring;
mod roll;
mod select;
mod selectable;
mod sender;
mod shared_ring;
mod signals;
mod slots;
mod spec;
mod spec_words;
#[cfg(all(test, not(loom)))]
mod test_memory;

pub(crate) use agreement::{Agreement, Apart, End};
pub use callers::Callers;
pub(crate) use descriptor::{Descriptor, crossing_at};
pub(crate) use farewell::{Farewell, farewell_at, has_withdrawn, withdraw};
pub(crate) use opened::Opened;
pub(crate) use outlet::{Filled, Outlet, Outward, Position};
pub use outline::RingReport;
pub(crate) use outline::{Outline, outline_of};
pub(crate) use receiver::{At, TakenBytes};
pub use receiver::{Guard, Messages, Receiver};
pub use rendezvous::Want;
pub(crate) use roll::{Roll, outline_of_callers};
pub use select::{Receivers, Select};
pub use sender::{Sender, Slot};
pub use spec::{Channel, ChannelSpec};

use crate::segment::fingerprint;

/// Returns a fingerprint that changes when the structures of channels in a segment change.
pub(crate) fn layout() -> u64 {
    descriptor::layout() ^ fingerprint([size_of::<Farewell>(), size_of::<Roll>()])
}
