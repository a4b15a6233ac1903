//! The sides of grids that are as near to each other in length as possible.

/// Returns this many sides of a grid of `ranks`, in descending order. The longest and the shortest differ as little as
/// possible; of several such grids, this is the one whose shortest side is the longest, then the next to it, and so on.
/// Returns `None` if a grid of no sides is to have other than one rank, or any is to have none.
pub(crate) fn balanced(ranks: usize, sides: usize) -> Option<Vec<usize>> {
    let mut search =
        Search { divisors: divisors(ranks), sides: Vec::with_capacity(sides), best: None };
    search.look(ranks, sides, search.divisors.len());
    search.best
}

fn divisors(number: usize) -> Vec<usize> {
    let pairs = (1..).take_while(|&one: &usize| one * one <= number);
    let mut all: Vec<_> = pairs.filter(|&one| number.is_multiple_of(one)).collect();
    let others = all.iter().rev().map(|one| number / one).filter(|other| other * other > number);
    all.extend(others.collect::<Vec<_>>());
    all
}

/// A search through all grids.
struct Search {
    divisors: Vec<usize>,
    /// The sides of the grid that is being tried.
    sides: Vec<usize>,
    best: Option<Vec<usize>>,
}

impl Search {
    /// Tries all grids that begin with the sides chosen so far. Their other sides, `more` of them, are among the first
    /// `divisors` divisors, and their product is `rest`.
    fn look(&mut self, rest: usize, more: usize, divisors: usize) {
        if more == 0 {
            if rest == 1 && self.best.as_ref().is_none_or(|best| is_better(&self.sides, best)) {
                self.best = Some(self.sides.clone());
            }
            return;
        }
        for place in 0..divisors {
            let side = self.divisors[place];
            // The further sides are at most as long as this one, and long enough to be no worse than what was found.
            let is_enough = power(side, more) >= rest;
            if is_enough && rest.is_multiple_of(side) {
                self.sides.push(side);
                if power(self.shortest(), more - 1) <= rest / side && side >= self.shortest() {
                    self.look(rest / side, more - 1, place + 1);
                }
                self.sides.pop();
            }
        }
    }

    /// Returns how long each side has to be if the grid is to be as good as the best.
    fn shortest(&self) -> usize {
        match (&self.best, self.sides.first()) {
            (Some(best), Some(longest)) => longest.saturating_sub(difference(best)),
            _ => 1,
        }
    }
}

fn power(side: usize, times: usize) -> usize {
    u32::try_from(times).map_or(usize::MAX, |times| side.saturating_pow(times))
}

fn difference(sides: &[usize]) -> usize {
    sides.first().zip(sides.last()).map_or(0, |(longest, shortest)| longest - shortest)
}

fn is_better(sides: &[usize], best: &[usize]) -> bool {
    let shortest_first = || best.iter().rev().cmp(sides.iter().rev());
    difference(sides).cmp(&difference(best)).then_with(shortest_first).is_lt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all grids.
    fn all(ranks: usize, sides: usize, longest: usize) -> Vec<Vec<usize>> {
        if sides == 0 {
            return if ranks == 1 { vec![Vec::new()] } else { Vec::new() };
        }
        let firsts = (1..=ranks.min(longest)).filter(|&first| ranks.is_multiple_of(first));
        let with = |first| {
            let rest = all(ranks / first, sides - 1, first).into_iter();
            rest.map(move |rest| [vec![first], rest].concat())
        };
        firsts.flat_map(with).collect()
    }

    #[test]
    fn no_grid_is_more_balanced() {
        for ranks in 1..=400 {
            for sides in 1..=5 {
                let found = balanced(ranks, sides).unwrap();
                let all = all(ranks, sides, ranks);
                assert!(all.contains(&found), "{ranks} {sides}");
                let is_better = |other: &&Vec<usize>| is_better(other, &found);
                assert_eq!(all.iter().find(is_better), None, "{ranks} {found:?}");
            }
        }
    }

    #[test]
    fn of_grids_with_the_same_difference_that_with_the_longest_shortest_side_is_taken() {
        assert_eq!(difference(&[20, 18, 14]), difference(&[21, 16, 15]));
        assert_eq!(balanced(20 * 18 * 14, 3), Some(vec![21, 16, 15]));
        assert_eq!(balanced(30, 2), Some(vec![6, 5]));
        assert_eq!(balanced(24, 3), Some(vec![4, 3, 2]));
    }

    #[test]
    fn grids_of_any_number_of_ranks_are_found_at_once() {
        assert_eq!(balanced(2147483647, 3), Some(vec![2147483647, 1, 1]));
        assert_eq!(balanced(1 << 30, 20).map(|sides| sides.iter().product()), Some(1usize << 30));
        assert_eq!(
            balanced(2095133040, 9).map(|sides| sides.iter().product()),
            Some(2095133040usize)
        );
        assert_eq!(balanced(2095133040, 3), Some(vec![1292, 1287, 1260]));
        assert_eq!(
            (balanced(1, 0), balanced(2, 0), balanced(0, 2)),
            (Some(Vec::new()), None, None)
        );
    }
}
