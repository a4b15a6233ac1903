//! Michael's and Scott's queue of two locks. Operations that put values in exclude each other, and so do operations
//! that take values out, but the two ends do not exclude each other.
//!
//! Both ends share a ring of nodes, which belongs to neither section. A node is a mark and a value. The mark says what
//! the node is for: with `n` nodes, value number `i` goes into node `i % n` in lap `i / n`, and the mark is
//!
//! - `2 lap` when the node is free for that value,
//! - `2 lap + 1` when that value is in it,
//! - `2 (lap + 1)` afterwards.
//!
//! In the original a node's link says that there is a next node, and nodes that were taken are returned to an
//! allocator. Here the node that was returned first is used first, so a node's successor is always its neighbour. All
//! that is left of the link is whether it is set.

use std::fmt;

use mp_core::{
    Rank, Result,
    memory::{Region, Word},
    names::Namespace,
};

use super::{Answer, Full, settle};
use crate::critical::{Object, Protected, Section, Server, error::bad, site::open_region};

/// The names of the parts of a queue: each is its queue's.
const NODES: Namespace = Namespace::new("nodes");
const ENQUEUERS: Namespace = Namespace::new("enqueue");
const DEQUEUERS: Namespace = Namespace::new("dequeue");

/// Index in a node.
const MARK: usize = 0;
const VALUE: usize = 1;
const NODE: usize = 2;

/// Returns the mark and the place of the node of value number `index`, and the mark that says that it is free.
fn node(nodes: &[Word], index: u64) -> Option<(&Word, &Word, u64)> {
    let n = (nodes.len() / NODE) as u64;
    let lap = index.checked_div(n)?;
    let at = NODE * (index - lap * n) as usize;
    Some((nodes.get(at + MARK)?, nodes.get(at + VALUE)?, lap.wrapping_mul(2)))
}

/// The end at which values are put in: see [`TwoLockQueue::into_ends`].
///
/// The state is how many values have been put in; an operation is a value.
#[derive(Debug)]
pub struct Enqueuers;

impl Object for Enqueuers {
    type State = u64;
    type Op = u64;
    type Ret = Answer;

    /// Refuses the value: without nodes there is no room.
    fn apply(_: &mut u64, value: u64) -> Answer {
        Answer::refused(value)
    }

    fn apply_beside(tail: &mut u64, value: u64, nodes: &[Word]) -> Answer {
        match node(nodes, *tail) {
            Some((mark, place, free)) if mark.load() == free => {
                place.store_relaxed(value);
                mark.store(free | 1);
                settle(tail);
                *tail = tail.wrapping_add(1);
                Answer::done(value)
            }
            _ => Answer::refused(value),
        }
    }

    /// Advances the tail if it is behind. In that case the value was in its node, and may be out again.
    fn repair_beside(tail: &mut u64, nodes: &[Word]) -> bool {
        if node(nodes, *tail).is_some_and(|(mark, _, free)| is_past(mark.load(), free)) {
            *tail = tail.wrapping_add(1);
        }
        true
    }
}

/// The end at which values are taken out: see [`TwoLockQueue::into_ends`].
///
/// The state is how many values have been taken out.
#[derive(Debug)]
pub struct Dequeuers;

impl Object for Dequeuers {
    type State = u64;
    type Op = ();
    type Ret = Answer;

    /// Finds nothing: without nodes there are no values.
    fn apply(_: &mut u64, (): ()) -> Answer {
        Answer::refused(0)
    }

    fn apply_beside(head: &mut u64, (): (), nodes: &[Word]) -> Answer {
        match node(nodes, *head) {
            Some((mark, place, free)) if mark.load() == free | 1 => {
                let value = place.load_relaxed();
                mark.store(free.wrapping_add(2));
                settle(head);
                *head = head.wrapping_add(1);
                Answer::done(value)
            }
            _ => Answer::refused(0),
        }
    }

    /// Advances the head if it is behind. In that case the value was taken, and another one may be in the node.
    fn repair_beside(head: &mut u64, nodes: &[Word]) -> bool {
        if node(nodes, *head).is_some_and(|(mark, _, free)| is_past(mark.load(), free | 1)) {
            *head = head.wrapping_add(1);
        }
        true
    }
}

/// Returns whether a mark came after another one.
fn is_past(mark: u64, other: u64) -> bool {
    (mark.wrapping_sub(other) as i64) > 0
}

impl Protected<Enqueuers> {
    /// Puts a value behind the others.
    ///
    /// # Errors
    /// As [`apply`](Self::apply). The inner result can be [`Full`].
    #[inline]
    pub fn enqueue(&self, value: u64) -> Result<Result<(), Full>> {
        self.apply(value).map(Answer::put)
    }
}

impl Protected<Dequeuers> {
    /// Takes the value that came first, if there is one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    #[inline]
    pub fn dequeue(&self) -> Result<Option<u64>> {
        self.apply(()).map(Answer::taken)
    }
}

