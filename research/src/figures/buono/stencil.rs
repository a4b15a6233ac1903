//! The stencil: tables III and IV, figures 6 and 7.

use mp_model::cla::Parameters;

use super::given::{CORES, beside, limited, sharing};
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::smt::Micros;
use crate::smt::stencil::{Stencil, Version};

/// A matrix, and the time of Sh-Mem on one core for the paper's 100 iterations, in ms.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    /// The number of rows, which is that of elements in a row.
    pub(super) rows: usize,
    alone: f64,
}

pub(super) const SMALL: Matrix = Matrix { rows: 1_080, alone: 957.0 };
pub(super) const LARGE: Matrix = Matrix { rows: 8_640, alone: 58_600.0 };

impl Matrix {
    /// Returns the milliseconds of 100 iterations with so many workers on so many cores.
    pub(super) fn time(self, workers: usize, cores: usize, version: Version) -> Result<f64> {
        let Parameters { near, .. } = Parameters::XEON_PHI;
        let lines = self.rows as u64 / 8;
        let row: Micros = self.alone * 1_000.0 / 100.0 / self.rows as f64;
        let copy = near.lines.cost(1, lines).as_nanos() / 1_000.0;
        let read = (lines * near.transfer).as_nanos() / 1_000.0;
        let stencil = Stencil { rows: self.rows, workers, cores, version, row, copy, read };
        Ok(stencil.iteration(sharing())? * 100.0 / 1_000.0)
    }

    /// Returns the least time with shared communication threads on the cores that workers leave, with at most as many
    /// threads on a core.
    fn shared(self, workers: usize, per_core: usize) -> Result<f64> {
        let mut least = f64::MAX;
        for kts in 1..=(CORES * per_core).saturating_sub(workers).min(workers) {
            let group = workers.div_ceil(kts);
            if workers.div_ceil(group) == kts {
                least = least.min(self.time(workers, CORES, Version::Skt(group))?);
            }
        }
        Ok(least)
    }

    /// Returns the least time with shared communication threads for any number of workers.
    fn most_shared(self, per_core: usize) -> Result<f64> {
        let (mut least, all) = (f64::MAX, CORES * per_core);
        for kts in [10, 12, 15, 20, 24, 30, 40, 60].map(|kts| kts * per_core / 2) {
            let workers = all - kts;
            least = least.min(self.time(workers, CORES, Version::Skt(workers.div_ceil(kts)))?);
        }
        Ok(least)
    }
}

/// Returns the most workers that have a core each beside communication threads on the others, one for ten workers.
fn most_by_ten() -> usize {
    let fit = |workers: &usize| workers + workers.div_ceil(10) <= CORES;
    (1..=CORES).rev().find(fit).unwrap_or(0)
}

const VERSIONS: [(&str, Version); 3] =
    [("Sh-Mem", Version::ShMem), ("No-KT", Version::NoKt), ("KT-W", Version::KtW)];

