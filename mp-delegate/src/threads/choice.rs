//! The choice of a thread for each send.

/// How a delegated sender chooses among the threads it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Always the same thread: the one at this position in the set, counted from 0.
    Fixed(usize),
    /// One thread after another.
    #[default]
    RoundRobin,
    /// The thread with the fewest bytes to copy. Tracking this costs another line transfer for every send to these
    /// threads. Use it for large messages of different sizes.
    LeastLoaded,
    /// One thread after another, and only where that [pays](super::pays). The caller sends a message itself if copying
    /// it takes less time than delegating it. The caller also sends every message itself if the threads have no
    /// [spare](super::Builder::spare) hardware thread to run on, which is counted if the program did not set it.
    ///
    /// Otherwise a message for a full channel is delegated whatever its size, so that the call returns at once. The
    /// same applies to a channel of degree 0, and to a channel with several senders or receivers, where the caller
    /// can't know in advance whether there is room.
    Auto,
}

impl Choice {
    /// Chooses one of `count` threads among those that are `open`. `turn` is the position that the sender keeps between
    /// calls.
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
                // Threads with the same load take turns.
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
