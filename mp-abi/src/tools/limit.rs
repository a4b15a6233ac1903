//! The limit on unexpected messages that a tool has set before there was a rank.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mp_collectives::communicator::Communicator;

static LIMIT: Mutex<Option<usize>> = Mutex::new(None);

fn limit() -> MutexGuard<'static, Option<usize>> {
    LIMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the limit, if it was set and not applied yet.
pub(crate) fn get() -> Option<usize> {
    *limit()
}

/// Keeps a limit until there is a rank.
pub(crate) fn set(bytes: usize) {
    *limit() = Some(bytes);
}

/// Limits what a rank keeps, which begins now.
pub(crate) fn apply(all: &Communicator) {
    if let Some(bytes) = limit().take() {
        all.set_unexpected_limit(bytes);
    }
}
