//! Collectives on real ranks: threads, processes, threads on the heap.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod asynchronous;
mod barriers;
mod broadcasts;
mod chosen;
mod deaths;
mod members;
mod mortal;
mod reductions;
