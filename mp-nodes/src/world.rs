//! Worlds on several nodes.

use mp_core::{Cause, Rank, World};

use crate::{error::Result, interconnect::Interconnect, relay::Relay};

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
///             run(Box::new(node), 2, |rank| {
///                 let next = (rank.id() + 1) % rank.size();
///                 let last = (rank.id() + rank.size() - 1) % rank.size();
///                 let mut to = rank.sender::<u64>("ring", next, Channel::degree(1))?;
///                 let from = rank.receiver::<u64>("ring", last, Channel::degree(1))?;
///                 to.send(&(rank.id() as u64))?;
///                 assert_eq!(*from.receive()?, last as u64);
///                 Ok(())
///             })
///         });
///     }
/// });
/// ```
///
/// # Errors
/// Those of the interconnect; [`World`](crate::Error::World) if this node's part of the world can't be made.
pub fn run<T: Send>(
    mut connection: Box<dyn Interconnect>,
    ranks: usize,
    code: impl Fn(&Rank) -> mp_core::Result<T> + Sync,
) -> Result<Vec<std::result::Result<T, Cause>>> {
    let all = connection.all_gather(&[ranks as u64])?;
    let mut first = vec![0];
    for ranks in all {
        let next = first.last().map_or(0, |&last: &u32| u64::from(last)) + ranks;
        first.push(u32::try_from(next).unwrap_or(u32::MAX));
    }
    let here = first[connection.node()] as usize..first[connection.node() + 1] as usize;
    let size = first.last().map_or(0, |&size| size as usize);
    World::threads(size).run_here(here, code, |bridge| Relay::new(connection, bridge, first).run())
}
