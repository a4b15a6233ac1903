//! The gray filter as users build it, beside a build for this processor alone.

use crate::rivals::native;
use crate::row::{Bound, Row, Unit};

pub fn rows() -> Vec<Row> {
    [
        ("hot", "the gray filter, default build beside target-cpu=native, one frame in the cache"),
        ("streamed", "the gray filter, default build beside target-cpu=native, frames from memory"),
    ]
    .map(|(frames, what)| Row {
        name: format!("filter.{frames}"),
        what,
        unit: Unit::Nanoseconds,
        ours: native::as_built(frames),
        reference: native::native(frames),
        bound: Bound::at_most(1.15),
        by_distance: false,
    })
    .into()
}
