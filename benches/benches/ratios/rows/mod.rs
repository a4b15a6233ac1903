//! The promises, one file for each kind.

mod buffer;
mod idle;
pub mod kill;
mod large;
mod oversubscribed;
mod park;
mod pingpong;
mod start;
mod stream;

use crate::row::Row;

/// All rows, in the order they are measured.
pub fn all() -> Vec<Row> {
    [
        pingpong::rows(),
        stream::rows(),
        large::rows(),
        buffer::rows(),
        park::rows(),
        oversubscribed::rows(),
        idle::rows(),
        kill::rows(),
        start::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
