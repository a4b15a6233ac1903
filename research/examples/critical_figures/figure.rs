//! Curves over something, as a table, as CSV and as SVG.

use std::error::Error;

use plotters::prelude::SeriesLabelPosition;

use crate::picture::Picture;

/// What may fail while figures are made.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Curves, all at the same places.
pub struct Figure {
    /// Of its files.
    pub name: &'static str,
    /// What is simulated.
    pub title: &'static str,
    /// What the places are.
    pub across: &'static str,
    /// What the values are.
    pub unit: &'static str,
    /// Their names: up to seven.
    pub curves: Vec<String>,
    /// Where, and a value for each curve.
    pub points: Vec<(u64, Vec<f64>)>,
}

impl Figure {
    /// One row for each place.
    pub fn csv(&self) -> String {
        let mut out =
            format!("{},{} (SIMULATED: {})\n", self.across, self.curves.join(","), self.unit);
        for (at, values) in &self.points {
            let cells: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
            out += &format!("{at},{}\n", cells.join(","));
        }
        out
    }

    /// The same for readers.
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

    /// A picture. Places that grow by more than a thousand are drawn by their logarithms.
    pub fn svg(&self) -> Result<String> {
        let last = self.points.iter().map(|&(at, _)| at).max().unwrap_or(1);
        let picture = Picture {
            caption: &format!("SIMULATED. {}", self.title),
            across: self.across,
            unit: self.unit,
            curves: &self.curves,
            logarithmic: last > 1000,
            // Beside the last point there is room for the names of the curves.
            room: 1.25,
            least_top: 0.0,
            names_at: SeriesLabelPosition::UpperRight,
        };
        picture.svg(&self.points)
    }
}
