//! How long a collective operation takes that every rank times by itself: there is more than one
//! answer, and each is of use.

/// What every rank gave has one length.
fn each(ranks: &[Vec<f64>]) -> usize {
    ranks.iter().map(Vec::len).min().unwrap_or(0)
}

/// Of each batch what the slowest rank took: `ranks` gave one figure a batch.
pub fn slowest(ranks: &[Vec<f64>]) -> Vec<f64> {
    let slowest = |batch: usize| ranks.iter().map(|rank| rank[batch]).fold(f64::MIN, f64::max);
    (0..each(ranks)).map(slowest).collect()
}

/// Of each operation the longest that a rank was in it: `ranks` gave begin, end, begin, end...
pub fn longest(ranks: &[Vec<f64>]) -> Vec<f64> {
    let stays: Vec<Vec<f64>> = ranks
        .iter()
        .map(|rank| rank.as_chunks().0.iter().map(|[begin, end]| end - begin).collect())
        .collect();
    slowest(&stays)
}

/// Of each operation the time from when the last rank entered it until the last one left it:
/// `ranks` gave begin, end, begin, end... by a clock that is the same for all.
pub fn last_in_to_last_out(ranks: &[Vec<f64>]) -> Vec<f64> {
    let lasts = slowest(ranks);
    lasts.as_chunks().0.iter().map(|[begin, end]| end - begin).collect()
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
        // The first operation: in at 10 and 14, out at 19 and 16. The second: one inside the other.
        let ranks = [vec![10.0, 19.0, 30.0, 40.0], vec![14.0, 16.0, 31.0, 32.0]];
        assert_eq!(longest(&ranks), [9.0, 10.0]);
        assert_eq!(last_in_to_last_out(&ranks), [5.0, 9.0]);
        // An end without its beginning is none.
        assert_eq!(longest(&[vec![1.0, 2.0, 3.0]]), [1.0]);
    }
}
