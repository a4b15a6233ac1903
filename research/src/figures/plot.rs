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
    /// Returns a picture with a linear axis.
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
        let x = |at: f64| if self.logarithmic { at.log2() } else { at };
        let place = |x: f64| if self.logarithmic { x.exp2().round() } else { x };
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let left = if self.logarithmic {
            points().map(|(at, _)| x(at)).fold(f64::MAX, f64::min)
        } else {
            0.0
        };
        let right = points().map(|(at, _)| x(at)).fold(left, f64::max);
        let axis = match self.bars.len() {
            0 => left..right + 0.02 * (right - left),
            bars => -0.5..bars as f64 - 0.5,
        };
        let bar = |at: f64| {
            self.bars.iter().zip(0..).find(|&(_, place)| (at - f64::from(place)).abs() < 1e-6)
        };
        let label = |&at: &f64| match self.bars.is_empty() {
            true => place(at).to_string(),
            false => bar(at).map_or(String::new(), |(name, _)| (*name).to_owned()),
        };
        let top = points().map(|(_, value)| value).fold(0.0, f64::max);
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
            .build_cartesian_2d(axis, 0.0..1.05 * top)?;
        chart
            .configure_mesh()
            .x_desc(self.across)
            .y_desc(self.unit)
            .x_label_formatter(&label)
            .y_label_formatter(&|y| ((1e6 * y).round() / 1e6).to_string())
            .draw()?;
        for series in &self.series {
            let colour = COLOURS
                [names.iter().position(|name| *name == series.name).unwrap_or(0) % COLOURS.len()];
            let points = series.points.iter().map(|&(at, value)| (x(at), value));
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
            legend.draw(&Rectangle::new([(0, y - 2), (18, y + 2)], colour.filled()))?;
            legend.draw(&Text::new((*name).to_owned(), (24, y - 7), ("sans-serif", 13)))?;
        }
        area.present()?;
        drop((chart, drawing, legend, area));
        Ok(text)
    }
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
        for logarithmic in [false, true] {
            let svg = Plot { logarithmic, ..plot.clone() }.svg("Paper 1").unwrap();
            assert!(svg.contains("Paper 1a: It &lt;rises&gt;") && svg.contains("</svg>"), "{svg}");
            assert_eq!(
                (svg.matches("<circle").count(), svg.matches("\nboth\n").count()),
                (2, 1),
                "{svg}"
            );
        }
        assert_eq!(plot.file("paper-1"), "paper-1a.svg");
    }
}
