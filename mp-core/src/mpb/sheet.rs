//! The words in which members of several nodes vote, and find the results: see [`Ballot`](super::ballot::Ballot).
//!
//! Each node has these words, which are all zeros at first:
//!
//! ```text
//! 1            whether it is revoked          set by any member, and by the bridge
//! 1            whether all here were told     set by any member
//! 1            the last decided round         set by the bridge
//! for each member, for even rounds and for odd rounds:
//!   1 + V      the round, and the vote        set by the member; of a member of another node, by the bridge
//!   1          what the result says of it     set by the bridge
//! ```
//!
//! The words of a round are overwritten two rounds later. By then, the next round has been decided. All members that were
//! not gone have voted in that next round, and they do so only after they have read the earlier result.

use crate::word::Word;

const REVOKED: usize = 0;
const TOLD: usize = 1;
const DECIDED: usize = 2;
const FIRST: usize = 3;

/// In the word that the result has for a member.
const VOTED: u64 = 1;
const GONE: u64 = 2;
const LOST: u64 = 4;

/// What a result says of a member.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cast {
    /// Its vote. `None` if it was gone before it had voted.
    pub vote: Option<Vec<u64>>,
    /// Whether it was gone: it had ended or left the ballot.
    pub gone: bool,
    /// Whether it was lost.
    pub lost: bool,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet<'a> {
    words: &'a [Word],
    members: usize,
    /// The number of words of a vote.
    vote: usize,
}

impl<'a> Sheet<'a> {
    /// Returns the number of words for this many members, with votes of `vote` words.
    pub(crate) const fn words(members: usize, vote: usize) -> usize {
        FIRST + 2 * members * (2 + vote)
    }

    /// Makes the view of these words. Returns `None` if there are fewer than [`words`](Self::words) says.
    pub(crate) fn new(words: &'a [Word], members: usize, vote: usize) -> Option<Self> {
        (words.len() >= Self::words(members, vote)).then_some(Self { words, members, vote })
    }

    /// Returns whether the ballot is revoked, and whether all members of this node were told.
    pub(crate) fn flags(&self) -> [&'a Word; 2] {
        [&self.words[REVOKED], &self.words[TOLD]]
    }

    fn area(&self, member: usize, round: u64) -> &'a [Word] {
        let length = 2 + self.vote;
        let first = FIRST + (2 * member + (round % 2) as usize) * length;
        &self.words[first..first + length]
    }

    /// Casts a member's vote. Rounds begin with 1. A member votes once in each round, in order, and only after it has seen
    /// the result of the round before.
    pub(crate) fn cast(&self, member: usize, round: u64, vote: &[u64]) {
        let area = self.area(member, round);
        for (word, &value) in area[1..=self.vote].iter().zip(vote) {
            word.store_relaxed(value);
        }
        // This store comes after those of the vote: it pairs with the `load` in `vote_of`.
        area[0].store(round);
    }

    /// Returns the round of a member's last vote.
    pub(crate) fn last_of(&self, member: usize) -> u64 {
        (0..2).map(|round| self.area(member, round)[0].load()).max().unwrap_or_default()
    }

    /// Returns the vote of a member in a round.
    pub(crate) fn vote_of(&self, member: usize, round: u64) -> Option<Vec<u64>> {
        let area = self.area(member, round);
        // Who sees the round also sees the vote: this pairs with the `store` in `cast`.
        (area[0].load() == round)
            .then(|| area[1..=self.vote].iter().map(Word::load_relaxed).collect())
    }

    /// Returns the last decided round.
    pub(crate) fn decided(&self) -> u64 {
        self.words[DECIDED].load()
    }

    /// Writes the result of the next round.
    pub(crate) fn decide(&self, round: u64, result: &[Cast]) {
        for (member, cast) in result.iter().enumerate().take(self.members) {
            if let Some(vote) = &cast.vote
                && self.vote_of(member, round).is_none()
            {
                self.cast(member, round, vote);
            }
            let bits = [(cast.vote.is_some(), VOTED), (cast.gone, GONE), (cast.lost, LOST)];
            let bits = bits.into_iter().filter(|&(is, _)| is).map(|(_, bit)| bit).sum();
            self.area(member, round)[1 + self.vote].store_relaxed(bits);
        }
        // This store comes after those of the result: it pairs with the `load` in `result`.
        self.words[DECIDED].store(round);
    }

    /// Returns the result of a round, if it was the last to be decided.
    pub(crate) fn result(&self, round: u64) -> Option<Vec<Cast>> {
        // Who sees the round also sees its result: this pairs with the `store` in `decide`.
        if self.words[DECIDED].load() != round {
            return None;
        }
        let cast = |member| {
            let bits = self.area(member, round)[1 + self.vote].load_relaxed();
            let vote = if bits & VOTED != 0 { self.vote_of(member, round) } else { None };
            Cast { vote, gone: bits & GONE != 0, lost: bits & LOST != 0 }
        };
        Some((0..self.members).map(cast).collect())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn results_have_all_votes_in_turns() {
        let words: Vec<Word> = (0..Sheet::words(3, 2)).map(|_| Word::new(0)).collect();
        assert!(Sheet::new(&words[1..], 3, 2).is_none());
        let sheet = Sheet::new(&words, 3, 2).unwrap();
        for round in 1..6 {
            assert_eq!((sheet.vote_of(1, round), sheet.result(round)), (None, None));
            sheet.cast(1, round, &[round, 7]);
            assert_eq!(sheet.last_of(1), round);
            let cast = |vote, gone, lost| Cast { vote, gone, lost };
            let result = vec![
                cast(Some(vec![9, round]), true, false),
                cast(sheet.vote_of(1, round), false, false),
                cast(None, true, true),
            ];
            sheet.decide(round, &result);
            assert_eq!(sheet.result(round), Some(result));
        }
    }
}

#[cfg(all(test, loom))]
mod model;
