//! Why a call of an interconnect failed.

use std::{io, path::PathBuf};

/// A result whose error is an interconnect's.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of an interconnect failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The MPI library can't be loaded.
    #[error(
        "the MPI library {path} can't be loaded: {reason}. Set ONCHIP_MPI to the path of the file libmpi_abi.so of an \
         installed MPI library"
    )]
    NoLibrary {
        /// The file that was tried.
        path: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// The library has not the standard ABI.
    #[error(
        "{path} is no MPI library with the standard ABI of MPI 5.0: {reason}. Set ONCHIP_MPI to the path of a file \
         libmpi_abi.so; MPICH has one from version 5.0 on, Intel MPI from 2021.17 on, and Open MPI from 6.0 on"
    )]
    OtherAbi {
        /// The file that was loaded.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The library is Onchip's own, which does not reach other machines.
    #[error(
        "{path} is Onchip's own MPI library, which connects the processes of one machine only. Set ONCHIP_MPI to the \
         file libmpi_abi.so of another MPI library"
    )]
    OwnLibrary {
        /// The file that was loaded.
        path: PathBuf,
    },
    /// This process uses MPI already.
    #[error("this process has already called MPI_Init, and an interconnect has to do that itself")]
    InUse,
    /// A function of the MPI library failed.
    #[error("{call} of the MPI library failed: {text}")]
    Engine {
        /// The name of the function.
        call: &'static str,
        /// What the library says of the error.
        text: String,
    },
    /// There is no such node.
    #[error("there is no node {node}: nodes are numbered from 0 to {}", nodes - 1)]
    NoSuchNode {
        /// The node that was named.
        node: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// The tag is higher than [`MAX_TAG`](crate::MAX_TAG).
    #[error("the tag {tag} is higher than {highest}")]
    BadTag {
        /// The tag.
        tag: u32,
        /// [`MAX_TAG`](crate::MAX_TAG).
        highest: u32,
    },
    /// Nothing was probed that could be received.
    #[error("nothing has arrived that could be received: probe first")]
    NothingArrived,
    /// The buffer has not the length of the message.
    #[error("a message of {len} bytes can't be received into {buffer} bytes")]
    WrongLength {
        /// The length of the message.
        len: usize,
        /// The length of the buffer.
        buffer: usize,
    },
    /// The nodes gathered different numbers of words.
    #[error(
        "node {node} gathers {theirs} words, and node {own} gathers {ours}: all nodes must gather the same number"
    )]
    DifferentLengths {
        /// This node.
        own: usize,
        /// The number of its words.
        ours: usize,
        /// Another node.
        node: usize,
        /// The number of that node's words.
        theirs: usize,
    },
    /// The process of another node has ended.
    #[error("node {node} has ended")]
    NodeLost {
        /// The node.
        node: usize,
    },
    /// A node has no ranks.
    #[error("node {node} has no ranks: every node must have at least one")]
    NoRanks {
        /// The node.
        node: usize,
    },
    /// A node runs another version of this library, or has ranks of another kind: threads or processes.
    #[error(
        "node {node} runs another version of Onchip, or ranks of another kind: start the same mprun on all nodes, or the \
         same program of threads"
    )]
    OtherVersion {
        /// The node.
        node: usize,
    },
    /// Another node has sent something that no relay sends. Do all nodes run the same program?
    #[error(
        "node {node} has sent something else than frames of a relay: run the same program on all nodes"
    )]
    NoFrame {
        /// The node.
        node: usize,
    },
    /// The relay of this node has panicked in a rank's thread, or in a communication thread of a rank. The panic's message
    /// was written there.
    #[error("what carries messages between the nodes has panicked in the thread of a rank")]
    Panicked,
    /// This node's part of the world can't be made, or is broken.
    #[error(transparent)]
    World(#[from] mp_core::Error),
    /// The node was aborted.
    #[error("node {node} has ended all nodes with the status {status}")]
    Aborted {
        /// The node that called [`abort`](crate::Interconnect::abort).
        node: usize,
        /// The status that it gave.
        status: i32,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}
