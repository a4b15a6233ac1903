//! The ranks of the world that belong to a communicator, in their order, and which of them are known to be lost.

use mp_core::{Rank, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::communicator::{
    agreement::{
        board::{Board, Whose},
        words::words_of,
    },
    title::Title,
};

/// The world's numbers of the communicator's ranks, and the communicator's numbers of the world's ranks.
pub(crate) struct Members {
    world: Vec<u32>,
    /// The number in the communicator of each rank of the world up to the last member, or `NOBODY` for a rank that is
    /// not a member.
    local: Vec<u32>,
    /// Ranks below this one have the same number in the world, so that no table is read for them.
    alike: usize,
    pub(crate) me: usize,
    pub(crate) title: Arc<Title>,
    known: Mutex<Known>,
}

/// What the rank knows about the communicator, or the thread to which its engine is lent.
#[derive(Default)]
struct Known {
    /// World ranks that are lost and that this rank has acknowledged, in ascending order.
    acknowledged: Vec<u32>,
    /// Whether the communicator is revoked.
    revoked: bool,
    /// The board, which is opened when it is first needed and closed with the communicator.
    board: Option<Arc<Board>>,
}

const NOBODY: u32 = u32::MAX;

impl Members {
    /// Makes the members of a communicator named `name` from their world ranks, in their order. This rank is
    /// the world's rank `me`.
    pub(crate) fn new(world: Vec<u32>, me: u32, name: &str) -> Self {
        let last = world.iter().max().map_or(0, |&last| last as usize);
        let mut local = vec![NOBODY; last + 1];
        for (rank, &member) in world.iter().enumerate() {
            local[member as usize] = rank as u32;
        }
        let me = local[me as usize] as usize;
        Self::of(world, local, me, name)
    }

    fn of(world: Vec<u32>, local: Vec<u32>, me: usize, name: &str) -> Self {
        let alike = world.iter().zip(0..).take_while(|&(&world, rank)| world == rank).count();
        Self { world, local, alike, me, title: Title::new(name), known: Mutex::default() }
    }

    /// Returns the same members for another communicator, which is named `name`.
    pub(crate) fn anew(&self, name: &str) -> Self {
        Self::of(self.world.clone(), self.local.clone(), self.me, name)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes receives from any source stop waiting for messages of these lost ranks of the world.
    pub(crate) fn acknowledge(&self, lost: &[u32]) {
        let acknowledged = &mut self.known().acknowledged;
        acknowledged.extend(lost);
        acknowledged.sort_unstable();
        acknowledged.dedup();
    }

    pub(crate) fn has_acknowledged(&self, world: u32) -> bool {
        self.known().acknowledged.binary_search(&world).is_ok()
    }

    /// Returns whether this rank knows that the communicator is revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        self.known().revoked
    }

    pub(crate) fn set_revoked(&self) {
        self.known().revoked = true;
    }

    /// Returns the board, which is opened first if it is not open.
    pub(crate) fn board(&self, rank: &Rank, whose: Whose) -> Result<Arc<Board>> {
        let board = &mut self.known().board;
        Ok(Arc::clone(match board {
            Some(board) => board,
            None => board.insert(Arc::new(self.open_board(rank, whose)?)),
        }))
    }

    /// Opens the board.
    pub(crate) fn open_board(&self, rank: &Rank, whose: Whose) -> Result<Board> {
        Board::open(rank, whose, (&self.world, &self.title), words_of(self.len()))
    }

    /// Returns whether any member has revoked the communicator.
    pub(crate) fn looks_revoked(&self, rank: &Rank, whose: Whose) -> Result<bool> {
        let open = self.known().board.clone();
        let board = match open {
            Some(board) => board,
            None if Board::is_there(rank, whose)? => self.board(rank, whose)?,
            None => return Ok(false),
        };
        board.is_revoked()
    }

    /// Returns the board, if it is open, for the caller to close it.
    pub(crate) fn take_board(&self) -> Option<Arc<Board>> {
        self.known().board.take()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.world.len()
    }

    #[inline(always)]
    pub(crate) fn world(&self, rank: usize) -> Option<u32> {
        self.world.get(rank).copied()
    }

    /// Returns how many of the first ranks have the same number in the world.
    pub(crate) fn alike(&self) -> usize {
        self.alike
    }

    pub(crate) fn all(&self) -> &[u32] {
        &self.world
    }

    #[inline(always)]
    pub(crate) fn local(&self, world: u32) -> Option<usize> {
        if (world as usize) < self.alike {
            return Some(world as usize);
        }
        let rank = *self.local.get(world as usize)?;
        (rank != NOBODY).then_some(rank as usize)
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("world", &self.world).finish_non_exhaustive()
    }
}
