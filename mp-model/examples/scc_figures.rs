//! The published figures of the SCC's model beside what this crate computes.
//!
//! ```text
//! cargo run -p mp-model --example scc_figures -- OUT_DIR
//! ```
//!
//! prints table 4.2 and writes `figure-4-5.csv`, `figure-4-5a.svg` and `figure-4-5b.svg` into
//! `OUT_DIR`. Without it, only the table is printed.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use mp_model::scc::figures::{self, DEGREES, Latency, SHORT_LINES};
use mp_model::scc::{CHUNK_LINES, Parameters};
use plotters::prelude::*;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(0, 158, 115), RGBColor(230, 159, 0), RGBColor(0, 0, 0)];

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", table_4_2()?);
    if let Some(folder) = env::args_os().nth(1) {
        let folder = Path::new(&folder);
        fs::create_dir_all(folder)?;
        let curves = figures::figure_4_5(&Parameters::TABLE_4_1)?;
        fs::write(folder.join("figure-4-5.csv"), csv(&curves))?;
        let all = "Broadcast latency, formulas 4.21 and 4.22";
        fs::write(folder.join("figure-4-5a.svg"), svg(&curves, 2 * CHUNK_LINES, all)?)?;
        let short = "Broadcast latency of short messages, formulas 4.21 and 4.22";
        fs::write(folder.join("figure-4-5b.svg"), svg(&curves, SHORT_LINES, short)?)?;
    }
    Ok(())
}

fn table_4_2() -> Result<String, Box<dyn Error>> {
    let text = figures::table_4_2(&Parameters::TABLE_4_1)?;
    let table = figures::table_4_2(&Parameters::TABLE_4_2)?;
    let mut out = String::from("Table 4.2, MB/s         published   formulas   flags by get\n");
    for (text, table) in text.iter().zip(&table) {
        let (name, published) = (&text.algorithm, text.published);
        writeln!(
            out,
            "{name:<22} {published:>10.2} {:>10.2} {:>14.2}",
            text.computed, table.computed
        )?;
    }
    Ok(out)
}

/// The names of a point's values, in the order of [`values`].
fn names() -> impl Iterator<Item = String> {
    DEGREES.into_iter().map(|degree| format!("k={degree}")).chain(["binomial".to_owned()])
}

/// A point's latencies in microseconds.
fn values(point: &Latency) -> impl Iterator<Item = f64> {
    point.oc_bcast.into_iter().chain([point.binomial]).map(|time| time.as_micros())
}

fn csv(curves: &[Latency]) -> String {
    let row = |cells: Vec<String>| cells.join(",") + "\n";
    let mut out = row(["lines".to_owned()].into_iter().chain(names().map(|n| n + "_us")).collect());
    for point in curves {
        let latencies = values(point).map(|micros| format!("{micros:.3}"));
        out += &row([point.lines.to_string()].into_iter().chain(latencies).collect());
    }
    out
}

fn svg(curves: &[Latency], longest: u64, title: &str) -> Result<String, Box<dyn Error>> {
    let shown: Vec<_> = curves.iter().filter(|point| point.lines <= longest).collect();
    let highest = shown.iter().flat_map(|point| values(point)).fold(1.0, f64::max);
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..longest as f64, 0.0..1.05 * highest)?;
    chart
        .configure_mesh()
        .x_desc("message size (cache lines)")
        .y_desc("microseconds")
        .x_label_formatter(&|x| x.to_string())
        .y_label_formatter(&|y| y.to_string())
        .draw()?;
    for (index, (name, colour)) in names().zip(COLOURS).enumerate() {
        let value = |point: &Latency| values(point).nth(index).unwrap_or_default();
        let line = shown.iter().map(|point| (point.lines as f64, value(point)));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(text)
}
