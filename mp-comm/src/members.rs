//! Which ranks of the world belong to a communicator, and in which order; which of them this rank has
//! acknowledged as lost.

use std::cell::RefCell;

/// World ranks by rank of the communicator, and the other way round.
#[derive(Debug)]
pub(crate) struct Members {
    world: Vec<u32>,
    /// By world rank; `NOBODY` for those that are no members.
    local: Vec<u32>,
    pub(crate) me: usize,
    /// World ranks, in ascending order.
    acknowledged: RefCell<Vec<u32>>,
}

const NOBODY: u32 = u32::MAX;

impl Members {
    /// The members in their order, of a world of `size`, as seen by world rank `me`.
    pub(crate) fn new(world: Vec<u32>, size: usize, me: u32) -> Self {
        let mut local = vec![NOBODY; size];
        for (rank, &member) in world.iter().enumerate() {
            local[member as usize] = rank as u32;
        }
        let me = local[me as usize] as usize;
        Self { world, local, me, acknowledged: RefCell::default() }
    }

    /// The same for another communicator, in which none is acknowledged.
    pub(crate) fn anew(&self) -> Self {
        let (world, local) = (self.world.clone(), self.local.clone());
        Self { world, local, me: self.me, acknowledged: RefCell::default() }
    }

    /// Waits for no message of these lost ranks of the world any more, where it waits for any.
    pub(crate) fn acknowledge(&self, lost: &[u32]) {
        let mut acknowledged = self.acknowledged.borrow_mut();
        acknowledged.extend(lost);
        acknowledged.sort_unstable();
        acknowledged.dedup();
    }

    pub(crate) fn has_acknowledged(&self, world: u32) -> bool {
        self.acknowledged.borrow().binary_search(&world).is_ok()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.world.len()
    }

    #[inline(always)]
    pub(crate) fn world(&self, rank: usize) -> Option<u32> {
        self.world.get(rank).copied()
    }

    pub(crate) fn all(&self) -> &[u32] {
        &self.world
    }

    pub(crate) fn local(&self, world: u32) -> Option<usize> {
        let rank = *self.local.get(world as usize)?;
        (rank != NOBODY).then_some(rank as usize)
    }
}
