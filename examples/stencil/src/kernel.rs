//! The arithmetic of a step.
//!
//! The sum is taken in the order of algorithm 1 and divided by 5, never multiplied by a fifth and
//! never contracted: so every mode gives the same bits, in vectors of whatever width.

use multiversion::multiversion;

/// Computes one row after a step. `row` is the row itself, with one element more at both ends.
///
/// # Panics
/// When the lengths do not fit.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
pub fn row_with_ends(above: &[f64], row: &[f64], below: &[f64], out: &mut [f64]) {
    // In the loop all slices have one length, so that it has no checks and becomes vectors.
    let len = out.len();
    assert!(above.len() == len && below.len() == len && row.len() == len + 2, "rows of one length");
    let (left, own, right) = (&row[..len], &row[1..][..len], &row[2..][..len]);
    for j in 0..len {
        out[j] = (own[j] + above[j] + below[j] + left[j] + right[j]) / 5.0;
    }
}

/// Computes one row after a step, with zeros beyond its ends.
///
/// # Panics
/// When the rows are not of one length.
pub fn row(above: &[f64], row: &[f64], below: &[f64], out: &mut [f64]) {
    let Some(last) = out.len().checked_sub(1) else { return };
    if last >= 1 {
        row_with_ends(&above[1..last], row, &below[1..last], &mut out[1..last]);
    }
    for j in [0, last] {
        let left = if j > 0 { row[j - 1] } else { 0.0 };
        let right = if j < last { row[j + 1] } else { 0.0 };
        out[j] = (row[j] + above[j] + below[j] + left + right) / 5.0;
    }
}

/// Computes the rows of a block after a step that have both neighbours in it: all but the first and the last. Rows have
/// `width` elements.
pub fn inner_rows(now: &[f64], next: &mut [f64], width: usize) {
    let rows = next.chunks_exact_mut(width).skip(1);
    for (three, out) in now.windows(3 * width).step_by(width).zip(rows) {
        row(&three[..width], &three[width..][..width], &three[2 * width..], out);
    }
}

/// Computes the first and the last row of a block after a step. `north` and `south` are the rows above and below. In a
/// block of one row, that row is both.
pub fn border_rows(now: &[f64], next: &mut [f64], width: usize, north: &[f64], south: &[f64]) {
    let Some(last) = now.len().checked_sub(width) else { return };
    let below = if last > 0 { &now[width..][..width] } else { south };
    row(north, &now[..width], below, &mut next[..width]);
    if last > 0 {
        row(&now[last - width..last], &now[last..], south, &mut next[last..]);
    }
}

/// Returns by how much the element changed that changed most, or 0 if there is none.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
pub fn largest_change(before: &[f64], after: &[f64]) -> f64 {
    const LANES: usize = 16;
    // Unlike `f64::max`, this is one instruction. There are no NaNs.
    let larger = |a: f64, b: f64| if a > b { a } else { b };
    let (befores, before) = before.as_chunks::<LANES>();
    let (afters, after) = after.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (before, after) in befores.iter().zip(afters) {
        for lane in 0..LANES {
            lanes[lane] = larger((after[lane] - before[lane]).abs(), lanes[lane]);
        }
    }
    let rest = before.iter().zip(after).map(|(before, after)| (after - before).abs());
    lanes.into_iter().chain(rest).fold(0.0, larger)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Algorithm 1 in its own words, for rows and columns from 1, and zeros around.
    fn reference(now: &[f64], rows: usize, width: usize) -> Vec<f64> {
        let a = |i: usize, j: usize| {
            let inside = (1..=rows).contains(&i) && (1..=width).contains(&j);
            if inside { now[(i - 1) * width + j - 1] } else { 0.0 }
        };
        let mut next = Vec::new();
        for i in 1..=rows {
            for j in 1..=width {
                next.push((a(i, j) + a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1)) / 5.0);
            }
        }
        next
    }

    proptest! {
        #[test]
        fn blocks_are_as_algorithm_1_says(
            rows in 0..6usize,
            width in 1..70usize,
            cells in proptest::collection::vec(-1e3..1e3f64, 6 * 70),
        ) {
            let now = &cells[..rows * width];
            let (mut next, zeros) = (vec![f64::NAN; now.len()], vec![0.0; width]);
            inner_rows(now, &mut next, width);
            border_rows(now, &mut next, width, &zeros, &zeros);
            let bits = |cells: &[f64]| cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&next), bits(&reference(now, rows, width)));
        }

        #[test]
        fn the_largest_change_is_found(
            cells in proptest::collection::vec((-1e3..1e3f64, -1e3..1e3f64), 0..100),
        ) {
            let (before, after): (Vec<f64>, Vec<f64>) = cells.iter().copied().unzip();
            let largest = cells.iter().map(|(a, b)| (b - a).abs()).fold(0.0, f64::max);
            prop_assert_eq!(largest_change(&before, &after), largest);
        }
    }

    #[test]
    fn rows_around_the_size_of_a_vector() {
        for width in (1..40).chain([63, 64, 65, 1079, 1080]) {
            let now: Vec<f64> = (0..3 * width).map(|i| (i * i % 101) as f64 - 50.0).collect();
            let (mut next, zeros) = (vec![f64::NAN; now.len()], vec![0.0; width]);
            inner_rows(&now, &mut next, width);
            assert!(next[..width].iter().chain(&next[2 * width..]).all(|cell| cell.is_nan()));
            border_rows(&now, &mut next, width, &zeros, &zeros);
            assert_eq!(next, reference(&now, 3, width), "{width}");
        }
    }
}
