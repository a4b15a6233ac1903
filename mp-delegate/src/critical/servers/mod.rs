//! Servers: a rank that does nothing but execute the operations of others.

pub(super) mod mp;
pub(super) mod slot;
#[cfg(all(test, loom))]
mod model;
