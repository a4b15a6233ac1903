//! Treiber's stack.

use mp_core::{Rank, Result};
use mp_delegate::critical::{
    internals::{AnyWord, BLOCK, Stop},
    objects::Full,
};

use super::{
    handle::{Handle, OWN},
    list::List,
    pool::Pool,
};

/// A stack whose top is changed by compare-and-swap (Treiber 1986). It is simple, but an operation may have to try
/// again without limit while others succeed.
///
/// It has its own nodes, which are reused. A tag of 40 bits beside the top tells whether the top has changed. There is
/// room for exactly the number of values that it was opened for.
///
/// ```
/// use onchip::{World, critical::objects::Full};
/// use onchip_research::nonblocking::TreiberStack;
///
/// let rank = World::solo()?;
/// let undo = TreiberStack::open(&rank, "undo", 2, 1)?;
/// undo.push(7)??;
/// undo.push(8)??;
/// assert_eq!(undo.push(9)?, Err(Full(9)));
/// assert_eq!([undo.pop()?, undo.pop()?, undo.pop()?], [Some(8), Some(7), None]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct TreiberStack {
    handle: Handle,
    stack: Nodes,
}

impl TreiberStack {
    /// Opens the stack of this name, with room for `capacity` values and up to `handles` handles of each rank. All
    /// ranks open it, with the same arguments.
    ///
    /// # Errors
    /// [`ObjectMismatch`](mp_core::ErrorKind::ObjectMismatch) when another rank opened it as something
    /// else; [`BadObject`](mp_core::ErrorKind::BadObject) when one of the numbers is 0, or when values
    /// and handles are 2²⁴ or more; those of [`Rank::mpb`].
    pub fn open(rank: &Rank, name: &str, capacity: usize, handles: usize) -> Result<Self> {
        let numbers = (capacity, handles);
        let (handle, nodes) = Handle::open(rank, name, "TreiberStack", numbers, Nodes::words)?;
        Ok(Self { handle, stack: Nodes::new(capacity, nodes) })
    }

    /// Opens another handle of the same rank, for another thread of it.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) if as many handles are open as the stack was opened for.
    pub fn another(&self) -> Result<Self> {
        Ok(Self { handle: self.handle.another()?, stack: self.stack })
    }

    /// Puts a value on top.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning. The inner result can be
    /// [`Full`].
    #[inline]
    pub fn push(&self, value: u64) -> Result<Result<(), Full>> {
        let pushed = self.stack.push(self.handle.region.words(), value);
        pushed.map_err(|stop| self.handle.stopped(stop))
    }

    /// Takes the value on top, if there is one.
    ///
    /// # Errors
    /// [`BadObject`](mp_core::ErrorKind::BadObject) for control words without a meaning.
    #[inline]
    pub fn pop(&self) -> Result<Option<u64>> {
        let popped = self.stack.pop(self.handle.region.words());
        popped.map_err(|stop| self.handle.stopped(stop))
    }
}

const TOP: usize = OWN;
const FREE: usize = OWN + BLOCK;
pub(super) const USED: usize = OWN + 2 * BLOCK;
const NODES: usize = OWN + 3 * BLOCK;

const LINK: usize = 0;
const VALUE: usize = 1;
const NODE: usize = 2;

/// The layout in the words of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    list: List,
    pool: Pool,
    capacity: u64,
}

impl Nodes {
    pub(crate) fn words(nodes: usize) -> usize {
        NODES + NODE * nodes
    }

    /// Creates a stack with as many nodes as there are values and handles, because each handle holds a node while it
    /// puts in or takes out a value.
    pub(crate) fn new(capacity: usize, nodes: usize) -> Self {
        let list = |top| List { top, links: NODES + LINK, stride: NODE };
        let pool = Pool { used: USED, free: list(FREE), nodes: nodes as u64 };
        Self { list: list(TOP), pool, capacity: capacity as u64 }
    }

    #[inline]
    pub(crate) fn push(
        &self,
        words: &[impl AnyWord],
        value: u64,
    ) -> Result<Result<(), Full>, Stop> {
        let number = self.pool.take(words)?;
        // The pool's numbers are valid nodes, because the pool has checked their links.
        words.get(place(number)).ok_or(Stop::Corrupt)?.store_relaxed(value);
        if self.list.push(words, number, self.capacity)? {
            return Ok(Ok(()));
        }
        self.pool.give(words, number)?;
        Ok(Err(Full(value)))
    }

    #[inline]
    pub(crate) fn pop(&self, words: &[impl AnyWord]) -> Result<Option<u64>, Stop> {
        let look = |number| words.get(place(number)).map_or(0, AnyWord::load_relaxed);
        let Some((number, value)) = self.list.pop(words, look)? else { return Ok(None) };
        self.pool.give(words, number)?;
        Ok(Some(value))
    }
}

fn place(number: u64) -> usize {
    NODES + NODE * (number as usize - 1) + VALUE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;
    use crate::nonblocking::NUMBERS;

    #[test]
    fn words_that_have_no_meaning_are_told_of() {
        let stack = Nodes::new(2, 3);
        for (word, bits) in [(TOP, 4), (TOP, NUMBERS), (FREE, 4), (FREE, NUMBERS)] {
            let words: Vec<_> = (0..Nodes::words(3)).map(|_| Word::new(0)).collect();
            words[USED].store_relaxed(3);
            words[word].store_relaxed(bits);
            // If popping does not show that the word is invalid, pushing does, because no node is left.
            assert!(stack.pop(&words).is_err() || stack.push(&words, 1).is_err(), "{word}: {bits}");
        }
    }
}
