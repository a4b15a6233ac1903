//! A stack and a queue without critical sections, for comparison with protected ones. Their users change them by single
//! instructions.
//!
//! | object | algorithm | when it is full |
//! |---|---|---|
//! | [`TreiberStack`] | Treiber's stack: compare-and-swap on the top | with exactly the number of values that it was opened for |
//! | [`Lcrq`] | fetch-and-add on the ends of rings: Morrison's and Afek's LCRQ | when its last ring is closed and no other is free |
//! | [`RingQueue`] | fetch-and-add on the ends of a ring, as LCRQ does, but of a single ring: Nikolaev's SCQ | with that number of values, or with up to one more for each further handle |
//!
//! They lie in the world's segment as protected values do, so their users are threads or processes. Values are words,
//! and all memory is allocated when the object is opened. Operations never wait, except for the turns of groups: a
//! rank that stands still or dies at any point disturbs no other rank. Whatever it was moving is lost: a value, and a
//! place for one.
//!
//! There is a place for each value only if the number of values on their way at the same time is known, which is one
//! for each handle. So handles are counted, and a handle is used by one thread at a time:
//!
//! ```compile_fail,E0277
//! # use onchip_research::nonblocking::TreiberStack;
//! fn push(stack: &TreiberStack) {
//!     std::thread::scope(|scope| {
//!         scope.spawn(|| stack.push(1).map(drop));
//!     });
//! }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `handle` | opening, and counting handles |
//! | `list` | a list of nodes that is changed at its top |
//! | `pool` | unused nodes |
//! | `treiber_stack` | the stack |
//! | `ring` | a ring of numbers, with its two ends |
//! | `ring_queue` | the queue of two rings |
//! | `closing_ring` | a ring of values that can be closed |
//! | `lcrq` | the queue of a list of rings |

mod closing_ring;
mod handle;
mod lcrq;
mod list;
#[cfg(all(test, loom))]
mod model;
mod pool;
mod ring;
mod ring_queue;
mod treiber_stack;

pub use lcrq::Lcrq;
pub use ring_queue::RingQueue;
pub use treiber_stack::TreiberStack;

#[cfg(not(loom))]
pub(crate) use self::{
    lcrq::{RingList, take_turn},
    ring_queue::Rings,
    treiber_stack::Nodes,
};

/// The number of bits for the number of a node or a place. The number 0 means none.
const NUMBER_BITS: u32 = 24;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
