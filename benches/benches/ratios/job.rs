//! What ranks can be asked to do for a row.

use serde::{Deserialize, Serialize};

use crate::plan::{
    Collective, Critical, Delegations, Emitting, Large, Life, Overlap, Pairs, PingPong, Requests,
    Stream, Tagged, Timing, Untouched, Wakes, Woken,
};

/// What the ranks of a world do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Job {
    PingPong(PingPong),
    Stream8(Stream),
    Stream56(Stream),
    LargeSent(Large),
    LargeMoved(Large),
    Untouched(Untouched),
    Park(Wakes),
    Handled(Wakes, Woken),
    Pairs(Pairs),
    Collective(Collective, Timing),
    /// A broadcast that does not come.
    BroadcastIdle,
    /// A barrier that one rank does not come to.
    BarrierIdle,
    Tagged(Tagged),
    TaggedRate(Tagged),
    Request(Life),
    Requests(Requests),
    Any(Requests),
    Critical(Critical),
    /// What the caller pays for delegating.
    Delegate(Delegations),
    /// Delegated messages end to end.
    Delegated(Delegations),
    Overlap(Overlap),
    Emit(Emitting),
    Idle,
    Kill,
    Nothing,
}
