//! Tests that need the private parts of several modules.

#[cfg(not(miri))]
mod attach;
mod bytes;
#[cfg(not(miri))]
mod corruption;
#[cfg(not(miri))]
mod limits;
#[cfg(not(miri))]
mod locks;
#[cfg(not(miri))]
mod mappings;

use std::sync::Arc;

use crate::{
    context::Context,
    segment::Segment,
    wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
    world::Rank,
};

fn waiting() -> Waiting {
    Waiting {
        policy: WaitPolicy::Adaptive,
        asymmetry: Asymmetry::Ordinary,
        line_wait: LineWait::detect(),
        spare: -1,
    }
}

/// Makes a world in which no ranks run, and returns its maker's context.
fn world(segment: Segment, ranks: u32) -> Context {
    Context::create(Arc::new(segment), (ranks, ranks), false, waiting()).unwrap()
}

#[cfg(not(miri))]
fn memfd(bytes: u64) -> Segment {
    Segment::in_memfd(bytes, false, crate::world::parts()).unwrap()
}

/// Returns a rank of the same world, with a mapping of its own.
#[cfg(not(miri))]
fn rank_elsewhere(world: &Context, rank: u32) -> Rank {
    let fd = world.segment.fd().unwrap().try_clone_to_owned().unwrap();
    let segment = Segment::attach(fd, true, crate::world::parts()).unwrap();
    Rank::new(Arc::new(Context::enter(Arc::new(segment), rank, waiting()).unwrap()))
}

fn rank_here(world: &Context, rank: u32) -> Rank {
    Rank::new(Arc::new(world.as_rank(rank)))
}
