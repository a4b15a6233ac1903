//! The published tables and figures of broadcasts on the Intel SCC, beside the results of the formulas and the
//! simulator.
//!
//! ```text
//! cargo run --release --example scc_figures -- OUT_DIR
//! ```
//!
//! prints tables 3.1 and 4.2 of the thesis, the values in its text and figure 3.4 as a table, and writes figures 3.2
//! and 3.4 (simulated) and 4.5 (formulas) into `OUT_DIR`, each as CSV and SVG. Without `OUT_DIR`, only the tables are
//! printed.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use mp_collectives::broadcast::asynchronous::AsyncOptions;
use mp_collectives::broadcast::{Leaves, Options};
use onchip_research::experiments::{self, Algorithm, ExperimentError, scc_with_rcce};
use onchip_research::scc::figures::{self, DEGREES, SHORT_LINES};
use onchip_research::scc::{CHUNK_LINES, Parameters};
use onchip_research::sim::{InterruptCosts, Machine};
use plotters::prelude::SeriesLabelPosition;

#[path = "support/picture.rs"]
mod picture;

use picture::Picture;

fn main() -> Result<(), Box<dyn Error>> {
    let throughput = figure_3_4()?;
    print!("{}\n{}\n{}\n", table_4_2()?, measured()?, asynchronous()?);
    print!("{}", throughput.table());
    if let Some(folder) = env::args_os().nth(1) {
        let folder = Path::new(&folder);
        fs::create_dir_all(folder)?;
        let synchronous = [figure_4_5()?, figure_4_5b()?, figure_3_2a()?, figure_3_2b()?];
        for figure in synchronous.into_iter().chain([throughput]) {
            fs::write(folder.join(figure.name).with_extension("csv"), figure.csv())?;
            fs::write(folder.join(figure.name).with_extension("svg"), figure.svg()?)?;
        }
    }
    Ok(())
}

/// Prints table 4.2 by the formulas alone.
fn table_4_2() -> Result<String, Box<dyn Error>> {
    let text = figures::table_4_2(&Parameters::TABLE_4_1)?;
    let table = figures::table_4_2(&Parameters::TABLE_4_2)?;
    let mut out = String::from("Table 4.2, MB/s         published   formulas   flags by get\n");
    for (text, table) in text.iter().zip(&table) {
        let (name, published) = (&text.algorithm, text.published);
        let (text, table) = (text.computed, table.computed);
        writeln!(out, "{name:<22} {published:>10.2} {text:>10.2} {table:>14.2}")?;
    }
    Ok(out)
}

/// Prints the measured values beside those of the simulator.
fn measured() -> Result<String, Box<dyn Error>> {
    let latency = |algorithm: Algorithm, lines| {
        let machine = machine(algorithm);
        experiments::latency(&machine, algorithm, lines).map(|time| time.as_micros())
    };
    let mut out = String::from("Measured, µs             published  simulated\n");
    for (degree, lines, published) in
        [(47, 1, 44.1), (47, 32, 75.8), (47, 64, 112.7), (47, 128, 198.6), (7, 1, 16.6)]
    {
        let simulated = latency(oc_bcast(degree), lines)?;
        let name = format!("k = {degree}, {lines} lines");
        writeln!(out, "{name:<22} {published:>10.1} {simulated:>10.1}")?;
    }
    let simulated = latency(Algorithm::Binomial, 1)?;
    writeln!(out, "{:<22} {:>10.1} {simulated:>10.1}", "binomial, 1 lines", 21.6)?;
    Ok(out)
}

/// Prints the second row of table 3.1. The papers do not say whether a child without children gets a chunk by its own
/// MPB. For long messages the published values lie between the two variants.
fn asynchronous() -> Result<String, ExperimentError> {
    let mut out =
        String::from("Asynchronous, µs         published     by MPB     direct (leaves)\n");
    for (lines, published) in [(1, 40.2), (32, 75.5), (64, 118.0), (128, 196.7)] {
        let latency = |leaves| {
            let options = AsyncOptions { leaves, ..AsyncOptions::scc(47) };
            experiments::async_latency(&scc(), options, lines).map(|time| time.as_micros())
        };
        let (by_mpb, direct) = (latency(Leaves::ByMpb)?, latency(Leaves::Direct)?);
        let name = format!("k = 47, {lines} lines");
        out += &format!("{name:<22} {published:>10.1} {by_mpb:>10.1} {direct:>10.1}\n");
    }
    Ok(out)
}

/// Makes figure 3.4. Only its best value is published as a number: 68% of 55 MB/s.
fn figure_3_4() -> Result<Figure, ExperimentError> {
    let throughput = |degree, sources: usize| {
        let times = (240 / sources).clamp(5, 40);
        experiments::async_mb_per_s(&scc(), AsyncOptions::scc(degree), sources, 128, times)
    };
    let point = |degree: u64| {
        let [one, five, all] = [1, 5, 48].map(|sources| throughput(degree as usize, sources));
        Ok::<_, ExperimentError>((degree, [one?, five?, all?, 0.68 * 55.0]))
    };
    Ok(Figure {
        name: "figure-3-4",
        title: "Asynchronous broadcast of 128 lines, simulated",
        across: "k",
        unit: "MB/s",
        logarithmic: false,
        curves: ["1 source", "5 sources", "48 sources", "measured at best"].map(str::to_owned),
        points: (1..48).map(point).collect::<Result<_, _>>()?,
    })
}

