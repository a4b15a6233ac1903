//! Curves over something, as a table, as CSV and as SVG.

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
    pub fn svg(&self) -> Result<String, Box<dyn Error>> {
        let last = self.points.iter().map(|&(at, _)| at).max().unwrap_or(1);
        let logarithmic = last > 1000;
        let x = |at: u64| if logarithmic { (at as f64).log2() } else { at as f64 };
        let place = |x: f64| if logarithmic { x.exp2().round() } else { x };
        let top = self.points.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(format!("SIMULATED. {}", self.title), ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            // Beside the last point there is room for the names of the curves.
            .build_cartesian_2d(0.0..1.25 * x(last), 0.0..1.05 * top)?;
        chart
            .configure_mesh()
            .x_desc(self.across)
            .y_desc(self.unit)
            .x_label_formatter(&|&x| place(x).to_string())
            .y_label_formatter(&|y| y.to_string())
            .draw()?;
        for (index, (name, colour)) in self.curves.iter().zip(COLOURS).enumerate() {
            let line = self.points.iter().map(|(at, values)| (x(*at), values[index]));
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line, style))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .position(SeriesLabelPosition::UpperRight)
            .draw()?;
        area.present()?;
        drop(chart);
        drop(area);
        Ok(text)
    }
}
