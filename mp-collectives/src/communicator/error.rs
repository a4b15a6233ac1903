//! The errors of communicators that occur in several places.

use mp_core::{Error, ErrorKind, Place, Recipient};

use crate::communicator::members::Members;

/// Makes the error for a rank that was lost.
#[cold]
pub(crate) fn lost(rank: usize, world_rank: usize) -> Error {
    ErrorKind::PeerLost { rank, world_rank, place: Place::Communicator }.into()
}

/// Makes the error for a communicator that was revoked.
#[cold]
pub(crate) fn revoked() -> Error {
    ErrorKind::Revoked { place: Place::Communicator }.into()
}

/// Makes the error for a message of this rank that was not sent.
#[cold]
pub(crate) fn not_sent(rank: usize, reason: String) -> Error {
    ErrorKind::NotSent { to: Recipient::Rank(rank), reason }.into()
}

/// Returns the reason for which a send failed, if it lies in this rank.
#[cold]
pub(crate) fn reason_in_this_rank(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::PeerLost { .. }
        | ErrorKind::PeerEnded { .. }
        | ErrorKind::Revoked { .. }
        | ErrorKind::NotSent { .. }
        | ErrorKind::BadCall { .. }
        | ErrorKind::WaitsForItself => None,
        ErrorKind::PeerBroken { reason, .. } => Some(reason.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the error with the communicator's rank numbers instead of the world's.
#[cold]
pub(crate) fn localized(members: &Members, error: Error) -> Error {
    let local = |rank: usize| members.local(rank as u32).unwrap_or(rank);
    match error.into_kind() {
        ErrorKind::PeerLost { world_rank, .. } => lost(local(world_rank), world_rank),
        ErrorKind::PeerEnded { rank } => ErrorKind::PeerEnded { rank: local(rank) }.into(),
        ErrorKind::PeerBroken { rank, reason } => {
            Error::from(ErrorKind::PeerBroken { rank: local(rank), reason })
        }
        ErrorKind::NotSent { to: Recipient::Rank(rank), reason } => not_sent(local(rank), reason),
        ErrorKind::Truncated { source_rank, tag, count, room } => {
            Error::from(ErrorKind::Truncated { source_rank: local(source_rank), tag, count, room })
        }
        ErrorKind::WrongElements { source_rank, tag, count, ours, theirs } => {
            let source_rank = local(source_rank);
            Error::from(ErrorKind::WrongElements { source_rank, tag, count, ours, theirs })
        }
        ErrorKind::Revoked { .. } => revoked(),
        error => error.into(),
    }
}
