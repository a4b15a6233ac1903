//! The edges of graphs, as the paper draws them, their critical paths, and bounds that hold in all cases.

use std::collections::{BTreeMap, BTreeSet};

use mp_model::Time;
use mp_model::cla::graph::{Bounds, Graph, GraphError, Node, Notifications, Rules};
use mp_model::cla::program::Kind;
use mp_model::cla::{Machine, Parameters, Primitive, Program};

/// The kind of an edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The first node.
    pub from: Node,
    /// The second node.
    pub to: Node,
    /// The reason.
    pub kind: EdgeKind,
}

/// The four kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// E1: the next step of the same rank.
    Sequence,
    /// E2: the reader needs what the writer wrote.
    Dependency,
    /// E3: both write a line for which a third node waits. They have no order.
    Exclusion,
    /// E4: a write, and a poll of another stage that may steal its line.
    Stealing,
}

/// Returns bounds that hold in all cases, while the model's minimum is a value to optimize for: the maximum is
/// unchanged, and the minimum uses early notifications and the least costs of lines.
///
/// # Errors
/// [`GraphError`].
pub fn certain(program: &Program, machine: &Machine) -> Result<Bounds, GraphError> {
    let max = Graph::new(program, machine)?.bounds(Rules::default()).max;
    let least = Machine { parameters: least(machine.parameters), ..machine.clone() };
    let overlap = Rules { notifications: Notifications::AsTheyCome, ..Rules::default() };
    Ok(Bounds { min: Graph::new(program, &least)?.bounds(overlap).min, max })
}

/// Returns the least that anything can cost with these parameters: readers come one by one, and a rank that polls too
/// early has brought the line from memory for its writer.
fn least(parameters: Parameters) -> Parameters {
    let mut least = parameters.without_contention().with_cached_flags();
    if let Some(contention) = parameters.contention {
        // Copies of several lines have another constant there (section 4.2.2).
        for link in [&mut least.near, &mut least.far] {
            link.lines.start = link.lines.start.min(contention.cost(1));
            link.lines.congestion = Time::ZERO;
        }
    }
    least
}

/// Returns all edges between the nodes of a program's graph.
pub fn edges(graph: &Graph<'_>, program: &Program) -> BTreeSet<Edge> {
    let accesses = program.accesses();
    let mut edges = BTreeSet::new();
    let mut last_writer = BTreeMap::new();
    for &to in graph.order() {
        if to.step > 0 {
            let from = Node { rank: to.rank, step: to.step - 1 };
            edges.insert(Edge { from, to, kind: EdgeKind::Sequence });
        }
        let writers = graph.awaited(to);
        for (index, &from) in writers.iter().enumerate() {
            if from.rank != to.rank {
                edges.insert(Edge { from, to, kind: EdgeKind::Dependency });
            }
            for &other in &writers[index + 1..] {
                edges.insert(Edge { from, to: other, kind: EdgeKind::Exclusion });
            }
        }
        for access in &accesses[to.rank][to.step] {
            if access.kind.writes() {
                last_writer.insert(access.line, to);
            } else if let (Some(&from), Kind::Load { .. }) =
                (last_writer.get(&access.line), access.kind)
                && from.rank != to.rank
            {
                edges.insert(Edge { from, to, kind: EdgeKind::Dependency });
            }
        }
    }
    let step = |node: Node| program.steps(node.rank)[node.step];
    for &from in graph.order() {
        let (Primitive::Write { line, .. } | Primitive::Add { line, from: None }) = step(from)
        else {
            continue;
        };
        for &to in graph.order() {
            let polls = matches!(step(to), Primitive::Wait { line: polled, .. } if polled == line);
            if polls && to.rank != from.rank && !graph.awaited(to).contains(&from) {
                edges.insert(Edge { from, to, kind: EdgeKind::Stealing });
            }
        }
    }
    edges
}

/// Returns the path that is as long as the minimum, from its first node to its last.
pub fn critical_path(graph: &Graph<'_>, rules: Rules) -> Vec<Node> {
    let times = graph.minimum(rules);
    let mut path = Vec::new();
    let mut at = graph.order().iter().copied().max_by_key(|&node| times.finish(node));
    while let Some(node) = at {
        path.push(node);
        let writers = graph.awaited(node);
        let last = writers.iter().copied().max_by_key(|&writer| times.start(writer));
        at = match last {
            Some(last) if times.waited(node) => {
                path.extend(writers.iter().filter(|&&writer| writer != last));
                Some(last)
            }
            _ => node.step.checked_sub(1).map(|step| Node { rank: node.rank, step }),
        };
    }
    path.reverse();
    path
}
