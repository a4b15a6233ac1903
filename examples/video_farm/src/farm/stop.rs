//! Why ranks stop.

use example_support::Error;

/// Why a rank stops before its work is done.
pub(super) enum Stop {
    /// It has found a fault.
    Farm(Error),
    /// A channel has failed.
    Channel(onchip::Error),
    /// Another rank has stopped, which tells why.
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
