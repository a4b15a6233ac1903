//! A list of node numbers that is changed at its top by compare-and-swap: Treiber's stack (IBM RJ 5118, 1986).
//!
//! - The top is a node's number and a tag of 40 bits, which counts the changes. A thread that has read the top, and
//!   finds it unchanged, knows that the node has not been removed meanwhile, unless there were 2⁴⁰ changes in between,
//!   which takes hours.
//! - A node's link is the number of the node below, and the number of nodes up to itself. So the list knows from its
//!   top whether it is full. A separate count beside the top could not tell that at the same moment.

use mp_delegate::critical::internals::{AnyWord, Stop};

use super::{NUMBER_BITS, NUMBERS};

/// See the [module](self). All fields are places in the words of a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) top: usize,
    /// The link of the first node. Between it and the next node's link is the `stride`.
    pub(super) links: usize,
    pub(super) stride: usize,
}

impl List {
    fn link<'a, W>(&self, words: &'a [W], number: u64) -> Result<&'a W, Stop> {
        let before = (number as usize).checked_sub(1).ok_or(Stop::Corrupt)?;
        words.get(self.links + before * self.stride).ok_or(Stop::Corrupt)
    }

    /// Puts a node on top, unless the list has `most` nodes. Its number is at least 1. Returns whether it was put
    /// there.
    #[inline]
    pub(super) fn push(
        &self,
        words: &[impl AnyWord],
        number: u64,
        most: u64,
    ) -> Result<bool, Stop> {
        let top = &words[self.top];
        let mine = self.link(words, number)?;
        let mut seen = top.load();
        loop {
            let below = seen & NUMBERS;
            // Acquire: a thread that uses the node for another purpose by now has changed the top before.
            let count = if below == 0 { 0 } else { self.link(words, below)?.load() >> NUMBER_BITS };
            if count >= most {
                let now = top.load();
                if now == seen {
                    return Ok(false);
                }
                seen = now;
                continue;
            }
            mine.store((count + 1) << NUMBER_BITS | below);
            match top.compare_exchange(seen, after(seen) | number) {
                Ok(()) => return Ok(true),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the node on top, if there is one. Calls `look` on it before it is taken, and returns the result if it is
    /// taken.
    #[inline]
    pub(super) fn pop<T>(
        &self,
        words: &[impl AnyWord],
        look: impl Fn(u64) -> T,
    ) -> Result<Option<(u64, T)>, Stop> {
        let top = &words[self.top];
        let mut seen = top.load();
        loop {
            let number = seen & NUMBERS;
            if number == 0 {
                return Ok(None);
            }
            let below = self.link(words, number)?.load_relaxed() & NUMBERS;
            let looked = look(number);
            match top.compare_exchange(seen, after(seen) | below) {
                Ok(()) => return Ok(Some((number, looked))),
                Err(now) => seen = now,
            }
        }
    }
}

/// Returns the tag after one more change, with an empty number.
fn after(top: u64) -> u64 {
    (top & !NUMBERS).wrapping_add(1 << NUMBER_BITS)
}
