//! Memory for elements of any type, as reductions need it.

use std::{cell::RefCell, mem};

use super::{data::Data, definition::Datatype};
use crate::state::of_rank;

of_rank! {
    /// Memory of a vector that is no longer needed. The next vector takes it, because new memory has to be cleared by the
    /// system page by page: a reduction of 1 MiB took eight times as long with it.
    static SPARE: RefCell<Vec<u128>> = RefCell::new(Vec::new());
}

/// The largest number of elements of `SPARE`: 64 MiB.
const MOST: usize = (64 << 20) / size_of::<u128>();

/// Memory for elements, aligned for all types, with the gaps that the type has.
pub(crate) struct Vector<'a> {
    memory: Vec<u128>,
    /// The place of the first element in the memory, which may lie before it.
    first: isize,
    count: usize,
    datatype: &'a Datatype,
}

impl<'a> Vector<'a> {
    pub fn new(count: usize, datatype: &'a Datatype) -> Self {
        const ALIGN: i64 = align_of::<u128>() as i64;
        let (lower, upper) = datatype.span(count.max(1)).unwrap_or((0, 0));
        // The first element is aligned.
        let first = (-lower + ALIGN - 1).div_euclid(ALIGN) * ALIGN;
        let bytes = (first + upper).max(0) as usize;
        let mut memory = SPARE.with(|spare| spare.take());
        let len = bytes.div_ceil(size_of::<u128>());
        if memory.len() < len {
            memory = vec![0; len];
        }
        Self { memory, first: first as isize, count, datatype }
    }

    /// Makes a vector with the same elements.
    pub fn copy_of(data: Data<'a>) -> Self {
        let mut vector = Self::new(data.count(), data.datatype());
        vector.data().copy_from(data);
        vector
    }

    pub fn data(&mut self) -> Data<'_> {
        let start = self.memory.as_mut_ptr().expose_provenance();
        let address = start.wrapping_add_signed(self.first);
        // SAFETY: the memory has room for these elements, and is borrowed for as long as the result.
        unsafe { Data::at_address(address, self.count, self.datatype) }
    }
}

impl Drop for Vector<'_> {
    fn drop(&mut self) {
        SPARE.with(|spare| {
            let mut spare = spare.borrow_mut();
            if (spare.len()..=MOST).contains(&self.memory.len()) {
                *spare = mem::take(&mut self.memory);
            }
        });
    }
}
