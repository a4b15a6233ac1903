//! Nonblocking collectives of communicators.
//!
//! These are collective operations of a communicator's ranks that continue while the ranks do something else.
//!
//! ```
//! use onchip::reduce::Sum;
//! use onchip::Communicator;
//!
//! onchip::World::threads(4).run(|rank| {
//!     let world = Communicator::world(rank);
//!     let half = world.split(Some(rank.id() as u64 % 2), 0)?.expect("every rank names a color");
//!     let sum = half.nonblocking()?.all_reduce(vec![rank.id(); 100], Sum);
//!     let weights = world.nonblocking()?.broadcast([0.5 * rank.id() as f64], 3);
//!     // Tagged messages, computation, then:
//!     assert_eq!(weights.wait()?, [1.5]);
//!     assert_eq!(sum.wait()?[99], 2 + 2 * (rank.id() % 2));
//!     Ok(())
//! })?;
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! Each communicator is a [front](super) of its own: all its ranks call its operations in the same order, and the
//! operations of several communicators do not wait for each other. It has a second one for operations that go
//! [apart](Communicator::nonblocking_apart), and a third one for [`arrive`](Communicator::arrive) on several nodes. Rank
//! numbers in a request's errors are those of the communicator. Dropping a communicator waits for its pending operations.
//!
//! On several nodes, the operations have [two levels](crate::collectives#several-nodes), like the blocking ones. A call begins
//! an operation and returns. Whatever advances the operations of a node's first rank also sends and receives what goes
//! between the nodes. In scans, this holds for the first and the last rank of a node. Ranks of different nodes do not compare
//! their calls. Those of one node compare the steps that the calls take there, so that an error names these.
//!
//! On one node, the ranks always compare kind, type, length and root of nonblocking operations. If these differ, the
//! requests of all ranks fail with [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer), at the latest some time after one rank
//! waits.
//!
//! If the ranks [check](crate::collectives::Check) all their calls, a request fails if the ranks have not all made the
//! same call at that place among all calls of the communicator, including blocking calls. The error is again
//! [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer), which names the ranks and their calls. The operation is then not
//! carried out. The call itself does not wait for other ranks.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;

use crate::communicator::Communicator;
use crate::errors::bad_call;
use mp_core::Result;
use mp_delegate::threads::Progress;

use super::{CollectiveRequest, Nonblocking};
use crate::calls::Board;
use crate::members::{Members, names};
use crate::settings::Settings;

/// The fronts of a communicator, each with an order of its own.
struct Fronts {
    nonblocking: Slot,
    apart: Slot,
    /// The front of `arrive`, if the ranks are on several nodes.
    arrive: Slot,
    /// How often they were closed. It is in the names of what ranks on several nodes open.
    generation: Cell<u32>,
}

/// The operations of a front, which are opened at the first call and closed with the communicator.
struct Slot {
    name: &'static str,
    operations: RefCell<Option<Nonblocking>>,
}

impl Fronts {
    fn of(communicator: &Communicator) -> Result<&Self> {
        let slot = |name| Slot { name, operations: RefCell::default() };
        communicator.joint().keep(|_| {
            let [nonblocking, apart, arrive] = ["nonblocking", "apart", "arrive"].map(slot);
            Ok(Self { nonblocking, apart, arrive, generation: Cell::default() })
        })
    }

    fn all(&self) -> [&Slot; 3] {
        [&self.nonblocking, &self.apart, &self.arrive]
    }
}

impl Slot {
    fn borrow(&self) -> Result<RefMut<'_, Option<Nonblocking>>> {
        let busy = "what an earlier call of `nonblocking` returned is still in use: drop it before";
        self.operations.try_borrow_mut().map_err(|_| bad_call(busy))
    }

    /// Returns the operations. The first call opens them.
    fn open(&self, of: &Communicator) -> Result<RefMut<'_, Nonblocking>> {
        of.joint().check_revoked()?;
        let mut slot = self.borrow()?;
        if slot.is_none() {
            *slot = Some(open(of, self.name)?);
        }
        let gone = || bad_call("what was just opened is gone");
        let mut operations = RefMut::filter_map(slot, Option::as_mut).map_err(|_| gone())?;
        operations.ledger = of.joint().ledger()?;
        Ok(operations)
    }
}

fn open(of: &Communicator, name: &str) -> Result<Nonblocking> {
    let (joint, settings) = (of.joint(), Settings::of(of));
    let progress = joint.handed_down().map_or(Progress::Automatic, |of| Progress::clone(&of));
    let (rank, ranks) = (joint.rank(), joint.world_ranks());
    if of.spans_nodes() {
        let generation = Fronts::of(of)?.generation.get();
        let name = joint.name(&format!("{name} {generation} "));
        return Nonblocking::open_between(joint, name, progress, settings);
    }
    let members = Members::of(&rank, &ranks).within(names::COMMUNICATORS);
    let called = joint.name(&format!("called {name}"));
    let board = Arc::new(Board::new(rank.clone(), ranks.clone(), called, joint.title()));
    let name = joint.name(name);
    let opened = Nonblocking::open_with(members, &name, progress, settings, Some(board))?;
    joint.check_revoked()?;
    Ok(opened)
}

