//! Whether ranks compare the collective operations that they call.

use std::time::Duration;

/// The environment variable that turns [checks](Check) on if it is set, and off if it is set to 0.
pub const CHECK_VARIABLE: &str = "ONCHIP_CHECK";

/// The largest number of ranks that compare their calls by default. The cost grows with the square of their number.
const RANKS: usize = 64;

/// Whether all ranks publish each call before they carry it out, and compare the calls; this is for debugging. If the
/// ranks call different collective operations, all of them get an error, which names the ranks and their calls, and no
/// rank goes on. The comparison covers the operation, the root, the type and number of the elements, the operation that
/// combines them, and the settings. It also covers the order of blocking and [nonblocking](crate::communicator::Ledger)
/// operations together.
///
/// With checks, every operation waits for all ranks. A nonblocking operation waits before it does anything, but its
/// call still returns at once. Checks must be on at all ranks, or at none. In communicators whose ranks are on several
/// nodes, they are always off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// [`CHECK_VARIABLE`] decides. If it is not set, checks are on in programs with debug assertions, in
    /// communicators of up to 64 ranks.
    #[default]
    Environment,
    /// Checks are off.
    Off,
    /// Checks are on. The ranks wait for a rank that never comes; `mprun report` shows which ranks wait for it.
    On,
    /// Checks are on, and a rank that does not come within this time is an error, which names it. (The limit of a
    /// request is set by the call that waits for it; for requests, this is the same as [`On`](Self::On).)
    Within(Duration),
}

impl Check {
    /// Returns whether checks are on for this number of ranks.
    pub fn is_on(self, ranks: usize) -> bool {
        match self {
            // There is no other rank to compare with.
            _ if ranks < 2 => false,
            Check::Environment => match std::env::var_os(CHECK_VARIABLE) {
                Some(value) => !value.is_empty() && value != "0",
                None => cfg!(debug_assertions) && ranks <= RANKS,
            },
            Check::Off => false,
            Check::On | Check::Within(_) => true,
        }
    }

    /// Returns how long the ranks wait for each other in blocking calls.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            Check::Within(limit) => Some(limit),
            _ => None,
        }
    }
}
