//! Whether ranks compare what they call together.

use std::time::Duration;

/// The environment variable that turns [checks](Check) on where it is set, to anything but 0.
pub const CHECK_VARIABLE: &str = "ONCHIP_CHECK";

/// Whether all ranks say what they call before they do it, and compare: for debugging. What all must call
/// together, and not all call alike, is then an error at all of them, which names who called what;
/// otherwise it may wait for ever, or give anything. Compared are the operation, the root, the elements'
/// type and number, what combines them, and the settings; and the order, of blocking and
/// [immediate](crate::Ledger) operations together.
///
/// It makes every operation wait for all ranks, an immediate one before it does anything; the call itself
/// returns at once all the same. All ranks must do it, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Where [`CHECK_VARIABLE`] says so.
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
    /// Whether they do.
    pub fn is_on(self) -> bool {
        match self {
            Check::Environment => {
                let set = std::env::var_os(CHECK_VARIABLE);
                set.is_some_and(|value| !value.is_empty() && value != "0")
            }
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
