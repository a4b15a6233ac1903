//! From rows of bars to SVG: a row for each thread, bars by kind, a legend, a time axis.
//!
//! Bars of one colour in one row are one path, and bars too thin to be told apart are joined, so that the picture of a
//! long trace is no larger than that of a short one.

use std::fmt;

use super::{
    colours::Colours,
    read::{Bar, Row, Timeline},
};

/// The part of a trace to draw, and how.
pub struct Picture<'a> {
    pub timeline: &'a Timeline,
    /// Nanoseconds; before `to`.
    pub from: i64,
    pub to: i64,
    /// Pixels.
    pub width: u32,
    pub arrows: bool,
    pub title: Option<&'a str>,
}

const MARGIN: f64 = 12.0;
const ROW: f64 = 20.0;
const GAP: f64 = 6.0;
const HEADING: f64 = 20.0;
const LINE: f64 = 20.0;
/// The usual width of a letter of 12 pixels. SVG can't measure text before it is shown.
const LETTER: f64 = 6.8;
/// Letters of a thread's name before it is cut.
const LABEL: usize = 28;
/// Letters of what is said of a moment before it is cut.
const SAID: usize = 60;
/// How much lower an inner bar is than the one around it, above and below.
const INSET: f64 = 3.0;
const DEEPEST: usize = 2;
/// The least width of a bar, below which it would vanish.
const THINNEST: f64 = 0.4;
/// Gaps that are smaller than this can't be seen.
const CLOSE: f64 = 0.25;

