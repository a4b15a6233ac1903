//! Objects that programs often need, over any [`Scheme`](super::Scheme), between threads and between processes.
//!
//! | object | operations | protected by |
//! |---|---|---|
//! | [`Counter`] | [`fetch_add`](Protected::fetch_add) | one critical section |
//! | [`Stack`] | [`push`](Protected::push), [`pop`](Protected::pop) | one |
//! | [`Queue`] | [`enqueue`](Protected::enqueue), [`dequeue`](Protected::dequeue) | one |
//! | [`TwoLockQueue`] | [`enqueue`](TwoLockQueue::enqueue), [`dequeue`](TwoLockQueue::dequeue) | one for each end, so that both ends are used at the same time |
//! | [`Map`] | [`get`](Protected::get), [`insert`](Protected::insert), [`remove`](Protected::remove), ... | one |
//!
//! All of them are opened like [`Protected`] values, and their operations can be [submitted](Protected::submit) as
//! well. Only the queue of two locks is not itself a `Protected` value.
//!
//! **Values** of all objects but a map are words: numbers, or anything that fits into 8 bytes. Longer data lies
//! elsewhere, and its place is the value. The keys and values of a map are of any plain types; [`Bytes`] are short
//! strings. [`Table`] is the hash table in a map, for objects with other operations.
//!
//! **Capacity** is [`Section::len`](super::Section::len), and all memory is allocated when an object is opened. There
//! is room for exactly this many values. A call that adds one more gets it back with [`Full`], and a call that finds no
//! value gets `None`. Neither waits.
//!
//! **Deaths.** All of these objects are [repaired](super::Object::repair) by the successor of a rank that was killed in
//! the middle of an operation, with a lock, as a combiner or as a server. It is unknown whether that operation was
//! executed, and nothing else is affected, except that an interrupted map operation may have lost its key. Gets and
//! inserts of a map are [executed again](super::Object::is_idempotent) instead.
//!
//! ```
//! use onchip::World;
//! use onchip::critical::{Scheme, Section, objects::{Counter, Queue}};
//!
//! let sums = World::threads(3).run(|rank| {
//!     let section = Section::new(Scheme::HybComb);
//!     let tickets = Counter::open(rank, "tickets", section)?;
//!     let jobs = Queue::open(rank, "jobs", section.len(10))?;
//!     while let ticket = tickets.fetch_add(1)? && ticket < 10 {
//!         jobs.enqueue(ticket)??;
//!     }
//!     let mut sum = 0;
//!     while let Some(job) = jobs.dequeue()? {
//!         sum += job;
//!     }
//!     Ok(sum)
//! })?;
//! assert!(sums.iter().sum::<u64>() <= 45);
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! Source: Petrović's thesis, sections 6.2.4 and 7.2; Michael and Scott (PODC 1996) for the queue of two locks. In
//! these sources queues and stacks are unbounded lists of nodes that are allocated. Here they are arrays: a bounded
//! object needs no links, and no allocator that all ranks share.

mod bytes;
mod counter;
#[cfg(all(test, not(loom)))]
mod interrupted;
mod map;
#[cfg(all(test, loom))]
mod model;
mod queue;
mod stack;
mod table;
mod two_lock_queue;

use std::hint::black_box;

use bytemuck::{Pod, Zeroable};

#[cfg(doc)]
use super::Protected;

pub use bytes::{Bytes, TooLong};
pub use counter::Counter;
pub use map::{Map, MapAnswer, MapOp};
pub use queue::Queue;
pub use stack::Stack;
pub use table::{Entry, Table, TableFull};
pub use two_lock_queue::{Dequeuers, Enqueuers, TwoLockQueue};

/// Orders the writes before it before those after it, as seen by a successor if this process is killed in between.
/// Processors keep that order for a successor; the compiler keeps it for memory that might be read.
#[inline(always)]
fn settle<T: ?Sized>(written: &mut T) {
    black_box(written);
    #[cfg(all(test, not(loom)))]
    interrupted::step();
}

/// The error when there was no room for a value, which is returned in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "there is no room for {0} in the object: take something out before, or open it with more room"
)]
pub struct Full(pub u64);

impl From<Full> for mp_core::Error {
    fn from(full: Full) -> Self {
        mp_core::ErrorKind::ObjectFull { reason: format!("there is no room for {}", full.0) }.into()
    }
}

/// An operation on a [`Stack`] or a [`Queue`], for [`Protected::submit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Op {
    puts: u64,
    value: u64,
}

impl Op {
    /// Takes a value out.
    pub const TAKE: Self = Self { puts: 0, value: 0 };

    /// Puts a value in.
    pub const fn put(value: u64) -> Self {
        Self { puts: 1, value }
    }

    fn to_put(self) -> Option<u64> {
        (self.puts != 0).then_some(self.value)
    }
}

/// The result of an operation on a stack or a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[must_use = "a value that was refused is in here"]
pub struct Answer {
    done: u64,
    value: u64,
}

impl Answer {
    fn done(value: u64) -> Self {
        Self { done: 1, value }
    }

    fn refused(value: u64) -> Self {
        Self { done: 0, value }
    }

    /// Returns the value that an operation took, if there was one.
    pub const fn taken(self) -> Option<u64> {
        if self.done != 0 { Some(self.value) } else { None }
    }

    /// Returns whether an operation put its value in.
    ///
    /// # Errors
    /// [`Full`], with the value.
    pub const fn put(self) -> Result<(), Full> {
        if self.done != 0 { Ok(()) } else { Err(Full(self.value)) }
    }
}
