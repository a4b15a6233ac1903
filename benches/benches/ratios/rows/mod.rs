//! The promises, one file for each kind.

pub mod barrier;
pub mod broadcast;
pub mod buffer;
pub mod critical;
pub mod delegate;
pub mod exchange;
pub mod farm;
mod filter;
pub mod guard;
mod hot_calls;
pub mod idle;
pub mod kill;
pub mod large;
mod model;
pub mod oversubscribed;
pub mod park;
pub mod pingpong;
pub mod reduce;
pub mod request;
pub mod requests;
mod start;
pub mod stencil;
pub mod stream;
pub mod tagged;

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
        farm::rows(),
        filter::rows(),
        delegate::rows(),
        broadcast::rows(),
        barrier::rows(),
        reduce::rows(),
        exchange::rows(),
        tagged::rows(),
        hot_calls::rows(),
        request::rows(),
        requests::rows(),
        stencil::rows(),
        critical::rows(),
        model::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
