//! Waits.

pub(crate) use mp_collectives::communicator::wait_all;
