//! Events of the crate `tracing` that report choices to a program that listens to them.

use std::collections::HashSet;

use tracing::{Level, debug, enabled};

use crate::explanation::Explanation;

/// The target of these events.
pub const CHOICE_TARGET: &str = "onchip::choice";

/// The choices of a front that have already been reported.
#[derive(Debug)]
pub(crate) struct Events {
    /// Whether any subscriber listened when the front was opened. If none did, calls spend no time on events.
    listened: bool,
    /// Operation, size class and algorithm.
    reported: HashSet<(&'static str, u32, String)>,
}

impl Events {
    pub(crate) fn new() -> Events {
        let listened = enabled!(target: CHOICE_TARGET, Level::DEBUG);
        Events { listened, reported: HashSet::new() }
    }

    pub(crate) fn listened(&self) -> bool {
        self.listened
    }

    /// Reports the first time that an operation uses an algorithm for messages of about this many bytes. Lengths with
    /// the same next power of two count as one length.
    #[inline(always)]
    pub(crate) fn report(&mut self, explain: impl FnOnce() -> Explanation) {
        if self.listened {
            self.report_new(explain());
        }
    }

    #[cold]
    fn report_new(&mut self, choice: Explanation) {
        let (operation, bytes) = (choice.collective.name(), choice.bytes);
        let class = bytes.checked_next_power_of_two().map_or(usize::BITS, usize::trailing_zeros);
        let algorithm = choice.algorithm.to_string();
        if self.reported.insert((operation, class, algorithm.clone())) {
            debug!(target: CHOICE_TARGET, operation, bytes, algorithm, %choice);
        }
    }
}
