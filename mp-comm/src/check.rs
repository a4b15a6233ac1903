//! Whether ranks compare what they call together.

use std::time::Duration;

/// The environment variable that turns [checks](Check) on where it is set, and off where it is set to 0.
pub const CHECK_VARIABLE: &str = "ONCHIP_CHECK";

/// The most ranks that compare their calls by default: what they need for it grows with the square of their
/// number.
const RANKS: usize = 64;

/// Whether all ranks say what they call before they do it, and compare: for debugging. What all must call
/// together, and not all call alike, is then an error at all of them, which names who called what, and
/// nobody has gone on. Compared are the operation, the root, the elements'
/// type and number, what combines them, and the settings; and the order, of blocking and
/// [immediate](crate::Ledger) operations together.
///
/// It makes every operation wait for all ranks, an immediate one before it does anything; the call itself
/// returns at once all the same. All ranks must do it, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Where [`CHECK_VARIABLE`] says so; where it says nothing, in programs with debug assertions, in
    /// communicators of up to 64 ranks.
    #[default]
    Environment,
    /// No.
    Off,
    /// Yes. A rank that does not come at all is waited for; `mprun report` shows who waits for it.
    On,
    /// Yes, and a rank that does not come for so long is an error, which names it. (Of a request one says
    /// how long to wait for it: for those it is the same as [`On`](Self::On).)
    Within(Duration),
}

impl Check {
    /// Returns whether so many ranks do.
    pub fn is_on(self, ranks: usize) -> bool {
        match self {
            // There is nobody to compare with.
            _ if ranks < 2 => false,
            Check::Environment => match std::env::var_os(CHECK_VARIABLE) {
                Some(value) => !value.is_empty() && value != "0",
                None => cfg!(debug_assertions) && ranks <= RANKS,
            },
            Check::Off => false,
            Check::On | Check::Within(_) => true,
        }
    }

    /// How long they wait for each other in calls that block.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            Check::Within(limit) => Some(limit),
            _ => None,
        }
    }
}
