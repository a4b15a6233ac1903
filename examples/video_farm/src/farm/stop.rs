//! Why ranks stop.

use example_support::Error;

/// Why a rank stops before its work is done.
pub(super) enum Stop {
    /// Because of a fault that it has found.
    Farm(Error),
    /// Because of a channel.
    Channel(onchip::Error),
    /// Because another rank did, which says why.
    Quiet,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Farm(error)
    }
}

impl From<onchip::Error> for Stop {
    fn from(error: onchip::Error) -> Self {
        match error.kind() {
            onchip::ErrorKind::Disconnected { .. } => Stop::Quiet,
            _ => Stop::Channel(error),
        }
    }
}
