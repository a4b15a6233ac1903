//! The numbers of the handles of predefined operations.

pub(crate) const SUM: usize = 0x21;
pub(crate) const MIN: usize = 0x22;
pub(crate) const MAX: usize = 0x23;
pub(crate) const PROD: usize = 0x24;
pub(crate) const BAND: usize = 0x28;
pub(crate) const BOR: usize = 0x29;
pub(crate) const BXOR: usize = 0x2a;
pub(crate) const LAND: usize = 0x30;
pub(crate) const LOR: usize = 0x31;
pub(crate) const LXOR: usize = 0x32;
pub(crate) const MINLOC: usize = 0x38;
pub(crate) const MAXLOC: usize = 0x39;
pub(crate) const REPLACE: usize = 0x3c;
pub(crate) const NO_OP: usize = 0x3d;
