//! Where a call failed.

use std::{fmt, sync::Arc, time::Duration};

use crate::wait::Operation;

/// Where a call failed: what it waited for, and on what. It is displayed as in `receive on channel "pages"`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A wait on a channel, or for a flag of message passing buffers.
    Named {
        /// What was waited for.
        operation: Operation,
        /// The name of the channel or the MPBs.
        name: Arc<str>,
    },
    /// A call in a communicator.
    Communicator,
    /// An operation on the object of this name in a critical section.
    Object(Arc<str>),
    /// A collective operation, or the code of the program that it calls.
    Collective,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { operation, name } => {
                write!(f, "{operation} on {} {name:?}", operation.medium())
            }
            Self::Communicator => f.write_str("a call in a communicator"),
            Self::Object(object) => write!(f, "an operation on object {object:?}"),
            Self::Collective => f.write_str("a collective operation"),
        }
    }
}

/// The destination of a message that was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recipient {
    /// The channel of this name. A communication thread was to send the message.
    Channel(Arc<str>),
    /// This rank of the communicator of the call, or of the world if the call has no communicator.
    Rank(usize),
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(name) => write!(f, "on channel {name:?}"),
            Self::Rank(rank) => write!(f, "to rank {rank}"),
        }
    }
}

/// Says which rank was lost, and how to go on.
pub(super) fn lost(rank: usize, world_rank: usize, place: &Place) -> String {
    let why = "it panicked, or its process ended";
    match place {
        Place::Communicator => format!(
            "rank {rank} of the communicator (rank {world_rank} of the world) was lost: {why}; to go on without it, \
             acknowledge the loss, or shrink the communicator"
        ),
        Place::Object(_) => {
            format!("rank {rank} was lost ({place}): {why}; the operation was not executed")
        }
        Place::Named { .. } | Place::Collective => format!("rank {rank} was lost ({place}): {why}"),
    }
}

/// Says what was revoked, and how to go on.
pub(super) fn revoked(place: &Place) -> String {
    match place {
        Place::Named { name, .. } => {
            format!("the MPBs {name:?} were revoked by one of their ranks: open new ones to go on")
        }
        _ => "the communicator was revoked by one of its ranks: call shrink, and go on in the communicator that it \
              returns"
            .to_owned(),
    }
}

/// Says which call took longer than its limit.
pub(super) fn timeout(place: &Place, limit: Duration) -> String {
    let after = match place {
        Place::Object(_) => ": it was not begun, and never will be",
        _ => "",
    };
    format!("{place} took longer than its limit of {limit:?}{after}")
}
