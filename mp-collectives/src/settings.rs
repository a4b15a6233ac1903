//! Settings of collective operations.

use std::rc::Rc;

use mp_core::Wait;
use mp_model::cla::{Barrier, Placement};

use crate::broadcast::{Broadcast, Shape};
use crate::communicator::{Check, Communicator};
use crate::exchange::{Way, WayToAll};
use crate::reduce::{AllReduce, Order, Reduce, ReduceScatter, Scan};

/// Settings of collective operations, blocking and nonblocking. All ranks must use the same.
///
/// For each operation, a setting is an algorithm with its parameters, or `None` for the one that suits the message and
/// the machine. A message that is too long for a forced algorithm is an error.
///
/// ```
/// use onchip::Communicator;
/// use onchip::collectives::{Collective, Settings};
/// use onchip::reduce::{AllReduce, Sum};
///
/// onchip::World::threads(3).run(|rank| {
///     let world = Communicator::world(rank);
///     let all_reduce = Some(AllReduce::Whole);
///     world.set_collectives(Settings { all_reduce, ..Default::default() })?;
///     world.all_reduce(&mut [1.0; 100], Sum)?;
///     let text = world.explain(Collective::AllReduce, 800)?.to_string();
///     assert!(text.contains("everything to all; forced"), "{text}");
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Forces this barrier.
    pub barrier: Option<Barrier>,
    /// Forces this algorithm for broadcasts.
    pub broadcast: Option<Broadcast>,
    /// Forces this algorithm for reductions to one rank.
    pub reduce: Option<Reduce>,
    /// Forces this algorithm for reductions to all ranks.
    pub all_reduce: Option<AllReduce>,
    /// Forces this algorithm for scans.
    pub scan: Option<Scan>,
    /// Forces this algorithm for reductions of a block for each rank.
    pub reduce_scatter: Option<ReduceScatter>,
    /// Forces this way for gathers, scatters and all-to-alls.
    pub exchange: Option<Way>,
    /// Forces this way for all-gathers.
    pub all_gather: Option<WayToAll>,
    /// Forces this tree for broadcasts. A shape is a tree for any number of ranks, but its degrees must not be 0.
    pub tree: Option<Shape>,
    /// Which ranks are near each other, for barriers. By default these are the ranks that the world has bound to CPUs
    /// of one last-level cache.
    pub placement: Option<Placement>,
    /// The order in which reductions combine elements, where their algorithm is not forced.
    pub order: Order,
    /// The number of 64-byte lines in a chunk or block of a long message, instead of a number that suits the operation
    /// and the number of ranks.
    pub chunk_lines: Option<usize>,
    /// The number of chunks that a rank may have pending, instead of a number that suits the machine.
    pub buffers: Option<usize>,
    /// The number of lines that may be pending between two ranks, instead of a number that suits the machine.
    pub slots: Option<usize>,
    /// Whether the receivers of a long block copy it directly from the memory of its sender, if that is memory of the
    /// world ([`Rank::buffer`](mp_core::Rank::buffer)). This holds for broadcasts, gathers, scatters, all-gathers and
    /// all-to-alls. A rank whose block is copied in this way waits until its receivers have it.
    pub direct: bool,
    /// How blocking calls wait: with which policy and for how long.
    pub wait: Wait,
    /// Whether the ranks compare their calls.
    pub check: Check,
}

/// The settings of a communicator, and the number of ranks that they are for.
struct HandedDown {
    ranks: usize,
    settings: Settings,
}

impl Settings {
    /// Returns the settings of a communicator: those set for it, or for the communicator from which it was made.
    pub(crate) fn of(communicator: &Communicator) -> Settings {
        let settings = communicator.joint().handed_down::<HandedDown>();
        let part = |of: Rc<HandedDown>| of.settings.clone().of_part(of.ranks, communicator.size());
        settings.map_or_else(Settings::default, part)
    }

    /// Sets the settings of a communicator, and of communicators that are made from it afterwards.
    pub(crate) fn set(self, communicator: &Communicator) {
        let ranks = communicator.size();
        communicator.joint().hand_down(HandedDown { ranks, settings: self });
    }

    /// Returns the settings for a communicator of `ranks` ranks that is made from one of `before` ranks with these
    /// settings. A barrier's rounds and placement apply only to the number of ranks that they were made for.
    pub(crate) fn of_part(mut self, before: usize, ranks: usize) -> Self {
        if ranks != before {
            self.placement = None;
            self.barrier = self.barrier.filter(|barrier| *barrier == Barrier::Central);
        }
        self
    }
}
