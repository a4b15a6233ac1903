//! What every measurement here shares: which CPUs it runs on, what it moves, what time it is.
#![forbid(unsafe_code)]

pub mod clock;
pub mod collective;
pub mod content;
pub mod cpus;
pub mod work;
