//! What a communicator and its requests have in common.

use std::sync::Arc;

use mp_core::{Error, ErrorKind};

use crate::communicator::{
    agreement::board::Whose,
    error::{localized, revoked},
    members::Members,
    messages::owner::Shared,
};

/// What a communicator and its requests have in common, so that each request counts only one reference.
pub(crate) struct Home {
    pub(crate) engine: Shared,
    pub(crate) members: Arc<Members>,
    pub(crate) context: u32,
}

impl Home {
    /// Returns the error with the communicator's numbers instead of the world's. If the rank that was lost or has ended
    /// had revoked the communicator before, returns the error of a revocation: a channel may report the end of a rank
    /// before this rank has heard of the revocation.
    #[cold]
    pub(crate) fn localized(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::PeerLost { .. } | ErrorKind::PeerEnded { .. } if self.looks_revoked() => {
                revoked()
            }
            _ => localized(&self.members, error),
        }
    }

    fn looks_revoked(&self) -> bool {
        let whose = Whose { serial: self.engine.serial, context: self.context };
        // An error means that the segment is broken, which every other call reports.
        self.members.looks_revoked(&self.engine.rank, whose).unwrap_or(false)
    }
}
