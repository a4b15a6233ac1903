//! Graphs, and operations between neighbours.

use super::*;
use crate::{
    calls::{
        communicators::{comm_dup, comm_free, comm_size},
        graphs::*,
        grids::*,
        neighbourhoods::*,
        point_to_point::start,
        requests::{request_free, wait},
    },
    constants::{MPI_COMM_NULL, MPI_DIST_GRAPH, MPI_ERR_TOPOLOGY, MPI_GRAPH},
};

/// `MPI_UNWEIGHTED`.
const UNWEIGHTED: *mut c_int = without_provenance_mut(10);

/// What a rank sends along its edge of this number.
fn number(rank: usize, edge: usize, place: usize) -> i32 {
    (rank * 10_000 + edge * 100 + place % 100) as i32
}

/// Exchanges blocks of this length in all forms. `from` says which block comes along each edge: a rank and the number of
/// its edge, or that nothing comes.
fn exchange(comm: Handle, me: usize, sends: usize, length: usize, from: &[Option<(usize, usize)>]) {
    let (int, count) = (predefined(INT), length as i64);
    let mut own: Vec<i32> =
        (0..sends).flat_map(|edge| (0..length).map(move |place| number(me, edge, place))).collect();
    let mut first: Vec<i32> = (0..length).map(|place| number(me, 0, place)).collect();
    let expected = |is_gather: bool| -> Vec<i32> {
        let block = |from: &Option<(usize, usize)>| -> Vec<i32> {
            let edge = |edge| if is_gather { 0 } else { edge };
            match *from {
                Some((rank, at)) => {
                    (0..length).map(|place| number(rank, edge(at), place)).collect()
                }
                None => vec![-1; length],
            }
        };
        from.iter().flat_map(block).collect()
    };
    let mut all = vec![-1i32; from.len() * length];
    let (to, from_own) = (address(&mut all), address(&mut own));
    let first = address(&mut first);
    ok!(neighbor_alltoall(from_own, count, int, to, count, int, comm));
    assert_eq!(all, expected(false));
    all.fill(-1);
    ok!(neighbor_allgather(first, count, int, to, count, int, comm));
    assert_eq!(all, expected(true));

    // Two exchanges that are under way at once.
    let (mut requests, mut others) = ([null_mut(); 2], vec![-1i32; all.len()]);
    all.fill(-1);
    ok!(ineighbor_alltoall(from_own, count, int, to, count, int, comm, &mut requests[0]));
    let second = address(&mut others);
    ok!(ineighbor_allgather(first, count, int, second, count, int, comm, &mut requests[1]));
    ok!(wait(&mut requests[1], NONE));
    ok!(wait(&mut requests[0], NONE));
    assert_eq!((&all, &others), (&expected(false), &expected(true)));

    // Blocks at places of their own, the last of which comes first, by a request that starts twice.
    let counts = |edges: usize| vec![length as c_int; edges];
    let backwards = |edges: usize| -> Vec<c_int> {
        (0..edges).rev().map(|at| (at * length) as c_int).collect()
    };
    let (sent_counts, counts) = (counts(sends), counts(from.len()));
    let forwards: Vec<c_int> = (0..sends).map(|at| (at * length) as c_int).collect();
    let places = backwards(from.len());
    let reversed: Vec<i32> = {
        let blocks = expected(false);
        blocks.chunks(length).rev().flatten().copied().collect()
    };
    let mut request = null_mut();
    ok!(neighbor_alltoallv_init(
        from_own,
        sent_counts.as_ptr().into(),
        forwards.as_ptr().into(),
        int,
        to,
        counts.as_ptr().into(),
        places.as_ptr().into(),
        int,
        comm,
        null_mut(),
        &mut request,
    ));
    for _ in 0..2 {
        all.fill(-1);
        ok!(start(&mut request));
        ok!(wait(&mut request, NONE));
        assert_eq!(all, reversed);
    }
    ok!(request_free(&mut request));
}

#[test]
fn neighbours_in_grids() {
    for length in [1usize, 3_000] {
        for (dimensions, periodic) in [
            (vec![1], vec![1]),
            (vec![1], vec![0]),
            (vec![2], vec![1]),
            (vec![3], vec![0]),
            (vec![2, 2], vec![1, 1]),
            (vec![3, 2], vec![1, 0]),
        ] {
            let ranks = dimensions.iter().product::<c_int>() as usize;
            // One rank more than the grid has.
            on_ranks(ranks + 1, |comm, _, _| {
                let (count, mut grid) = (dimensions.len() as c_int, null_mut());
                let (sizes, wraps) = (dimensions.as_ptr(), periodic.as_ptr());
                ok!(cart_create(comm, count, sizes, wraps, 0, &mut grid));
                if grid == MPI_COMM_NULL {
                    return;
                }
                let mut from = Vec::new();
                let mut me = 0;
                ok!(crate::calls::communicators::comm_rank(grid, &mut me));
                for dimension in 0..count {
                    let (mut before, mut after) = (0, 0);
                    ok!(cart_shift(grid, dimension, 1, &mut before, &mut after));
                    let edge = 2 * dimension as usize;
                    // What comes from before was sent on, and the other way round.
                    for (rank, edge) in [(before, edge + 1), (after, edge)] {
                        from.push((rank != NOBODY).then_some((rank as usize, edge)));
                    }
                }
                exchange(grid, me as usize, from.len(), length, &from);
                ok!(comm_free(&mut grid));
            });
        }
    }
}

