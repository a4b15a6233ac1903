//! Curves as a table, as CSV and as SVG.

use std::error::Error;

use plotters::prelude::SeriesLabelPosition;

use crate::picture::Picture;

/// What may fail while figures are made.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Curves at the same places.
pub struct Figure {
    /// The name of its files.
    pub name: &'static str,
    /// The title, which says what is simulated.
    pub title: &'static str,
    /// The meaning of the places on the horizontal axis.
    pub across: &'static str,
    /// The meaning of the values.
    pub unit: &'static str,
    /// The names of the curves: up to seven.
    pub curves: Vec<String>,
    /// Places, with a value for each curve.
    pub points: Vec<(u64, Vec<f64>)>,
}

impl Figure {
    /// Returns one row for each place.
    pub fn csv(&self) -> String {
        let mut out =
            format!("{},{} (SIMULATED: {})\n", self.across, self.curves.join(","), self.unit);
        for (at, values) in &self.points {
            let cells: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
            out += &format!("{at},{}\n", cells.join(","));
        }
        out
    }

    /// Returns the same as a table for readers.
    pub fn table(&self) -> String {
        let heads = self.curves.iter().map(|name| format!("{name:>15}"));
        let Self { name, title, unit, across, .. } = self;
        let mut out = format!("{name}, SIMULATED. {title}: {unit}, over {across}\n{:<6}", "");
        out.extend(heads.chain(["\n".to_owned()]));
        for (at, values) in &self.points {
            out += &format!("{at:<6}");
            out.extend(values.iter().map(|value| format!("{value:>15.2}")));
            out.push('\n');
        }
        out
    }

    /// Returns a picture. If the places go beyond a thousand, the horizontal axis is logarithmic.
    pub fn svg(&self) -> Result<String> {
        let last = self.points.iter().map(|&(at, _)| at).max().unwrap_or(1);
        let picture = Picture {
            caption: &format!("SIMULATED. {}", self.title),
            across: self.across,
            unit: self.unit,
            curves: &self.curves,
            logarithmic: last > 1000,
            // The names of the curves need room beside the last point.
            room: 1.25,
            least_top: 0.0,
            names_at: SeriesLabelPosition::UpperRight,
        };
        picture.svg(&self.points)
    }
}
