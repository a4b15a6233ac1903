//! Draws curves as SVG.

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

/// The properties of a picture.
pub struct Picture<'a, V> {
    pub caption: &'a str,
    /// The meaning of the places on the horizontal axis.
    pub across: &'a str,
    /// The meaning of the values.
    pub unit: &'a str,
    /// The names of the curves: up to seven.
    pub curves: &'a [V],
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// The width of the picture divided by what the last place needs.
    pub room: f64,
    /// The least upper end of the vertical axis.
    pub least_top: f64,
    /// The position of the curves' names.
    pub names_at: SeriesLabelPosition,
}

impl<V: AsRef<str>> Picture<'_, V> {
    /// Returns the picture of these points. Each point is a place with a value for each curve.
    pub fn svg(&self, points: &[(u64, impl AsRef<[f64]>)]) -> Result<String, Box<dyn Error>> {
        let logarithmic = self.logarithmic;
        let x = |at: u64| if logarithmic { (at as f64).log2() } else { at as f64 };
        let place = |x: f64| if logarithmic { x.exp2().round() } else { x };
        let right = points.iter().map(|&(at, _)| x(at)).fold(1.0, f64::max);
        let values = points.iter().flat_map(|(_, values)| values.as_ref());
        let top = values.copied().fold(self.least_top, f64::max);
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.caption, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..self.room * right, 0.0..1.05 * top)?;
        chart
            .configure_mesh()
            .x_desc(self.across)
            .y_desc(self.unit)
            .x_label_formatter(&|&x| place(x).to_string())
            .y_label_formatter(&|y| y.to_string())
            .draw()?;
        for (index, (name, colour)) in self.curves.iter().zip(COLOURS).enumerate() {
            let line = points.iter().map(|(at, values)| (x(*at), values.as_ref()[index]));
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line, style))?
                .label(name.as_ref())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .position(self.names_at.clone())
            .draw()?;
        area.present()?;
        drop(chart);
        drop(area);
        Ok(text)
    }
}
