//! Least squares. The error of each point counts relative to its size: otherwise the longest copies alone would decide.

use mp_core::calibrate::Point;
use mp_model::Time;

/// Converts picoseconds; negative values become zero.
pub(super) fn time(picos: f64) -> Time {
    Time::from_picos(picos.max(0.0).round() as u64)
}

/// Fits a + bn.
pub(super) fn straight(points: &[Point]) -> Option<[f64; 2]> {
    solve(points, |n| [1.0, n])
}

/// Fits q, o and p of q + oN − p/N, none of them negative; p or q is left out where it would be negative. Returns
/// `None` where more lines do not take longer.
pub(super) fn lines(points: &[Point]) -> Option<[Time; 3]> {
    let curved = solve(points, |n| [1.0, n, -1.0 / n]);
    let plausible = |&[q, o, p]: &[f64; 3]| q >= 0.0 && o > 0.0 && p >= 0.0 && p <= q + o;
    let fitted = curved.filter(plausible).or_else(|| {
        let [q, o] = straight(points)?;
        let [o] = if q < 0.0 { solve(points, |n| [n])? } else { [o] };
        Some([q.max(0.0), o, 0.0])
    })?;
    (fitted[1] > 0.0).then(|| fitted.map(time))
}

/// Returns the coefficients of N terms that fit best, or `None` where the points do not determine them.
fn solve<const N: usize>(points: &[Point], terms: impl Fn(f64) -> [f64; N]) -> Option<[f64; N]> {
    // Normal equations, and the right side beside each.
    let mut rows = [[0.0; N]; N];
    let mut right = [0.0; N];
    for point in points {
        let value = point.sample.median as f64;
        let weight = 1.0 / value.max(1.0).powi(2);
        let terms = terms(point.n as f64);
        for (row, term) in terms.iter().enumerate() {
            right[row] += weight * term * value;
            for (column, other) in terms.iter().enumerate() {
                rows[row][column] += weight * term * other;
            }
        }
    }
    for step in 0..N {
        let pivot =
            (step..N).max_by(|&a, &b| rows[a][step].abs().total_cmp(&rows[b][step].abs()))?;
        rows.swap(step, pivot);
        right.swap(step, pivot);
        let scale = rows[step][step];
        if scale.abs() < 1e-30 {
            return None;
        }
        for other in (0..N).filter(|&other| other != step) {
            let factor = rows[other][step] / scale;
            let pivot = rows[step];
            rows[other].iter_mut().zip(pivot).for_each(|(value, of)| *value -= factor * of);
            right[other] -= factor * right[step];
        }
    }
    let found = std::array::from_fn(|row| right[row] / rows[row][row]);
    found.iter().all(|value: &f64| value.is_finite()).then_some(found)
}
