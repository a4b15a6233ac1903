//! Combiners: of those who want something at the same time, one executes the operations of all.

pub(super) mod cc_synch;
pub(super) mod hyb_comb;
#[cfg(all(test, loom))]
mod model;
