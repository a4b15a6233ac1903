//! What errors of the library tell of other ranks.

use onchip::{Error, ErrorKind};

use crate::record::Told;

/// Returns what an error says, or one of the errors that it is made of.
pub fn told(error: &Error) -> Told {
    match error.kind() {
        ErrorKind::PeerLost { world_rank, .. } => Told::Lost(*world_rank),
        ErrorKind::Disconnected { .. }
        | ErrorKind::PeerEnded { .. }
        | ErrorKind::NobodyLeft
        // An operation before it has failed.
        | ErrorKind::FailedBefore { .. } => Told::Closed,
        ErrorKind::Revoked { .. } => Told::Revoked,
        ErrorKind::OutcomeUnknown { .. } | ErrorKind::Poisoned { .. } => Told::Unknown,
        _ => Told::Other,
    }
}
