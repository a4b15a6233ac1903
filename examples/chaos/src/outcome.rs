//! What came of one run, before it is judged.

use crate::record::Record;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The records.
    pub records: Vec<Record>,
    /// Everything else that came on standard error.
    pub rest: String,
    /// Things that were left behind, and processes that did not end.
    pub left: Vec<String>,
}
