//! The channels of a set of communicators, by name.

use mp_core::{Channel, Rank, Result, names::Namespace};

use crate::communicator::messages::wire::{CHUNK, LINES, chunks};

/// Returns the names of the two channels, of lines and of chunks, of one set of communicators.
pub(crate) fn names(serial: u64) -> [String; 2] {
    ["lines", "chunks"].map(|channel| format!("communicator {serial}: {channel}"))
}

/// Returns the name of the [cells](super::cells) of two ranks in one set of communicators. Pairs have different names,
/// because ranks open the cells of several pairs in any order.
pub(crate) fn cells_name(serial: u64, [first, second]: [usize; 2]) -> String {
    format!("communicator {serial}: cells of {first} and {second}")
}

/// The names of everything that communicators open for themselves.
pub(crate) const NAMES: Namespace = Namespace::new("messages");

pub(crate) const LINE_CHANNEL: Channel = NAMES.channel(Channel::degree(LINES));

/// Returns the settings of a channel of chunks. They depend on the number of ranks and on the caches.
pub(crate) fn chunk_channel(rank: &Rank) -> Result<Channel> {
    let slots = chunks(rank.size(), rank.cache_for_rings()?);
    Ok(NAMES.channel(Channel::degree(slots).max_len(CHUNK)))
}
