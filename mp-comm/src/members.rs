//! Which ranks of the world belong to a communicator, and in which order.

/// World ranks by rank of the communicator, and the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    world: Vec<u32>,
    /// By world rank; `NOBODY` for those that are no members.
    local: Vec<u32>,
    pub(crate) me: usize,
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
        Self { world, local, me }
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
