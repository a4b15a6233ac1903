//! What errors of the library tell of other ranks.

use onchip::nonblocking::NonblockingError;
use onchip::{Error, ErrorKind, communicator, critical};

use crate::record::Told;

/// Returns what an error says, or those that it is made of.
pub fn told(error: &Error) -> Told {
    let of_world = |error: &Error| match error.kind() {
        ErrorKind::PeerLost { rank, .. } => Some(Told::Lost(*rank)),
        ErrorKind::Disconnected { .. } => Some(Told::Closed),
        ErrorKind::Revoked { .. } => Some(Told::Revoked),
        _ => None,
    };
    let mut next: Option<&(dyn std::error::Error + 'static)> = match error.kind() {
        ErrorKind::Other(other) => Some(&**other),
        _ => None,
    };
    let mut found = of_world(error);
    while let (None, Some(error)) = (&found, next) {
        found = error.downcast_ref().and_then(of_world);
        found = found.or_else(|| match error.downcast_ref::<communicator::Error>()?.kind() {
            communicator::ErrorKind::PeerLost { world_rank, .. } => Some(Told::Lost(*world_rank)),
            communicator::ErrorKind::Ended { .. } | communicator::ErrorKind::NobodyLeft => {
                Some(Told::Closed)
            }
            communicator::ErrorKind::Revoked => Some(Told::Revoked),
            _ => None,
        });
        found = found.or_else(|| match error.downcast_ref::<critical::Error>()?.kind() {
            critical::ErrorKind::Lost { rank, .. } => Some(Told::Lost(*rank)),
            critical::ErrorKind::Unknown { .. } | critical::ErrorKind::Poisoned { .. } => {
                Some(Told::Unknown)
            }
            _ => None,
        });
        // An operation before it has failed.
        found = found.or_else(|| match error.downcast_ref()? {
            NonblockingError::Broken(_) => Some(Told::Closed),
            _ => None,
        });
        next = error.source();
    }
    found.unwrap_or(Told::Other)
}
