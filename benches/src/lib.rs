//! What every measurement here shares: which CPUs it runs on, what it moves, what time it is,
//! how far apart the cores are.
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