/// A queue with a critical section for each end. It is empty at first, with room for [`Section::len`] values.
///
/// It pays when operations at both ends are requested at the same time and a single section would be the bottleneck:
/// with locks, on most machines. With delegation a [`Queue`](super::Queue) is often faster, since the value of one
/// section stays in one core's cache, and the nodes of this queue don't (section 6.2.4 of the thesis, which finds both
/// on different machines).
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Scheme, Section, objects::TwoLockQueue};
///
/// World::threads(2).run(|rank| {
///     let section = Section::new(Scheme::HybLock).len(10);
///     let jobs = TwoLockQueue::open(rank, "jobs", section)?;
///     let mut wanted = 0;
///     while wanted < 100 {
///         if rank.id() == 1 {
///             // The other end is not waited for.
///             wanted += u64::from(jobs.enqueue(wanted)?.is_ok());
///         } else if let Some(job) = jobs.dequeue()? {
///             assert_eq!(job, wanted);
///             wanted += 1;
///         }
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct TwoLockQueue {
    enqueuers: Protected<Enqueuers>,
    dequeuers: Protected<Dequeuers>,
}

impl TwoLockQueue {
    /// Opens the queue of this name, of 64 bytes at most, with the same scheme at both ends.
    ///
    /// # Errors
    /// As [`Protected::open`]; [`BadObject`](mp_core::ErrorKind::BadObject) for responses that are
    /// [streamed](Section::streaming), because one end reads what an operation of the other writes.
    pub fn open(rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Self> {
        let section = section.into();
        Self::open_ends(rank, name, section, section)
    }

    /// Opens the queue as [`open`](Self::open) does, with different sections for putting values in and for taking them
    /// out. Both have the same length. With [`MpServer`](crate::critical::Scheme::MpServer) each end can have a server
    /// of its own.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_ends(
        rank: &Rank,
        name: &str,
        enqueuers: impl Into<Section>,
        dequeuers: impl Into<Section>,
    ) -> Result<Self> {
        let (enqueuers, dequeuers): (Section, Section) = (enqueuers.into(), dequeuers.into());
        let n = enqueuers.len;
        if dequeuers.len != n {
            return Err(bad(name, "both ends have the same length"));
        }
        if enqueuers.streaming || dequeuers.streaming {
            return Err(bad(name, "both ends reach the same nodes: no streaming"));
        }
        let words = n.checked_mul(NODE).ok_or_else(|| bad(name, "too long"))?;
        let nodes = open_region(rank, NODES, name, words, 0)?;
        Ok(Self {
            enqueuers: end(rank, (ENQUEUERS, name), enqueuers, &nodes)?,
            dequeuers: end(rank, (DEQUEUERS, name), dequeuers, &nodes)?,
        })
    }

    /// Returns another handle, for another thread of the rank: see [`Protected::another`].
    ///
    /// # Errors
    /// As `Protected::another`.
    pub fn another(&self) -> Result<Self> {
        Ok(Self { enqueuers: self.enqueuers.another()?, dequeuers: self.dequeuers.another()? })
    }

    /// Puts a value behind the others.
    ///
    /// # Errors
    /// As [`Protected::apply`]. The inner result can be [`Full`].
    #[inline]
    pub fn enqueue(&self, value: u64) -> Result<Result<(), Full>> {
        self.enqueuers.enqueue(value)
    }

    /// Takes the value that came first, if there is one.
    ///
    /// # Errors
    /// As [`Protected::apply`].
    #[inline]
    pub fn dequeue(&self) -> Result<Option<u64>> {
        self.dequeuers.dequeue()
    }

    /// Lets this rank serve both ends: see [`Server::add`].
    ///
    /// # Errors
    /// As `Server::add`.
    pub fn serve(self, server: &mut Server) -> Result<()> {
        server.add(self.enqueuers)?;
        server.add(self.dequeuers)
    }

    /// Splits the queue into its ends, for ranks that use only one, or serve only one, and for
    /// [`submit`](Protected::submit).
    pub fn into_ends(self) -> (Protected<Enqueuers>, Protected<Dequeuers>) {
        (self.enqueuers, self.dequeuers)
    }
}

impl fmt::Debug for TwoLockQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoLockQueue")
            .field("enqueuers", &self.enqueuers)
            .field("dequeuers", &self.dequeuers)
            .finish()
    }
}

/// Opens the section of one end. The number of nodes is the identity, on which all ranks agree.
fn end<O: Object<State = u64>>(
    rank: &Rank,
    named: (Namespace, &str),
    section: Section,
    nodes: &Region,
) -> Result<Protected<O>> {
    let identity = nodes.serial().rotate_left(32) ^ nodes.words().len() as u64;
    Protected::open_as(rank, named, section.len(1), identity, Some(nodes.clone()), |_| ())
}
