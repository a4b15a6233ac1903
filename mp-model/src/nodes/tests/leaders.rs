//! What leaders have after the rounds of this library, by lists of whose elements went into it.

use std::ops::Range;

use crate::nodes::leaders::{
    Combining, PIECE, Round, above, around, below, doubling, runs, to_root,
};

/// Takes the rounds. Returns what each leader has in the end: the leaders whose elements were combined, in this order.
fn after(leaders: usize, rounds: impl Iterator<Item = Round>) -> Vec<Vec<usize>> {
    let mut have: Vec<Vec<usize>> = (0..leaders).map(|leader| vec![leader]).collect();
    for round in rounds {
        let before = have.clone();
        for leader in 0..leaders {
            if let Some(to) = round.to(leader) {
                assert_eq!(round.from(to), Some(leader), "{round:?}");
            }
            let Some(from) = round.from(leader) else { continue };
            assert_eq!(round.to(from), Some(leader), "{round:?}");
            let own = &before[leader];
            have[leader] = match (round.combines(), from < leader) {
                (true, true) => [&before[from][..], own].concat(),
                (true, false) => [own, &before[from][..]].concat(),
                (false, _) => before[from].clone(),
            };
        }
    }
    have
}

#[test]
fn all_get_the_elements_of_all_in_order() {
    for leaders in 1..40 {
        let all: Vec<usize> = (0..leaders).collect();
        for have in after(leaders, doubling(leaders)) {
            assert_eq!(have, all, "{leaders}");
        }
        let folded = if leaders.is_power_of_two() { 0 } else { 2 };
        assert_eq!(doubling(leaders).count(), leaders.ilog2() as usize + folded);
    }
}

#[test]
fn any_root_gets_the_elements_of_all_in_order() {
    for leaders in 1..40 {
        let all: Vec<usize> = (0..leaders).collect();
        for root in 0..leaders {
            assert_eq!(after(leaders, to_root(leaders, root))[root], all, "{leaders} {root}");
        }
        assert_eq!(1 << to_root(leaders, 0).count(), leaders.next_power_of_two());
    }
}

#[test]
fn broadcasts_reach_each_once() {
    for leaders in 1..40 {
        let mut reached: Vec<usize> =
            (0..leaders).flat_map(|place| below(place, leaders)).collect();
        reached.sort_unstable();
        assert!(reached.into_iter().eq(1..leaders));
        for place in 0..leaders {
            assert!(below(place, leaders).all(|child| above(child) == Some(place)));
        }
    }
    assert_eq!(above(0), None);
}

/// In each of the steps, each leader gets something from one other.
#[test]
fn leaders_send_around() {
    for leaders in 1..20 {
        for leader in 0..leaders {
            let sent: Vec<usize> = around(leader, leaders).collect();
            let from = |step: usize| {
                (0..leaders).find(|&from| around(from, leaders).nth(step) == Some(leader))
            };
            let got: Vec<usize> = (0..leaders).map(|step| from(step).unwrap()).collect();
            assert_eq!(sent.last(), Some(&leader));
            let reverse: Vec<usize> = around(leader, leaders).rev().skip(1).collect();
            assert_eq!(got[..leaders - 1], reverse, "{leader} of {leaders}");
            for most in 1..leaders + 2 {
                let runs: Vec<Range<usize>> = runs(leader, leaders, most).collect();
                assert!(runs.iter().all(|run| (1..=most).contains(&run.len())), "{runs:?}");
                assert_eq!(runs.into_iter().flatten().collect::<Vec<usize>>(), sent);
            }
        }
    }
}

#[test]
fn short_vectors_double_and_long_ones_go_in_turns() {
    use Combining::{Doubling, Everywhere, InTurns};
    for (leaders, short, piece) in [
        (1, Doubling, Doubling),
        (2, Doubling, Doubling),
        (3, Everywhere, InTurns),
        (4, Doubling, Doubling),
        (5, Everywhere, InTurns),
        (6, Doubling, InTurns),
        (7, Doubling, InTurns),
        (8, Doubling, Doubling),
        (64, Doubling, Doubling),
    ] {
        assert_eq!(Combining::of(leaders, 8), short, "{leaders}");
        assert_eq!(Combining::of(leaders, PIECE), piece, "{leaders}");
        let long = if leaders > 2 { InTurns } else { Doubling };
        assert_eq!(Combining::of(leaders, 1 << 26), long, "{leaders}");
        assert_ne!(Combining::of(leaders, PIECE + 1), Everywhere, "{leaders}");
    }
    let first = |leaders| (1..1000).find(|&kib| Combining::of(leaders, kib << 10) == InTurns);
    assert_eq!([4, 8, 64].map(first), [65, 82, 305].map(Some));
}
