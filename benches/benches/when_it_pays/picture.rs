//! The gain over the size of the message, measured and predicted by the model.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::grid::Cell;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];
/// The lower end of the axis, because losses can be many times as large as possible gains.
const LOWEST: f64 = -100.0;
const PANEL: (u32, u32) = (460, 420);

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws one panel for each place of the communication thread, and one colour for each grain. Dots are measured values,
/// and thin lines are the model.
pub fn svg(cells: &[Cell]) -> Result<String, Box<dyn std::error::Error>> {
    let mut places: Vec<&str> = cells.iter().map(Cell::place).collect();
    places.dedup();
    let mut text = String::new();
    {
        let size = (PANEL.0 * places.len().max(1) as u32, PANEL.1);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (panel, place) in area.split_evenly((1, places.len().max(1))).iter().zip(places) {
            let here: Vec<Cell> =
                cells.iter().filter(|cell| cell.place() == place).copied().collect();
            draw(panel, place, &here)?;
        }
        area.present()?;
    }
    Ok(text)
}

fn draw(panel: &DrawingArea<SVGBackend<'_>, Shift>, place: &str, cells: &[Cell]) -> Drawn {
    let sizes = || cells.iter().map(|cell| cell.bytes as f64);
    let (low, high) = (sizes().fold(f64::MAX, f64::min), sizes().fold(1.0, f64::max));
    let mut chart = ChartBuilder::on(panel)
        .caption(place, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(52)
        .build_cartesian_2d((low..high * 1.1).log_scale().base(4.0), LOWEST..100.0)?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc("percent of the time saved")
        .x_label_formatter(&|bytes| match *bytes {
            b if b >= f64::from(1 << 20) => format!("{:.0} Mi", b / f64::from(1 << 20)),
            b if b >= 1024.0 => format!("{:.0} Ki", b / 1024.0),
            b => format!("{b:.0}"),
        })
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .draw()?;
    let mut grains: Vec<_> = cells.iter().map(|cell| cell.grain).collect();
    grains.dedup();
    for (grain, colour) in grains.into_iter().zip(COLOURS.into_iter().cycle()) {
        let of_grain = || cells.iter().filter(move |cell| cell.grain == grain);
        let point = |cell: &Cell, gain: f64| (cell.bytes as f64, (100.0 * gain).max(LOWEST));
        let measured: Vec<_> = of_grain().map(|cell| point(cell, cell.gain())).collect();
        let model = of_grain().map(|cell| point(cell, cell.model_gain()));
        chart.draw_series(LineSeries::new(model, colour.stroke_width(1)))?;
        chart
            .draw_series(measured.into_iter().map(|at| Circle::new(at, 4, colour.filled())))?
            .label(format!("{} µs", grain.as_micros()))
            .legend(move |at| Circle::new((at.0 + 10, at.1), 4, colour.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::LowerRight)
        .draw()?;
    Ok(())
}
