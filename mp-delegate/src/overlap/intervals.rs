//! Arithmetic on sets of time.

/// A set of times: intervals that do not include their ends, ascending and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times(Vec<(u64, u64)>);

impl Times {
    /// Returns the times in any of these intervals, which may be empty, overlap, and come in any order.
    pub(super) fn any_of(intervals: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<(u64, u64)> =
            intervals.into_iter().filter(|(start, end)| start < end).collect();
        all.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match joined.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// Returns the total length.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns the times in both sets.
    pub(super) fn and(&self, other: &Self) -> Self {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(start, end)), Some(&&(from, to))) = (ours.peek(), theirs.peek()) {
            if start.max(from) < end.min(to) {
                both.push((start.max(from), end.min(to)));
            }
            // The interval that ends first can't meet later ones.
            if end < to {
                ours.next();
            } else {
                theirs.next();
            }
        }
        Self(both)
    }

    /// Returns the times in this set that are not in the other.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut others = other.0.iter().peekable();
        for &(mut start, end) in &self.0 {
            while let Some(&&(from, to)) = others.peek() {
                if from >= end {
                    break;
                }
                if start < from {
                    rest.push((start, from));
                }
                start = start.max(to);
                if to > end {
                    // The other interval may take from the next one as well.
                    break;
                }
                others.next();
            }
            if start < end {
                rest.push((start, end));
            }
        }
        Self(rest)
    }

    /// Returns the length of the times within an interval.
    pub(super) fn length_within(&self, start: u64, end: u64) -> u64 {
        let first = self.0.partition_point(|&(_, to)| to <= start);
        let meeting = self.0[first..].iter().take_while(|(from, _)| *from < end);
        meeting.map(|&(from, to)| to.min(end).saturating_sub(from.max(start))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HORIZON: u64 = 60;

    fn intervals() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0..HORIZON, 0..HORIZON), 0..12)
    }

    /// Returns the instants for which `wanted` is true.
    fn sampled(wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        (0..HORIZON).filter(|&at| wanted(at)).collect()
    }

    fn instants(times: &Times) -> Vec<u64> {
        sampled(|at| times.0.iter().any(|&(start, end)| (start..end).contains(&at)))
    }

    fn within(intervals: &[(u64, u64)], at: u64) -> bool {
        intervals.iter().any(|&(start, end)| (start..end).contains(&at))
    }

    /// Ascending, apart, none empty.
    fn assert_sound(times: &Times) {
        assert!(times.0.iter().all(|(start, end)| start < end), "{times:?}");
        assert!(times.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{times:?}");
    }

    proptest! {
        #[test]
        fn sets_are_what_sampling_says(
            one in intervals(),
            other in intervals(),
            window in (0..HORIZON, 0..HORIZON),
        ) {
            let (a, b) = (Times::any_of(one.clone()), Times::any_of(other.clone()));
            assert_sound(&a);
            prop_assert_eq!(instants(&a), sampled(|at| within(&one, at)));
            prop_assert_eq!(a.length(), instants(&a).len() as u64);

            let both = a.and(&b);
            assert_sound(&both);
            prop_assert_eq!(instants(&both), sampled(|at| within(&one, at) && within(&other, at)));
            prop_assert_eq!(&both, &b.and(&a));

            let rest = a.without(&b);
            assert_sound(&rest);
            prop_assert_eq!(instants(&rest), sampled(|at| within(&one, at) && !within(&other, at)));
            prop_assert_eq!(both.length() + rest.length(), a.length());

            let (start, end) = window;
            let inside = instants(&a).into_iter().filter(|at| (start..end).contains(at));
            prop_assert_eq!(a.length_within(start, end), inside.count() as u64);
        }
    }

    #[test]
    fn the_largest_times_are_times_too() {
        let all = Times::any_of([(0, u64::MAX)]);
        assert_eq!(all.without(&Times::any_of([(1, u64::MAX - 1)])).length(), 2);
        assert_eq!(all.length_within(5, u64::MAX), u64::MAX - 5);
        assert_eq!(all.and(&Times::default()), Times::default());
    }
}
