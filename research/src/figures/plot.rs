//! Curves and points as SVG.

use std::error::Error;

use plotters::prelude::*;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
];

/// A picture: series over a common axis.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// What tells this plot from others of the figure: `a`. Empty if there is only one.
    pub part: &'static str,
    /// The heading.
    pub caption: String,
    /// The meaning of the horizontal axis.
    pub across: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// Whether the vertical axis is logarithmic. Then all values must be greater than 0.
    pub logarithmic_values: bool,
    /// The names of bars, which are at the places 0, 1 and so on. Empty for curves.
    pub bars: Vec<&'static str>,
    /// Up to seven names. Series of the same name have the same colour.
    pub series: Vec<Series>,
}

/// A curve, or a set of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Whether each point is a circle. Otherwise a line joins them.
    pub dots: bool,
    /// Places and values.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Returns a line through these points.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.into(), dots: false, points: points.into_iter().collect() }
    }

    /// Returns a circle for each point.
    pub fn dots(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { dots: true, ..Series::line(name, points) }
    }
}

impl Plot {
    /// Returns a picture with linear axes.
    pub fn new(
        part: &'static str,
        caption: impl Into<String>,
        across: &'static str,
        unit: &'static str,
        series: Vec<Series>,
    ) -> Plot {
        Plot { part, caption: caption.into(), across, unit, series, ..Plot::default() }
    }

    /// Returns the name of the picture's file, for a figure of this [name](super::Entry::name).
    pub fn file(&self, figure: &str) -> String {
        format!("{figure}{}.svg", self.part)
    }

