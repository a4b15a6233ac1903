//! Results beside each other, as a table in Markdown.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets};

/// Draws a table, in which `numbers` are the columns that are aligned at the right.
pub fn table<const N: usize>(
    head: [&str; N],
    numbers: Range<usize>,
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(head).add_rows(rows);
    for column in table.column_iter_mut().skip(numbers.start).take(numbers.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Formats a number with two digits, or a dash where there is none.
pub fn or_dash(number: Option<f64>) -> String {
    number.map_or("–".to_owned(), |number| format!("{number:.2}"))
}

/// Splits the lines of a table into cells, for tests.
pub fn cells(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}
