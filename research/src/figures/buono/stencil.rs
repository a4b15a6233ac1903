//! The stencil: tables III and IV, figures 6 and 7.

use mp_model::cla::Parameters;

use super::given::{CORES, limited, sharing};
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
        if let Some(version) = version {
            let point =
                |workers| Ok((workers as f64, matrix.time(workers, CORES, version)? / scale));
            series.push(Series::line(name, (1..=CORES).map(point).collect::<Result<Vec<_>>>()?));
        }
        series.push(Series::dots(name, dots));
    }
    Ok((checks, series))
}

/// Returns the picture from 16 workers on, where versions differ.
fn plot(caption: &str, unit: &'static str, mut series: Vec<Series>) -> Plot {
    series.iter_mut().for_each(|series| series.points.retain(|point| point.0 >= 16.0));
    let across = "workers";
    Plot { caption: caption.to_owned(), across, unit, logarithmic: true, series, ..Plot::default() }
}

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
    let end = beside[59] / shared[59] - 1.0;
    checks.extend([
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
        about: "100 iterations. Workers of one core are not neighbours. The communication threads of SKT are on the \
                hardware threads that workers leave, and fetch and write both rows from other cores; the paper does \
                not say how many there are, so the best number is taken. Scalabilities follow from the times. In the \
                paper, three or four threads of a core that wait for each other slow it down, and with communication \
                threads among four nearly stop it. Dots are the paper's."
            .to_owned(),
        plots: vec![plot("five-point stencil, 1080 × 1080", "ms", series)],
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
    let (mut checks, series) = table(LARGE, "s", 1_000.0, 0.05, &rows)?;
    let (none, beside) = (times(LARGE, Version::NoKt)?, times(LARGE, Version::KtW)?);
    let saved = most_over(&none, &beside);
    checks.push(Check::statement(
        "The effect of overlapping becomes negligible",
        format!("1 to 60 workers: KT-W saves {:.1}% at most", 100.0 * saved),
        saved < 0.02,
    ));
    Ok(Figure {
        title: "stencil on 8640 × 8640 elements, with figure 7".to_owned(),
        about: "As before. From 16 workers on, the table prints ten times the seconds that its scalabilities mean \
                (58.6 s / 15.9 is 3.69 s, where it says 36.9), so a tenth is compared. With many workers, the paper's \
                machine is at the end of its memory's bandwidth: 100 iterations read two values and write one for \
                each element, which is 179 GB, and in 1.31 s 137 GB/s. More threads take longer there. Nothing stands \
                for this here."
            .to_owned(),
        plots: vec![plot("five-point stencil, 8640 × 8640", "s", series)],
        checks,
    })
}