impl Picture<'_> {
    fn x(&self, time: i64, left: f64) -> f64 {
        let plot = f64::from(self.width) - left - MARGIN;
        left + plot * (time - self.from) as f64 / (self.to - self.from) as f64
    }

    fn is_shown(&self, bar: &Bar) -> bool {
        bar.start <= self.to && bar.end >= self.from
    }

    /// Returns the tops of the rows. The headings of processes are between the rows.
    fn tops(&self, first: f64) -> (Vec<f64>, f64) {
        let mut y = first;
        let mut tops = Vec::new();
        for index in 0..self.timeline.rows.len() {
            if self.heading(index).is_some() {
                y += HEADING;
            }
            tops.push(y);
            y += ROW + GAP;
        }
        (tops, y)
    }

    /// Returns the process that begins with a row, if there are several processes.
    fn heading(&self, index: usize) -> Option<&str> {
        let rows = &self.timeline.rows;
        let several = rows.iter().any(|row| row.process != rows[0].process);
        let begins = index == 0 || rows[index].process != rows[index - 1].process;
        (several && begins).then_some(rows[index].process.as_str())
    }

    /// Writes the bars of a row as paths of one colour each, outer before inner.
    fn write_bars(
        &self,
        f: &mut fmt::Formatter<'_>,
        row: &Row,
        colours: &Colours,
        left: f64,
        top: f64,
    ) -> fmt::Result {
        let mut layers = vec![vec![Vec::<(f64, f64)>::new(); colours.legend.len()]; DEEPEST + 1];
        for bar in row.bars.iter().filter(|bar| self.is_shown(bar)) {
            let start = self.x(bar.start.max(self.from), left);
            let end = self.x(bar.end.min(self.to), left).max(start + THINNEST);
            let drawn = &mut layers[bar.depth.min(DEEPEST)][colours.of(&bar.name)];
            match drawn.last_mut() {
                Some((_, last)) if start - *last < CLOSE => *last = last.max(end),
                _ => drawn.push((start, end)),
            }
        }
        for (depth, layer) in layers.iter().enumerate() {
            let inset = INSET * depth as f64;
            let (top, height) = (top + inset, ROW - 2.0 * inset);
            for (bars, (_, colour)) in layer.iter().zip(&colours.legend) {
                if bars.is_empty() {
                    continue;
                }
                write!(f, "<path fill=\"{colour}\" d=\"")?;
                for (start, end) in bars {
                    let (x, width) = (pixels(*start), pixels(end - start));
                    write!(f, "M{x} {}h{width}v{}h-{width}z", pixels(top), pixels(height))?;
                }
                f.write_str("\"/>\n")?;
            }
        }
        Ok(())
    }

    fn write_arrows(&self, f: &mut fmt::Formatter<'_>, tops: &[f64], left: f64) -> fmt::Result {
        let shown = |time: i64| (self.from..=self.to).contains(&time);
        f.write_str("<g stroke=\"#333333\" stroke-width=\"0.8\" marker-end=\"url(#head)\">\n")?;
        let arrows = self.timeline.arrows.iter();
        for arrow in arrows.filter(|arrow| shown(arrow.from.1) && shown(arrow.to.1)) {
            let ((from, start), (to, end)) = (arrow.from, arrow.to);
            // From the near edge of one row to the near edge of the other.
            let (leaving, arriving) = match from.cmp(&to) {
                std::cmp::Ordering::Less => (tops[from] + ROW, tops[to]),
                std::cmp::Ordering::Equal => (tops[from] + ROW / 2.0, tops[to] + ROW / 2.0),
                std::cmp::Ordering::Greater => (tops[from], tops[to] + ROW),
            };
            writeln!(
                f,
                "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
                pixels(self.x(start, left)),
                pixels(leaving),
                pixels(self.x(end, left)),
                pixels(arriving)
            )?;
        }
        f.write_str("</g>\n")
    }

    /// Writes a line at each moment, with its text on the side where there is more room.
    fn write_marks(&self, f: &mut fmt::Formatter<'_>, tops: &[f64], left: f64) -> fmt::Result {
        let marks = self.timeline.marks.iter();
        for mark in marks.filter(|mark| (self.from..=self.to).contains(&mark.at.1)) {
            let (x, top) = (self.x(mark.at.1, left), tops[mark.at.0]);
            let (at, y) = (pixels(x), pixels(top));
            writeln!(f, "<path stroke=\"#000000\" stroke-width=\"2\" d=\"M{at} {y}v{ROW}\"/>")?;
            let text = cut(&mark.text, SAID);
            let length = width(&text);
            let start = if x > f64::from(self.width) / 2.0 { x - 4.0 - length } else { x + 4.0 };
            // The bars beneath are still seen.
            writeln!(
                f,
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{ROW}\" fill=\"#ffffff\" fill-opacity=\"0.7\"/>",
                pixels(start),
                pixels(length)
            )?;
            write_text(f, &text, start, top + 14.0, "start", "#000000")?;
        }
        Ok(())
    }

    fn write_axis(&self, f: &mut fmt::Formatter<'_>, left: f64, top: f64, y: f64) -> fmt::Result {
        let plot = f64::from(self.width) - left - MARGIN;
        let (unit, name) = unit(self.to);
        let step = step(self.to - self.from, (plot / 90.0).clamp(2.0, 12.0) as i64);
        let whole = |digits: &u32| step * 10_i64.pow(*digits) % unit == 0;
        let digits = (0..10).find(whole).unwrap_or(9) as usize;
        let mut tick = self.from.div_euclid(step) * step;
        if tick < self.from {
            tick = tick.saturating_add(step);
        }
        while tick <= self.to {
            let x = pixels(self.x(tick, left));
            writeln!(
                f,
                "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\" stroke=\"#e4e4e4\"/>",
                pixels(top),
                pixels(y)
            )?;
            let number = tick as f64 / unit as f64;
            let number = format!("{number:.digits$}");
            write_text(f, &number, self.x(tick, left), y + 15.0, "middle", "#333333")?;
            let Some(next) = tick.checked_add(step) else { break };
            tick = next;
        }
        let middle = left + plot / 2.0;
        write_text(f, &format!("time ({name})"), middle, y + 32.0, "middle", "#333333")
    }

    fn write_legend(
        &self,
        f: &mut fmt::Formatter<'_>,
        colours: &Colours,
        places: &[(f64, f64)],
    ) -> fmt::Result {
        for ((name, colour), &(x, y)) in colours.legend.iter().zip(places) {
            writeln!(
                f,
                "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>",
                pixels(x),
                pixels(y - 10.0)
            )?;
            write_text(f, &cut(name, LABEL), x + 17.0, y, "start", "#333333")?;
        }
        Ok(())
    }

    /// Returns the places of the legend's entries, and of the line below them.
    fn legend_places(&self, colours: &Colours, first: f64) -> (Vec<(f64, f64)>, f64) {
        let (mut x, mut y) = (MARGIN, first);
        let mut places = Vec::new();
        for (name, _) in &colours.legend {
            let width = 17.0 + width(&cut(name, LABEL)) + 18.0;
            if x > MARGIN && x + width > f64::from(self.width) {
                (x, y) = (MARGIN, y + LINE);
            }
            places.push((x, y));
            x += width;
        }
        (places, y + LINE)
    }
}

