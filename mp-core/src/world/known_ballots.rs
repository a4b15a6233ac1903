//! What a bridge knows of the ballots of its node: see `ballots.rs`.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::{context::Context, mpb::ballot::Cast, segment::BlockKey};

/// What a bridge knows of the ballots of its node.
#[derive(Debug, Default)]
pub(super) struct Ballots {
    /// The number of objects that the world had made at the last look.
    pub(super) made: Option<u64>,
    pub(super) known: HashMap<BlockKey, Known>,
    /// The nodes that are lost.
    pub(super) lost: HashSet<usize>,
}

/// What a bridge has told of a ballot, and has yet to write.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) home: usize,
    /// The last round of which each member's vote was told.
    pub(super) voted: HashMap<u32, u64>,
    pub(super) left: HashSet<u32>,
    pub(super) revoked: bool,
    /// Results that wait until the losses that they name are known here.
    pub(super) results: VecDeque<(u64, Vec<Cast>)>,
}

impl Ballots {
    /// Returns the node that decides in a ballot with these members.
    pub(super) fn home(&self, world: &Context, members: &[u32]) -> usize {
        let mut nodes = members.iter().map(|&member| world.node_of(member));
        nodes.find(|node| !self.lost.contains(node)).unwrap_or_default()
    }
}
