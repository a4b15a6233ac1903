//! The time of a collective operation that every rank times by itself. There are several definitions, and each is
//! useful.

/// Returns the common length of all ranks' times.
fn each(ranks: &[Vec<f64>]) -> usize {
    ranks.iter().map(Vec::len).min().unwrap_or(0)
}

/// Returns the time of the slowest rank in each batch. `ranks` holds one figure for each batch.
pub fn slowest(ranks: &[Vec<f64>]) -> Vec<f64> {
    let slowest = |batch: usize| ranks.iter().map(|rank| rank[batch]).fold(f64::MIN, f64::max);
    (0..each(ranks)).map(slowest).collect()
}

/// Returns for each operation the longest time that a rank was in it. `ranks` holds begin, end, begin, end...
pub fn longest(ranks: &[Vec<f64>]) -> Vec<f64> {
    let stays: Vec<Vec<f64>> = ranks
        .iter()
        .map(|rank| rank.as_chunks().0.iter().map(|[begin, end]| end - begin).collect())
        .collect();
    slowest(&stays)
}

/// Returns for each operation the time from the last rank's entry to the last rank's exit. `ranks` holds begin, end,
/// begin, end... by a clock that all ranks share.
pub fn last_in_to_last_out(ranks: &[Vec<f64>]) -> Vec<f64> {
    let lasts = slowest(ranks);
    lasts.as_chunks().0.iter().map(|[begin, end]| end - begin).collect()
}

/// Returns the mean of the middle half. It is as robust against disturbances as the median, and finer than the steps of
/// the clock, which can be ten nanoseconds while the operations take fifty.
///
/// # Panics
/// If there are no values.
pub fn middle(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "no values have no middle");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let half = &sorted[quarter..sorted.len() - quarter];
    half.iter().sum::<f64>() / half.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_batch_by_its_slowest_rank() {
        assert_eq!(slowest(&[vec![3.0, 1.0], vec![2.0, 5.0]]), [3.0, 5.0]);
        assert_eq!(slowest(&[vec![3.0]]), [3.0]);
        assert_eq!(slowest(&[vec![3.0], vec![]]), [0.0; 0]);
        assert_eq!(slowest(&[]), [0.0; 0]);
    }

    #[test]
    fn one_rank_is_early_another_late() {
        // In the first operation, ranks enter at 10 and 14, and leave at 19 and 16. In the second, one rank is in it
        // only while the other is.
        let ranks = [vec![10.0, 19.0, 30.0, 40.0], vec![14.0, 16.0, 31.0, 32.0]];
        assert_eq!(longest(&ranks), [9.0, 10.0]);
        assert_eq!(last_in_to_last_out(&ranks), [5.0, 9.0]);
        // A begin without an end is ignored.
        assert_eq!(longest(&[vec![1.0, 2.0, 3.0]]), [1.0]);
    }

    #[test]
    fn the_middle_leaves_out_both_ends() {
        assert_eq!(middle(&[5.0]), 5.0);
        assert_eq!(middle(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(middle(&[1e9, 3.0, 4.0, -1e9]), 3.5);
        assert_eq!(middle(&[50.0, 60.0, 50.0, 60.0, 60.0, 60.0, 1e6, 0.0]), 57.5);
    }
}
