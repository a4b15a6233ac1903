//! Exchanges of blocks between ranks: from all ranks to one (*gather*), from one to all (*scatter*), from each to all
//! (*all-gather*), or a different block from each rank to each other (*all-to-all*).
//!
//! [`Exchanges`] picks a way for each block. Each way can also be used by itself, for any [`Traffic`]:
//!
//! | | for | how |
//! |---|---|---|
//! | [`LineExchange`] | a few lines | each with its payload beside its number |
//! | [`ChunkExchange`] | all sizes | through buffers of each pair of ranks |
//! | [`SharedAllGather`] | all sizes, the same to all | through buffers that all others get it from |
//!
//! A rank sends to all others, as far as there is room, before it waits for any. No rank waits for a rank that has
//! nothing for it, or until another rank has got what it sent: it waits only for room.
//!
//! # Blocks
//! In a buffer for all ranks, the blocks lie one after the other and are equally long; in the *varying* forms, each
//! call gives their places. MPI describes these places by counts and displacements. Here they are ranges of elements,
//! which [`packed`] makes from counts alone.
//!
//! # In place
//! | | the buffer of | holds before | holds after |
//! |---|---|---|---|
//! | gather | the root | its own block in its place | the blocks of all |
//! | | another rank | its own block | the same |
//! | scatter | the root | the blocks of all | the same |
//! | | another rank | anything | its own block |
//! | all-gather | each rank | its own block in its place | the blocks of all |
//! | all-to-all | each rank | as block i, the block for rank i | as block i, the block from rank i |

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
