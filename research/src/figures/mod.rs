//! The papers' figures and tables, each beside what the library's algorithms do on simulated machines.
//!
//! ```text
//! cargo run --release -p onchip-research -- figures [NAME…]
//! ```
//!
//! writes one page, `research/figures/README.md`, and the pictures in it. Names are those of [`GROUPS`] and of figures
//! (`thesis-3.4`). With names, the page keeps its other sections.
//!
//! The page begins with a table of all figures and tables of the papers (`papers.rs`), with or without a section.
//!
//! A figure is a function that returns a [`Figure`]. Tests assert the checks of the figures that take little time; the
//! command asserts all checks.

pub mod buono;
pub mod cla;
mod contents;
pub mod critical;
mod figure;
pub mod page;
mod papers;
pub mod plot;
pub mod scc;

pub use figure::{Check, Entry, Figure, Group, Outcome, Result};
pub use page::write;
pub use plot::{Plot, Series};

/// All figures, in the order of the page.
pub const GROUPS: [&Group; 4] = [&scc::GROUP, &critical::GROUP, &cla::GROUP, &buono::GROUP];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::papers::Place;
    use super::*;

    /// Every figure of the papers leads to a section or to a file, and every section belongs to one.
    #[test]
    fn papers_and_sections_belong_together() {
        let ids: Vec<_> = GROUPS.iter().flat_map(|group| group.figures).map(|of| of.id).collect();
        let mut without = ids.clone();
        for item in papers::ITEMS {
            match item.place {
                Place::Section(id) => {
                    assert!(ids.contains(&id), "{}: there is no section {id}", item.number);
                    without.retain(|of| *of != id);
                }
                Place::File(_, file) => {
                    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(file);
                    assert!(path.exists(), "{}: there is no {file}", item.number);
                }
            }
        }
        assert!(without.is_empty(), "no figure of a paper leads to {without:?}");
    }

    /// The papers' own numbers, without gaps.
    #[test]
    fn no_figure_of_the_papers_is_missing() {
        let listed = |number: &str| papers::ITEMS.iter().any(|item| item.number == number);
        for (paper, figures, tables) in
            [("SPAA", 8, 2), ("MARC", 3, 1), ("CLa", 17, 6), ("Buono", 8, 4)]
        {
            assert!((1..=figures).all(|number| listed(&format!("{paper} {number}"))), "{paper}");
            let tables = (1..=tables).map(|number| format!("{paper} table {number}"));
            assert!(tables.into_iter().all(|number| listed(&number)), "{paper}");
        }
        for (chapter, figures, tables) in
            [(2, 1, 0), (3, 4, 1), (4, 5, 2), (5, 2, 0), (6, 8, 0), (7, 11, 0)]
        {
            let all = (1..=figures).map(|number| format!("Thesis {chapter}.{number}"));
            let all = all.chain((1..=tables).map(|at| format!("Thesis table {chapter}.{at}")));
            all.for_each(|number| assert!(listed(&number), "{number}"));
        }
        let numbered = papers::ITEMS.iter().filter(|item| item.number != "no figure");
        assert_eq!(numbered.count(), 83);
    }

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
