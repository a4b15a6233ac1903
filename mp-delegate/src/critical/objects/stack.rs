//! A stack under one critical section.

use mp_core::{Rank, Result};

use super::{Answer, Full, Op, settle};
use crate::critical::{Object, Protected, Section};

/// Index in a cell.
const VALUE: usize = 0;
/// Index in the first cell: how many values there are.
const COUNT: usize = 1;

/// A last-in, first-out stack. It is empty at first, and there is room for [`Section::len`] values.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Scheme, Section, objects::{Full, Stack}};
///
/// let rank = World::solo()?;
/// let undo = Stack::open(&rank, "undo", Section::new(Scheme::CcSynch).len(2))?;
/// undo.push(7)??;
/// undo.push(8)??;
/// assert_eq!(undo.push(9)?, Err(Full(9)));
/// assert_eq!([undo.pop()?, undo.pop()?, undo.pop()?], [Some(8), Some(7), None]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Stack;

impl Stack {
    /// Opens the stack of this name, as [`Protected::open`] does.
    ///
    /// # Errors
    /// As `Protected::open`.
    pub fn open(rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Protected<Self>> {
        Protected::open(rank, name, section, |_| ())
    }
}

impl Object for Stack {
    type State = [[u64; 2]];
    type Op = Op;
    type Ret = Answer;

    fn apply(cells: &mut [[u64; 2]], op: Op) -> Answer {
        // Other ranks may have written any bits: bring the count within bounds.
        let count = cells.first().map_or(0, |first| first[COUNT].min(cells.len() as u64));
        let (at, count) = match op.to_put() {
            Some(_) => (count, count + 1),
            None => (count.wrapping_sub(1), count.wrapping_sub(1)),
        };
        let Some(cell) = cells.get_mut(at as usize) else { return Answer::refused(op.value) };
        if let Some(value) = op.to_put() {
            cell[VALUE] = value;
        }
        let value = cell[VALUE];
        // The operation is executed by the next write.
        settle(cell);
        cells[0][COUNT] = count;
        Answer::done(value)
    }

    /// Does nothing: only the count matters, and it is written at once.
    fn repair(_: &mut [[u64; 2]]) -> bool {
        true
    }
}

impl Protected<Stack> {
    /// Puts a value on top.
    ///
    /// # Errors
    /// As [`apply`](Self::apply). The inner result can be [`Full`].
    #[inline]
    pub fn push(&self, value: u64) -> Result<Result<(), Full>> {
        self.apply(Op::put(value)).map(Answer::put)
    }

    /// Takes the value on top, if there is one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    #[inline]
    pub fn pop(&self) -> Result<Option<u64>> {
        self.apply(Op::TAKE).map(Answer::taken)
    }
}
