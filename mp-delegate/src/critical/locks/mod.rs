//! Locks: each rank executes its own operations, one rank after another.
//!
//! A try takes the last place of an empty queue by a compare-and-swap, and otherwise no place. A wait with a limit
//! tries again and again: it leaves nothing behind when it gives up, but other seats overtake it. Words that name nodes
//! also number the nodes' uses, so that a node that has been used again is not taken for its earlier use.

mod any;
pub(super) mod clh;
pub(super) mod hyb;
mod lock;
pub(super) mod mcs;
#[cfg(all(test, loom))]
mod model;
mod nodes;
pub(super) mod quick;
pub(super) mod tas;

pub use any::AnyLock;
pub(super) use any::with_lock;
pub(super) use lock::{Lock, come, go, hand_over, take_behind};
#[cfg(test)]
pub(super) use lock::{give, take};
pub(super) use nodes::{MOST_SEATS, NODES, held, node_in, taken_over};
