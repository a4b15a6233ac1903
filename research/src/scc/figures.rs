//! The published curves and numbers of chapter 4, as data.

use super::{CHUNK_LINES, CORES, Parameters};
use mp_model::Time;
use mp_model::tree::{Shape, TreeError};

/// The degrees that the thesis shows: the least with any parallelism, the least with a depth of two, and one with all
/// ranks as children of the root (section 3.3.1).
pub const DEGREES: [usize; 3] = [2, 7, 47];

/// One message size of figure 4.5.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The message's size.
    pub lines: u64,
    /// OC-Bcast with each of [`DEGREES`] (formula 4.21).
    pub oc_bcast: [Time; 3],
    /// The two-sided binomial tree (formula 4.22).
    pub binomial: Time,
}

/// The curves of figure 4.5: from one line to two chunks on all cores. Figure 4.5b is their part up to [`SHORT_LINES`].
///
/// # Errors
/// Does not fail with the values of [`DEGREES`] and [`CORES`].
pub fn figure_4_5(parameters: &Parameters) -> Result<Vec<Latency>, TreeError> {
    let [a, b, c] = DEGREES;
    let shapes = [Shape::new(CORES, a)?, Shape::new(CORES, b)?, Shape::new(CORES, c)?];
    let point = |lines| Latency {
        lines,
        oc_bcast: shapes.map(|shape| parameters.oc_bcast_latency(shape, lines)),
        binomial: parameters.binomial_latency(CORES as u64, lines),
    };
    Ok((1..=2 * CHUNK_LINES).map(point).collect())
}

/// The end of figure 4.5b.
pub const SHORT_LINES: u64 = 30;

/// A row of table 4.2.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// The algorithm, as the table names it.
    pub algorithm: String,
    /// The published value, in MB/s.
    pub published: f64,
    /// The value of the formulas, in MB/s.
    pub computed: f64,
}

/// Table 4.2: throughput of long messages by formulas 4.23 and 4.24.
///
/// # Errors
/// Does not fail with the values of [`DEGREES`] and [`CORES`].
pub fn table_4_2(parameters: &Parameters) -> Result<Vec<Throughput>, TreeError> {
    let mut rows = Vec::new();
    for (degree, published) in DEGREES.into_iter().zip([35.22, 34.30, 35.88]) {
        rows.push(Throughput {
            algorithm: format!("OC-Bcast, k = {degree}"),
            published,
            computed: parameters.oc_bcast_mb_per_s(Shape::new(CORES, degree)?),
        });
    }
    rows.push(Throughput {
        algorithm: "scatter-allgather".to_owned(),
        published: 13.38,
        computed: parameters.scatter_allgather_mb_per_s(CORES as u64, CHUNK_LINES),
    });
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_changes_after_a_chunk() {
        let curve = figure_4_5(&Parameters::TABLE_4_1).unwrap();
        assert_eq!(curve.first().map(|point| point.lines), Some(1));
        assert_eq!(curve.last().map(|point| point.lines), Some(192));
        // Checks the slope from the point at which the last leaf is slower than a polling parent: two lines with k = 7.
        for (place, degree) in [2, 7].into_iter().enumerate() {
            let step =
                |index: usize| curve[index + 1].oc_bcast[place] - curve[index].oc_bcast[place];
            let (before, after) = (step(50), step(150));
            assert!(after < before, "k = {degree}: {before}, {after}");
            assert!((1..95).all(|index| step(index) == before), "k = {degree}");
            assert!((97..191).all(|index| step(index) == after), "k = {degree}");
        }
    }
}
