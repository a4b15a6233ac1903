//! Servers: a rank that only executes the operations of others.

#[cfg(all(test, loom))]
mod model;
pub(super) mod mp;
pub(super) mod slot;
