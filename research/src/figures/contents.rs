//! The table at the top of the page: each figure and table of the papers, where it is, and how well it is reproduced.

use std::fmt::Write;

use super::papers::{ITEMS, Item, Place};

const HEAD: &str = "\n## The papers' figures and tables\n\n\
    Thesis: Petrović; SPAA: “High-Performance RMA-Based Broadcast on the Intel SCC”; MARC: “Asynchronous Broadcast on the \
    Intel SCC using Interrupts”; CLa: Ramos and Hoefler; Buono: Buono et al. The deviation is the greatest of all \
    published values of a section. The last columns count its values and statements: those that are reproduced, and \
    those that are not, which have a limit. What has no values of its own is not a section; the table names the file \
    that corresponds to it.\n\n\
    | number | what it shows | where | deviation | reproduced | limits |\n|---|---|---|---|---|---|\n";

/// Returns the table of a page with these sections. Each begins with its heading, and the id of its figure.
pub(super) fn table(sections: &[(&str, &str)]) -> String {
    let mut table = HEAD.to_owned();
    for Item { number, shows, place } in ITEMS {
        let nothing = " | | ".to_owned();
        let (place, numbers) = match place {
            Place::File(what, file) => (format!("{what}: [`{file}`](../../{file})"), nothing),
            Place::Section(id) => match sections.iter().find(|(of, _)| of == id) {
                Some((_, text)) => (link(id, text), Tally::of(text).cells()),
                None => (format!("{id}, which is not on this page"), nothing),
            },
        };
        let _ = writeln!(table, "| {number} | {shows} | {place} | {numbers} |");
    }
    table
}

/// Returns a link to a section, as GitHub names it: its heading in lower case, without punctuation, and with hyphens
/// for spaces.
fn link(id: &str, section: &str) -> String {
    let heading = section.lines().find_map(|line| line.strip_prefix("### ")).unwrap_or_default();
    let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
    format!("[{id}](#{})", anchor.replace(' ', "-"))
}

/// What the rows of a section say.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    /// The greatest deviation of a published value, in percent.
    worst: Option<f64>,
    reproduced: usize,
    limits: usize,
}

impl Tally {
    fn of(section: &str) -> Tally {
        let mut tally = Tally::default();
        let rows = section.lines().filter_map(|line| line.strip_suffix(" |"));
        for verdict in rows.filter_map(|row| row.rsplit(" | ").next()) {
            let limited = verdict.contains("; **limit:**");
            let said = verdict.split(';').next().unwrap_or_default();
            let off = said.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
            if let Some(off) = off {
                let most = tally.worst.filter(|worst| worst.abs() >= off.abs());
                tally.worst = most.or(Some(off));
            }
            if limited {
                tally.limits += 1;
            } else if off.is_some() || said == "as stated" {
                tally.reproduced += 1;
            }
        }
        tally
    }

    fn cells(&self) -> String {
        let worst = self.worst.map(|worst| format!("{worst:+.1}%")).unwrap_or_default();
        format!("{worst} | {} | {}", self.reproduced, self.limits)
    }
}
