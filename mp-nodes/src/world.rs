//! Worlds on several nodes.

use std::sync::Arc;

use mp_core::{Cause, Rank, World};

use crate::{error::Result, interconnect::Interconnect, nodes::Nodes};

/// Runs `code` as the ranks of this node, and joins them with those of all other nodes to one world. All nodes must call
/// this. Ranks are threads of the calling process. They are numbered over all nodes, in the order of the nodes, and every
/// node may have another number of them. Returns the outcomes of this node's ranks, in their order, when all ranks of all
/// nodes have ended.
///
/// Ranks of one node talk through memory, as in any [`World`]. Channels lead to ranks of other nodes, too, and shared
/// channels have ranks of all nodes at either end: with the same calls, types and degrees. What needs common memory works
/// among the ranks of a node only, and is the error [`OnAnotherNode`](mp_core::ErrorKind::OnAnotherNode) otherwise. The
/// calling thread carries the messages between the nodes, and so do ranks that send to other nodes or wait. While there are
/// none, the calling thread sleeps for up to a millisecond between two looks. The connection is used by these threads, one
/// at a time.
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
/// Those of the interconnect; [`NoRanks`](crate::Error::NoRanks) and [`OtherVersion`](crate::Error::OtherVersion), at all
/// nodes; [`World`](crate::Error::World) if this node's part of the world can't be made. The ranks of all other nodes are
/// then lost to the ranks of this one.
pub fn run<T: Send>(
    connection: Box<dyn Interconnect>,
    ranks: usize,
    code: impl Fn(&Rank) -> mp_core::Result<T> + Sync,
) -> Result<Vec<std::result::Result<T, Cause>>> {
    let nodes = Nodes::join_with(true, connection, ranks)?;
    let (first, node) = (Arc::clone(&nodes.first), nodes.node());
    let world = World::threads(nodes.ranks()).among_working(nodes.working());
    let mut served_by = None;
    let outcomes = world.run_node(first, node, code, |bridge| {
        let (nodes, served) = nodes.serve(bridge);
        served_by = Some(nodes);
        served
    })?;
    if let Some(nodes) = served_by {
        nodes.end()?;
    }
    Ok(outcomes)
}
