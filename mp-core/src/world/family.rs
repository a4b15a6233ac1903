//! Which ranks were started together, and by whom. Those of a world that was launched are one family. The launcher leaves
//! a note for each of the ranks that it starts later.

use super::notice;
use crate::{
    context::Context,
    error::Result,
    segment::{BlockKey, BlockKind},
    sync::Ordering,
};

/// The ranks that were started together with a rank, this one included.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Family {
    /// The first of them. The others follow.
    pub first: usize,
    /// How many there are of each program, in their order.
    pub programs: Vec<usize>,
    /// The rank that has asked the launcher to start them, if it was one.
    pub parent: Option<usize>,
    /// The number that this rank has given them, or 0.
    pub number: u32,
    /// The number of files that they may open, if the launcher may open more.
    pub(super) open_files: Option<u64>,
}

impl Family {
    /// Returns the family of a rank of the world in this segment.
    pub(super) fn of(context: &Context) -> Result<Self> {
        if (context.me as usize) < context.size() {
            let programs = vec![context.size()];
            return Ok(Self { first: 0, programs, parent: None, number: 0, open_files: None });
        }
        let segment = &*context.segment;
        let missing = || segment.corrupt("a family", 0, 0);
        // Acquire: pairs with the Release in `put_family`.
        let word = context.rank(context.me)?.family.load(Ordering::Acquire);
        notice::read(segment, BlockKind::Notice, BlockKey::from_word(word).ok_or_else(missing)?)
    }

    /// Returns how many they are.
    pub fn size(&self) -> usize {
        self.programs.iter().sum()
    }
}

/// Leaves a family where its ranks find it.
pub(super) fn put_family(context: &Context, family: &Family) -> Result<()> {
    let key = notice::put(context, BlockKind::Notice, family)?;
    for rank in family.first..family.first + family.size() {
        // Release: pairs with the Acquire in `Family::of`.
        context.rank(rank as u32)?.family.store(key.word(), Ordering::Release);
    }
    Ok(())
}
