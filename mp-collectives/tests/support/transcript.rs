//! What an exchange is to do, told by a plain reference.

use std::ops::Range;

/// Who exchanges what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Gather,
    Scatter,
    AllGather,
    AllToAll,
}

pub const OPERATIONS: [Operation; 4] =
    [Operation::Gather, Operation::Scatter, Operation::AllGather, Operation::AllToAll];

/// One exchange of a series.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub number: usize,
    pub operation: Operation,
    /// Blocks of up to `count` bytes, in any order and with gaps, and not all of so many one after the
    /// other.
    pub varying: bool,
    pub in_place: bool,
    pub root: usize,
    pub count: usize,
}

/// A buffer before and after, and where its blocks are.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    pub blocks: Vec<Range<usize>>,
}

const EMPTY: u8 = 0xee;

impl Step {
    /// What rank `from` sends to rank `to`.
    fn block(self, from: usize, to: usize) -> Vec<u8> {
        // To whom is all the same where a block goes to all or the root; from whom, where it is the
        // root's.
        let to_all = [Operation::Gather, Operation::AllGather].contains(&self.operation);
        let (from, to) = (from, if to_all { 0 } else { to });
        let byte = |index: usize| {
            (index * 7 + index / 256 + self.number * 31 + from * 101 + from * from + to * 59 + 1)
                as u8
        };
        let (one, other) = match self.in_place && self.operation == Operation::AllToAll {
            true => (from.min(to), from.max(to)),
            false => (from, to),
        };
        let count = self.count;
        let length = match (self.varying, (one * 5 + other * 3 + self.number) % 7) {
            (false, _) => count,
            (true, 0 | 4) => 0,
            (true, 1) => count,
            (true, 2) => count / 2,
            (true, 3) => count + 1,
            (true, 5) => 3 * count,
            (true, _) => 1,
        };
        (0..length).map(byte).collect()
    }

    /// Blocks one after the other; or the last one first, with gaps.
    fn buffer(self, before: Vec<Option<Vec<u8>>>, after: Vec<Vec<u8>>) -> Buffer {
        let mut buffer = Buffer { blocks: vec![0..0; after.len()], ..Buffer::default() };
        let mut ranks: Vec<_> = (0..after.len()).collect();
        if self.varying {
            ranks.reverse();
        }
        for rank in ranks {
            let gap: &[u8] = if self.varying { &[EMPTY] } else { &[] };
            buffer.before.extend(gap);
            buffer.after.extend(gap);
            let start = buffer.after.len();
            let block = &after[rank];
            buffer.blocks[rank] = start..start + block.len();
            match &before[rank] {
                Some(before) => buffer.before.extend(before),
                None => buffer.before.extend(vec![EMPTY; block.len()]),
            }
            buffer.after.extend(block);
        }
        buffer
    }

    /// The buffer that the blocks of all come to.
    pub fn receiving(self, me: usize, ranks: usize) -> Buffer {
        let Step { operation, in_place, .. } = self;
        let after = (0..ranks).map(|rank| self.block(rank, me)).collect();
        let before = (0..ranks).map(|rank| match operation {
            Operation::AllToAll if in_place => Some(self.block(me, rank)),
            _ if in_place && rank == me => Some(self.block(me, me)),
            _ => None,
        });
        self.buffer(before.collect(), after)
    }

    /// The buffer that the blocks for all come from.
    pub fn sending(self, me: usize, ranks: usize) -> Buffer {
        let blocks: Vec<_> = (0..ranks).map(|rank| self.block(me, rank)).collect();
        self.buffer(blocks.iter().cloned().map(Some).collect(), blocks)
    }

    /// What a rank sends to all, or the root.
    pub fn own(self, me: usize) -> Vec<u8> {
        self.block(me, 0)
    }

    /// Where a rank gets its block from the root, before and after.
    pub fn scattered(self, me: usize) -> (Vec<u8>, Vec<u8>) {
        let after = self.block(self.root, me);
        (vec![EMPTY; after.len()], after)
    }
}