/// Published values: workers, workers per core, and for each column (Sh-Mem, No-KT, KT-W, SKT) a value and a limit.
type Row = (usize, [(f64, &'static str); 4]);

/// Returns the checks of a table, and its plot.
fn table(
    matrix: Matrix,
    unit: &'static str,
    scale: f64,
    within: f64,
    rows: &[Row],
) -> Result<(Vec<Check>, Vec<Series>)> {
    let mut checks = Vec::new();
    let mut series = Vec::new();
    for (column, name) in ["Sh-Mem", "No-KT", "KT-W", "SKT"].into_iter().enumerate() {
        let version = VERSIONS.get(column).map(|version| version.1);
        let mut dots = Vec::new();
        for &(workers, columns) in rows {
            let (published, limit) = columns[column];
            if published == 0.0 {
                continue;
            }
            let per_core = workers.div_ceil(CORES);
            let ours = match version {
                Some(version) => matrix.time(workers, CORES, version)?,
                None if per_core == 1 => matrix.shared(workers, 1)?,
                None => matrix.most_shared(per_core)?,
            };
            let what = if per_core == 1 {
                dots.push((workers as f64, published));
                if workers == 1 {
                    format!("{name}, 1 worker")
                } else {
                    format!("{name}, {workers} workers")
                }
            } else {
                format!("{name}, {per_core} per core")
            };
            checks.push(limited(Check::value(what, unit, published, ours / scale, within), limit));
        }
        let most = if version.is_some() { CORES } else { most_by_ten() };
        let point = |workers| {
            let time = match version {
                Some(version) => matrix.time(workers, CORES, version)?,
                None => matrix.shared(workers, 1)?,
            };
            Ok((workers as f64, time / scale))
        };
        series.push(Series::line(name, (16..=most).map(point).collect::<Result<Vec<_>>>()?));
        series.push(Series::dots(name, dots));
    }
    Ok((checks, series))
}

/// Returns the picture from 16 workers on, where versions differ.
fn plot(caption: &str, unit: &'static str, mut series: Vec<Series>) -> Plot {
    series.iter_mut().for_each(|series| series.points.retain(|point| point.0 >= 16.0));
    let across = "workers";
    Plot::new("", caption, across, unit, series)
}

/// OpenMP's published times beside those here.
struct OpenMp {
    table: String,
    /// For each row, by how many percent OpenMP takes longer than the slowest version here, and than the fastest.
    longer: Vec<(f64, f64)>,
    /// The published times with one worker per core.
    dots: Series,
}

/// Compares OpenMP's published times. A row has all workers and the time.
fn openmp(matrix: Matrix, unit: &str, scale: f64, rows: &[(usize, f64)]) -> Result<OpenMp> {
    let (mut lines, mut longer) = (Vec::new(), Vec::new());
    for &(workers, published) in rows {
        let per_core = workers.div_ceil(CORES);
        let number = match per_core {
            1 => workers.to_string(),
            _ => format!("{per_core} per core"),
        };
        let mut line = vec![number, format!("{published} {unit}")];
        let (mut slowest, mut fastest) = (0.0, f64::MAX);
        for (_, version) in VERSIONS {
            // A core has four hardware threads.
            if version == Version::KtW && per_core > 2 {
                line.push("–".to_owned());
                continue;
            }
            let time = matrix.time(workers, CORES, version)? / scale;
            line.push(format!("{time:.*} {unit}", if time < 10.0 { 2 } else { 1 }));
            (slowest, fastest) = (time.max(slowest), time.min(fastest));
        }
        lines.push(line);
        longer.push((100.0 * (published / slowest - 1.0), 100.0 * (published / fastest - 1.0)));
    }
    let head = ["workers", "OMP, published", "Sh-Mem, here", "No-KT, here", "KT-W, here"];
    let by_core = rows.iter().filter(|row| row.0 <= CORES);
    let dots = by_core.map(|&(workers, published)| (workers as f64, published));
    let dots = Series::dots("OMP, published", dots);
    Ok(OpenMp { table: beside(&head, &lines), longer, dots })
}

const NO_OPENMP: &str = "OpenMP is other software, which a simulation of this library's algorithms cannot run, so its \
                         column is shown as published";

const BARRIER: &str = "a barrier takes no time here";
const SPIN: &str = "threads that wait take nothing from their siblings here";
pub(super) const BANDWIDTH: &str = "the memory's bandwidth is not simulated";

/// Returns the times of a version with 1 to 60 workers, one per core.
fn times(matrix: Matrix, version: Version) -> Result<Vec<f64>> {
    (1..=CORES).map(|workers| matrix.time(workers, CORES, version)).collect()
}

/// Returns the greatest part by which one time is more than the other.
fn most_over(times: &[f64], others: &[f64]) -> f64 {
    times.iter().zip(others).map(|(time, other)| time / other - 1.0).fold(f64::MIN, f64::max)
}

/// Table III and figure 6: a small matrix.
pub(super) fn table_3() -> Result<Figure> {
    let rows: [Row; 9] = [
        (1, [(0.0, ""), (969.0, ""), (965.0, ""), (962.0, "")]),
        (4, [(243.0, ""), (256.0, ""), (255.0, ""), (253.0, "")]),
        (16, [(65.1, ""), (70.5, ""), (68.3, ""), (68.4, "")]),
        (30, [(37.1, ""), (44.1, ""), (41.7, ""), (41.1, "")]),
        (45, [(26.1, ""), (30.8, ""), (29.2, ""), (28.4, "")]),
        (60, [(22.1, ""), (25.5, ""), (22.8, ""), (0.0, "")]),
        (120, [(19.7, ""), (23.1, ""), (402.0, SPIN), (26.6, SPIN)]),
        (180, [(23.2, BARRIER), (29.8, SPIN), (0.0, ""), (26.9, SPIN)]),
        (240, [(24.5, ""), (43.7, SPIN), (0.0, ""), (2_190.0, SPIN)]),
    ];
    let (mut checks, series) = table(SMALL, "ms", 1.0, 0.1, &rows)?;
    let [shared, none, beside] =
        [VERSIONS[0].1, VERSIONS[1].1, VERSIONS[2].1].map(|version| times(SMALL, version));
    let (shared, none, beside) = (shared?, none?, beside?);
    let several = |workers| SMALL.time(workers, CORES, Version::ShMem);
    let [two, three, four] = [several(120)?, several(180)?, several(240)?];
    let crowded = SMALL.time(120, CORES, Version::KtW)?;
    let peak = SMALL.most_shared(2)?;
    let by_ten = SMALL.time(45, CORES, Version::Skt(10))?;
    let end = beside[59] / shared[59] - 1.0;
    let OpenMp { table, longer, .. } = openmp(
        SMALL,
        "ms",
        1.0,
        &[
            (1, 930.0),
            (4, 303.0),
            (16, 141.0),
            (30, 123.0),
            (45, 134.0),
            (60, 157.0),
            (120, 197.0),
            (180, 272.0),
            (240, 351.0),
        ],
    )?;
    checks.extend([
        Check::statement(
            "The OpenMP version is the slowest, and it is not suitable for extremely fine-grain computations",
            format!(
                "the published OMP takes {:.0}% longer than the slowest version here with 4 workers, {:.0}% with 16, \
                 {:.0}% with 60, {:.0}% with 4 per core; with 1 it takes {:.0}% less. (In the paper, KT-W with 2 per \
                 core and SKT with 4 are slower still.)",
                longer[1].0, longer[2].0, longer[5].0, longer[8].0, -longer[0].0
            ),
            longer[1..].windows(2).all(|rows| 0.0 < rows[0].0 && rows[0].0 < rows[1].0),
        ),
        Check::statement(
            "reaches similar performance compared to standard OpenMP implementations",
            format!(
                "here KT-W with 60 workers takes {:.1} ms, where the published OMP takes 123 ms at least",
                beside[59]
            ),
            beside[59] < 1.1 * 123.0,
        ),
        Check::statement(
            "Sh-Mem slightly outperforms all the other implementations",
            format!(
                "2 to 60 workers: No-KT takes up to {:.0}% longer, KT-W up to {:.0}%",
                100.0 * most_over(&none, &shared),
                100.0 * most_over(&beside, &shared)
            ),
            (1..60).all(|at| shared[at] < beside[at] && shared[at] < none[at])
                && most_over(&none, &shared) < 0.2,
        ),
        Check::statement(
            "ending with very similar completion times",
            format!("60 workers: KT-W takes {:.1}% longer than Sh-Mem", 100.0 * end),
            end < 0.05,
        ),
        Check::here(
            "KT-W is faster than No-KT, with any number of workers",
            format!("2 to 60 workers: by {:.1}% or more", -100.0 * most_over(&beside[1..], &none[1..])),
            most_over(&beside[1..], &none[1..]) < 0.0,
        ),
        Check::statement(
            "a slow-down when allocating multiple Workers per core",
            format!("Sh-Mem with 1, 2, 3, 4 per core: {:.1}, {two:.1}, {three:.1}, {four:.1} ms", shared[59]),
            two < shared[59] && two < three && three < four,
        ),
        Check::statement(
            "allocating two Workers and two KTs on the same core significantly lowers the performance",
            format!("KT-W: {:.1} ms with one of each, {crowded:.1} with two", beside[59]),
            crowded > 1.5 * beside[59],
        )
        .limit(SPIN),
        Check::statement(
            "due to a smaller number of available contexts for Worker functionalities […] it is not able to reach the \
             peak performance of the other implementations",
            format!("SKT with 2 per core: {peak:.1} ms; Sh-Mem {two:.1}"),
            peak > two,
        ),
    ]);
    Ok(Figure {
        title: "stencil on 1080 × 1080 elements, with figure 6".to_owned(),
        about: format!(
            "100 iterations. Workers of one core are not neighbours. The communication threads of SKT are on the \
             hardware threads that workers leave, and fetch and write both rows from other cores. The paper does not say \
             how many there are, so the best number is taken. (One for ten workers, as in V.A.2, makes 54 the most \
             workers with a core each, which is a row of table IV; but with 45 workers such threads are too slow \
             here: {by_ten:.1} ms.) \
             Scalabilities follow from the times. In the paper, three or four threads of a core that wait for each \
             other slow it down, and with communication threads among four nearly stop it. Dots are the paper's. \
             {NO_OPENMP}:\n{table}"
        ),
        plots: vec![plot("five-point stencil, 1080 × 1080", "ms for 100 iterations", series)],
        checks,
    })
}

/// Table IV and figure 7: a large matrix.
pub(super) fn table_4() -> Result<Figure> {
    let rows: [Row; 7] = [
        (1, [(0.0, ""), (59.1, ""), (59.3, ""), (58.5, "")]),
        (16, [(3.69, ""), (3.73, ""), (3.75, ""), (3.71, "")]),
        (54, [(1.34, BANDWIDTH), (1.41, BANDWIDTH), (1.39, BANDWIDTH), (1.39, BANDWIDTH)]),
        (60, [(1.31, BANDWIDTH), (1.36, BANDWIDTH), (1.36, BANDWIDTH), (0.0, "")]),
        (120, [(1.95, BANDWIDTH), (1.91, BANDWIDTH), (2.01, BANDWIDTH), (1.82, BANDWIDTH)]),
        (180, [(2.16, BANDWIDTH), (2.35, BANDWIDTH), (0.0, ""), (2.94, BANDWIDTH)]),
        (240, [(2.24, BANDWIDTH), (2.74, BANDWIDTH), (0.0, ""), (3.12, BANDWIDTH)]),
    ];
    let (mut checks, mut series) = table(LARGE, "s", 1_000.0, 0.05, &rows)?;
    let OpenMp { table, longer, dots } = openmp(
        LARGE,
        "s",
        1_000.0,
        &[(1, 52.6), (16, 3.48), (54, 1.45), (60, 1.44), (120, 2.17), (180, 2.49), (240, 2.66)],
    )?;
    series.push(dots);
    let (none, beside) = (times(LARGE, Version::NoKt)?, times(LARGE, Version::KtW)?);
    let saved = most_over(&none, &beside);
    checks.extend([
        Check::value(
            "the most workers of SKT, one per core, with one communication thread for ten",
            "",
            54.0,
            most_by_ten() as f64,
            0.0,
        ),
        Check::statement(
            "The effect of overlapping becomes negligible",
            format!("1 to 60 workers: KT-W saves {:.1}% at most", 100.0 * saved),
            saved < 0.02,
        ),
        Check::here(
            "OMP “achieves the same performance of the other implementations”: 1 and 16 workers",
            format!(
                "the published OMP takes {:.0}% and {:.0}% less than the slowest version here, {:.0}% and {:.0}% less \
                 than the fastest",
                -longer[0].0, -longer[1].0, -longer[0].1, -longer[1].1
            ),
            longer[..2].iter().all(|row| row.0.abs() < 12.0 && row.1.abs() < 12.0),
        ),
        Check::statement(
            "the OMP version achieves the same performance of the other implementations",
            format!(
                "60 workers: the published OMP takes {:.0}% longer than the slowest version here",
                longer[3].0
            ),
            longer.iter().all(|row| row.0.abs() < 12.0 && row.1.abs() < 12.0),
        )
        .limit(BANDWIDTH),
    ]);
    Ok(Figure {
        title: "stencil on 8640 × 8640 elements, with figure 7".to_owned(),
        about: format!(
            "As before. From 16 workers on, the table prints ten times the seconds that its scalabilities mean (58.6 s \
             / 15.9 is 3.69 s, where it says 36.9), so a tenth is compared. With many workers, the paper's machine is \
             at the end of its memory's bandwidth: 100 iterations read two values and write one for each element, \
             which is 179 GB, and in 1.31 s 137 GB/s. More threads take longer there. None of the papers has a \
             measured bandwidth of this machine that could stand for this here: what Ramos and Hoefler give for lines \
             in memory (their table 4: 94.9 ns for each further line) is the time of one thread that fetches line \
             after line, with which 60 threads would have 40 GB/s. {NO_OPENMP}, a tenth from 16 workers on:\n{table}"
        ),
        plots: vec![plot("five-point stencil, 8640 × 8640", "s for 100 iterations", series)],
        checks,
    })
}
