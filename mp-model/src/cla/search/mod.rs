//! The best tree for a collective operation (sections 3.1, 3.2, 4 and 5).
//!
//! What is best is what has the smallest minimum by the graph rules: "T_max is usually too
//! pessimistic" (section 2.3). Of equal ones, the one with the smaller maximum.
//!
//! **In one group, with one wave for each rank**, a tree costs what its root's level costs, and its
//! most expensive subtree (equations 32 and 34). A subtree of fewer ranks never costs more, so the
//! ranks below a root with k children are best dealt out evenly, and
//!
//! best(n) = min over k of T_lev(k) + best(⌈(n − 1) / k⌉)
//!
//! is the best of all trees, for any number of ranks; the paper generates them one by one up to 20.
//!
//! **With groups or waves**, that is where the search begins: from it, from the paper's waves ("the
//! remaining threads are split evenly among the available parents", section 3.2), and from fixed shapes,
//! ranks and subtrees are moved while that makes the tree better, and the best is disturbed a few hundred
//! times to see whether there is a better one near it. On the paper's dual-socket machine that finds what
//! looking at all trees of up to seven ranks finds; with any other parameters it comes within 5% of that
//! (see the tests). It is never worse than a fixed shape.

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

/// The best tree that the search finds.
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

/// The same, with a say in how notifications of siblings are counted.
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
