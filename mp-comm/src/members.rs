//! Which ranks of the world belong to a communicator, and in which order; what is known of those that were
//! lost.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use crate::board::Board;

/// World ranks by rank of the communicator, and the other way round.
pub(crate) struct Members {
    world: Vec<u32>,
    /// By world rank; `NOBODY` for those that are no members.
    local: Vec<u32>,
    pub(crate) me: usize,
    /// World ranks that are lost and that this rank has acknowledged, in ascending order.
    acknowledged: RefCell<Vec<u32>>,
    /// Whether this rank has heard that the communicator is revoked.
    pub(crate) revoked: Cell<bool>,
    /// Opened when it is first needed, closed with the communicator.
    pub(crate) board: RefCell<Option<Rc<Board>>>,
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
        Self::of(world, local, me)
    }

    fn of(world: Vec<u32>, local: Vec<u32>, me: usize) -> Self {
        let (acknowledged, revoked, board) = Default::default();
        Self { world, local, me, acknowledged, revoked, board }
    }

    /// The same for another communicator.
    pub(crate) fn anew(&self) -> Self {
        Self::of(self.world.clone(), self.local.clone(), self.me)
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

    /// The board, if it is open here.
    pub(crate) fn open_board(&self) -> Option<Rc<Board>> {
        self.board.borrow().clone()
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

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("world", &self.world).finish_non_exhaustive()
    }
}
