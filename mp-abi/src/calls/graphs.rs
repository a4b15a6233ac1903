//! Graphs of ranks, which all ranks know or of which each knows its own edges.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::ffi::c_int;

use mp_collectives::collectives::{At, packed};

use super::grids::{put_all, with_topology};
use crate::{
    comm::{Comm, array, within},
    constants::{MPI_CART, MPI_DIST_GRAPH, MPI_GRAPH, MPI_UNDEFINED},
    error::{Class, Error},
    program::put,
    topology::{Edges, Graph, Topology},
    types::Handle,
};

type Result<T> = std::result::Result<T, Error>;

fn graph(comm: &Comm) -> Result<&Graph> {
    match comm.topology.get() {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ => Err(Error::new(Class::Topology, format!("{:?} has no graph", comm.name()))),
    }
}

/// Returns the graph of the first ranks of a communicator.
///
/// # Safety
/// The arrays are null, or have an entry for each rank of the graph, and one for each edge.
unsafe fn given(
    comm: &Comm,
    ranks: c_int,
    ends: *const c_int,
    edges: *const c_int,
) -> Result<Graph> {
    if ranks > comm.size {
        let text = format!("a graph of {ranks} ranks in a communicator of {}", comm.size);
        return Err(Error::new(Class::Arg, text));
    }
    // SAFETY: the caller says so.
    unsafe {
        let ends = array(ends, ranks)?;
        Graph::new(ends, array(edges, ends.last().copied().unwrap_or(0))?)
    }
}

/// `MPI_Graph_create`. Ranks keep their order.
pub unsafe fn graph_create(
    comm: Handle,
    ranks: c_int,
    ends: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays as the standard says, and a place for the result.
    unsafe {
        within(comm, "MPI_Graph_create", |comm| {
            let graph = Topology::Graph(given(comm, ranks, ends, edges)?);
            put(to, with_topology(comm, graph, (comm.rank < ranks).then_some(0))?)
        })
    }
}

/// `MPI_Graph_map`: ranks keep their order.
pub unsafe fn graph_map(
    comm: Handle,
    ranks: c_int,
    ends: *const c_int,
    edges: *const c_int,
    rank: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays as the standard says, and a place for the answer.
    unsafe {
        within(comm, "MPI_Graph_map", |comm| {
            given(comm, ranks, ends, edges)?;
            put(rank, if comm.rank < ranks { comm.rank } else { MPI_UNDEFINED })
        })
    }
}

/// `MPI_Graphdims_get`.
pub unsafe fn graphdims_get(comm: Handle, ranks: *mut c_int, edges: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(comm, "MPI_Graphdims_get", |comm| {
            let graph = graph(comm)?;
            put(ranks, graph.ends.len() as c_int)?;
            put(edges, graph.edges.len() as c_int)
        })
    }
}

/// `MPI_Graph_get`.
pub unsafe fn graph_get(
    comm: Handle,
    ranks: c_int,
    room: c_int,
    ends: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and arrays, each as long as it says.
    unsafe {
        within(comm, "MPI_Graph_get", |comm| {
            let graph = graph(comm)?;
            put_all(ranks, ends, graph.ends.iter().copied())?;
            put_all(room, edges, graph.edges.iter().copied())
        })
    }
}

fn neighbours(comm: &Comm, rank: c_int) -> Result<&[c_int]> {
    let graph = graph(comm)?;
    match usize::try_from(rank) {
        Ok(rank) if rank < graph.ends.len() => Ok(graph.neighbours(rank)),
        _ => Err(Error::new(Class::Rank, format!("there is no rank {rank} in the graph"))),
    }
}

/// `MPI_Graph_neighbors_count`.
pub unsafe fn graph_neighbors_count(comm: Handle, rank: c_int, count: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(comm, "MPI_Graph_neighbors_count", |comm| {
            put(count, neighbours(comm, rank)?.len() as c_int)
        })
    }
}

/// `MPI_Graph_neighbors`.
pub unsafe fn graph_neighbors(comm: Handle, rank: c_int, room: c_int, to: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and an array that is as long as it says.
    unsafe {
        within(comm, "MPI_Graph_neighbors", |comm| {
            put_all(room, to, neighbours(comm, rank)?.iter().copied())
        })
    }
}

/// Returns whether a program gives no weights (`MPI_UNWEIGHTED`).
fn is_unweighted(weights: *const c_int) -> bool {
    weights.addr() == 10
}

/// Returns the weights of as many edges. `MPI_WEIGHTS_EMPTY` stands for those of none.
///
/// # Safety
/// It is an array of as many numbers, or null, or one of MPI's two constants.
unsafe fn weights(given: *const c_int, count: c_int) -> Result<Vec<c_int>> {
    match given.addr() {
        10 | 11 => Ok(Vec::new()),
        // SAFETY: the caller says so.
        _ => unsafe { array(given, count).map(<[c_int]>::to_vec) },
    }
}

/// Returns ranks of the communicator.
///
/// # Safety
/// It is an array of as many numbers, or null.
unsafe fn ranks(comm: &Comm, given: *const c_int, count: c_int) -> Result<Vec<c_int>> {
    // SAFETY: the caller says so.
    let given = unsafe { array(given, count)? };
    given
        .iter()
        .try_for_each(|&rank| comm.root(rank).map(drop))
        .map_err(|error| Error::new(Class::Rank, error.text))?;
    Ok(given.to_vec())
}

