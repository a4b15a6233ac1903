//! The part of Onchip that touches shared memory and the operating system.

pub mod topology;
