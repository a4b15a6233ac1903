//! The results of operations in critical sections fit in registers.

use mp_core::{Error, Result};
use mp_delegate::critical::{Guard, objects::Counter};

const WORD: usize = size_of::<usize>();

#[test]
fn what_calls_return_fits_in_registers() {
    assert_eq!(size_of::<Error>(), WORD);
    assert_eq!(size_of::<Result<()>>(), WORD);
    assert_eq!(size_of::<Result<u64>>(), 2 * WORD);
    assert_eq!(size_of::<Result<u32>>(), 2 * WORD);
    assert_eq!(size_of::<Guard<'_, Counter>>(), WORD);
    assert_eq!(size_of::<Result<Guard<'_, Counter>>>(), 2 * WORD);
}
