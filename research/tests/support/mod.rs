//! Simulated cores that may be delayed at any time.

use mp_core::mpb::{Line, MpbAccess};
use mp_model::Time;
use onchip_research::sim::{Core, Misfit};

/// Spends some time before one of eight operations, chosen by its own pseudo-random numbers.
pub struct Erratic<'a> {
    core: &'a mut Core,
    state: u64,
}

impl<'a> Erratic<'a> {
    pub fn new(core: &'a mut Core) -> Self {
        let state = core.rank() as u64 + 1;
        Self { core, state }
    }

    fn hold_up(&mut self) {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = self.state >> 33;
        if random.is_multiple_of(8) {
            self.core.spend(Time::from_nanos(random / 8 % 30_000));
        }
    }
}

impl MpbAccess for Erratic<'_> {
    type Error = Misfit;

    fn rank(&self) -> usize {
        self.core.rank()
    }

    fn ranks(&self) -> usize {
        self.core.ranks()
    }

    fn lines(&self) -> usize {
        self.core.lines()
    }

    fn line_bytes(&self) -> usize {
        self.core.line_bytes()
    }

    async fn put(&mut self, source: &[u8], to: Line) -> Result<(), Misfit> {
        self.hold_up();
        self.core.put(source, to).await
    }

    async fn put_own(&mut self, from: usize, count: usize, to: Line) -> Result<(), Misfit> {
        self.hold_up();
        self.core.put_own(from, count, to).await
    }

    async fn get(&mut self, from: Line, target: &mut [u8]) -> Result<(), Misfit> {
        self.hold_up();
        self.core.get(from, target).await
    }

    async fn get_own(&mut self, from: Line, count: usize, to: usize) -> Result<(), Misfit> {
        self.hold_up();
        self.core.get_own(from, count, to).await
    }

    async fn set_flag(&mut self, flag: Line, value: u64) -> Result<(), Misfit> {
        self.hold_up();
        self.core.set_flag(flag, value).await
    }

    async fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> Result<(), Misfit> {
        self.hold_up();
        self.core.set_flag_with(flag, value, payload).await
    }

    async fn flag(&mut self, line: usize) -> Result<u64, Misfit> {
        self.hold_up();
        self.core.flag(line).await
    }

    async fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, Misfit> {
        self.hold_up();
        self.core.wait_flag(line, reached).await
    }

    async fn flag_payload(&mut self, line: usize, target: &mut [u8]) -> Result<(), Misfit> {
        self.hold_up();
        self.core.flag_payload(line, target).await
    }
}
