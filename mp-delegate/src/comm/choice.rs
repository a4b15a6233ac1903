//! Which thread of a set carries a send out.

/// How a delegated sender chooses among the threads it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Always the same one: this of the set, counted from 0.
    Fixed(usize),
    /// One after another.
    #[default]
    RoundRobin,
    /// The one with the fewest bytes to copy. Knowing that costs every send to these threads
    /// another line transfer: for large messages of different sizes.
    LeastLoaded,
    /// One after another, and only where that [pays](super::pays): a message that is copied sooner
    /// than it is delegated is sent by the caller, and so is every message if the threads have no
    /// [spare](super::Builder::spare) hardware thread to run on, which is counted where nobody said it.
    /// Otherwise what goes into a full channel is
    /// delegated whatever its size, so that the call returns at once; and so it is in a channel of
    /// degree 0, or with several senders or receivers, where the caller can't know before.
    Auto,
}

impl Choice {
    /// Chooses one of `count`, of those that are `open`. `turn` is the sender's memory.
    #[inline]
    pub(super) fn choose(
        self,
        count: usize,
        turn: &mut usize,
        open: impl Fn(usize) -> bool,
        load: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let next = |at: usize| if at + 1 >= count { 0 } else { at + 1 };
        match self {
            Self::Fixed(index) => (index < count && open(index)).then_some(index),
            Self::RoundRobin | Self::Auto => {
                let mut at = *turn;
                for _ in 0..count {
                    let this = at;
                    at = next(at);
                    if open(this) {
                        *turn = at;
                        return Some(this);
                    }
                }
                None
            }
            Self::LeastLoaded => {
                // Of several with the same load, each in turn.
                *turn = next(*turn);
                let from = *turn;
                (0..count)
                    .map(|i| if from + i >= count { from + i - count } else { from + i })
                    .filter(|&index| open(index))
                    .min_by_key(|&index| load(index))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: Choice, open: &[bool], load: &[u64], times: usize) -> Vec<Option<usize>> {
        let mut turn = 0;
        (0..times).map(|_| choice.choose(open.len(), &mut turn, |i| open[i], |i| load[i])).collect()
    }

    #[test]
    fn each_in_turn_but_the_closed_ones() {
        let some = |list: &[usize]| list.iter().map(|&i| Some(i)).collect::<Vec<_>>();
        let all = [true; 3];
        assert_eq!(chosen(Choice::RoundRobin, &all, &[], 5), some(&[0, 1, 2, 0, 1]));
        let two = [true, false, true];
        assert_eq!(chosen(Choice::RoundRobin, &two, &[], 4), some(&[0, 2, 0, 2]));
        assert_eq!(chosen(Choice::RoundRobin, &[false; 2], &[], 2), [None, None]);
        assert_eq!(chosen(Choice::RoundRobin, &[], &[], 1), [None]);
    }

    #[test]
    fn a_fixed_one_or_none() {
        assert_eq!(chosen(Choice::Fixed(1), &[true, true], &[], 2), [Some(1), Some(1)]);
        assert_eq!(chosen(Choice::Fixed(1), &[true, false], &[], 1), [None]);
        assert_eq!(chosen(Choice::Fixed(2), &[true, true], &[], 1), [None]);
    }

    #[test]
    fn the_least_loaded_one_that_is_open() {
        assert_eq!(chosen(Choice::LeastLoaded, &[true; 3], &[5, 2, 9], 1), [Some(1)]);
        assert_eq!(chosen(Choice::LeastLoaded, &[true, false, true], &[5, 2, 9], 1), [Some(0)]);
        assert_eq!(chosen(Choice::LeastLoaded, &[false], &[0], 1), [None]);
        let mut equal = chosen(Choice::LeastLoaded, &[true; 3], &[1; 3], 3);
        equal.sort();
        assert_eq!(equal, [Some(0), Some(1), Some(2)]);
    }
}
