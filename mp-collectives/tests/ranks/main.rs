//! Collectives on real ranks: threads, processes, threads on the heap.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;
#[path = "../support/transcript.rs"]
mod transcript;

mod asynchronous;
mod barriers;
mod broadcasts;
mod computing;
mod deaths;
mod direct;
mod errors;
mod exchanges;
mod handles;
mod members;
mod methods;
mod mortal;
mod progress;
mod reductions;
mod requests;
#[path = "../storm/mod.rs"]
mod storm;
mod storms;
mod survivors;
mod unsent;