/// `MPI_Dist_graph_create_adjacent`. Ranks keep their order.
pub unsafe fn dist_graph_create_adjacent(
    comm: Handle,
    source_count: c_int,
    sources: *const c_int,
    source_weights: *const c_int,
    destination_count: c_int,
    destinations: *const c_int,
    destination_weights: *const c_int,
    _info: Handle,
    _reorder: c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays as long as it says, and a place for the result.
    unsafe {
        within(comm, "MPI_Dist_graph_create_adjacent", |comm| {
            let has_weights = !is_unweighted(source_weights) && !is_unweighted(destination_weights);
            let weights = match has_weights {
                false => None,
                true => Some([
                    weights(source_weights, source_count)?,
                    weights(destination_weights, destination_count)?,
                ]),
            };
            let edges = Edges {
                sources: ranks(comm, sources, source_count)?,
                destinations: ranks(comm, destinations, destination_count)?,
                weights,
            };
            put(to, with_topology(comm, Topology::Distributed(edges), Some(0))?)
        })
    }
}

/// `MPI_Dist_graph_create`. Ranks keep their order. Every rank hears of all edges, and keeps its own.
pub unsafe fn dist_graph_create(
    comm: Handle,
    count: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    given_weights: *const c_int,
    _info: Handle,
    _reorder: c_int,
    to: *mut Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays as the standard says, and a place for the result.
    unsafe {
        within(comm, "MPI_Dist_graph_create", |comm| {
            let has_weights = !is_unweighted(given_weights);
            let (sources, degrees) = (ranks(comm, sources, count)?, array(degrees, count)?);
            if degrees.iter().any(|&degree| degree < 0) {
                return Err(Error::new(Class::Arg, "the degree of a rank is negative"));
            }
            let all = degrees.iter().sum();
            let destinations = ranks(comm, destinations, all)?;
            let mut weights = if has_weights { weights(given_weights, all)? } else { Vec::new() };
            weights.resize(all as usize, 0);
            let from = sources.iter().zip(degrees);
            let from = from.flat_map(|(&rank, &degree)| std::iter::repeat_n(rank, degree as usize));
            let own: Vec<_> = from
                .zip(&destinations)
                .zip(&weights)
                .flat_map(|((from, &to), &weight)| [from, to, weight])
                .collect();
            let edges = exchange(comm, &own, has_weights)?;
            put(to, with_topology(comm, Topology::Distributed(edges), Some(0))?)
        })
    }
}

/// Gives every rank all edges, each a source, a destination and a weight. Returns those of this rank.
fn exchange(comm: &Comm, own: &[c_int], has_weights: bool) -> Result<Edges> {
    let communicator = &comm.communicator;
    let mut lengths = vec![0u64; comm.size as usize];
    communicator.all_gather([own.len() as u64], &mut lengths)?;
    let ranges = packed(lengths.iter().map(|&length| length as usize));
    let mut all = vec![0; ranges.last().map_or(0, |range| range.end)];
    communicator.all_gather(own, At(&mut all, &ranges))?;
    let (mut edges, mut weights) = (Edges::default(), [Vec::new(), Vec::new()]);
    for edge in all.chunks_exact(3) {
        if edge[1] == comm.rank {
            edges.sources.push(edge[0]);
            weights[0].push(edge[2]);
        }
        if edge[0] == comm.rank {
            edges.destinations.push(edge[1]);
            weights[1].push(edge[2]);
        }
    }
    edges.weights = has_weights.then_some(weights);
    Ok(edges)
}

fn edges(comm: &Comm) -> Result<&Edges> {
    match comm.topology.get() {
        Some(Topology::Distributed(edges)) => Ok(edges),
        _ => {
            let text = format!("{:?} has no distributed graph", comm.name());
            Err(Error::new(Class::Topology, text))
        }
    }
}

/// `MPI_Dist_graph_neighbors_count`.
pub unsafe fn dist_graph_neighbors_count(
    comm: Handle,
    sources: *mut c_int,
    destinations: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and places for the answers.
    unsafe {
        within(comm, "MPI_Dist_graph_neighbors_count", |comm| {
            let edges = edges(comm)?;
            put(sources, edges.sources.len() as c_int)?;
            put(destinations, edges.destinations.len() as c_int)?;
            put(weighted, edges.weights.is_some().into())
        })
    }
}

/// `MPI_Dist_graph_neighbors`.
pub unsafe fn dist_graph_neighbors(
    comm: Handle,
    source_room: c_int,
    sources: *mut c_int,
    source_weights: *mut c_int,
    destination_room: c_int,
    destinations: *mut c_int,
    destination_weights: *mut c_int,
) -> c_int {
    // SAFETY: the program gives a valid handle, and arrays, each as long as it says.
    unsafe {
        within(comm, "MPI_Dist_graph_neighbors", |comm| {
            let edges = edges(comm)?;
            put_all(source_room, sources, edges.sources.iter().copied())?;
            put_all(destination_room, destinations, edges.destinations.iter().copied())?;
            if let Some([of_sources, of_destinations]) = &edges.weights {
                if !is_unweighted(source_weights) {
                    put_all(source_room, source_weights, of_sources.iter().copied())?;
                }
                if !is_unweighted(destination_weights) {
                    let weights = of_destinations.iter().copied();
                    put_all(destination_room, destination_weights, weights)?;
                }
            }
            Ok(())
        })
    }
}

/// `MPI_Topo_test`.
pub unsafe fn topo_test(comm: Handle, kind: *mut c_int) -> c_int {
    // SAFETY: the program gives a valid handle, and a place for the answer.
    unsafe {
        within(comm, "MPI_Topo_test", |comm| {
            put(
                kind,
                match comm.topology.get() {
                    None => MPI_UNDEFINED,
                    Some(Topology::Grid(_)) => MPI_CART,
                    Some(Topology::Graph(_)) => MPI_GRAPH,
                    Some(Topology::Distributed(_)) => MPI_DIST_GRAPH,
                },
            )
        })
    }
}
