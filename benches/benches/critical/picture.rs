//! The figures side by side.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::figures::{Drawn, Panel, Quantity, Taken};

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(204, 121, 167),
];
const PANEL: (u32, u32) = (420, 360);
const COLUMNS: usize = 4;
const HEADING: u32 = 40;

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// Draws a panel for each figure, below a line about the machine.
pub fn svg(
    machine: &str,
    drawn: &[Drawn],
) -> std::result::Result<String, Box<dyn std::error::Error>> {
    let panels: Vec<(&Drawn, &Panel)> = drawn
        .iter()
        .flat_map(|group| group.panels.iter().map(move |panel| (group, panel)))
        .collect();
    let rows = panels.len().div_ceil(COLUMNS).max(1);
    let columns = panels.len().clamp(1, COLUMNS);
    let mut text = String::new();
    {
        let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + HEADING);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        let area = area.titled(machine, ("sans-serif", 16))?;
        for (place, (group, panel)) in area.split_evenly((rows, columns)).iter().zip(panels) {
            draw(place, group, panel)?;
        }
        area.present()?;
    }
    Ok(text)
}

fn draw(place: &DrawingArea<SVGBackend<'_>, Shift>, group: &Drawn, panel: &Panel) -> Result {
    let xs = || group.points.iter().map(|taken| taken.x);
    let (low, high) = (xs().fold(f64::MAX, f64::min), xs().fold(1.0, f64::max));
    // A third of the width beside the last point is left for the names of the lines. The figure of increments begins
    // with 0, which has no logarithm.
    if low > 0.0 {
        on(place, group, panel, (low..high * (2.0 * high / low).sqrt()).log_scale().base(2.0))
    } else {
        on(place, group, panel, low..high * 1.5)
    }
}

fn on<X>(place: &DrawingArea<SVGBackend<'_>, Shift>, group: &Drawn, panel: &Panel, xs: X) -> Result
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    // A client without any finished operation has no latency, and no point.
    let value = |taken: &Taken| {
        let value = match panel.quantity {
            Quantity::Throughput => taken.measured.rate / 1e6,
            Quantity::Latency => taken.measured.latency / 1e3,
        };
        Some(value).filter(|value| value.is_finite())
    };
    let highest = group.points.iter().filter_map(value).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(place)
        .caption(format!("{}  {}", panel.figure, panel.caption), ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(xs, 0.0..(highest * 1.15).max(1e-3))?;
    chart
        .configure_mesh()
        .x_desc(group.x_label)
        .y_desc(match panel.quantity {
            Quantity::Throughput => "million operations a second",
            Quantity::Latency => "µs",
        })
        .draw()?;
    for (line, (name, colour)) in group.lines.iter().zip(COLOURS.into_iter().cycle()).enumerate() {
        let points = || {
            let of_line = group.points.iter().filter(move |taken| taken.line == line);
            of_line.filter_map(|taken| Some((taken.x, value(taken)?)))
        };
        chart.draw_series(LineSeries::new(points(), colour.stroke_width(1)))?;
        chart
            .draw_series(points().map(|at| Circle::new(at, 3, colour.filled())))?
            .label(name.as_str())
            .legend(move |at| Circle::new((at.0 + 10, at.1), 3, colour.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperRight)
        .draw()?;
    Ok(())
}
