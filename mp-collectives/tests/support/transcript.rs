//! The expected results of exchanges, by a simple reference.

use std::ops::Range;

/// The kind of an exchange.
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
    /// Whether blocks have different lengths, are in reverse order, and have gaps.
    pub varying: bool,
    pub in_place: bool,
    pub root: usize,
    pub count: usize,
}

/// A buffer before and after the exchange, and the places of its blocks.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    pub blocks: Vec<Range<usize>>,
}

const EMPTY: u8 = 0xee;

impl Step {
    /// Returns what rank `from` sends to rank `to`.
    fn block(self, from: usize, to: usize) -> Vec<u8> {
        // The destination makes no difference if a block goes to all ranks or to the root.
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

    /// Puts blocks one after the other, or the last one first with gaps.
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

    /// Returns the buffer that receives the blocks of all ranks.
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

    /// Returns the buffer that contains the blocks for all ranks.
    pub fn sending(self, me: usize, ranks: usize) -> Buffer {
        let blocks: Vec<_> = (0..ranks).map(|rank| self.block(me, rank)).collect();
        self.buffer(blocks.iter().cloned().map(Some).collect(), blocks)
    }

    /// Returns what a rank sends to all ranks, or to the root.
    pub fn own(self, me: usize) -> Vec<u8> {
        self.block(me, 0)
    }

    /// Returns the buffer for a rank's block from the root, before and after.
    pub fn scattered(self, me: usize) -> (Vec<u8>, Vec<u8>) {
        let after = self.block(self.root, me);
        (vec![EMPTY; after.len()], after)
    }
}
