//! Typed channels with an asynchrony degree.
//!
//! | file | what it is |
//! |---|---|
//! | `spec` | what a channel carries; how both ends compare it |
//! | `slots` | how messages are laid out in memory |
//! | `signals` | the words through which the ends call each other |
//! | `ring` | one sender, one receiver, degree 1 and up |
//! | `rendezvous` | degree 0 |
//! | `shared_ring` | several senders or receivers |
//! | `directory` | how the ends find each other, and which ranks are gone |
//! | `farewell` | names under which ranks open no more ends |
//! | `callers` | which ranks have opened a channel of a name to this rank |
//! | `sender`, `receiver`, `select` | what users hold |
//! | `outlet` | a sending end that several threads fill |
//!
//! **Copies and moved buffers.** A channel of slices carries copied messages and moved buffers in one order, which two
//! channels could not keep. The receiver chooses: `receive` reads either kind in place, and `receive_buffer` takes
//! ownership of either. A channel of slices without `max_len` carries buffers only.
//!
//! **Cost.** After a message, each end looks at its signal, which is almost never written, and at nothing else of the
//! other end. A stream of words takes little more than a nanosecond a word at either end, and each store to another
//! line, each load and each branch costs a tenth of that. So all that an end changes with every message lies on one
//! line of its own memory, and the layout of slots of single values is a constant.
//!
//! **Other crates** have channels within one process. The channels here lie in a segment, and one end survives the
//! death of the other.

mod callers;
mod directory;
mod farewell;
#[cfg(all(test, loom))]
mod model;
mod outlet;
mod receiver;
mod rendezvous;
mod ring;
mod select;
mod sender;
mod shared_ring;
mod signals;
mod slots;
mod spec;
#[cfg(all(test, not(loom)))]
mod test_memory;

pub use callers::Callers;
pub(crate) use callers::outline_of_callers;
pub(crate) use directory::{Agreement, End, Opened, Outline, layout, outline_of, retire};
pub(crate) use farewell::{has_withdrawn, withdraw};
pub(crate) use outlet::{Filled, Outlet, Outward, Position};
pub use receiver::{Guard, Messages, Receiver};
pub use select::{Receivers, Select};
pub use sender::{Sender, Slot};
pub use spec::{Channel, ChannelSpec};
