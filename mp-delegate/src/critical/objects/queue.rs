//! A queue under one critical section.

use mp_core::{Rank, Result};

use super::{Answer, Full, Op, settle};
use crate::critical::{Object, Protected, Section};

/// Index in a cell.
const VALUE: usize = 0;
/// Index in the first cell: where the oldest value is, and how many values there are.
const ENDS: usize = 1;

/// A first-in, first-out queue. It is empty at first, and there is room for [`Section::len`] values, but for at most 4
/// 294 967 295.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Scheme, Section, objects::{Full, Queue}};
///
/// let rank = World::solo()?;
/// let jobs = Queue::open(&rank, "jobs", Section::new(Scheme::HybComb).len(2))?;
/// jobs.enqueue(7)??;
/// jobs.enqueue(8)??;
/// assert_eq!(jobs.enqueue(9)?, Err(Full(9)));
/// assert_eq!([jobs.dequeue()?, jobs.dequeue()?, jobs.dequeue()?], [Some(7), Some(8), None]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Queue;

impl Queue {
    /// Opens the queue of this name, as [`Protected::open`] does.
    ///
    /// # Errors
    /// As `Protected::open`.
    pub fn open(rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Protected<Self>> {
        Protected::open(rank, name, section, |_| ())
    }
}

impl Object for Queue {
    type State = [[u64; 2]];
    type Op = Op;
    type Ret = Answer;

    fn apply(cells: &mut [[u64; 2]], op: Op) -> Answer {
        let len = u32::try_from(cells.len()).unwrap_or(u32::MAX);
        let Some(first) = cells.first().filter(|_| len > 0) else {
            return Answer::refused(op.value);
        };
        // Other ranks may have written any bits: bring them within bounds.
        let oldest = (first[ENDS] >> 32) as u32 % len;
        let count = (first[ENDS] as u32).min(len);
        let (at, oldest, count) = match op.to_put() {
            Some(_) if count == len => return Answer::refused(op.value),
            Some(_) => (wrapped(oldest, count, len), oldest, count + 1),
            None if count == 0 => return Answer::refused(op.value),
            None => (oldest, wrapped(oldest, 1, len), count - 1),
        };
        let cell = &mut cells[at as usize];
        if let Some(value) = op.to_put() {
            cell[VALUE] = value;
        }
        let value = cell[VALUE];
        // The operation is executed by the next write.
        settle(cell);
        cells[0][ENDS] = u64::from(oldest) << 32 | u64::from(count);
        Answer::done(value)
    }

    /// Does nothing: only the ends count, and they are written at once.
    fn repair(_: &mut [[u64; 2]]) -> bool {
        true
    }
}

/// Returns the place that is `further` places after `place`, in a ring.
fn wrapped(place: u32, further: u32, len: u32) -> u32 {
    let there = u64::from(place) + u64::from(further);
    let len = u64::from(len);
    (if there < len { there } else { there - len }) as u32
}

impl Protected<Queue> {
    /// Puts a value behind the others.
    ///
    /// # Errors
    /// As [`apply`](Self::apply). The inner result can be [`Full`].
    #[inline]
    pub fn enqueue(&self, value: u64) -> Result<Result<(), Full>> {
        self.apply(Op::put(value)).map(Answer::put)
    }

    /// Takes the value that came first, if there is one.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    #[inline]
    pub fn dequeue(&self) -> Result<Option<u64>> {
        self.apply(Op::TAKE).map(Answer::taken)
    }
}
