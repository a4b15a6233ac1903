//! Asynchronous OC-Bcast, simulated (section 3.3.4).

use super::{oc_bcast, scc};
use crate::experiments::{self, ExperimentError};
use crate::figures::{Check, Figure, Plot, Result, Series};
use mp_collectives::broadcast::Leaves;
use mp_collectives::broadcast::asynchronous::AsyncOptions;

/// Table 3.1: latency with all cores as children of the source.
pub(super) fn table_3_1() -> Result<Figure> {
    let mut checks = Vec::new();
    for (lines, published) in [(1, 44.1), (32, 75.8), (64, 112.7), (128, 198.6)] {
        let ours = experiments::latency(&scc(), oc_bcast(47), lines)?.as_micros();
        checks.push(Check::value(format!("OC-Bcast, {lines} lines"), "µs", published, ours, 0.12));
    }
    for (leaves, name) in [(Leaves::ByMpb, "by MPB"), (Leaves::Direct, "direct")] {
        for (lines, published) in [(1, 40.2), (32, 75.5), (64, 118.0), (128, 196.7)] {
            let options = AsyncOptions { leaves, ..AsyncOptions::scc(47) };
            let ours = experiments::async_latency(&scc(), options, lines)?.as_micros();
            let what = format!("asynchronous, {lines} lines, {name}");
            checks.push(Check::value(what, "µs", published, ours, 0.20));
        }
    }
    Ok(Figure {
        title: "latency of synchronous and asynchronous broadcasts, k = 47 (MARC, table I)".to_owned(),
        about: "The papers do not say whether a child without children gets a chunk by way of its own MPB or directly; \
                both are here. For long messages the published values lie between the two."
            .to_owned(),
        checks,
        ..Figure::default()
    })
}

/// The numbers of sources in figure 3.4.
const SOURCES: [usize; 3] = [1, 5, 48];

fn throughput(degree: usize, sources: usize) -> std::result::Result<f64, ExperimentError> {
    let times = (240 / sources).clamp(5, 40);
    experiments::async_mb_per_s(&scc(), AsyncOptions::scc(degree), sources, 128, times)
}

/// Figure 3.4: throughput of concurrent broadcasts.
pub(super) fn figure_3_4() -> Result<Figure> {
    let mut series = Vec::new();
    for sources in SOURCES {
        let name = if sources == 1 { "1 source".to_owned() } else { format!("{sources} sources") };
        let point = |degree| Ok((degree as f64, throughput(degree, sources)?));
        series.push(Series::line(name, (1..48).map(point).collect::<Result<Vec<_>>>()?));
    }
    let rates =
        |place: usize| series[place].points.iter().map(|&(_, rate)| rate).collect::<Vec<_>>();
    let [one, five, all] = [rates(0), rates(1), rates(2)];
    let best = all.iter().copied().fold(0.0, f64::max);
    let ratios = all.iter().zip(&five).map(|(all, five)| all / five);
    let (least, greatest) =
        ratios.fold((f64::MAX, 0.0_f64), |(a, b), ratio| (a.min(ratio), b.max(ratio)));
    let some = |rates: &[f64]| [1, 2, 5, 10, 24, 47].map(|degree| rates[degree - 1]);
    let checks = vec![
        Check::value(
            "the best with several sources (68% of 55 MB/s)",
            "MB/s",
            0.68 * 55.0,
            best,
            0.10,
        ),
        Check::statement(
            "With a single source, the throughput decreases as k increases",
            format!("{:.1?} MB/s with k = 1, 2, 5, 10, 24, 47", some(&one)),
            one.is_sorted_by(|before, after| before > after),
        )
        .limit("the other cores' farewells compete with the messages that are measured"),
        Check::statement(
            "With more than one source, the throughput increases",
            format!("5 sources: {:.1?}; 48: {:.1?} MB/s", some(&five), some(&all)),
            (0..47).all(|place| five[place] > one[place] && all[place] > one[place]),
        ),
        Check::statement(
            "the difference in throughput when broadcasting from 5 and 48 sources is not significant",
            format!("48 / 5 sources: {least:.2} to {greatest:.2}"),
            least > 0.8 && greatest < 1.25,
        ),
        Check::statement(
            "especially visible for smaller values of k, where each increase by 1 obviously increases the aggregate \
             throughput",
            format!("k = 1 to 6: {:.1?} and {:.1?} MB/s", &five[..6], &all[..6]),
            five[..6].is_sorted() && all[..6].is_sorted(),
        )
        .limit("with 48 sources, k = 1 has more throughput than k = 2"),
    ];
    let caption = "throughput of asynchronous broadcasts of 128 lines".to_owned();
    let plot = Plot { caption, across: "k", unit: "MB/s", series, ..Plot::default() };
    Ok(Figure {
        title: "throughput of concurrent asynchronous broadcasts (MARC, figure 3)".to_owned(),
        about: "Each source broadcasts messages of 128 lines in a row. Of the values, the thesis prints one: “Our \
                algorithm achieves 68%” of “about 55 MB/s”."
            .to_owned(),
        plots: vec![plot],
        checks,
    })
}
