//! Sets of cores.

/// The most cores of a [`Chip`](super::Chip).
pub const MOST_CORES: usize = 256;
const WORD: usize = 64;

/// A set of cores, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CoreSet([u64; MOST_CORES / WORD]);

impl CoreSet {
    pub(super) fn only(core: usize) -> CoreSet {
        let mut set = CoreSet::default();
        set.insert(core);
        set
    }

    pub(super) fn insert(&mut self, core: usize) {
        self.0[core / WORD] |= 1 << (core % WORD);
    }

    pub(super) fn has(&self, core: usize) -> bool {
        self.0[core / WORD] >> (core % WORD) & 1 != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == CoreSet::default()
    }

    /// Returns whether the core is in the set, and no other.
    pub(super) fn is_only(&self, core: usize) -> bool {
        *self == CoreSet::only(core)
    }

    /// Returns the cores of the set except one, in order.
    pub(super) fn without(self, core: usize) -> impl Iterator<Item = usize> {
        let all = self.0.into_iter().enumerate().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let first = word.trailing_zeros() as usize;
                word &= word.checked_sub(1)?;
                Some(at * WORD + first)
            })
        });
        all.filter(move |&other| other != core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set = CoreSet::only(3);
        assert!(set.is_only(3) && !set.is_empty() && CoreSet::default().is_empty());
        [64, 255, 0, 64].into_iter().for_each(|core| set.insert(core));
        assert!(set.has(255) && !set.has(254) && !set.is_only(3));
        assert_eq!(set.without(64).collect::<Vec<_>>(), [0, 3, 255]);
    }
}
