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
//! In a buffer for all ranks, the blocks lie one after the other and are equally long, or they lie [`At`] ranges of
//! elements. MPI describes these places by counts and displacements; [`packed`] makes ranges from counts alone.
//! [`InPlace`] says that a rank's own block is in that buffer.

mod all_gather;
mod choice;
mod chunks;
mod handle;
mod lines;
mod traffic;
mod ways;

pub use crate::arguments::{
    AllBlocks, AllBlocksMut, At, Cut, InPlace, OwnBlock, OwnPlace, SentBlocks,
};
pub use crate::broadcast::LineOptionsError;
pub use crate::layout::{Blocks, Extremes, LayoutError, packed};
pub use crate::reduce::ReduceOptionsError;
pub use crate::settings::Settings;
pub use all_gather::SharedAllGather;
pub use choice::{Way, WayToAll};
pub(crate) use choice::{choose, choose_to_all};
pub use chunks::{ChunkExchange, ChunkOptions};
pub use handle::Exchanges;
pub(crate) use handle::all_to_all_blocks;
pub use lines::LineExchange;
pub use traffic::{AllGather, AllToAll, ExchangeError, Gather, Scatter, Traffic};
pub use ways::{Ways, WaysError};
