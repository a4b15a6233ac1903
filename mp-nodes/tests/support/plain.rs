//! What ranks give to collective operations in tests, and what these must give them: by a plain reference.

use std::ops::Range;

use mp_core::{Rank, Result};
use onchip::communicator::Communicator;

/// A function x ↦ ax + b. Composing such functions is associative, but not commutative.
pub type Affine = [u64; 2];

pub fn compose(left: Affine, right: Affine) -> Affine {
    [left[0].wrapping_mul(right[0]), left[0].wrapping_mul(right[1]).wrapping_add(left[1])]
}

pub fn affine(rank: usize, at: usize) -> Affine {
    [2 * (rank * 7 + at) as u64 + 3, (rank * 1_000 + at) as u64]
}

pub fn elements<T>(length: usize, element: impl Fn(usize) -> T) -> Vec<T> {
    (0..length).map(element).collect()
}

pub fn fold(ranks: Range<usize>, at: usize) -> Option<Affine> {
    ranks.map(|rank| affine(rank, at)).reduce(compose)
}

/// A block from one rank to another.
pub fn block(from: usize, to: usize, length: usize) -> Vec<u16> {
    elements(length, |at| (from * 1_000 + to * 100 + at) as u16)
}

/// Calls code with communicators of all ranks, in several orders, and of every other rank.
pub fn in_communicators(rank: &Rank, code: impl Fn(&Communicator) -> Result<()>) -> Result<()> {
    let world = Communicator::world(rank);
    code(&world)?;
    let reversed = world.split(Some(0), -(rank.id() as i64))?.unwrap();
    code(&reversed)?;
    // Ranks of different nodes in turns, if there are several on each.
    let here = rank.id() - rank.ranks_here().start;
    let mixed = world.split(Some(0), here as i64)?.unwrap();
    code(&mixed)?;
    let half = world.split(Some(rank.id() as u64 % 2), 0)?.unwrap();
    code(&half)
}
