//! The words in which ranks contribute to a decision and propose its result.

/// Returns the numbers of words in a contribution and in a proposal. A contribution consists of the call, the flag, the
/// first unused context, and the set of acknowledged ranks. A proposal consists of the flag, the context, and the sets
/// of the ranks that go on, of those among them that called `shrink`, and of those that are lost and not acknowledged.
pub(crate) fn words_of(members: usize) -> (usize, usize) {
    let set = set_words(members);
    (3 + set, 2 + 3 * set)
}

pub(crate) fn set_words(members: usize) -> usize {
    members.div_ceil(64)
}

pub(crate) fn set_of(members: usize, is_in: impl Fn(usize) -> bool) -> Vec<u64> {
    let mut words = vec![0; set_words(members)];
    (0..members).filter(|&rank| is_in(rank)).for_each(|rank| words[rank / 64] |= 1 << (rank % 64));
    words
}

pub(crate) fn is_in(set: &[u64], rank: usize) -> bool {
    set.get(rank / 64).is_some_and(|word| word & 1 << (rank % 64) != 0)
}

pub(crate) fn ranks_of(set: &[u64]) -> Vec<usize> {
    (0..64 * set.len()).filter(|&rank| is_in(set, rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_words() {
        for members in [1, 63, 64, 65, 200] {
            let third = |rank: usize| rank.is_multiple_of(3);
            let set = set_of(members, third);
            assert_eq!(set.len(), set_words(members));
            assert_eq!(
                ranks_of(&set),
                (0..members).filter(|&rank| third(rank)).collect::<Vec<_>>()
            );
        }
    }
}
