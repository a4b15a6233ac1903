//! What trees are for.

use crate::Time;
use crate::cla::equations;
use crate::cla::graph::{Bounds, Graph, Rules};
use crate::cla::machine::{Machine, Placement};
use crate::cla::patterns;
use crate::cla::program::Program;
use crate::cla::tree::Tree;

/// The purpose of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One rank notifies all (section 3.2).
    OneToMany,
    /// All ranks notify one (section 3.1).
    ManyToOne,
    /// This many lines from the root to all, acknowledged (section 4).
    Broadcast {
        /// N. One line goes with the notification.
        lines: u64,
    },
    /// One line of each rank, combined at the root (section 5.1).
    Reduction,
}

impl Pattern {
    /// Returns the pattern over a tree, as primitives.
    pub fn program(self, tree: &Tree, placement: &Placement) -> Program {
        match self {
            Pattern::OneToMany => patterns::notification_tree(tree),
            Pattern::ManyToOne => patterns::gathering_tree(tree, placement),
            Pattern::Broadcast { lines } => patterns::broadcast(tree, placement, lines),
            Pattern::Reduction => patterns::reduction(tree, placement),
        }
    }

    /// Returns what the graph rules predict for it over a tree.
    ///
    /// # Panics
    /// If the tree has other ranks than the machine.
    pub fn predicted(self, tree: &Tree, machine: &Machine, rules: Rules) -> Bounds {
        let program = self.program(tree, &machine.placement);
        Graph::new(&program, machine)
            .expect("each wait of a pattern has its write, and the tree is the machine's")
            .bounds(rules)
    }

    /// Returns T_lev within a group, one wave: what the root's level adds to its most expensive subtree.
    pub(super) fn level(self, machine: &Machine, children: usize) -> Time {
        let (p, k) = (&machine.parameters, children as u64);
        match self {
            Pattern::OneToMany => p.near.memory + p.read(true, k),
            Pattern::ManyToOne => equations::many_to_one_same_line(p, k, 0).min,
            Pattern::Broadcast { lines } => equations::broadcast_level(p, k, lines),
            Pattern::Reduction => equations::reduction_level(p, k).min,
        }
    }
}
