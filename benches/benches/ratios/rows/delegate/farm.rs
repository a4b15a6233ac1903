//! A farm whose ranks need every core: communication threads must not cost it anything.

use clap::ValueEnum as _;
use video_farm::farm::{Mode, Ranks};

use crate::row::{Bound, Row, Unit};
use crate::rows::farm::side;

pub fn rows() -> Vec<Row> {
    // A farm that does not know the mode has no such row.
    let Ok(kt_w) = Mode::from_str("kt-w", false) else { return Vec::new() };
    [Ranks::Threads, Ranks::Processes]
        .map(|ranks| Row {
            name: format!("delegate.farm.{ranks}"),
            what: "video farm `kt-w`, 2 workers, no spare core, automatic placement, beside `no-kt`",
            unit: Unit::Nanoseconds,
            ours: side("kt-w", kt_w, ranks),
            reference: side("no-kt", Mode::NoKt, ranks),
            bound: Bound::at_most(1.02),
            by_distance: true,
        })
        .into()
}
