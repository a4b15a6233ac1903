//! Communication threads (KTs): what delegating costs, what it hides, what it leaves alone.

pub mod cost;
pub mod emitter;
mod farm;
mod idle;
pub mod overlap;

use onchip::prelude::*;

use crate::row::{Row, Setup};

pub fn rows() -> Vec<Row> {
    [cost::rows(), overlap::rows(), emitter::rows(), idle::rows(), farm::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// One communication thread on the second CPU, awake all the time.
fn kt(setup: &Setup) -> onchip::Result<CommThreads> {
    CommThreads::builder(1).cpus([setup.cpus[1]]).wait(WaitPolicy::Spin).start()
}

/// Marks a large message with its number at both ends: whoever only accepts it looks there.
fn mark(message: &mut [u64], number: u64) {
    if let [first, .., last] = message {
        (*first, *last) = (number, !number);
    }
}

fn is_marked(message: &[u64], words: usize, number: u64) -> bool {
    message.len() == words
        && matches!(message, [first, .., last] if *first == number && *last == !number)
}
