//! Operations that go on after the call: requests, persistent requests, exchanges.

pub(crate) mod exchange;
pub(crate) mod home;
pub(crate) mod persistent;
pub(crate) mod request;
