//! A tree in the headers of blocks, in which blocks are found by a hash of their names.
//!
//! A block's place in the tree follows from the bits of its hash, the highest bit first, so the tree needs no
//! balancing. Blocks with the same hash form a list, and only its first block is in the tree. Like the lists of free
//! blocks, the tree is redundant to the headers, and is rebuilt after a death.

use super::{SegmentError, Shared, heap::Heap};
use crate::sync::{AtomicU64, Ordering};

/// The root of the tree: see the [module](self). A root of zeros is an empty tree. The tree changes only under the
/// heap's lock.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Names {
    pub(super) root: AtomicU64,
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Names {}

impl Names {
    pub(super) fn clear(&self) {
        self.root.store(0, Ordering::Relaxed);
    }

    /// Returns the link that leads to the blocks of this hash, or the empty link where they would be inserted.
    fn link<'a>(&'a self, heap: Heap<'a>, hash: u64) -> Result<&'a AtomicU64, SegmentError> {
        let mut link = &self.root;
        for bit in (0..64).rev() {
            let offset = link.load(Ordering::Relaxed);
            if offset == 0 {
                return Ok(link);
            }
            let block = heap.named(offset)?;
            if block.hash.load(Ordering::Relaxed) == hash {
                return Ok(link);
            }
            link = &block.children[(hash >> bit & 1) as usize];
        }
        Err(heap.corrupt("the tree of names", link.load(Ordering::Relaxed)))
    }

    /// Adds a block, whose hash is in its header.
    pub(super) fn insert(&self, heap: Heap<'_>, offset: u64) -> Result<(), SegmentError> {
        let block = heap.named(offset)?;
        let link = self.link(heap, block.hash.load(Ordering::Relaxed))?;
        let first = link.load(Ordering::Relaxed);
        block.children.iter().for_each(|child| child.store(0, Ordering::Relaxed));
        // The first block of a list keeps its place in the tree, and the new one becomes the second.
        let link = if first == 0 { link } else { &heap.named(first)?.next };
        let next = if first == 0 { 0 } else { link.load(Ordering::Relaxed) };
        block.next.store(next, Ordering::Relaxed);
        link.store(offset, Ordering::Relaxed);
        Ok(())
    }

    /// Removes a block, if it is in the tree.
    pub(super) fn remove(&self, heap: Heap<'_>, offset: u64) -> Result<(), SegmentError> {
        let block = heap.named(offset)?;
        let next = block.next.load(Ordering::Relaxed);
        let hash = block.hash.load(Ordering::Relaxed);
        let mut link = self.link(heap, hash)?;
        if link.load(Ordering::Relaxed) == offset {
            let heir = if next == 0 { self.leaf_below(heap, offset)? } else { next };
            if heir != 0 {
                let heir = heap.named(heir)?;
                for (to, from) in heir.children.iter().zip(&block.children) {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            link.store(heir, Ordering::Relaxed);
            return Ok(());
        }
        for found in self.all_of(heap, hash)? {
            let found = found?;
            if found == offset {
                link.store(next, Ordering::Relaxed);
                return Ok(());
            }
            link = &heap.named(found)?.next;
        }
        Ok(())
    }

    /// Removes a leaf below the block at `offset` from the tree, and returns it. The leaf may take the place of any
    /// block above it. Returns 0 if there is no block below.
    fn leaf_below(&self, heap: Heap<'_>, offset: u64) -> Result<u64, SegmentError> {
        let below = |offset: u64| {
            let children = &heap.named(offset)?.children;
            let child = children.iter().find(|child| child.load(Ordering::Relaxed) != 0);
            Ok::<_, SegmentError>(child)
        };
        let Some(mut link) = below(offset)? else { return Ok(0) };
        for _ in 0..64 {
            let leaf = link.load(Ordering::Relaxed);
            match below(leaf)? {
                Some(deeper) => link = deeper,
                None => {
                    link.store(0, Ordering::Relaxed);
                    return Ok(leaf);
                }
            }
        }
        Err(heap.corrupt("the tree of names", offset))
    }

    /// Returns the blocks of this hash. A circular list is an error.
    pub(super) fn all_of<'a>(
        &'a self,
        heap: Heap<'a>,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<u64, SegmentError>> + 'a, SegmentError> {
        let mut next = self.link(heap, hash)?.load(Ordering::Relaxed);
        // Brent's test for a cycle: a circular list comes back to an earlier block, which is replaced after 1, 2, 4, 8,
        // … steps.
        let (mut earlier, mut steps, mut until) = (0, 0u64, 1);
        Ok(std::iter::from_fn(move || {
            let offset = next;
            if offset == 0 {
                return None;
            }
            next = 0;
            if offset == earlier {
                return Some(Err(heap.corrupt("the end of a list", offset)));
            }
            steps += 1;
            if steps == until {
                (earlier, until) = (offset, 2 * until);
            }
            Some(heap.named(offset).map(|block| {
                next = block.next.load(Ordering::Relaxed);
                offset
            }))
        }))
    }
}
