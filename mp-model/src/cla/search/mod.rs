//! The best tree for a collective operation (sections 3.1, 3.2, 4 and 5).
//!
//! The best tree is the one with the smallest minimum by the graph rules, because "T_max is usually too pessimistic"
//! (section 2.3). Of equal ones, it is the one with the smaller maximum.
//!
//! **In one group, with one wave for each rank**, the cost of a tree is the cost of its root's level plus that of its
//! most expensive subtree (equations 32 and 34). A subtree of fewer ranks never costs more, so it is best to divide the
//! ranks below a root with k children evenly, and
//!
//! best(n) = min over k of T_lev(k) + best(⌈(n − 1) / k⌉)
//!
//! is the best of all trees, for any number of ranks. The paper generates all trees one by one, up to 20 ranks.
//!
//! **With groups or waves**, this is where the search begins. It starts from that tree, from the paper's waves ("the
//! remaining threads are split evenly among the available parents", section 3.2), and from fixed shapes. Ranks and
//! subtrees are moved as long as that makes the tree better, and the best tree is disturbed a few hundred times to find
//! a better one near it. On the paper's dual-socket machine this finds the same as an exhaustive search for up to seven
//! ranks; with any other parameters it comes within 5% of that (see the tests). It is never worse than a fixed shape.

mod broadcasts;
mod levels;
mod moves;
mod pattern;
mod reductions;
mod seeds;

pub use self::broadcasts::{Load, OutwardChoice, best_outward, outward_time};
pub(super) use self::levels::Levels;
pub(super) use self::moves::Draft;
use self::moves::improve_all;
pub use self::pattern::Pattern;
pub use self::reductions::{LambdaChoice, best_lambda, reduction_along, reduction_scattered};
use self::seeds::seeds;
use super::graph::{Bounds, Notifications, Rules};
use super::machine::Machine;
use super::tree::{Tree, TreeError};

/// A tree that was chosen, and what the graph says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeChoice {
    /// The tree.
    pub tree: Tree,
    /// Its bounds.
    pub predicted: Bounds,
}

/// Returns the best tree that the search finds.
///
/// # Errors
/// [`TreeError::Root`].
pub fn best_tree(
    machine: &Machine,
    root: usize,
    pattern: Pattern,
) -> Result<TreeChoice, TreeError> {
    best_tree_by(machine, root, pattern, Notifications::Together)
}

/// Does the same, with a choice of how notifications of siblings are counted.
///
/// # Errors
/// [`TreeError::Root`].
pub fn best_tree_by(
    machine: &Machine,
    root: usize,
    pattern: Pattern,
    notifications: Notifications,
) -> Result<TreeChoice, TreeError> {
    let rules = Rules { notifications, ..Rules::default() };
    let drafts = seeds(machine, root, pattern)?.into_iter();
    let mut drafts: Vec<Draft> =
        drafts.map(|tree| Draft { root, waves: tree.into_waves() }).collect();
    let cost = |draft: &Draft| Levels { machine, pattern, notifications, draft }.minimum();
    drafts.sort_by_cached_key(|draft| (cost(draft), draft.waves.clone()));
    drafts.dedup_by(|one, other| one.waves == other.waves);
    let one_group = machine.placement.groups().len() == 1;
    let known_best = one_group
        && machine.parameters.contention.is_none()
        && notifications == Notifications::Together;
    if !known_best {
        drafts = improve_all(machine, drafts, cost);
    }
    let mut best: Option<(Bounds, Tree)> = None;
    let least = drafts.iter().map(cost).min();
    for draft in drafts.into_iter().filter(|draft| Some(cost(draft)) == least) {
        let tree = Tree::new(root, draft.waves)?;
        let predicted = pattern.predicted(&tree, machine, rules);
        let key = |bounds: &Bounds| (bounds.min, bounds.max);
        if best.as_ref().is_none_or(|(bounds, _)| key(&predicted) < key(bounds)) {
            best = Some((predicted, tree));
        }
    }
    let (predicted, tree) = best.expect("there are seeds");
    Ok(TreeChoice { tree, predicted })
}
