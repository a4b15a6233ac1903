//! OC-Bcast and two-sided broadcasts, simulated (section 3.3.3).

use super::{DEGREES, LINES, machine, name, oc_bcast};
use crate::experiments::{self, Algorithm, ExperimentError};
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::scc::CHUNK_LINES;

const CHUNK: usize = CHUNK_LINES as usize;

/// 1 MB, the longest message of the thesis.
const LONG: usize = 32_768;

fn latency(algorithm: Algorithm, lines: usize) -> std::result::Result<f64, ExperimentError> {
    Ok(experiments::latency(&machine(algorithm), algorithm, lines)?.as_micros())
}

fn mb_per_s(algorithm: Algorithm, lines: usize) -> std::result::Result<f64, ExperimentError> {
    // Short broadcasts are repeated, as in the published measurements.
    let times = if lines < 1_000 { 20 } else { 1 };
    experiments::mb_per_s(&machine(algorithm), algorithm, lines, times)
}

/// Returns the curve of an algorithm.
fn curve(
    algorithm: Algorithm,
    sizes: impl Iterator<Item = usize>,
    value: fn(Algorithm, usize) -> std::result::Result<f64, ExperimentError>,
) -> Result<Series> {
    let mut sizes: Vec<_> = sizes.collect();
    sizes.sort_unstable();
    let point = |&lines: &usize| Ok((lines as f64, value(algorithm, lines)?));
    Ok(Series::line(name(algorithm), sizes.iter().map(point).collect::<Result<Vec<_>>>()?))
}

/// Figure 3.2: latency of short messages, and throughput of long ones.
pub(super) fn figure_3_2() -> Result<Figure> {
    let sizes = || [1].into_iter().chain((8..=2 * CHUNK).step_by(8)).chain([CHUNK + 1]);
    let powers = || (0..=15).map(|power| 1 << power).chain([CHUNK, CHUNK + 1]);
    let [two, seven, all] = DEGREES.map(oc_bcast);
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for algorithm in [two, seven, all, Algorithm::Binomial] {
        short.push(curve(algorithm, sizes(), latency)?);
    }
    for algorithm in [two, seven, all, Algorithm::ScatterAllgather] {
        long.push(curve(algorithm, powers(), mb_per_s)?);
    }
    let (a, b) = ("simulated latency".to_owned(), "simulated throughput".to_owned());
    let plots = vec![
        Plot {
            part: "a", caption: a, across: LINES, unit: "µs", series: short, ..Plot::default()
        },
        Plot {
            part: "b",
            caption: b,
            across: LINES,
            unit: "MB/s",
            logarithmic: true,
            series: long,
        },
    ];
    Ok(Figure {
        title: "latency and throughput of synchronous broadcasts (SPAA, figure 8)".to_owned(),
        about: "The thesis prints no values of the throughput's curves. It says that they are “very close” to those \
                of table 4.2, and with k = 47 “about 16% lower than predicted”."
            .to_owned(),
        plots,
        checks: checks(two, seven, all)?,
    })
}

const SLOW: &str = "the flags' cost is fitted to a latency, and too much for a stream of chunks";

fn checks(two: Algorithm, seven: Algorithm, all: Algorithm) -> Result<Vec<Check>> {
    let (one, binomial) = (latency(seven, 1)?, latency(Algorithm::Binomial, 1)?);
    let mut gains = Vec::new();
    for lines in [97, 128, 160, 192] {
        gains.push(100.0 * (1.0 - latency(seven, lines)? / latency(two, lines)?));
    }
    let both = mb_per_s(Algorithm::ScatterAllgather, LONG)?;
    let rates = [mb_per_s(two, LONG)?, mb_per_s(seven, LONG)?, mb_per_s(all, LONG)?];
    let [r2, r7, r47] = rates;
    let ratios = [r2 / both, r7 / both, r47 / both];
    let drops = |more: usize| -> Result<Vec<f64>> {
        let drop = |algorithm| {
            Ok(100.0 * (1.0 - mb_per_s(algorithm, more + 1)? / mb_per_s(algorithm, more)?))
        };
        [two, seven, all].into_iter().map(drop).collect()
    };
    let (after_one, after_many) = (drops(CHUNK)?, drops(100 * CHUNK)?);
    Ok(vec![
        Check::value("k = 7, 1 line", "µs", 16.6, one, 0.20),
        Check::value("binomial, 1 line", "µs", 21.6, binomial, 0.20),
        Check::value("binomial / k = 7, 1 line", "", 21.6 / 16.6, binomial / one, 0.10),
        Check::statement(
            "for message size between 96 and 192 cache lines, the latency of OC-Bcast with k = 7 is around 25% \
             better than with k = 2",
            format!("{gains:.0?}% with 97, 128, 160, 192 lines"),
            gains.iter().all(|gain| (20.0..30.0).contains(gain)),
        )
        .limit("more than 30% just after a chunk"),
        Check::value("k = 2, 1 MB (table 4.2)", "MB/s", 35.22, r2, 0.05).limit(SLOW),
        Check::value("k = 7, 1 MB (table 4.2)", "MB/s", 34.30, r7, 0.05).limit(SLOW),
        Check::value("k = 47, 1 MB (84% of table 4.2)", "MB/s", 0.84 * 35.88, r47, 0.05)
            .limit(SLOW),
        Check::statement(
            "OC-Bcast gives an almost threefold throughput increase compared to the two-sided scatter-allgather",
            format!("{ratios:.2?} with k = 2, 7, 47"),
            (2.4..3.0).contains(&ratios[0]) && (2.4..3.0).contains(&ratios[1]),
        ),
        Check::statement(
            "OC-Bcast with k = 47 is slightly outperformed by the counterparts with lower values of k",
            format!("{rates:.1?} MB/s with k = 2, 7, 47"),
            r47 < r2 && r47 < r7,
        ),
        Check::statement(
            "performance drop for a message of 97 cache lines […] For large messages, this effect becomes negligible",
            format!("{after_one:.1?}% after one chunk, {after_many:.1?}% after 100"),
            after_one.iter().all(|&drop| drop > 3.0) && after_many.iter().all(|&drop| drop < 1.0),
        ),
    ])
}
