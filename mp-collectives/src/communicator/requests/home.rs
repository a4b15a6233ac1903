//! What the requests of a communicator have in common.

use std::sync::Arc;

use crate::communicator::{members::Members, messages::owner::Shared};

/// What the requests of a communicator have in common, so that each request counts only one reference.
pub(crate) struct Home {
    pub(crate) engine: Shared,
    pub(crate) members: Arc<Members>,
}
