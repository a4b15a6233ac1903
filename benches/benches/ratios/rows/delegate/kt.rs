//! The communication thread that the rows measure, and the messages that it is given.

use onchip::prelude::*;

use crate::row::Setup;

/// One communication thread on the second CPU, awake all the time.
pub fn kt(setup: &Setup) -> onchip::Result<CommThreads> {
    CommThreads::builder(1).cpus([setup.cpus[1]]).wait(WaitPolicy::Spin).start()
}

/// Marks a large message with its number at both ends: whoever only accepts it looks there.
pub fn mark(message: &mut [u64], number: u64) {
    if let [first, .., last] = message {
        (*first, *last) = (number, !number);
    }
}

/// Whether a message of so many words came whole.
pub fn is_marked(message: &[u64], words: usize, number: u64) -> bool {
    message.len() == words
        && matches!(message, [first, .., last] if *first == number && *last == !number)
}
