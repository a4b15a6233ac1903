//! Decisions that the members of a region make together, even if some of them die meanwhile. There is one decision for
//! each round, the same for all members that live to see it.
//!
//! The words, which are all zeros at first:
//!
//! ```text
//! 1            the last decided round, and the decider          set by the first proposer
//! for each member, for even rounds and for odd rounds:
//!   1 + C      the round, and the member's contribution         set by the member
//!   P          the decision that the member proposes            set by the member
//! ```
//!
//! 1. A member writes its contribution, and after that the round's number in front of it.
//! 2. When every member has contributed or is gone, the member writes a proposal that follows from the contributions.
//!    It tries to make the proposal the decision by a compare-and-swap of the first word. There is one decision: that
//!    of the first member to succeed. Other proposals may differ, because other members may have seen other
//!    contributions and deaths.
//! 3. All members read the proposal of the first member. It stays in place, even if that member is dead by now.
//!
//! There is no leader, so no leader has to be replaced. A member that dies before its compare-and-swap has decided
//! nothing. A member that dies after a successful one has decided for all.
//!
//! The words of a round are overwritten two rounds later. By then, the next round has been decided. All members that
//! were not gone have contributed to that next round, and they do so only after they have read the earlier decision.

use crate::word::Word;

/// The width of the deciding member's number in the first word. The round's number, from 1, is above it.
const PLACE_BITS: u32 = 16;

/// Decisions that the members of a [region](super::region::Region) make together, round by round, even if some of them
/// die meanwhile. This type is one member's view of the words that the decisions need.
///
/// Each member contributes to a round. A member that finds that all others have contributed, or are gone, proposes what
/// follows from the contributions. The first proposal is the decision for all members that live to see it.
///
/// ```
/// use onchip::World;
/// use mp_core::memory::{Consensus, Region};
/// use mp_core::names::Namespace;
///
/// let words = Consensus::words(3, 1, 1);
/// let sums = World::threads(3).run(|rank| {
///     let region = Region::open(rank, Namespace::new("sums"), "sum", words, 0)?;
///     let consensus = Consensus::new(region.words(), (3, rank.id()), 1, 1).expect("so many words");
///     consensus.contribute(1, &[10 + rank.id() as u64]);
///     region.wake_all();
///     let sum = |all: &[Option<Vec<u64>>]| vec![all.iter().flatten().map(|words| words[0]).sum()];
///     let gone = |member| region.is_gone(member);
///     Ok(region.wait(0, None, None, || consensus.decide(1, gone, sum))?[0])
/// })?;
/// assert_eq!(sums, [33; 3]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Consensus<'a> {
    words: &'a [Word],
    members: usize,
    me: usize,
    /// The number of words of a contribution.
    contribution: usize,
    /// The number of words of a proposal.
    proposal: usize,
}

impl<'a> Consensus<'a> {
    /// Returns the number of words needed for this many members, with contributions and proposals of the given numbers
    /// of words.
    pub const fn words(members: usize, contribution: usize, proposal: usize) -> usize {
        1 + members * 2 * (1 + contribution + proposal)
    }

    /// Makes the view of member `me` of at least as many words as [`words`](Self::words) returns. Returns `None` if
    /// there are fewer words, or if there is no such member.
    pub fn new(
        words: &'a [Word],
        (members, me): (usize, usize),
        contribution: usize,
        proposal: usize,
    ) -> Option<Self> {
        let enough = words.len() >= Self::words(members, contribution, proposal);
        (enough && me < members).then_some(Self { words, members, me, contribution, proposal })
    }

