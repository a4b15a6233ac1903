//! What the thesis computes by formulas alone (section 4.3).

use std::ops::Range;

use super::machine::{DEGREES, LINES, name, oc_bcast};
use crate::experiments::Algorithm;
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::scc::{CHUNK_LINES, CORES, Parameters};
use mp_model::tree::{Shape, TreeError};

/// The end of figure 4.5b.
const SHORT_LINES: u64 = 30;

/// Figure 4.5: latency by formulas 4.21 and 4.22.
pub(super) fn figure_4_5() -> Result<Figure> {
    let of_text = Parameters::TABLE_4_1;
    let of_table = Parameters::TABLE_4_2;
    let oc = |costs: Parameters, degree, lines| {
        Ok::<_, TreeError>(costs.oc_bcast_latency(Shape::new(CORES, degree)?, lines).as_micros())
    };
    let binomial = |lines| of_text.binomial_latency(CORES as u64, lines).as_micros();
    let plot = |part, last| {
        let mut series = Vec::new();
        for degree in DEGREES {
            let point = |lines| Ok((lines as f64, oc(of_text, degree, lines)?));
            let points = (1..=last).map(point).collect::<Result<Vec<_>>>()?;
            series.push(Series::line(name(oc_bcast(degree)), points));
        }
        let points = (1..=last).map(|lines| (lines as f64, binomial(lines)));
        series.push(Series::line(name(Algorithm::Binomial), points));
        let caption = "latency by formulas 4.21 and 4.22".to_owned();
        Result::Ok(Plot { part, caption, across: LINES, unit: "µs", series, ..Plot::default() })
    };
    let [two, seven, all] = DEGREES;
    let steps = |range: Range<u64>| -> Result<(f64, f64)> {
        let (mut least, mut greatest) = (f64::MAX, 0.0_f64);
        for lines in range {
            let step = oc(of_text, seven, lines + 1)? - oc(of_text, seven, lines)?;
            (least, greatest) = (least.min(step), greatest.max(step));
        }
        Ok((least, greatest))
    };
    // From two lines of a chunk on, the last leaf is slower than a polling parent.
    let (before, after) = (steps(2..CHUNK_LINES)?, steps(CHUNK_LINES + 2..2 * CHUNK_LINES)?);
    let gain = |lines| Ok::<_, TreeError>(binomial(lines) / oc(of_text, seven, lines)?);
    let gains = [20, 96, 180].map(gain).into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    let short = |costs, lines| {
        Ok::<_, TreeError>((
            oc(costs, all, lines)?,
            oc(costs, two, lines)?.max(oc(costs, seven, lines)?),
        ))
    };
    let (by_table, by_text) = (short(of_table, 1)?, short(of_text, 1)?);
    let from = (1..=2 * CHUNK_LINES)
        .find(|&lines| oc(of_text, seven, lines).is_ok_and(|oc| oc < binomial(lines)));
    Ok(Figure {
        title: "analytical latency of OC-Bcast and the two-sided binomial tree (SPAA, figure 6)"
            .to_owned(),
        about: "Formulas 4.21 and 4.22, with the costs of table 4.1.".to_owned(),
        plots: vec![plot("a", 2 * CHUNK_LINES)?, plot("b", SHORT_LINES)?],
        checks: vec![
            Check::statement(
                "OC-Bcast significantly outperforms the binomial tree algorithm",
                format!("with k = 7, from {} lines on", from.unwrap_or_default()),
                from == Some(1),
            ),
            Check::statement(
                "The difference increases as the message size increases",
                format!("binomial / k = 7 with 20, 96, 180 lines: {gains:.2?}"),
                gains.is_sorted(),
            ),
            Check::statement(
                "the slope changes for messages larger than M_OC-Bcast (96 cache lines)",
                format!(
                    "k = 7, for a line more: {:.3} to {:.3} µs, then {:.3} to {:.3} µs",
                    before.0, before.1, after.0, after.1
                ),
                after.1 < before.0 && before.1 - before.0 < 1e-6 && after.1 - after.0 < 1e-6,
            ),
            Check::statement(
                "OC-Bcast-47 is slower for very small messages in spite of having only two levels",
                format!(
                    "one line: {:.1} µs, others up to {:.1}; if flags are read as in table 4.2: {:.1} and {:.1} µs",
                    by_text.0, by_text.1, by_table.0, by_table.1
                ),
                by_text.0 > by_text.1 && by_table.0 > by_table.1,
            ),
        ],
    })
}

/// Table 4.2: throughput by formulas 4.23 and 4.24.
pub(super) fn table_4_2() -> Result<Figure> {
    let mut checks = Vec::new();
    for (degree, published) in DEGREES.into_iter().zip([35.22, 34.30, 35.88]) {
        let shape = Shape::new(CORES, degree)?;
        for (how, costs, within) in [
            ("as in the text", Parameters::TABLE_4_1, 0.04),
            ("by a get", Parameters::TABLE_4_2, 0.0002),
        ] {
            let what = format!("OC-Bcast, k = {degree}, flags read {how}");
            checks.push(Check::value(
                what,
                "MB/s",
                published,
                costs.oc_bcast_mb_per_s(shape),
                within,
            ));
        }
    }
    let both = Parameters::TABLE_4_1.scatter_allgather_mb_per_s(CORES as u64, CHUNK_LINES);
    checks.push(Check::value("scatter-allgather", "MB/s", 13.38, both, 0.04));
    Ok(Figure {
        title: "analytical throughput (SPAA, table 2)".to_owned(),
        about: "Formulas 4.23 and 4.24. The text reads a flag by one access to an MPB. The printed values come out \
                to the last digit if each read also has the overhead of a `get`."
            .to_owned(),
        checks,
        ..Figure::default()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn formulas_are_as_published() {
        super::figure_4_5().unwrap().assert();
        super::table_4_2().unwrap().assert();
    }
}
