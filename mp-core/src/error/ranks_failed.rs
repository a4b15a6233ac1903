//! How ranks of a world failed.

use std::fmt;

/// The ranks of a world that failed, in the order of their numbers. `Display` and `Debug` write one line for each of
/// them. Use [`World::run_each`](crate::World::run_each) to get what the other ranks returned instead of this error.
#[derive(Clone, thiserror::Error)]
pub struct RanksFailed {
    /// The failures, one for each failed rank.
    pub failures: Vec<RankFailure>,
}

impl fmt::Display for RanksFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [failure] = &self.failures[..] {
            return write!(f, "{failure}");
        }
        write!(f, "{} ranks failed:", self.failures.len())?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

impl fmt::Debug for RanksFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How one rank failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFailure {
    /// The rank.
    pub rank: usize,
    /// What happened to it.
    pub cause: Cause,
}

/// What happened to a rank that failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// The rank's code returned this error.
    Error(String),
    /// The rank's code panicked with this message.
    Panic(String),
    /// The rank's process exited with this status before its code returned.
    Exit(i32),
    /// The rank's process was killed by this signal.
    Signal(i32),
    /// The rank's process ended in a way that could not be seen: the process that started it ignores `SIGCHLD`, or
    /// something in that process waits for children that are not its own.
    Vanished,
}

impl fmt::Display for RankFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if let Cause::Error(_) = self.cause { ":" } else { "" };
        write!(f, "rank {}{colon} {}", self.rank, self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(error),
            Self::Panic(message) => write!(f, "panicked: {message}"),
            Self::Exit(status) => write!(f, "ended early with exit status {status}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
            Self::Vanished => f.write_str("vanished: how could not be seen (is SIGCHLD ignored?)"),
        }
    }
}

impl std::error::Error for Cause {}
