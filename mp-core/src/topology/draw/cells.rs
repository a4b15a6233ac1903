//! Boxes of cells: one cell for each core, one line in it for each hardware thread.

use super::paper::{FOLD, INDENT, WIDTH, wrap};
use super::uses::Uses;
use crate::topology::CpuSet;
use std::fmt;

/// The largest number of cores in a row: a divisor of a server's 64 or 128 cores that fits into a terminal.
const COLUMNS: usize = 8;

/// The layout of cells, which is the same in all boxes of a drawing.
#[derive(Debug)]
pub(super) struct Cells {
    cpu: usize,
    mark: usize,
    left: usize,
    right: usize,
    columns: usize,
    /// Whether each group of a box begins with its label, of one character.
    labelled: bool,
}

/// Cores of one box that are drawn together, as their CPUs.
pub(super) struct Group<'a> {
    pub(super) label: String,
    pub(super) cores: Vec<&'a CpuSet>,
}

impl Cells {
    pub(super) fn new(uses: &Uses, labelled: bool) -> Self {
        let cpu = uses.highest_cpu().to_string().len();
        let mark = match uses.widest_mark() {
            0 => 0,
            mark => mark + 1,
        };
        let room = WIDTH - INDENT;
        let layout = |left, right, columns| Self { cpu, mark, left, right, columns, labelled };
        let fits = |cells: &Self| cells.row_width(cells.columns) <= room;
        // Cells that are close together are better than rows of odd lengths.
        let paddings = [(1, 1), (0, 1), (0, 0)].map(|(left, right)| layout(left, right, COLUMNS));
        let fewer = (1..COLUMNS).rev().map(|columns| layout(1, 1, columns));
        paddings.into_iter().chain(fewer).find(fits).unwrap_or(layout(0, 0, 1))
    }

    fn width(&self) -> usize {
        self.left + self.cpu + self.mark + self.right
    }

    /// Returns the width of the column of labels, with its divider.
    fn label_width(&self) -> usize {
        if self.labelled { 2 } else { 0 }
    }

    fn row_width(&self, columns: usize) -> usize {
        self.label_width() + columns * (self.width() + 1) + 1
    }

    /// Returns one line of one cell, blank if the core has no such hardware thread.
    fn line(&self, uses: &Uses, core: Option<&&CpuSet>, thread: usize) -> String {
        let Some(cpu) = core.and_then(|core| core.iter().nth(thread)) else {
            return " ".repeat(self.width());
        };
        let Self { cpu: cpu_width, mark: mark_width, left, right, .. } = *self;
        let mark = if mark_width == 0 { String::new() } else { format!(" {}", uses.mark(cpu)) };
        format!("{:left$}{cpu:>cpu_width$}{mark:<mark_width$}{:right$}", "", "")
    }

    /// Writes a box. Rows that look alike are counted after the first.
    pub(super) fn write_box(
        &self,
        f: &mut fmt::Formatter<'_>,
        uses: &Uses,
        title: &str,
        groups: &[Group],
    ) -> fmt::Result {
        let largest = groups.iter().map(|group| group.cores.len()).max().unwrap_or(0).max(1);
        // Rows of equal length: 12 cores as 6 and 6, not as 8 and 4.
        let columns = largest.div_ceil(largest.div_ceil(self.columns));
        let siblings = groups.iter().flat_map(|group| &group.cores).any(|core| core.len() > 1);
        let mut frame = Frame::open(f, self, columns, title)?;
        for Group { label, cores } in groups {
            let look =
                |row: &&[&CpuSet]| -> Vec<_> { row.iter().map(|cpus| uses.look(cpus)).collect() };
            let rows: Vec<&[&CpuSet]> = cores.chunks(columns).collect();
            let mut label = label.as_str();
            for alike in rows.chunk_by(|one, other| look(one) == look(other)) {
                let (drawn, counted) = fold(alike);
                for row in drawn {
                    frame.begin(Content::Cells, siblings || label != " ")?;
                    for thread in 0..row.iter().map(|core| core.len()).max().unwrap_or(0) {
                        let cells = (0..columns).map(|at| self.line(uses, row.get(at), thread));
                        let mut text = cells.collect::<Vec<_>>().join("│");
                        if self.labelled {
                            text = format!("{label}│{text}");
                        }
                        frame.line(&text)?;
                        label = " ";
                    }
                }
                if !counted.is_empty() {
                    frame.begin(Content::Text, false)?;
                    let summary = uses.summary(counted.iter().copied().flatten().copied());
                    let text = format!("+ {} more rows like this: {summary}", counted.len());
                    for line in wrap(&text, frame.inner - 2) {
                        frame.line(&format!(" {line}"))?;
                    }
                }
            }
        }
        frame.close()
    }
}

/// The content of a part of a frame.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Nothing,
    Cells,
    Text,
}

/// The lines around and between the rows of a box.
struct Frame<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    inner: usize,
    dividers: Vec<usize>,
    last: Content,
}

impl<'a, 'f> Frame<'a, 'f> {
    fn open(
        f: &'a mut fmt::Formatter<'f>,
        cells: &Cells,
        columns: usize,
        title: &str,
    ) -> Result<Self, fmt::Error> {
        let title = format!(" {title} ");
        let title_width = title.chars().count();
        let inner = (cells.row_width(columns) - 2).max(title_width + 2);
        let label = cells.label_width();
        let first = if label > 0 { 0 } else { 1 };
        let dividers = (first..columns).map(|at| label + at * (cells.width() + 1) - 1).collect();
        let frame = Self { f, inner, dividers, last: Content::Nothing };
        let border = frame.border(Content::Nothing, Content::Cells);
        let rest: String = border.chars().skip(1 + title_width).collect();
        writeln!(frame.f, "{:INDENT$}┌─{title}{rest}┐", "")?;
        Ok(frame)
    }

    fn border(&self, above: Content, below: Content) -> String {
        let divider = match (above == Content::Cells, below == Content::Cells) {
            (true, true) => '┼',
            (true, false) => '┴',
            (false, true) => '┬',
            (false, false) => '─',
        };
        (0..self.inner).map(|at| if self.dividers.contains(&at) { divider } else { '─' }).collect()
    }

    /// Begins a row. Cells are separated from cells only if `parted`.
    fn begin(&mut self, next: Content, parted: bool) -> fmt::Result {
        let last = std::mem::replace(&mut self.last, next);
        if last != Content::Nothing && (parted || last != next) {
            writeln!(self.f, "{:INDENT$}├{}┤", "", self.border(last, next))?;
        }
        Ok(())
    }

    fn line(&mut self, text: &str) -> fmt::Result {
        writeln!(self.f, "{:INDENT$}│{text:<width$}│", "", width = self.inner)
    }

    fn close(self) -> fmt::Result {
        writeln!(self.f, "{:INDENT$}└{}┘", "", self.border(self.last, Content::Nothing))
    }
}

/// Splits things that look alike into those to draw and those to count.
pub(super) fn fold<T>(alike: &[T]) -> (&[T], &[T]) {
    alike.split_at(if alike.len() < FOLD { alike.len() } else { 1 })
}