/// Closes the operations after waiting for those that are pending. The next call opens them again. If any are in use, closes
/// none.
pub(crate) fn close(of: &Communicator) -> Result<()> {
    let fronts = Fronts::of(of)?;
    let slots = fronts.all().into_iter().map(Slot::borrow).collect::<Result<Vec<_>>>()?;
    fronts.generation.set(fronts.generation.get() + 1);
    slots.into_iter().for_each(|mut slot| drop(slot.take()));
    Ok(())
}

/// Begins a barrier of a communicator whose ranks are on several nodes.
pub(crate) fn arrive(of: &Communicator) -> Result<CollectiveRequest<()>> {
    Ok(Fronts::of(of)?.arrive.open(of)?.barrier())
}

impl Communicator {
    /// Returns the nonblocking operations. The first call opens them with the [settings](Communicator::set_collectives)
    /// of the communicator. They are advanced by what was [set](Communicator::set_nonblocking) for that, or else by
    /// [`Progress::Automatic`].
    ///
    /// # Errors
    /// The errors of [`Nonblocking::open`]; [`BadCall`](mp_core::ErrorKind::BadCall) while the value that an earlier
    /// call returned is still kept.
    pub fn nonblocking(&self) -> Result<RefMut<'_, Nonblocking>> {
        Fronts::of(self)?.nonblocking.open(self)
    }

    /// Returns a second set of nonblocking operations, with an order of its own. Its operations do not wait for those
    /// of [`nonblocking`](Communicator::nonblocking), nor those for them. Ranks may call operations of the two sets in
    /// different orders, unless they [check](crate::collectives::Check) all their calls. A blocking call that is
    /// carried out as a nonblocking operation uses this set.
    ///
    /// # Errors
    /// The same as for [`nonblocking`](Communicator::nonblocking).
    pub fn nonblocking_apart(&self) -> Result<RefMut<'_, Nonblocking>> {
        Fronts::of(self)?.apart.open(self)
    }

    /// Sets what advances the nonblocking operations of this communicator, once its pending ones are done, and those of
    /// communicators that are made from it afterwards. Each rank chooses this for itself.
    ///
    /// # Errors
    /// The errors of [`CommThreads::start`](mp_delegate::threads::CommThreads::start), for an automatic thread;
    /// [`BadCall`](mp_core::ErrorKind::BadCall) while the value that
    /// [`nonblocking`](Communicator::nonblocking) returned earlier is still kept.
    pub fn set_nonblocking(&self, progress: impl Into<Progress>) -> Result<()> {
        let progress = progress.into();
        for slot in Fronts::of(self)?.all() {
            if let Some(operations) = &mut *slot.borrow()? {
                operations.set_progress(progress.clone())?;
            }
        }
        self.joint().hand_down(progress);
        Ok(())
    }

    /// Sets what advances, between the calls of this rank, the operations that it began with non-blocking calls: tagged
    /// messages of all communicators made from the same [`world`](Communicator::world), and nonblocking operations of
    /// this communicator and of those that are made from it afterwards. Each rank chooses this for itself.
    ///
    /// Without this call, tagged messages use [`Progress::InCalls`] and nonblocking operations use
    /// [`Progress::Automatic`]. The reason is that each call that leaves messages pending hands them over to the
    /// thread, and the next call takes them back. This costs some microseconds, about as much as a short message. It
    /// pays off where the rank computes for longer than that while long messages are pending.
    ///
    /// A message for which a receive is posted arrives in memory of the library and is copied once more when the
    /// request is waited for.
    ///
    /// ```
    /// use onchip::Communicator;
    /// use onchip::threads::CommThreads;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     world.set_progress(CommThreads::start(1)?)?;
    ///     let other = 1 - world.rank();
    ///     let sent = world.nonblocking_send(vec![world.rank(); 125_000], other, 0);
    ///     let received = world.nonblocking_receive(vec![0; 125_000], other, 0);
    ///     // The messages make progress while this computes.
    ///     let sum: u64 = (0..1_000_000).sum();
    ///     assert_eq!(received.wait()?.0[124_999], other);
    ///     sent.wait()?;
    ///     assert_eq!(sum, 499_999_500_000);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`set_nonblocking`](Communicator::set_nonblocking).
    pub fn set_progress(&self, progress: impl Into<Progress>) -> Result<()> {
        let (joint, progress) = (self.joint(), progress.into());
        self.set_nonblocking(progress.clone())?;
        joint.lend_messages_to(progress.helper(&joint.rank())?);
        Ok(())
    }
}
