//! What came of one run, before it is judged.

use crate::record::Record;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was told.
    pub records: Vec<Record>,
    /// What else came on standard error.
    pub rest: String,
    /// What was left, and what did not come to its end.
    pub left: Vec<String>,
}
