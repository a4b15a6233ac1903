//! Access to MPBs that ends in the middle of an algorithm.

use mp_model::mpb::{Line, Mpb};

/// Calls `death` instead of operation number `left`, from 0.
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

impl<M: Mpb> Mpb for Mortal<M> {
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
