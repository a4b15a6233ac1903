//! Worlds on several nodes.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use mp_core::{Cause, Rank, World};

use crate::{
    error::{Error, Result},
    interconnect::Interconnect,
    relay::Relay,
};

/// Runs `code` as the ranks of this node, and joins them with those of all other nodes to one world. All nodes must call
/// this. Ranks are threads of the calling process. They are numbered over all nodes, in the order of the nodes, and every
/// node may have another number of them. Returns the outcomes of this node's ranks, in their order, when all ranks of all
/// nodes have ended.
///
/// Ranks of one node talk through memory, as in any [`World`]. Channels of degree 1 or more lead to ranks of other nodes,
/// too: with the same calls, types and degrees. What needs common memory works among the ranks of a node only, and is the
/// error [`OnAnotherNode`](mp_core::ErrorKind::OnAnotherNode) otherwise. The calling thread carries the messages between
/// the nodes. While there are none, it sleeps for up to a millisecond between two looks.
///
/// ```
/// use mp_nodes::{InMemory, run};
/// use onchip::Channel;
///
/// let nodes = InMemory::connect(2);
/// std::thread::scope(|scope| {
///     for node in nodes {
///         scope.spawn(move || {
///             // Two nodes of two ranks each.
///             let ran = run(Box::new(node), 2, |rank| {
///                 let next = (rank.id() + 1) % rank.size();
///                 let last = (rank.id() + rank.size() - 1) % rank.size();
///                 let mut to = rank.sender::<u64>("ring", next, Channel::degree(1))?;
///                 let from = rank.receiver::<u64>("ring", last, Channel::degree(1))?;
///                 to.send(&(rank.id() as u64))?;
///                 assert_eq!(*from.receive()?, last as u64);
///                 Ok(())
///             });
///             assert_eq!(ran.unwrap(), [Ok(()), Ok(())]);
///         });
///     }
/// });
/// ```
///
/// If a node is lost, its ranks are lost, and the others go on, if the interconnect can.
///
/// # Errors
/// Those of the interconnect; [`NoRanks`](Error::NoRanks) and [`OtherVersion`](Error::OtherVersion), at all nodes;
/// [`World`](Error::World) if this node's part of the world can't be made. The ranks of all other nodes are then lost to
/// the ranks of this one.
pub fn run<T: Send>(
    mut connection: Box<dyn Interconnect>,
    ranks: usize,
    code: impl Fn(&Rank) -> mp_core::Result<T> + Sync,
) -> Result<Vec<std::result::Result<T, Cause>>> {
    let words = connection.all_gather(&[ranks as u64, version()])?;
    if let Err(error) = check(&words) {
        // All nodes find the same.
        connection.end()?;
        return Err(error);
    }
    let mut first = vec![0];
    for words in words.chunks_exact(2) {
        let next = first.last().map_or(0, |&last: &u32| u64::from(last)).saturating_add(words[0]);
        first.push(u32::try_from(next).unwrap_or(u32::MAX));
    }
    let (node, size) = (connection.node(), first.last().map_or(0, |&size| size as usize));
    let first: Arc<[u32]> = first.into();
    World::threads(size).run_node(Arc::clone(&first), node, code, |bridge| {
        Relay::new(connection, bridge, first).run()
    })
}

/// Checks what the nodes have said: the number of their ranks, and their version.
fn check(words: &[u64]) -> Result<()> {
    for (node, words) in words.chunks_exact(2).enumerate() {
        if words[1] != version() {
            return Err(Error::OtherVersion { node });
        }
        if words[0] == 0 {
            return Err(Error::NoRanks { node });
        }
    }
    Ok(())
}

/// Changes when relays no longer understand those of an older version.
const PROTOCOL: u32 = 1;

/// Returns a number that differs between versions whose relays do not understand each other.
fn version() -> u64 {
    let mut hash = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), PROTOCOL).hash(&mut hash);
    hash.finish()
}
