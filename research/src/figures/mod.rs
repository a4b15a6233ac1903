//! The papers' figures and tables, each beside what the library's algorithms do on simulated machines.
//!
//! ```text
//! cargo run --release -p onchip-research -- figures [NAME…]
//! ```
//!
//! writes one page, `research/figures/README.md`, and the pictures in it. Names are those of [`GROUPS`] and of figures
//! (`thesis-3.4`). With names, the page keeps its other sections.
//!
//! A figure is a function that returns a [`Figure`]. Tests assert the checks of the figures that take little time; the
//! command asserts all checks.

pub mod buono;
pub mod cla;
pub mod critical;
mod figure;
pub mod page;
pub mod plot;
pub mod scc;

pub use figure::{Check, Entry, Figure, Group, Outcome, Result};
pub use page::write;
pub use plot::{Plot, Series};

/// All figures, in the order of the page.
pub const GROUPS: [&Group; 4] = [&scc::GROUP, &critical::GROUP, &cla::GROUP, &buono::GROUP];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let figures = || GROUPS.iter().flat_map(|group| group.figures);
        let mut names: Vec<_> = figures().map(Entry::name).collect();
        names.extend(GROUPS.iter().map(|group| group.name.to_owned()));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
