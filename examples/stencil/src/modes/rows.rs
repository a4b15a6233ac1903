//! The memory of a worker's rows.

use std::ops::{Deref, DerefMut};

use bytemuck::cast_slice_mut;
use memmap2::{Advice, MmapMut};

/// Elements, in large pages if the system has them: a step goes over all of its rows, and at each end of a page the
/// processor stops fetching ahead.
pub(super) enum Rows {
    Mapped(MmapMut),
    /// For few elements, or if the system maps none.
    Plain(Vec<f64>),
}

/// The number of bytes from which a mapping is worth it: a large page.
const LARGE: usize = 2 << 20;

impl Rows {
    fn map(cells: &[f64]) -> Option<Self> {
        let bytes = size_of_val(cells);
        if bytes < LARGE {
            return None;
        }
        let mut memory = MmapMut::map_anon(bytes).ok()?;
        // Without large pages this works as well, a little slower.
        let _ = memory.advise(Advice::HugePage);
        cast_slice_mut(&mut memory).copy_from_slice(cells);
        Some(Self::Mapped(memory))
    }

    pub(super) fn into_vec(self) -> Vec<f64> {
        match self {
            Self::Plain(cells) => cells,
            mapped => mapped.to_vec(),
        }
    }
}

impl From<Vec<f64>> for Rows {
    fn from(cells: Vec<f64>) -> Self {
        Self::map(&cells).unwrap_or(Self::Plain(cells))
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

impl Deref for Rows {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        match self {
            Self::Mapped(memory) => bytemuck::cast_slice(memory),
            Self::Plain(cells) => cells,
        }
    }
}

impl DerefMut for Rows {
    fn deref_mut(&mut self) -> &mut [f64] {
        match self {
            Self::Mapped(memory) => cast_slice_mut(memory),
            Self::Plain(cells) => cells,
        }
    }
}

/// The rows of a worker now and after the step that is being taken.
pub(super) struct Block {
    pub(super) now: Rows,
    pub(super) next: Rows,
}

impl Block {
    pub(super) fn new(now: Vec<f64>) -> Self {
        // Both are written once, so that the first step touches no page for the first time.
        let next = now.clone().into();
        Self { now: now.into(), next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_what_they_were() {
        for count in [0, 1, LARGE / 8 - 1, LARGE / 8, LARGE / 8 + 1, LARGE] {
            let cells: Vec<f64> = (0..count).map(|i| i as f64).collect();
            let mut rows = Rows::from(cells.clone());
            assert_eq!(matches!(rows, Rows::Mapped(_)), count >= LARGE / 8);
            assert_eq!(*rows, *cells);
            rows.iter_mut().for_each(|cell| *cell += 1.0);
            let got = rows.into_vec();
            assert!(got.len() == count && got.iter().zip(&cells).all(|(a, b)| *a == b + 1.0));
        }
    }
}