    fn area(&self, member: usize, round: u64) -> &'a [Word] {
        let length = 1 + self.contribution + self.proposal;
        let first = 1 + (2 * member + (round % 2) as usize) * length;
        &self.words[first..first + length]
    }

    /// Contributes to a round. Rounds begin with 1. Each member must contribute exactly once to each round, in order,
    /// and only after it has seen the decision of the round before.
    pub fn contribute(&self, round: u64, contribution: &[u64]) {
        let area = self.area(self.me, round);
        for (word, &value) in area[1..=self.contribution].iter().zip(contribution) {
            word.store_relaxed(value);
        }
        // This store comes after those of the contribution: it pairs with the `load` in `contribution_of`.
        area[0].store(round);
    }

    fn contribution_of(&self, member: usize, round: u64) -> Option<Vec<u64>> {
        let area = self.area(member, round);
        // A member that sees the round also sees the contribution: this pairs with the `store` in `contribute`.
        (area[0].load() == round)
            .then(|| area[1..=self.contribution].iter().map(Word::load_relaxed).collect())
    }

    /// Returns the decision of a round, if it was the last to be decided.
    pub fn decision(&self, round: u64) -> Option<Vec<u64>> {
        // A member that sees the decision also sees the proposal: this pairs with the `exchange` in `decide`.
        let decided = self.words[0].load();
        let by = (decided & ((1 << PLACE_BITS) - 1)) as usize;
        if decided >> PLACE_BITS != round || by >= self.members {
            return None;
        }
        let proposal = &self.area(by, round)[1 + self.contribution..];
        Some(proposal.iter().map(Word::load_relaxed).collect())
    }

    /// Returns the decision of a round to which this member has contributed, or `None` while contributions are missing
    /// from members that are not gone. `propose` returns what follows from the members' contributions, among which
    /// `None` stands for a member that is gone.
    pub fn decide(
        &self,
        round: u64,
        gone: impl Fn(usize) -> bool,
        propose: impl FnOnce(&[Option<Vec<u64>>]) -> Vec<u64>,
    ) -> Option<Vec<u64>> {
        // Load this first, so that the exchange below fails if another member decides meanwhile.
        let before = self.words[0].load();
        if let Some(decision) = self.decision(round) {
            return Some(decision);
        }
        let mut contributions = Vec::with_capacity(self.members);
        for member in 0..self.members {
            let contribution = self.contribution_of(member, round);
            if contribution.is_none() && !gone(member) {
                return None;
            }
            contributions.push(contribution);
        }
        let area = &self.area(self.me, round)[1 + self.contribution..];
        for (word, value) in area.iter().zip(propose(&contributions)) {
            word.store_relaxed(value);
        }
        // The exchange comes after the stores of the proposal: it pairs with the `load` in `decision`. It fails if
        // another member was first.
        let _ = self.words[0].compare_exchange(before, round << PLACE_BITS | self.me as u64);
        self.decision(round)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words(members: usize) -> Vec<Word> {
        (0..Consensus::words(members, 1, 2)).map(|_| Word::new(0)).collect()
    }

    /// Returns the sum of the contributions, and their number.
    fn sum(contributions: &[Option<Vec<u64>>]) -> Vec<u64> {
        let there: Vec<u64> = contributions.iter().flatten().map(|words| words[0]).collect();
        vec![there.iter().sum(), there.len() as u64]
    }

    #[test]
    fn each_round_has_one_decision() {
        let words = words(3);
        let of = |me| Consensus::new(&words, (3, me), 1, 2).unwrap();
        let nobody = |_| false;
        for round in 1..8 {
            of(0).contribute(round, &[round]);
            of(1).contribute(round, &[10 * round]);
            assert_eq!(of(0).decide(round, nobody, sum), None);
            // Member 1 considers member 2 gone, but the others do not.
            assert_eq!(of(1).decide(round, |member| member == 2, sum), Some(vec![11 * round, 2]));
            of(2).contribute(round, &[100]);
            assert_eq!(of(2).decide(round, nobody, sum), Some(vec![11 * round, 2]));
            assert_eq!(of(0).decide(round, nobody, sum), Some(vec![11 * round, 2]));
            assert_eq!(of(0).decision(round + 1), None);
        }
    }

    #[test]
    fn words_that_make_no_sense_decide_nothing() {
        let words = words(2);
        assert!(Consensus::new(&words[1..], (2, 0), 1, 2).is_none());
        assert!(Consensus::new(&words, (2, 2), 1, 2).is_none());
        let one = Consensus::new(&words, (2, 0), 1, 2).unwrap();
        words[0].store(1 << PLACE_BITS | 7);
        assert_eq!(one.decision(1), None);
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::rc::Rc;

    use loom::thread;

    use super::*;
    use crate::sync::{AtomicU32, Futex, Ordering, explore, life::live_for};

    /// Checks that the survivors among the members decide alike in these rounds, where member 0 dies at its store
    /// number `stores`.
    fn survive(members: usize, rounds: u64, stores: u64) {
        explore(2, move || {
            let words: Rc<Vec<Word>> =
                Rc::new((0..Consensus::words(members, 1, 1)).map(|_| Word::new(0)).collect());
            // The first word says that member 0 is dead. All members sleep on the second.
            let dead = Rc::new((AtomicU32::new(0), Futex::new()));
            let run = move |me: usize, words: &[Word], (dead, bell): &(AtomicU32, Futex)| {
                let of = Consensus::new(words, (members, me), 1, 1).unwrap();
                let gone = |member| member == 0 && dead.load(Ordering::Acquire) != 0;
                let mut decided = Vec::new();
                for round in 1..=rounds {
                    of.contribute(round, &[1 << me]);
                    bell.advance_and_wake();
                    let decision = loop {
                        let heard = bell.value();
                        let union = |all: &[Option<Vec<u64>>]| {
                            vec![all.iter().flatten().map(|words| words[0]).sum()]
                        };
                        match of.decide(round, gone, union) {
                            Some(decision) => break decision[0],
                            None => bell.sleep(heard, None),
                        }
                    };
                    bell.advance_and_wake();
                    // The decision includes the contributions of all living members.
                    let living = (1 << members) - 2;
                    assert_eq!(decision & living, living, "{decision:b}");
                    assert!(decision & 1 << me != 0 && decision >> members == 0, "{decision:b}");
                    decided.push(decision);
                }
                decided
            };
            let others: Vec<_> = (1..members)
                .map(|me| {
                    let (words, dead) = (Rc::clone(&words), Rc::clone(&dead));
                    thread::spawn(move || run(me, &words, &dead))
                })
                .collect();
            let mut first = None;
            let lived = live_for(stores, || first = Some(run(0, &words, &dead)));
            if !lived {
                first = None;
                dead.0.store(1, Ordering::Release);
                dead.1.advance_and_wake();
            }
            let decided: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
            for other in &decided {
                assert_eq!(*other, decided[0]);
            }
            if let Some(first) = first {
                assert_eq!(first, decided[0]);
            }
        });
    }

    /// Each round has four stores: two for the contribution, one for the proposal, and one to decide.
    #[test]
    fn model_two_decide_alike_whenever_one_dies() {
        for stores in 0..=8 {
            survive(2, 2, stores);
        }
    }

    #[test]
    fn model_three_decide_alike_whenever_one_dies() {
        for stores in 0..=4 {
            survive(3, 1, stores);
        }
    }
}
