//! The recordings of a farm.

use onchip::overlap::OverlapReport;
use onchip::trace::{Recording, Trace};
use serde::{Deserialize, Serialize};

/// What to record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Record {
    /// Nothing.
    #[default]
    Nothing,
    /// How much of the communication was hidden behind computation.
    Overlap,
    /// The overlap, and a trace of all actions.
    Trace,
}

impl Record {
    pub(super) fn recording(self) -> Recording {
        match self {
            Self::Nothing => Recording::off(),
            Self::Overlap => Recording::measure(),
            Self::Trace => Recording::trace(),
        }
    }
}

/// The recording; empty if nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The spans, with a track for each rank and each communication thread.
    pub trace: Trace,
    /// How much of the communication was hidden behind computation.
    pub overlap: OverlapReport,
}

impl Recorded {
    pub(super) fn take(recording: &Recording) -> Self {
        Self { trace: recording.take_trace(), overlap: recording.overlap() }
    }

    /// Puts the parts of several processes together.
    pub(super) fn merge(parts: Vec<Self>) -> Self {
        let (traces, overlaps): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.trace, part.overlap)).unzip();
        Self { trace: Trace::merge(traces), overlap: OverlapReport::merge(overlaps) }
    }
}
