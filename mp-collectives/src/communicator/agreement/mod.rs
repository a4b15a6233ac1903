//! Calls that all ranks of a communicator make together: agreeing, comparing, revoking.

pub(crate) mod agree;
pub(crate) mod board;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod joint;
pub(crate) mod ledger;
pub(crate) mod survivors;
pub(crate) mod together;
pub(crate) mod words;
