//! Access to MPBs that ends in the middle of an algorithm, and checks of what follows.

use std::fmt::Debug;

use mp_core::mpb::{Line, MpbAccess};
use mp_core::{Cause, Error, ErrorKind, Rank, Result, World};

use crate::support::scenarios;

/// The victim panics in a world of threads, and must be the only rank that fails. `until_death` gets a rank, and the
/// function by which the victim dies.
pub fn panics(
    world: World,
    victim: usize,
    fate: impl Debug,
    until_death: impl Fn(&Rank, fn()) -> Result<()> + Sync,
) {
    match world
        .run(|rank| until_death(rank, || panic!("as it was to be")))
        .map_err(Error::into_kind)
    {
        Err(ErrorKind::RanksFailed(failed))
            if failed.failures.len() == 1
                && failed.failures[0].rank == victim
                && failed.failures[0].cause == Cause::Panic("as it was to be".to_owned()) => {}
        other => panic!("{fate:?}: {other:?}"),
    }
}

/// The victim is killed in a world of so many processes. The arguments are those of [`panics`].
pub fn is_killed(
    ranks: usize,
    victim: usize,
    fate: impl Debug,
    until_death: impl Fn(&Rank, fn()) -> Result<()> + Sync,
) {
    let world = World::processes(ranks);
    let result = world.run(|rank| until_death(rank, || match scenarios::die() {}));
    scenarios::check(result, victim).unwrap_or_else(|error| panic!("{fate:?}: {error}"));
}

/// Calls `death` instead of operation number `left`, counted from 0.
pub struct Mortal<M> {
    pub mpb: M,
    pub left: u64,
    pub death: fn(),
}

impl<M> Mortal<M> {
    fn live(&mut self) {
        if self.left == 0 {
            (self.death)();
        }
        self.left = self.left.saturating_sub(1);
    }
}

impl<M: MpbAccess> MpbAccess for Mortal<M> {
    type Error = M::Error;

    fn rank(&self) -> usize {
        self.mpb.rank()
    }

    fn ranks(&self) -> usize {
        self.mpb.ranks()
    }

    fn lines(&self) -> usize {
        self.mpb.lines()
    }

    fn line_bytes(&self) -> usize {
        self.mpb.line_bytes()
    }

    async fn put(&mut self, source: &[u8], to: Line) -> Result<(), M::Error> {
        self.live();
        self.mpb.put(source, to).await
    }

    async fn put_own(&mut self, from: usize, count: usize, to: Line) -> Result<(), M::Error> {
        self.live();
        self.mpb.put_own(from, count, to).await
    }

    async fn get(&mut self, from: Line, target: &mut [u8]) -> Result<(), M::Error> {
        self.live();
        self.mpb.get(from, target).await
    }

    async fn get_own(&mut self, from: Line, count: usize, to: usize) -> Result<(), M::Error> {
        self.live();
        self.mpb.get_own(from, count, to).await
    }

    async fn set_flag(&mut self, flag: Line, value: u64) -> Result<(), M::Error> {
        self.live();
        self.mpb.set_flag(flag, value).await
    }

    async fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> Result<(), M::Error> {
        self.live();
        self.mpb.set_flag_with(flag, value, payload).await
    }

    async fn flag(&mut self, line: usize) -> Result<u64, M::Error> {
        self.live();
        self.mpb.flag(line).await
    }

    async fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, M::Error> {
        self.live();
        self.mpb.wait_flag(line, reached).await
    }

    async fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, M::Error> {
        self.live();
        self.mpb.wait_flag_from(setter, line, reached).await
    }

    async fn flag_payload(&mut self, line: usize, target: &mut [u8]) -> Result<(), M::Error> {
        self.live();
        self.mpb.flag_payload(line, target).await
    }
}
