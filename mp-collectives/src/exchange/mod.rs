//! Blocks go from rank to rank: all to one (*gather*), one's to all (*scatter*), each one's to all
//! (*all-gather*), from each a different one to each (*all-to-all*).
//!
//! [`Exchanges`] picks a way for each block. Each can also be used by itself, for any [`Traffic`]:
//!
//! | | for | what |
//! |---|---|---|
//! | [`LineExchange`] | a few lines | each with its payload beside its number |
//! | [`ChunkExchange`] | all sizes | through buffers of each pair of ranks |
//! | [`SharedAllGather`] | all sizes, the same to all | through buffers that all others get it from |
//!
//! A rank sends to all others, as far as there is room, before it waits for any. No rank waits for one
//! that has nothing for it, or for another one to have got what it sent: only for room.
//!
//! # Blocks
//! In a buffer for all ranks the blocks lie one after the other, equally long; or, in the *varying*
//! forms, where each call says. In MPI those are given by counts and displacements; here by ranges of
//! elements, which [`packed`] makes of counts alone.
//!
//! # In place
//! | | the buffer of | has before | and after |
//! |---|---|---|---|
//! | gather | the root | its own block in its place | the blocks of all |
//! | | another rank | its own block | the same |
//! | scatter | the root | the blocks of all | the same |
//! | | another rank | anything | its own block |
//! | all-gather | each rank | its own block in its place | the blocks of all |
//! | all-to-all | each rank | as block i, what is for rank i | as block i, what came from rank i |

mod all_gather;
mod choice;
mod chosen;
mod chunks;
mod lines;
mod traffic;
mod ways;

pub use crate::broadcast::{LineOptionsError, Machine};
pub use crate::layout::{Blocks, Extremes, LayoutError, packed};
pub use crate::reduce::ReduceOptionsError;
pub use all_gather::SharedAllGather;
pub use choice::{Explanation, Reason, Way, WayToAll, choose, choose_to_all};
pub use chosen::Exchanges;
pub use chunks::{ChunkExchange, ChunkOptions};
pub use lines::LineExchange;
pub use traffic::{AllGather, AllToAll, ExchangeError, Gather, Scatter, Traffic};
pub use ways::{Settings, Ways, WaysError};
