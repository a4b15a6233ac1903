//! How a communicator's collective operations are to be done.

use std::time::Duration;

use mp_core::Wait;

use crate::{barrier, broadcast, exchange, reduce};

/// The environment variable that turns [checks](Check) on where it is set, to anything but 0.
pub const CHECK_VARIABLE: &str = "ONCHIP_CHECK";

/// Whether all ranks say what they call before they do it, and compare: for debugging. A collective
/// operation that not all ranks call alike is then an error at all of them, which names who called what;
/// otherwise it may wait for ever, or give anything. Compared are the operation, the root, the elements'
/// type and number, what combines them, and the settings.
///
/// It makes every operation wait for all ranks. All must do it, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Where [`CHECK_VARIABLE`] says so.
    #[default]
    Environment,
    /// No.
    Off,
    /// Yes. A rank that does not come at all is waited for; `mprun report` shows who waits for it.
    On,
    /// Yes, and a rank that does not come for so long is an error, which names it.
    Within(Duration),
}

/// How a communicator's collective operations are to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Barriers.
    pub barrier: barrier::Settings,
    /// Broadcasts.
    pub broadcast: broadcast::Settings,
    /// Reductions and scans.
    pub reduce: reduce::Settings,
    /// Gathers, scatters, all-gathers, all-to-alls.
    pub exchange: exchange::Settings,
    /// How calls wait: with which policy, how long.
    pub wait: Wait,
    /// Whether ranks compare what they call.
    pub check: Check,
}

impl Check {
    pub(super) fn is_on(self) -> bool {
        match self {
            Check::Environment => {
                let set = std::env::var_os(CHECK_VARIABLE);
                set.is_some_and(|value| !value.is_empty() && value != "0")
            }
            Check::Off => false,
            Check::On | Check::Within(_) => true,
        }
    }
}
