//! `mprun`: launches and inspects worlds.
#![forbid(unsafe_code)]
fn main() {}
