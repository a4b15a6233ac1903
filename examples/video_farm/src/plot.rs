//! The service time over the number of workers, as the paper's figure 4 shows it, in SVG.

use example_support::measure::Spread;
use example_support::{Error, Result};
use plotters::prelude::*;

use crate::farm::Ranks;
use crate::report::{Report, Row};

/// The colour of each mode. People with any kind of colour vision can tell them apart (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
];

/// Room above the highest median, for the names of the lines.
const HEADROOM: f64 = 1.5;

/// Draws one line for each mode, in a colour of its own, with dashes for processes.
///
/// # Errors
/// The errors of the drawing library.
pub fn svg(report: &Report) -> Result<String> {
    let mut text = String::new();
    draw(report, &mut text).map_err(Error::new)?;
    Ok(text)
}

fn draw(report: &Report, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, (800, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let workers = report.rows.iter().map(|row| row.workers).max().unwrap_or(1);
    let highest = report.rows.iter().map(|row| row.service_time_us.median).fold(1.0, f64::max);
    let top = HEADROOM * highest;
    let title = format!(
        "Service time, {} frames, {}, {} cores",
        report.size, report.schedule, report.cores
    );
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.5..workers as f64 + 0.5, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("workers")
        .y_desc("microseconds a frame")
        .x_labels(workers + 1)
        .x_label_formatter(&|x| if x.fract() == 0.0 { x.to_string() } else { String::new() })
        .y_label_formatter(&|y| y.to_string())
        .draw()?;

    let mut series: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        match series.iter_mut().find(|(name, _)| *name == row.name()) {
            Some((_, rows)) => rows.push(row),
            None => series.push((row.name(), vec![row])),
        }
    }
    for (index, (name, rows)) in series.iter().enumerate() {
        let colour = COLOURS[rows[0].mode as usize];
        let dashed = rows[0].ranks == Ranks::Processes;
        // Points are a little apart, so that the spreads do not cover each other.
        let aside = 0.02 * (index as f64 - (series.len() - 1) as f64 / 2.0);
        let x = |row: &&Row| row.workers as f64 + aside;
        let points: Vec<_> = rows.iter().map(|row| (x(row), row.service_time_us.median)).collect();
        let line = points.iter().copied();
        let style = colour.stroke_width(2);
        let drawn = if dashed {
            chart.draw_series(DashedLineSeries::new(line, 6, 4, style))?
        } else {
            chart.draw_series(LineSeries::new(line, style))?
        };
        drawn.label(name).legend(move |(x, y)| {
            let end = if dashed { x + 8 } else { x + 20 };
            PathElement::new([(x, y), (end, y)], style)
        });
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 4, colour.filled())))?;
        chart.draw_series(rows.iter().map(|row| {
            let Spread { lowest, highest, .. } = row.service_time_us;
            PathElement::new([(x(row), lowest), (x(row), highest.min(top))], colour)
        }))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperRight)
        .draw()?;
    area.present()?;
    Ok(())
}
