//! Storms of messages, on ranks of every kind. For more of them: the example `storm`.

use crate::{
    storm,
    support::{SIZES, on_all},
};

#[test]
fn every_receive_gets_the_message_that_it_must() {
    for size in SIZES {
        for (seed, limit) in (0..).zip(storm::LIMITS) {
            on_all(size, |rank| storm::run(rank, seed, limit));
        }
    }
}
