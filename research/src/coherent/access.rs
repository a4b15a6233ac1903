//! Accesses to memory.

/// What a core does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Load,
    /// Writes it.
    Store,
    /// Reads and writes it at once.
    Change,
    /// Writes it past the caches.
    Stream,
}
