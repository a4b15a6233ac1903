//! What a rank asks for when it opens MPBs.

use std::sync::Arc;

use super::spec::{Growth, Mpbs};
use crate::{ErrorKind, context::Context, error::Error};

/// A checked list of ranks of the world.
pub(super) struct Members {
    pub(super) world: Box<[u32]>,
    /// This rank's place in the list.
    pub(super) me: usize,
}

/// Returns the members, or the reason why these ranks can't be members.
pub(super) fn check(context: &Context, named: &[usize]) -> Result<Result<Members, String>, Error> {
    let mut world = Vec::with_capacity(named.len());
    let mut known = vec![false; context.room()];
    for &rank in named {
        world.push(context.check_rank(rank)?);
        if std::mem::replace(&mut known[rank], true) {
            return Ok(Err(format!(
                "rank {rank} is named twice among their ranks: name each once"
            )));
        }
    }
    Ok(match world.iter().position(|&rank| rank == context.me) {
        Some(me) => Ok(Members { world: world.into(), me }),
        None => {
            Err(format!("rank {} opens them and is not among their ranks {named:?}", context.me))
        }
    })
}

/// What a rank asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) growth: Growth,
    /// The members' numbers in the world.
    pub(super) members: Box<[u32]>,
}

impl Wanted {
    /// Returns the error that says how two requests differ.
    pub(super) fn differ(self, theirs: Self, mpbs: Arc<str>) -> Error {
        if self.growth == theirs.growth {
            let ranks = |members: Box<[u32]>| members.iter().map(|&rank| rank as usize).collect();
            let (ours, theirs) = (ranks(self.members), ranks(theirs.members));
            return ErrorKind::MpbRanksMismatch { mpbs, ours, theirs }.into();
        }
        let spec = |of: &Self| Box::new(Mpbs { growth: of.growth, ..Mpbs::lines(of.growth.lines) });
        let (ours, theirs) = (spec(&self), spec(&theirs));
        Error::from(ErrorKind::MpbMismatch { mpbs, ours, theirs })
    }
}
