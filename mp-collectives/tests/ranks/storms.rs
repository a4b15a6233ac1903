//! Random sequences of all operations that ranks do together, on ranks of every kind. The example `storm` runs more of
//! them.

use crate::{
    storm::{self, Told},
    support::{SIZES, Watchdog, on_all},
};

#[test]
fn every_receive_gets_the_message_that_it_must() {
    for size in SIZES {
        for (seed, limit) in (0..).zip(storm::LIMITS) {
            let told = Told::new(seed, size, limit);
            let _watchdog = Watchdog::telling(told.text());
            on_all(size, |rank| storm::run(rank, seed, limit));
        }
    }
}