    /// Returns the picture, for the figure with this [id](super::Entry::id).
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self, id: &str) -> Result<String, Box<dyn Error>> {
        let (x, left, right) = axis(self.logarithmic, self.points().map(|(at, _)| at));
        let (y, bottom, top) = axis(self.logarithmic_values, self.points().map(|(_, of)| of));
        let margin = |from: f64, to: f64, part: f64| to + part * (to - from);
        // A logarithmic axis has labels at powers of two.
        let labels =
            |logarithmic: bool, length: f64| if logarithmic { length as usize + 2 } else { 10 };
        let range = match self.bars.len() {
            0 => left..margin(left, right, 0.02),
            bars => -0.5..bars as f64 - 0.5,
        };
        let across = |at: f64| match self.bars.is_empty() {
            true => label(at, self.logarithmic),
            false => self.bar(at).unwrap_or_default().to_owned(),
        };
        let mut names: Vec<&str> = Vec::new();
        for series in &self.series {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, (860, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        // The legend has its own place beside the curves.
        let (drawing, legend) = area.split_horizontally(680);
        let mut chart = ChartBuilder::on(&drawing)
            .caption(format!("{}{}: {}", id, self.part, self.caption), ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(range, bottom..margin(bottom, top, 0.05))?;
        chart
            .configure_mesh()
            .x_desc(self.across)
            .y_desc(self.unit)
            .x_labels(labels(self.logarithmic, right - left))
            .y_labels(labels(self.logarithmic_values, top - bottom))
            .x_label_formatter(&|&x| across(x))
            .y_label_formatter(&|&y| label(y, self.logarithmic_values))
            .draw()?;
        for series in &self.series {
            let colour = COLOURS
                [names.iter().position(|name| *name == series.name).unwrap_or(0) % COLOURS.len()];
            let points = series.points.iter().map(|&(at, value)| (x(at), y(value)));
            if !self.bars.is_empty() {
                chart.draw_series(points.map(|(at, value)| {
                    Rectangle::new([(at - 0.3, 0.0), (at + 0.3, value)], colour.filled())
                }))?;
            } else if series.dots {
                chart.draw_series(
                    points.map(|point| Circle::new(point, 3, colour.stroke_width(1))),
                )?;
            } else {
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            }
        }
        for (place, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
            let y = 48 + 22 * place as i32;
            if self.series.iter().all(|series| series.name != *name || series.dots) {
                legend.draw(&Circle::new((9, y), 3, colour.stroke_width(1)))?;
            } else {
                legend.draw(&Rectangle::new([(0, y - 2), (18, y + 2)], colour.filled()))?;
            }
            legend.draw(&Text::new((*name).to_owned(), (24, y - 7), ("sans-serif", 13)))?;
        }
        area.present()?;
        drop((chart, drawing, legend, area));
        Ok(text)
    }

    /// Returns the name of the bar at a place.
    fn bar(&self, at: f64) -> Option<&'static str> {
        let near = |&(place, _): &(usize, _)| (at - place as f64).abs() < 1e-6;
        self.bars.iter().copied().enumerate().find(near).map(|(_, name)| name)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.series.iter().flat_map(|series| series.points.iter().copied())
    }
}

/// Returns where an axis has a value, its first place, and its last one. A linear axis begins at 0, or
/// below.
fn axis(
    logarithmic: bool,
    values: impl Iterator<Item = f64> + Clone,
) -> (impl Fn(f64) -> f64, f64, f64) {
    let place = move |value: f64| if logarithmic { value.log2() } else { value };
    let least = values.clone().map(place).fold(f64::MAX, f64::min);
    let first = if logarithmic { least } else { least.min(0.0) };
    (place, first, values.map(place).fold(first, f64::max))
}

/// Returns the text at a place of an axis.
fn label(place: f64, logarithmic: bool) -> String {
    let value = if logarithmic { place.exp2() } else { place };
    // Sums of steps such as 0.2 are not exact.
    let digits = if logarithmic && value >= 2.0 { 1.0 } else { 1e6 };
    ((value * digits).round() / digits).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_names() {
        let plot = Plot {
            bars: vec!["first", "second"],
            series: vec![Series::line("all", [(0.0, 2.0), (1.0, 3.0)])],
            ..Plot::default()
        };
        let svg = plot.svg("Paper 1").unwrap();
        assert!(svg.contains("\nfirst\n") && svg.contains("\nsecond\n"), "{svg}");
        assert_eq!(svg.matches("fill=\"#0072B2\"").count(), 3, "two bars, and one in the legend");
    }

    #[test]
    fn lines_and_dots_are_drawn() {
        let points = [(1.0, 2.0), (4.0, 3.0)];
        let series = vec![Series::line("both", points), Series::dots("both", points)];
        let plot = Plot { part: "a", caption: "It <rises>".to_owned(), series, ..Plot::default() };
        for (logarithmic, logarithmic_values) in [(false, false), (true, false), (false, true)] {
            let plot = Plot { logarithmic, logarithmic_values, ..plot.clone() };
            let svg = plot.svg("Paper 1").unwrap();
            assert!(svg.contains("Paper 1a: It &lt;rises&gt;") && svg.contains("</svg>"), "{svg}");
            assert_eq!(
                (svg.matches("<circle").count(), svg.matches("\nboth\n").count()),
                (2, 1),
                "{svg}"
            );
        }
        assert_eq!(plot.file("paper-1"), "paper-1a.svg");
    }

    #[test]
    fn places_are_labelled_with_their_own_values() {
        let series = vec![Series::line("it", [(4.0, 1.0), (58.0, -30.0)])];
        let svg = Plot { logarithmic: true, series, ..Plot::default() }.svg("Paper 1").unwrap();
        let lines = || svg.lines().map(str::trim);
        for label in ["4", "8", "16", "32", "-30"] {
            assert!(lines().any(|line| line == label), "no {label}: {svg}");
        }
        // Half of a power is none of these.
        assert!(!lines().any(|line| line == "11" || line == "6"), "{svg}");
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(0.1 + 0.2, false), "0.3");
        assert_eq!(label(10.0, true), "1024");
        assert_eq!(label(10.5, true), "1448");
        assert_eq!(label(-1.0, true), "0.5");
    }
}
