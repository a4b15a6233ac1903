//! The page of all figures, in Markdown.

use std::fs;
use std::path::Path;

use super::contents::table;
use super::{Check, Entry, Figure, GROUPS, Group, Outcome, Result};

/// Makes the figures of these names, or all of them, and writes them into a folder: the page `README.md`, and a picture
/// for each plot. Returns the checks that fail.
///
/// # Errors
/// If a name is unknown, a figure cannot be made, or a file cannot be written.
pub fn write(folder: &Path, names: &[String]) -> Result<Vec<String>> {
    let known = |name: &String| {
        GROUPS
            .iter()
            .any(|group| group.name == name || group.figures.iter().any(|e| e.name() == *name))
    };
    if let Some(name) = names.iter().find(|name| !known(name)) {
        return Err(format!("there is no figure or group {name}").into());
    }
    fs::create_dir_all(folder)?;
    let page = folder.join("README.md");
    let old = fs::read_to_string(&page).unwrap_or_default();
    let (mut text, mut sections, mut failures) = (String::new(), Vec::new(), Vec::new());
    for group in GROUPS.iter().filter(|group| !group.figures.is_empty()) {
        text += &format!("\n## {}\n\n{}\n", group.title, group.about);
        for entry in group.figures {
            if !is_named(group, entry, names) {
                if let Some(kept) = old_section(&old, entry) {
                    text += kept;
                    sections.push((entry.id, kept.to_owned()));
                }
                continue;
            }
            eprintln!("{}", entry.id);
            let figure = (entry.make)()?;
            for plot in &figure.plots {
                fs::write(folder.join(plot.file(&entry.name())), plot.svg(entry.id)?)?;
            }
            let made = section(entry, &figure);
            text += &made;
            sections.push((entry.id, made));
            let failed = figure.checks.iter().filter_map(Check::failure);
            failures.extend(failed.map(|failure| format!("{}: {failure}", entry.id)));
        }
    }
    let sections: Vec<_> = sections.iter().map(|(id, text)| (*id, text.as_str())).collect();
    fs::write(page, [INTRODUCTION, &table(&sections), &text].concat())?;
    Ok(failures)
}

const INTRODUCTION: &str = "\
# The papers' figures

Every figure and table of the five papers that is a number the library's algorithms can produce, from simulated \
machines in virtual time. Published values and sentences are the papers' own; “here” is the same quantity in a \
simulation. Where a statement does not hold here, or a value is farther away than a section says it should be, the \
row tells the limit. This page is written by

```text
cargo run --release -p onchip-research -- figures
```
";

fn is_named(group: &Group, entry: &Entry, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| group.name == name || entry.name() == *name)
}

fn heading(entry: &Entry) -> String {
    format!("\n### {}: ", entry.id)
}

/// Returns a figure's section of an earlier page.
fn old_section<'a>(page: &'a str, entry: &Entry) -> Option<&'a str> {
    let start = page.find(&heading(entry))?;
    let length = ["\n## ", "\n### "].iter().filter_map(|next| page[start + 1..].find(next)).min();
    Some(length.map_or(&page[start..], |length| &page[start..=start + length]))
}

fn section(entry: &Entry, figure: &Figure) -> String {
    let mut text = format!("{}{}\n\n{}\n", heading(entry), figure.title, figure.about);
    for plot in &figure.plots {
        text += &format!("\n![{}]({})\n", plot.caption, plot.file(&entry.name()));
    }
    if !figure.checks.is_empty() {
        text += "\n| the paper | published | here | deviation |\n|---|---|---|---|\n";
        text.extend(figure.checks.iter().map(row));
    }
    text
}

fn row(check: &Check) -> String {
    let Check { paper, limit, .. } = check;
    let (published, ours, mut verdict) = match &check.outcome {
        Outcome::Value { unit, published, ours, .. } => {
            let off = 100.0 * check.deviation().unwrap_or_default();
            (number(*published, unit), number(*ours, unit), format!("{off:+.1}%"))
        }
        Outcome::Statement { ours, holds } => {
            let verdict = if *holds { "as stated" } else { "not as stated" };
            (String::new(), ours.clone(), verdict.to_owned())
        }
    };
    if let Some(limit) = limit {
        verdict += &format!("; **limit:** {limit}");
    }
    format!("| {paper} | {published} | {ours} | {verdict} |\n")
}

fn number(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        at_least if at_least >= 1_000.0 => 0,
        at_least if at_least >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &'static str) -> Entry {
        Entry { id, make: || Ok(Figure::default()) }
    }

    #[test]
    fn sections_are_found_again() {
        let figure = |title: &str| Figure { title: title.to_owned(), ..Figure::default() };
        let sections = [("A 1", "one"), ("A 11", "two"), ("B 1", "three")]
            .map(|(id, title)| (entry(id), section(&entry(id), &figure(title))));
        let mut page = INTRODUCTION.to_owned();
        for (place, (_, section)) in sections.iter().enumerate() {
            if place == 1 {
                page += "\n## Another group\n\nAbout it.\n";
            }
            page += section;
        }
        for (entry, section) in &sections {
            assert_eq!(old_section(&page, entry), Some(section.as_str()));
        }
        assert_eq!(old_section(&page, &entry("C 1")), None);
    }

    /// The page in this repository has the table of its own sections.
    #[test]
    fn the_table_is_that_of_the_page() {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/figures/README.md"));
        let page = page.unwrap();
        let entries = || GROUPS.iter().flat_map(|group| group.figures);
        let sections: Vec<_> =
            entries().filter_map(|entry| Some((entry.id, old_section(&page, entry)?))).collect();
        let table = table(&sections);
        assert!(page.contains(&table), "write the page again, which needs the table\n{table}");
        for entry in entries() {
            assert!(table.contains(&format!("[{}](#", entry.id)), "no link to {}", entry.id);
        }
    }

    #[test]
    fn the_table_counts_checks() {
        let value = |ours| Check::value("rate", "MB/s", 20.0, ours, 0.1);
        let checks = vec![
            value(21.0),
            value(10.0).limit("it is slow; here"),
            value(21.5),
            Check::statement("it falls", "2 to 1", true),
            Check::statement("it falls", "1 to 2", false).limit("it rises"),
        ];
        let (kept, limited): (Vec<_>, Vec<_>) = checks.iter().partition(|check| check.holds());
        let (kept, limited) = (kept.len(), limited.len());
        let of = entry("Thesis 3.1");
        let section =
            section(&of, &Figure { title: "a (b), c".to_owned(), checks, ..Figure::default() });
        let table = table(&[(of.id, &section)]);
        let row = format!("[Thesis 3.1](#thesis-31-a-b-c) | -50.0% | {kept} | {limited} |");
        assert!(table.contains(&row), "{table}");
    }

    #[test]
    fn rows_tell_deviations_and_limits() {
        let value = Check::value("rate", "MB/s", 20.0, 21.0, 0.1);
        assert_eq!(row(&value), "| rate | 20.0 MB/s | 21.0 MB/s | +5.0% |\n");
        let statement = Check::statement("it falls", "1 to 2", false).limit("it rises");
        assert_eq!(
            row(&statement),
            "| “it falls” |  | 1 to 2 | not as stated; **limit:** it rises |\n"
        );
    }
}
