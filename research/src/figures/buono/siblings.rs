//! What a second thread on each core is best used for: figure 8.

use super::given::limited;
use super::stencil::{BANDWIDTH, LARGE, Matrix, SMALL};
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::smt::stencil::Version;

/// Returns what part of the time is saved with so many cores, in percent: by communication threads, and by twice as
/// many workers.
fn gains(matrix: Matrix, cores: usize) -> Result<(f64, f64)> {
    let without = matrix.time(cores, cores, Version::NoKt)?;
    let gain = |time: f64| 100.0 * (1.0 - time / without);
    let beside = matrix.time(cores, cores, Version::KtW)?;
    Ok((gain(beside), gain(matrix.time(2 * cores, cores, Version::NoKt)?)))
}

/// Figure 8: gains of two threads per core over one.
pub(super) fn figure_8() -> Result<Figure> {
    let curves = |matrix| (1..=60).map(|cores| gains(matrix, cores)).collect::<Result<Vec<_>>>();
    let (small, large) = (curves(SMALL)?, curves(LARGE)?);
    let plot = |part, caption: &str, gains: &[(f64, f64)]| {
        let by_cores = |of: fn(&(f64, f64)) -> f64| {
            gains.iter().enumerate().map(move |(at, gain)| ((at + 1) as f64, of(gain)))
        };
        Plot {
            part,
            caption: caption.to_owned(),
            across: "cores",
            unit: "% of the time saved",
            series: vec![
                Series::line("KT", by_cores(|gain| gain.0)),
                Series::line("MultiW", by_cores(|gain| gain.1)),
            ],
            ..Plot::default()
        }
    };
    let least_kt = small.iter().chain(&large).map(|gain| gain.0).fold(f64::MAX, f64::min);
    let first_is_most = |gains: &[(f64, f64)]| gains.iter().all(|gain| gain.1 <= gains[0].1 + 1e-6);
    let checks = vec![
        Check::value("MultiW, initial gain, 1080 × 1080", "%", 33.0, small[0].1, 0.05),
        Check::value("MultiW, 60 cores, 1080 × 1080, by table III", "%", 9.4, small[59].1, 0.2),
        Check::value("KT, 60 cores, 1080 × 1080, by table III", "%", 10.6, small[59].0, 0.2)
            .limit("the difference of two values that are each within 4%"),
        limited(
            Check::value("MultiW, 60 cores, 8640 × 8640", "%", -30.0, large[59].1, 0.2),
            BANDWIDTH,
        ),
        Check::statement(
            "for MultiW the gain is reduced when increasing the parallelism degree",
            format!(
                "from {:.0}% to {:.0}% and from {:.0}% to {:.0}%, never more than on one core",
                small[0].1, small[59].1, large[0].1, large[59].1
            ),
            first_is_most(&small) && first_is_most(&large) && small[59].1 < small[0].1 / 2.0,
        ),
        Check::statement(
            "In both benchmarks the application runs equally or faster",
            format!("KT gains {least_kt:.1}% or more on 1 to 60 cores, with either matrix"),
            least_kt > -0.1,
        ),
    ];
    Ok(Figure {
        title: "hardware threads for communication or for more workers".to_owned(),
        about: "The stencil with one communication thread beside each worker (KT), or with two workers on each core \
                (MultiW), compared with one worker on each core (No-KT)."
            .to_owned(),
        plots: vec![
            plot("a", "1080 × 1080", &small),
            plot("b", "8640 × 8640", &large),
        ],
        checks,
    })
}