impl fmt::Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = &self.timeline.rows;
        let colours = Colours::new(self.timeline, |bar| self.is_shown(bar));
        let longest = rows.iter().map(|row| width(&cut(&row.name, LABEL))).fold(0.0, f64::max);
        let left = MARGIN + longest + 8.0;
        let title = if self.title.is_some() { MARGIN + LINE } else { MARGIN };
        let (places, under_legend) = self.legend_places(&colours, title + 10.0);
        let (tops, bottom) = self.tops(under_legend);
        let note = if self.timeline.dropped > 0 { LINE } else { 0.0 };
        let height = bottom + 40.0 + note;

        let (w, h) = (self.width, pixels(height));
        let about = self.title.unwrap_or("What threads did over time");
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(f, "<title>{}</title>", escaped(about))?;
        f.write_str(
            "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" \
             markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">\
             <path d=\"M0 0L6 3L0 6z\" fill=\"#333333\"/></marker></defs>\n",
        )?;
        writeln!(f, "<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>")?;
        if let Some(title) = self.title {
            write_text(f, title, f64::from(w) / 2.0, MARGIN + 10.0, "middle", "#000000")?;
        }
        self.write_legend(f, &colours, &places)?;
        self.write_axis(f, left, under_legend, bottom)?;
        for (index, (row, &top)) in rows.iter().zip(&tops).enumerate() {
            if let Some(process) = self.heading(index) {
                write_text(f, process, MARGIN, top - 5.0, "start", "#666666")?;
            }
            write_text(f, &cut(&row.name, LABEL), left - 8.0, top + 14.0, "end", "#333333")?;
            self.write_bars(f, row, &colours, left, top)?;
        }
        if self.arrows {
            self.write_arrows(f, &tops, left)?;
        }
        self.write_marks(f, &tops, left)?;
        if note > 0.0 {
            let dropped = format!("{} spans were not kept", self.timeline.dropped);
            write_text(f, &dropped, MARGIN, height - 10.0, "start", "#666666")?;
        }
        f.write_str("</svg>\n")
    }
}

fn write_text(
    f: &mut fmt::Formatter<'_>,
    text: &str,
    x: f64,
    y: f64,
    anchor: &str,
    colour: &str,
) -> fmt::Result {
    let (x, y, text) = (pixels(x), pixels(y), escaped(text));
    writeln!(
        f,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
    )
}

/// Rounds a coordinate to the digits that can be seen.
fn pixels(at: f64) -> f64 {
    (at * 100.0).round() / 100.0
}

/// Returns about how wide a text is.
fn width(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// Returns a text, shortened if it has more than so many letters.
fn cut(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most - 1).collect();
    kept + "…"
}

/// Escapes text for XML, which has no way to write some characters at all.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns the unit that suits times up to `longest` nanoseconds.
fn unit(longest: i64) -> (i64, &'static str) {
    match longest {
        ..10_000 => (1, "ns"),
        10_000..10_000_000 => (1_000, "µs"),
        10_000_000..10_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    }
}

/// Returns 1, 2 or 5 times a power of ten, so that a length has at most `most` steps or a few more.
fn step(length: i64, most: i64) -> i64 {
    let least = (length / most).max(1);
    let power = 10_i64.pow(least.ilog10());
    [1, 2, 5]
        .into_iter()
        .map(|times| times * power)
        .find(|&step| step >= least)
        .unwrap_or_else(|| power.saturating_mul(10))
}

/// Converts nanoseconds to milliseconds, for a message.
pub fn in_ms(time: i64) -> f64 {
    time as f64 / 1e6
}
