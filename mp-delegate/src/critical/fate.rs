//! How operations end.

use bytemuck::Zeroable;

/// How an operation ended, as reported to the rank that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    Done = 0,
    /// It panicked; the message is in the seat's words.
    Panicked = 1,
    /// It was not executed, because an earlier operation had panicked.
    Poisoned = 2,
    /// The rank that executed it died in the meantime.
    Unknown = 3,
}

impl Fate {
    pub(super) fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Done,
            1 => Self::Panicked,
            2 => Self::Poisoned,
            _ => Self::Unknown,
        }
    }
}

/// A result, which is valid only if the operation is done.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<Ret> {
    /// How the operation ended.
    pub fate: Fate,
    /// Its result.
    pub ret: Ret,
}

impl<Ret: Zeroable> Outcome<Ret> {
    /// Returns the outcome of an operation that was executed.
    pub fn done(ret: Ret) -> Self {
        Self { fate: Fate::Done, ret }
    }

    pub(super) fn without(fate: Fate) -> Self {
        Self { fate, ret: Ret::zeroed() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fates_are_told_in_two_bits() {
        for fate in [Fate::Done, Fate::Panicked, Fate::Poisoned, Fate::Unknown] {
            assert_eq!(Fate::from_bits(fate as u64 | 4), fate);
        }
    }
}
