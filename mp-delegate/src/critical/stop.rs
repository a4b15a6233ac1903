//! Why an algorithm stops.

/// Why an algorithm can't go on.
#[derive(Debug)]
pub enum Stop {
    /// A rank that was taking part is gone.
    Lost(usize),
    /// A rank that was taking part is gone, and another rank may have executed the operation, or may yet do so.
    Unsure(usize),
    /// A rank died in a queue, which is void now: see `heal.rs`.
    Void,
    /// No rank is left to execute the operation.
    Unserved,
    /// A control word has no meaning.
    Corrupt,
    /// Any error of the world.
    World(mp_core::Error),
}

impl Stop {
    /// Turns a loss into [`Unsure`](Self::Unsure), for a wait for a rank that already had the request.
    #[cold]
    pub(super) fn unsure(self) -> Self {
        match self {
            Self::Lost(rank) => Self::Unsure(rank),
            other => other,
        }
    }
}

impl From<mp_core::Error> for Stop {
    #[cold]
    fn from(error: mp_core::Error) -> Self {
        Self::World(error)
    }
}
