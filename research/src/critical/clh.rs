//! The queue lock of Craig, Landin and Hagersten as published: a waiting thread only reads its predecessor's node. The
//! library's [`Clh`](mp_delegate::critical::internals::Clh) also writes its name there, because it may sleep.

use std::cell::Cell;

use mp_delegate::critical::internals::{AnyWord, BLOCK, Seat, Site, Stop};

use super::cores::Core;

/// The access of one thread to the lock. A node is a word, which is 1 until the lock is given up.
pub(super) struct PublishedClh {
    tail: usize,
    /// The thread's own node, and its predecessor's, which it takes over when it gives the lock up.
    own: Cell<u64>,
    before: Cell<u64>,
}

impl PublishedClh {
    /// Returns how many words this takes: the tail, a node for each thread, and a spare one.
    pub(super) fn words(seats: usize) -> usize {
        BLOCK * (2 + seats)
    }

    pub(super) fn new(first: usize, me: Seat) -> Self {
        Self { tail: first, own: Cell::new(me as u64 + 1), before: Cell::new(0) }
    }

    fn node(&self, node: &Cell<u64>) -> usize {
        self.tail + BLOCK * (1 + node.get() as usize)
    }

    pub(super) fn acquire(&self, core: &Core<'_>) -> Result<(), Stop> {
        core.word(self.node(&self.own))?.store(1);
        // Where stores are seen in any order, the node must be locked before another thread can find it (T 6.2.2).
        core.fence();
        self.before.set(core.word(self.tail)?.swap(self.own.get()));
        let locked = core.word(self.node(&self.before))?;
        core.look(|| (locked.load() == 0).then_some(()));
        Ok(())
    }

    pub(super) fn release(&self, core: &Core<'_>) -> Result<(), Stop> {
        core.word(self.node(&self.own))?.store(0);
        self.own.set(self.before.get());
        Ok(())
    }
}
