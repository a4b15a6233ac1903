//! What the programs in `benches/peers` print.

use crate::rivals::contest::Shown;
use crate::rivals::failed;
use crate::row::Trouble;

/// Finds the line that the programs in `benches/peers` print, which has this number of values, followed by the probes.
/// Launchers may print other lines around it.
pub fn figures(output: &str, values: usize) -> Result<Shown, Trouble> {
    let line = output.lines().find_map(|line| {
        let figures: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        figures.ok().filter(|figures| figures.len() == values + 2)
    });
    let mut values = line.ok_or_else(|| failed(format!("no figures in its output: {output:?}")))?;
    let after = values.pop().unwrap_or(0.0);
    let before = values.pop().unwrap_or(0.0);
    let probes = (before > 0.0 && after > 0.0).then_some([before, after]);
    Ok(Shown { values, probes })
}
