//! Reductions, which combine the elements of all ranks position by position: for all ranks, for one rank, for each rank
//! those of the ranks up to it (a *scan*), or for each rank those of a block (a *reduce-scatter*).
//!
//! [`Reductions`] picks an algorithm for each vector. Each algorithm can also be used by itself:
//!
//! | | for | algorithm |
//! |---|---|---|
//! | [`LineReduce`] | a few lines | recursive doubling, or via rank 0; straight to a root or along a tree, or to each rank; scans |
//! | [`BlockReduce`] | all sizes | all elements to all ranks, or each rank combines a part of them |
//! | [`ChunkReduce`] | all sizes, elements longer than a block | chunks straight to a root or along a tree, to each rank in turn, or via rank 0; scans along a chain |
//!
//! The trees (`trees.rs`) are those of Bar-Noy and Kipnis' postal model, which lie between the binomial tree and the
//! flat one. They have the λ that the cache-line-aware model finds best for the machine.
//!
//! # Order
//! Elements of adjacent ranks are combined, with the lower rank's element as the first argument, so an [`Operation`]
//! needs only to be associative. All ranks get the same bits. Every run with the same input on the same number of ranks
//! and cores gives the same result, as long as the machine is not [calibrated](crate::calibration) anew, because the
//! trees depend on the calibration. [`Order::Ranks`] fixes the order completely. (The one exception: which NaN a sum
//! is, if several went into it, depends on the processor.)
//!
//! # Elements
//! Elements are [`Plain`](mp_core::Plain). A type aligned to more than 16 bytes does not compile here.

mod binary16;
mod blocks;
mod choice;
mod chunks;
mod error;
mod fold;
mod handle;
mod lines;
mod operations;
mod parts;
mod places;
mod scratch;
mod trees;
mod vector;
mod vectors;

pub use crate::arguments::{AllBlocks, AllBlocksMut, At, Cut, InPlace, OwnPlace};
pub use crate::broadcast::LineOptionsError;
pub use crate::layout::{Blocks, LayoutError, packed};
pub use crate::settings::Settings;
pub use blocks::{BlockOptions, BlockReduce};
pub use choice::{AllReduce, Order, Prefix, Reduce, ReduceScatter, Scan};
pub(crate) use choice::{choose_all_reduce, choose_reduce, choose_reduce_scatter, choose_scan};
pub use chunks::{ChunkOptions, ChunkReduce};
pub use error::{ReduceError, ReduceOptionsError};
pub use handle::Reductions;
pub use lines::{LineReduce, Meeting};
pub use operations::{
    BitAnd, BitOr, BitXor, Integer, Located, LogicalAnd, LogicalOr, LogicalXor, Max, MaxLocation,
    Min, MinLocation, Number, Operation, Ordered, OrderedPod, Product, Sum,
};
pub use parts::Parts;
pub(crate) use trees::Trees;
pub use vector::Vector;
pub use vectors::combine_local;
