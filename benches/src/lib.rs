//! The common parts of all measurements here: the CPUs, the content of messages, the clock, and the distance of the
//! cores.
#![forbid(unsafe_code)]

pub mod clock;
pub mod collective;
pub mod content;
pub mod cpus;
pub mod load;
pub mod machine;
pub mod output;
pub mod probe;
pub mod stats;
pub mod work;
