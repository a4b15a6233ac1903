//! Accesses to memory.

/// An access of a core to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Load,
    /// Writes it.
    Store,
    /// Reads and writes it at once.
    Change,
    /// Writes it without the caches.
    Stream,
}
