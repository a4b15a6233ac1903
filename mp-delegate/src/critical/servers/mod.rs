//! Servers: a rank that does nothing but execute the operations of others.

#[cfg(all(test, loom))]
mod model;
pub(super) mod mp;
pub(super) mod slot;
