//! The calls by which all ranks of a communicator make another one.

use mp_core::Call;

/// Identifies a call. All ranks must make the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Together {
    Duplicate = 1,
    Split = 2,
    Create = 3,
    Cartesian = 4,
}

impl Together {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Together::Duplicate => "duplicate",
            Together::Split => "split",
            Together::Create => "create",
            Together::Cartesian => "cartesian",
        }
    }

    pub(super) fn call(self) -> Call {
        Call::new(self.name())
    }
}
