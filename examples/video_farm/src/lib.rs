//! The video farm.
#![forbid(unsafe_code)]
