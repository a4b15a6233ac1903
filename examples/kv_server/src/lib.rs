//! A key-value store that processes share, driven by clients as fast as they can.
//!
//! The store is a [`Map`](onchip::critical::objects::Map) in a critical section. Which algorithm
//! lets the clients in is an option, and without one all of them are compared: throughput, latency
//! and fairness. Every client keeps a [`log`] of what its operations did; at the end the store must
//! hold what the logs of all clients together say. A client or the server can be killed meanwhile.
//!
//! | part | what it is |
//! |---|---|
//! | [`plan`] | what is to be done, as all ranks get to know it |
//! | [`load`], [`mix`] | which operations on which keys, and how often |
//! | [`random`] | numbers from a seed |
//! | [`data`] | keys and values, which tell where they are from |
//! | [`log`] | what a client's operations did |
//! | [`client`], [`server`] | the ranks |
//! | [`world`] | all of them together, once for each algorithm |
//! | [`check`] | whether logs and store agree |
//! | [`report`] | the table |
//! | [`cli`] | the command line |
#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod client;
pub mod data;
pub mod load;
pub mod log;
pub mod mix;
pub mod plan;
pub mod random;
pub mod report;
pub mod server;
pub mod world;
