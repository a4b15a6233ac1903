//! Sets of ranks in shared memory.

use crate::{
    context::MAX_RANKS,
    sync::{AtomicU64, Ordering},
};

const WORDS: usize = MAX_RANKS / 64;

/// A set of ranks. It is changed under the heap's lock and read at any time. A reader that sees a rank in the set also
/// sees everything that was done before the rank was inserted.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RankSet([AtomicU64; WORDS]);

impl RankSet {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    pub(crate) fn assign(&self, ranks: &[u32]) {
        for (word, bits) in self.0.iter().zip(Self::bits(ranks)) {
            word.store(bits, Ordering::Relaxed);
        }
    }

    pub(crate) fn insert(&self, rank: u32) {
        // Release: pairs with the Acquire in `contains`.
        self.0[rank as usize / 64].fetch_or(1 << (rank % 64), Ordering::Release);
    }

    pub(crate) fn contains(&self, rank: u32) -> bool {
        // Acquire: pairs with the Release in `insert`.
        let word = self.0.get(rank as usize / 64).map_or(0, |word| word.load(Ordering::Acquire));
        word & (1 << (rank % 64)) != 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let any = |&first: &u32| self.0[first as usize / 64].load(Ordering::Relaxed) != 0;
        let words = (0..MAX_RANKS as u32).step_by(64).filter(any);
        words.flat_map(|first| (first..first + 64).filter(|&rank| self.contains(rank)))
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.load(Ordering::Acquire).count_ones()).sum()
    }

    pub(crate) fn is_subset_of(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .all(|(a, b)| a.load(Ordering::Relaxed) & !b.load(Ordering::Relaxed) == 0)
    }

    /// Returns whether the set consists of exactly these ranks.
    pub(crate) fn equals(&self, ranks: &[u32]) -> bool {
        let same = |(word, bits): (&AtomicU64, u64)| word.load(Ordering::Acquire) == bits;
        self.0.iter().zip(Self::bits(ranks)).all(same)
    }

    fn bits(ranks: &[u32]) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        ranks.iter().for_each(|&rank| words[rank as usize / 64] |= 1 << (rank % 64));
        words
    }
}
