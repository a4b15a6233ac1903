//! The elements of all ranks are combined, place by place: for all ranks, for one, for each those of
//! the ranks up to it (a *scan*), or for each those of a block (a *reduce-scatter*).
//!
//! [`Reductions`] picks an algorithm for each vector. Each can also be used by itself:
//!
//! | | for | what |
//! |---|---|---|
//! | [`LineReduce`] | a few lines | recursive doubling, or by way of rank 0; straight to a root or along a tree, or to each; scans |
//! | [`BlockReduce`] | all sizes | everything to all, or each rank combines a part of it |
//! | [`ChunkReduce`] | all sizes, elements longer than a block | chunks straight to a root or along a tree, to each rank in turn, or by way of rank 0; scans along a chain |
//!
//! The trees (`trees.rs`) are those of Bar-Noy and Kipnis' postal model, between the binomial one and the
//! flat one, with the λ that the cache-line-aware model finds best for the machine.
//!
//! # Order
//! Elements of ranks next to each other are combined, the lower rank's as the first argument, so that
//! an [`Operation`] need be associative only. All ranks get the same bits, and every run with the same
//! input on as many ranks and cores gives the same, as long as the machine is not
//! [calibrated](crate::calibration) anew, from which the trees follow; [`Order::Ranks`] fixes the order
//! altogether. (Only which NaN a sum is, if several went into it, is up to the processor.)
//!
//! # Elements
//! They are [`Plain`](mp_core::Plain). A type aligned to more than 16 bytes does not compile here.

mod binary16;
mod blocks;
mod choice;
mod chosen;
mod chunks;
mod error;
mod fold;
mod lines;
mod operations;
mod parts;
mod places;
mod scratch;
mod trees;
mod vectors;

pub use crate::broadcast::{LineOptionsError, Machine};
pub use crate::layout::{Blocks, LayoutError, packed};
pub use blocks::{BlockOptions, BlockReduce};
pub use choice::{
    AllReduce, Explanation, Order, Prefix, Reason, Reduce, ReduceScatter, Scan, choose_all_reduce,
    choose_reduce, choose_reduce_scatter, choose_scan,
};
pub use chosen::{Reductions, Settings};
pub use chunks::{ChunkOptions, ChunkReduce};
pub use error::{ReduceError, ReduceOptionsError};
pub use lines::{LineReduce, Meeting};
pub use operations::{
    BitAnd, BitOr, BitXor, Integer, Located, LogicalAnd, LogicalOr, LogicalXor, Max, MaxLocation,
    Min, MinLocation, Number, Operation, Ordered, OrderedPod, Product, Sum,
};
pub use parts::Parts;
pub use trees::Trees;
