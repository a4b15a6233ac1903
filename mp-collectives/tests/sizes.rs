//! The results of communicator calls are small.

use mp_collectives::communicator::Status;
use mp_core::{Error, Result};

const WORD: usize = size_of::<usize>();

#[test]
fn what_calls_return_is_small() {
    assert_eq!(size_of::<Error>(), WORD);
    assert_eq!(size_of::<Result<()>>(), WORD);
    assert_eq!(size_of::<Result<usize>>(), 2 * WORD);
    // Source, tag, count and bytes. An error takes no more space.
    assert_eq!(size_of::<Status>(), 4 * WORD);
    assert!(size_of::<Result<Status>>() <= 5 * WORD);
}
