//! A report for each rank of how much communication was hidden behind computation, and of what that cost the
//! computation. This is what communication threads are for (Buono et al., section III.A).
//!
//! The figures come from the spans of a [`Recording`](crate::trace::Recording). They are added up as they come, whether
//! or not the spans are kept for a trace. They are exact sums of interval lengths; only the [`Slowdown`] is an
//! estimate.
//!
//! | figure | meaning |
//! |---|---|
//! | sending | time for copying the rank's messages and for its part in collective operations: by communication threads (*delegated*), and by the rank itself (*inline*), including waits for room in the channel |
//! | tagged by threads | the part of the delegated time in which threads advanced tagged messages that were pending between the rank's calls |
//! | tagged in calls | time in which the rank's own calls advanced pending tagged messages; messages that are sent at once are not pending |
//! | hidden | the part of the delegated time during which the rank computed |
//! | exposed | time the rank lost to sending: sending inline, delegating, waiting, being in a collective operation, advancing tagged messages |
//! | waiting | the part of the exposed time in which the rank waited for what was delegated, for room, or for other ranks in a collective operation |
//!
//! Waits are recorded where they happen. A rank must say when it computes
//! ([`Recorder::compute`](crate::trace::Recorder::compute) or [`Kind::Compute`](crate::trace::Kind::Compute)). Of that
//! time, only the part counts in which its thread had a processor, without the communication within. A rank that never
//! says so has no hidden time: it is `None`, and `-` in the table. Delegated time that is neither hidden nor exposed
//! passed while the rank waited for messages, or did something that it did not record.

mod intervals;
mod meter;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use meter::{Meter, Piece};
pub use report::{OverlapReport, RankOverlap, Slowdown};