#[test]
fn neighbours_in_graphs() {
    for size in [1usize, 2, 3, 5] {
        on_ranks(size, |comm, me, size| {
            // Everybody is next to everybody, itself included.
            let ends: Vec<_> = (1..=size).map(|rank| (rank * size) as c_int).collect();
            let edges: Vec<_> = (0..size).flat_map(|_| 0..size as c_int).collect();
            let mut graph = null_mut();
            let (count, index, to) = (size as c_int, ends.as_ptr(), edges.as_ptr());
            ok!(graph_create(comm, count, index, to, 1, &mut graph));
            let (mut kind, mut neighbours) = (0, 0);
            ok!(topo_test(graph, &mut kind));
            ok!(graph_neighbors_count(graph, me as c_int, &mut neighbours));
            assert_eq!((kind, neighbours), (MPI_GRAPH, count));
            let mut all = vec![-1; size];
            ok!(graph_neighbors(graph, me as c_int, count, all.as_mut_ptr()));
            assert!(all.iter().copied().eq(0..count));
            let (mut ranks, mut number) = (0, 0);
            ok!(graphdims_get(graph, &mut ranks, &mut number));
            assert_eq!((ranks, number), (count, count * count));
            let from: Vec<_> = (0..size).map(|rank| Some((rank, me))).collect();
            exchange(graph, me, size, 40, &from);
            let mut copy = null_mut();
            ok!(comm_dup(graph, &mut copy));
            exchange(copy, me, size, 1, &from);
            ok!(comm_free(&mut copy));
            ok!(comm_free(&mut graph));

            // A graph of the first rank alone.
            ok!(graph_create(comm, 1, [0].as_ptr(), null_mut(), 0, &mut graph));
            assert_eq!(graph == MPI_COMM_NULL, me > 0);
            if me == 0 {
                ok!(comm_size(graph, &mut ranks));
                assert_eq!(ranks, 1);
                ok!(comm_free(&mut graph));
            }
        });
    }
}

#[test]
fn ranks_know_their_own_edges() {
    for size in [1usize, 2, 3, 5] {
        on_ranks(size, |comm, me, size| {
            // Two edges to the next rank, and one to the rank itself.
            let (next, before) = ((me + 1) % size, (me + size - 1) % size);
            let sources = [before as c_int, me as c_int, before as c_int];
            let destinations = [next as c_int, me as c_int, next as c_int];
            let weights = [5, 6, 7];
            let (mut adjacent, none) = (null_mut(), null_mut());
            ok!(dist_graph_create_adjacent(
                comm,
                3,
                sources.as_ptr(),
                weights.as_ptr(),
                3,
                destinations.as_ptr(),
                weights.as_ptr(),
                none,
                0,
                &mut adjacent,
            ));
            let (mut kind, mut ins, mut outs, mut weighted) = (0, 0, 0, 0);
            ok!(topo_test(adjacent, &mut kind));
            ok!(dist_graph_neighbors_count(adjacent, &mut ins, &mut outs, &mut weighted));
            assert_eq!((kind, ins, outs, weighted), (MPI_DIST_GRAPH, 3, 3, 1));
            let mut got = [[-1; 3]; 4];
            let [from, of_from, to, of_to] = got.each_mut().map(|array| array.as_mut_ptr());
            ok!(dist_graph_neighbors(adjacent, 3, from, of_from, 3, to, of_to));
            assert_eq!(got, [sources, weights, destinations, weights]);
            // With one rank all three edges join it with itself, in this order.
            let edges = [(before, 0), (me, 1), (before, 2)];
            exchange(adjacent, me, 3, 7, &edges.map(Some));
            ok!(comm_free(&mut adjacent));

            // The same ring, of which rank 0 tells all edges.
            let all: Vec<_> = (0..size as c_int).collect();
            let to: Vec<_> = (0..size).map(|rank| ((rank + 1) % size) as c_int).collect();
            let (count, ones) = (if me == 0 { size as c_int } else { 0 }, vec![1; size]);
            let mut told = null_mut();
            ok!(dist_graph_create(
                comm,
                count,
                all.as_ptr(),
                ones.as_ptr(),
                to.as_ptr(),
                UNWEIGHTED,
                none,
                0,
                &mut told,
            ));
            ok!(dist_graph_neighbors_count(told, &mut ins, &mut outs, &mut weighted));
            assert_eq!((ins, outs, weighted), (1, 1, 0));
            exchange(told, me, 1, 3, &[Some((before, 0))]);
            ok!(comm_free(&mut told));

            // The communicator itself has no neighbours.
            let mut word = [0i32];
            let (from, to, int) = (address(&mut word), none.cast(), predefined(INT));
            // SAFETY: the handles are valid, and nothing is written.
            let code = unsafe { neighbor_allgather(from, 1, int, to, 1, int, comm) };
            assert_eq!(code, MPI_ERR_TOPOLOGY);
        });
    }
}