fn oc_bcast(degree: usize) -> Algorithm {
    Algorithm::OcBcast(Options::scc(degree))
}

fn machine(algorithm: Algorithm) -> Machine {
    match algorithm {
        Algorithm::OcBcast(_) => scc(),
        Algorithm::Binomial | Algorithm::ScatterAllgather => scc_with_rcce(scc()),
    }
}

fn scc() -> Machine {
    let interrupts = InterruptCosts::FITTED;
    Machine { costs: Parameters::FITTED, interrupts, ..Machine::scc() }
}

/// Curves over the size of the message, or over the degree.
struct Figure {
    /// The name of its files.
    name: &'static str,
    title: &'static str,
    across: &'static str,
    unit: &'static str,
    /// Whether the values on the horizontal axis double from tick to tick.
    logarithmic: bool,
    curves: [String; 4],
    /// Places, with a value for each curve.
    points: Vec<(u64, [f64; 4])>,
}

const LINES: &str = "message size (cache lines)";

fn curves(last: &str) -> [String; 4] {
    let [a, b, c] = DEGREES.map(|degree| format!("k = {degree}"));
    [a, b, c, last.to_owned()]
}

fn figure_4_5() -> Result<Figure, Box<dyn Error>> {
    let points = figures::figure_4_5(&Parameters::TABLE_4_1)?.into_iter().map(|point| {
        let [a, b, c] = point.oc_bcast;
        (point.lines, [a, b, c, point.binomial].map(|time| time.as_micros()))
    });
    Ok(Figure {
        name: "figure-4-5a",
        title: "Broadcast latency by formulas 4.21 and 4.22",
        across: LINES,
        unit: "microseconds",
        logarithmic: false,
        curves: curves("binomial"),
        points: points.collect(),
    })
}

fn figure_4_5b() -> Result<Figure, Box<dyn Error>> {
    let mut figure = figure_4_5()?;
    figure.points.retain(|&(lines, _)| lines <= SHORT_LINES);
    Ok(Figure { name: "figure-4-5b", ..figure })
}

fn figure_3_2a() -> Result<Figure, ExperimentError> {
    let value = |algorithm, lines: u64| {
        let latency = experiments::latency(&machine(algorithm), algorithm, lines as usize)?;
        Ok(latency.as_micros())
    };
    let sizes = [1].into_iter().chain((8..=2 * CHUNK_LINES).step_by(8)).chain([CHUNK_LINES + 1]);
    Ok(Figure {
        name: "figure-3-2a",
        title: "Broadcast latency, simulated",
        across: LINES,
        unit: "microseconds",
        logarithmic: false,
        curves: curves("binomial"),
        points: simulated(sizes, Algorithm::Binomial, value)?,
    })
}

fn figure_3_2b() -> Result<Figure, ExperimentError> {
    let value = |algorithm, lines: u64| {
        // Short broadcasts are repeated, as in the published measurements.
        let times = if lines < 1_000 { 20 } else { 1 };
        experiments::mb_per_s(&machine(algorithm), algorithm, lines as usize, times)
    };
    let sizes = (0..=15).map(|power| 1 << power).chain([CHUNK_LINES, CHUNK_LINES + 1]);
    Ok(Figure {
        name: "figure-3-2b",
        title: "Broadcast throughput, simulated",
        across: LINES,
        unit: "MB/s",
        logarithmic: true,
        curves: curves("scatter-allgather"),
        points: simulated(sizes, Algorithm::ScatterAllgather, value)?,
    })
}

fn simulated(
    sizes: impl Iterator<Item = u64>,
    last: Algorithm,
    value: impl Fn(Algorithm, u64) -> Result<f64, ExperimentError>,
) -> Result<Vec<(u64, [f64; 4])>, ExperimentError> {
    let [a, b, c] = DEGREES.map(oc_bcast);
    let mut sizes: Vec<_> = sizes.collect();
    sizes.sort_unstable();
    let point = |lines| {
        let value = |algorithm| value(algorithm, lines);
        Ok((lines, [value(a)?, value(b)?, value(c)?, value(last)?]))
    };
    sizes.into_iter().map(point).collect()
}

impl Figure {
    fn csv(&self) -> String {
        let across = if self.across == LINES { "lines" } else { self.across };
        let mut out = format!("{across},{} ({})\n", self.curves.join(","), self.unit);
        for (lines, values) in &self.points {
            let cells = values.map(|value| format!("{value:.3}")).join(",");
            out += &format!("{lines},{cells}\n");
        }
        out
    }

    fn table(&self) -> String {
        let heads = self.curves.iter().map(|name| format!("{name:>18}"));
        let mut out = format!("{}, {}\n{:<4}", self.title, self.unit, self.across);
        out.extend(heads.chain(["\n".to_owned()]));
        for (at, values) in &self.points {
            out += &format!("{at:<4}");
            out.extend(values.map(|value| format!("{value:>18.1}")));
            out.push('\n');
        }
        out
    }

    fn svg(&self) -> Result<String, Box<dyn Error>> {
        let picture = Picture {
            caption: self.title,
            across: self.across,
            unit: self.unit,
            curves: &self.curves,
            logarithmic: self.logarithmic,
            room: 1.0,
            least_top: 1.0,
            names_at: SeriesLabelPosition::UpperLeft,
        };
        picture.svg(&self.points)
    }
}
