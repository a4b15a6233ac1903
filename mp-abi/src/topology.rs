//! What a communicator knows about who is next to whom.

use std::ffi::c_int;

use crate::{
    cartesian::Cartesian,
    error::{Class, Error},
};

/// The topology of a communicator.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    Grid(Cartesian),
    Graph(Graph),
    Distributed(Edges),
}

/// A graph of all ranks, which every rank knows.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// For each rank, how many edges it and the ranks below it have.
    pub ends: Vec<c_int>,
    pub edges: Vec<c_int>,
}

impl Graph {
    pub fn new(ends: &[c_int], edges: &[c_int]) -> Result<Self, Error> {
        let ranks = 0..ends.len() as c_int;
        if ends.first().is_some_and(|&first| first < 0) || !ends.is_sorted() {
            return Err(Error::new(Class::Arg, "the index of a graph decreases"));
        }
        match edges.iter().find(|edge| !ranks.contains(edge)) {
            None => Ok(Self { ends: ends.to_vec(), edges: edges.to_vec() }),
            Some(edge) => {
                let text = format!("an edge leads to {edge} in a graph of {} ranks", ends.len());
                Err(Error::new(Class::Arg, text))
            }
        }
    }

    /// Returns the neighbours of a rank.
    pub fn neighbours(&self, rank: usize) -> &[c_int] {
        let before = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.edges[before as usize..self.ends[rank] as usize]
    }
}

/// The edges of one rank: those by which it gets data, and those by which it sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    pub sources: Vec<c_int>,
    pub destinations: Vec<c_int>,
    /// The weights of both, if the edges have weights.
    pub weights: Option<[Vec<c_int>; 2]>,
}

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// The rank. Beyond the border of a grid there is none.
    pub rank: Option<usize>,
    /// What both ends of an edge call it, if several edges join the same ranks.
    pub edge: u32,
}

impl Neighbour {
    /// Names a rank, if no other kind of edge joins the two.
    pub fn of(rank: usize) -> Self {
        Self { rank: Some(rank), edge: 0 }
    }
}

impl Topology {
    /// Returns the neighbours from which a rank gets data, and those to which it sends, in their order.
    ///
    /// Edges of a grid are told apart by dimension and direction. In a periodic dimension of one or two ranks, what is
    /// sent in one direction comes from the other, as in longer ones. Several edges of a graph between the same ranks
    /// are in the order in which both ends have them.
    pub fn neighbours(&self, rank: usize) -> [Vec<Neighbour>; 2] {
        let plainly = |ranks: &[c_int]| {
            ranks.iter().map(|&rank| Neighbour::of(rank as usize)).collect::<Vec<_>>()
        };
        match self {
            Self::Graph(graph) => {
                let all = plainly(graph.neighbours(rank));
                [all.clone(), all]
            }
            Self::Distributed(edges) => [plainly(&edges.sources), plainly(&edges.destinations)],
            Self::Grid(grid) => {
                let (mut sources, mut destinations) = (Vec::new(), Vec::new());
                for dimension in 0..grid.dimensions.len() {
                    for (direction, other) in
                        grid.shift(rank as c_int, dimension, 1).into_iter().enumerate()
                    {
                        let rank = other.map(|rank| rank as usize);
                        let edge = 2 * dimension as u32;
                        sources.push(Neighbour { rank, edge: edge + 1 - direction as u32 });
                        destinations.push(Neighbour { rank, edge: edge + direction as u32 });
                    }
                }
                [sources, destinations]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_an_edge_agree() {
        for (dimensions, periodic) in [
            (vec![1], [1].as_slice()),
            (vec![2], &[1]),
            (vec![3, 2], &[0, 1]),
            (vec![2, 2], &[1, 1]),
        ] {
            let grid = Cartesian::new(&dimensions, periodic).unwrap();
            let ranks = grid.ranks().unwrap() as usize;
            let topology = Topology::Grid(grid);
            for me in 0..ranks {
                let [sources, destinations] = topology.neighbours(me);
                assert_eq!(sources.len(), 2 * dimensions.len());
                for to in destinations.iter().filter_map(|to| to.rank.map(|rank| (rank, to.edge))) {
                    let [theirs, _] = topology.neighbours(to.0);
                    let wanted = Neighbour { rank: Some(me), edge: to.1 };
                    assert_eq!(theirs.iter().filter(|&&from| from == wanted).count(), 1);
                }
                assert_eq!(
                    sources.iter().map(|from| from.rank).collect::<Vec<_>>(),
                    destinations.iter().map(|to| to.rank).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn graphs() {
        let graph = Graph::new(&[2, 3, 4], &[1, 2, 0, 0]).unwrap();
        assert_eq!(graph.neighbours(0), [1, 2]);
        assert_eq!((graph.neighbours(1), graph.neighbours(2)), ([0].as_slice(), [0].as_slice()));
        assert!(Graph::new(&[2, 1], &[0, 1]).is_err());
        assert!(Graph::new(&[1], &[1]).is_err());
    }
}
