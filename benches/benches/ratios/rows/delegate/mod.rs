//! Communication threads (KTs): what delegating costs, what it hides, what it leaves alone.

pub mod cost;
pub mod emitter;
mod farm;
mod idle;
mod kt;
pub mod overlap;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    [cost::rows(), overlap::rows(), emitter::rows(), idle::rows(), farm::rows()]
        .into_iter()
        .flatten()
        .collect()
}
