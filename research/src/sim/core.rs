//! A simulated core, as the algorithm on it sees it.

use std::cell::RefCell;
use std::future;
use std::rc::Rc;
use std::task::Poll;

use super::cache::Cache;
use super::engine::{Engine, Watch};
use super::interrupts::WaitForInterrupt;
use super::misfit::{Misfit, check_lines, check_payload};
use crate::scc::Parameters;
use mp_core::mpb::{Interrupts, Line, MpbAccess};
use mp_model::Time;

/// A simulated core. Its operations take the time of formulas 4.1–4.12, or longer if the port of an MPB is busy.
pub struct Core {
    rank: usize,
    engine: Rc<RefCell<Engine>>,
    /// The core's own time. It is ahead of the engine's time while the core accesses nothing that others can see.
    clock: Time,
    costs: Parameters,
    cores: usize,
    lines: usize,
    line_bytes: usize,
    memory_hops: u64,
    cache: Cache,
}

impl Core {
    pub(super) fn new(rank: usize, engine: Rc<RefCell<Engine>>) -> Core {
        let shared = engine.borrow();
        let machine = &shared.machine;
        let core = Core {
            rank,
            engine: Rc::clone(&engine),
            clock: Time::ZERO,
            costs: machine.costs,
            cores: machine.cores(),
            lines: machine.lines,
            line_bytes: machine.line_bytes,
            memory_hops: machine.memory_hops(rank),
            cache: Cache::new(machine.cache_bytes),
        };
        drop(shared);
        core
    }

    /// Returns the time on this core. All cores' clocks are the same, as the SCC's global counters are.
    pub fn now(&self) -> Time {
        self.clock
    }

    /// Lets time pass for computation, or for work of software whose cost is not in the model.
    pub fn spend(&mut self, time: Time) {
        self.clock += time;
    }

    /// Returns what accesses and the software cost on this machine.
    pub fn costs(&self) -> &Parameters {
        &self.costs
    }

    /// Waits until `time`, unless it has passed.
    pub fn sleep_until(&mut self, time: Time) {
        self.clock = self.clock.max(time);
    }

    /// Returns the distance of the own MPB, which on the SCC is also reached through a router.
    fn own_hops(&self) -> u64 {
        self.hops(self.rank)
    }

    fn hops(&self, other: usize) -> u64 {
        self.engine.borrow().machine.hops(self.rank, other)
    }

    fn check(&self, at: Line, count: usize) -> Result<(), Misfit> {
        if at.rank >= self.cores {
            return Err(Misfit::Rank { rank: at.rank, ranks: self.cores });
        }
        check_lines(at.line, count, self.lines)
    }

    /// Suspends this core until everything before `time` has happened on the others.
    async fn reach(&self, time: Time) {
        let mut planned = false;
        future::poll_fn(|_| {
            let mut engine = self.engine.borrow_mut();
            if !planned && engine.skip_to(time) {
                return Poll::Ready(());
            }
            if !planned {
                engine.plan(time, self.rank);
                planned = true;
            }
            // The event may be left over from an earlier wait that was given up, so the time is checked.
            if engine.has_come(time) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes the way to an MPB, `hops` away, and waits for its port. Returns at the instant at which the line is read
    /// or written. The clock is then at the time when the answer is back.
    async fn access(&mut self, owner: usize, hops: u64, service: Time) {
        self.reach(self.clock + self.costs.mpb + hops * self.costs.hop).await;
        let turn = self.turn(owner, service).await;
        self.clock = turn + hops * self.costs.hop;
    }

    /// Waits for a turn at the port of an MPB. Returns when that is.
    async fn turn(&self, owner: usize, service: Time) -> Time {
        self.engine.borrow_mut().take_port(owner, self.rank, service);
        future::poll_fn(|_| match self.engine.borrow().is_queued(self.rank) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        self.engine.borrow().now()
    }

    /// Waits for the interrupt controller, and for its work. Returns the instant at which that work began.
    async fn access_controller(&mut self) -> Time {
        self.reach(self.clock).await;
        let turn = self.engine.borrow_mut().take_controller();
        self.reach(turn).await;
        self.clock = turn + self.engine.borrow().machine.interrupts.access;
        turn
    }

    async fn read_line(&mut self, owner: usize, hops: u64, line: usize, target: &mut [u8]) {
        let service = self.engine.borrow().machine.port.read;
        self.access(owner, hops, service).await;
        self.engine.borrow().read(owner, line, target);
    }

    async fn write_line(&mut self, owner: usize, hops: u64, line: usize, source: &[u8]) {
        let service = self.engine.borrow().machine.port.write;
        self.access(owner, hops, service).await;
        self.engine.borrow_mut().write(owner, line, source);
    }

    async fn copy_lines(&mut self, from: Line, count: usize, to: Line) {
        let (from_hops, to_hops) = (self.hops(from.rank), self.hops(to.rank));
        let mut line = vec![0; self.line_bytes];
        for index in 0..count {
            self.read_line(from.rank, from_hops, from.line + index, &mut line).await;
            self.write_line(to.rank, to_hops, to.line + index, &line).await;
        }
    }

    /// Reads the flag repeatedly until the value is reached. If `interruptible`, an interrupt also ends the wait. Reads
    /// that see nothing new do not burden the port.
    async fn watch(
        &mut self,
        line: usize,
        reached: &impl Fn(u64) -> bool,
        interruptible: bool,
    ) -> Result<Option<u64>, Misfit> {
        let mut value = self.flag(line).await?;
        let own = self.own_hops();
        let back = own * self.costs.hop;
        let look = self.clock - back;
        let period = self.costs.flag_read + self.costs.mpb_read(own);
        while !reached(value) {
            let mut asleep = false;
            let interrupted = future::poll_fn(|_| {
                let mut engine = self.engine.borrow_mut();
                let interrupted = interruptible && engine.is_interrupted(self.rank);
                if !asleep && !interrupted {
                    engine.watch(self.rank, Watch { line, look, period });
                    engine.sleep(self.rank, interruptible);
                    asleep = true;
                } else if asleep && (interrupted || engine.watched(self.rank).is_none()) {
                    engine.unwatch(self.rank);
                    engine.sleep(self.rank, false);
                    asleep = false;
                }
                if asleep { Poll::Pending } else { Poll::Ready(interrupted) }
            })
            .await;
            if interrupted {
                self.clock = self.clock.max(self.engine.borrow().now());
                return Ok(None);
            }
            let service = self.engine.borrow().machine.port.read;
            let turn = self.turn(self.rank, service).await;
            self.clock = turn + back;
            value = self.engine.borrow().flag(self.rank, line);
        }
        Ok(Some(value))
    }
}

impl MpbAccess for Core {
    type Error = Misfit;

    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.cores
    }

    fn lines(&self) -> usize {
        self.lines
    }

    fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Formula 4.8. If the source is in the core's cache, there is no cost for reading (section 4.2).
    async fn put(&mut self, source: &[u8], to: Line) -> Result<(), Misfit> {
        self.check(to, source.len().div_ceil(self.line_bytes))?;
        let hops = self.hops(to.rank);
        self.clock += self.costs.mem_put;
        let read = match self.cache.holds(source) {
            true => Time::ZERO,
            false => self.costs.mem_read(self.memory_hops),
        };
        for (index, line) in source.chunks(self.line_bytes).enumerate() {
            self.clock += read;
            self.write_line(to.rank, hops, to.line + index, line).await;
        }
        self.cache.keep(source);
        Ok(())
    }

    /// Formula 4.7.
    async fn put_own(&mut self, from: usize, count: usize, to: Line) -> Result<(), Misfit> {
        check_lines(from, count, self.lines)?;
        self.check(to, count)?;
        self.clock += self.costs.mpb_put;
        self.copy_lines(Line { rank: self.rank, line: from }, count, to).await;
        Ok(())
    }

    /// Formula 4.12.
    async fn get(&mut self, from: Line, target: &mut [u8]) -> Result<(), Misfit> {
        self.check(from, target.len().div_ceil(self.line_bytes))?;
        let hops = self.hops(from.rank);
        self.clock += self.costs.mem_get;
        for (index, line) in target.chunks_mut(self.line_bytes).enumerate() {
            self.read_line(from.rank, hops, from.line + index, line).await;
            self.clock += self.costs.mem_write(self.memory_hops);
        }
        self.cache.keep(target);
        Ok(())
    }

    /// Formula 4.11.
    async fn get_own(&mut self, from: Line, count: usize, to: usize) -> Result<(), Misfit> {
        self.check(from, count)?;
        check_lines(to, count, self.lines)?;
        self.clock += self.costs.mpb_get;
        self.copy_lines(from, count, Line { rank: self.rank, line: to }).await;
        Ok(())
    }

    /// A put of one line from the own MPB, as in section 4.3 (formula 4.7).
    async fn set_flag(&mut self, flag: Line, value: u64) -> Result<(), Misfit> {
        self.set_flag_with(flag, value, &[]).await
    }

    /// Writes one line, whatever its content.
    async fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> Result<(), Misfit> {
        self.check(flag, 1)?;
        check_payload(payload.len(), self.line_bytes)?;
        let (own, hops) = (self.own_hops(), self.hops(flag.rank));
        self.clock += self.costs.mpb_put + self.costs.mpb_read(own);
        let line = [&value.to_le_bytes(), payload].concat();
        self.write_line(flag.rank, hops, flag.line, &line).await;
        Ok(())
    }

    /// C_mpb_r(1), and the software's cost.
    async fn flag(&mut self, line: usize) -> Result<u64, Misfit> {
        check_lines(line, 1, self.lines)?;
        self.clock += self.costs.flag_read;
        let mut value = [0; size_of::<u64>()];
        self.read_line(self.rank, self.own_hops(), line, &mut value).await;
        Ok(u64::from_le_bytes(value))
    }

    async fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, Misfit> {
        loop {
            // Only the flag ends this wait.
            if let Some(value) = self.watch(line, &reached, false).await? {
                return Ok(value);
            }
        }
    }

    /// The read that saw the flag has brought its whole line, so only the write to memory is left.
    async fn flag_payload(&mut self, line: usize, target: &mut [u8]) -> Result<(), Misfit> {
        check_lines(line, 1, self.lines)?;
        check_payload(target.len(), self.line_bytes)?;
        let mut whole = vec![0; self.line_bytes];
        self.engine.borrow().read(self.rank, line, &mut whole);
        let (_, payload) = whole.split_at(size_of::<u64>());
        target.copy_from_slice(&payload[..target.len()]);
        self.clock += self.costs.mem_write(self.memory_hops);
        self.cache.keep(target);
        Ok(())
    }
}

impl Interrupts for Core {
    /// Takes one access to the controller for each mask of ranks.
    async fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), Misfit> {
        if let Some(rank) = ranks.clone().find(|&rank| rank >= self.cores) {
            return Err(Misfit::Rank { rank, ranks: self.cores });
        }
        let costs = self.engine.borrow().machine.interrupts;
        let mut masks: Vec<_> = ranks.clone().map(|rank| rank / costs.mask).collect();
        masks.sort_unstable();
        masks.dedup();
        for mask in masks {
            let turn = self.access_controller().await;
            let mut engine = self.engine.borrow_mut();
            for target in ranks.clone().filter(|rank| rank / costs.mask == mask) {
                engine.send_interrupt(turn + costs.delivery, self.rank, target);
            }
        }
        Ok(())
    }

    /// Takes no time if there is no interrupt, because the core need not ask for that. Otherwise takes an access to the
    /// controller, and the software's way into the program's handler.
    async fn take_interrupts(&mut self, sources: &mut Vec<usize>) -> Result<(), Misfit> {
        self.reach(self.clock).await;
        if self.engine.borrow().is_interrupted(self.rank) {
            self.access_controller().await;
            self.engine.borrow_mut().take_interrupts(self.rank, sources);
            self.clock += self.engine.borrow().machine.interrupts.software;
        }
        Ok(())
    }
}

impl WaitForInterrupt for Core {
    async fn wait_interrupt(&mut self) -> Result<(), Misfit> {
        self.reach(self.clock).await;
        let mut asleep = false;
        future::poll_fn(|_| {
            let mut engine = self.engine.borrow_mut();
            let interrupted = engine.is_interrupted(self.rank);
            if asleep == interrupted {
                asleep = !interrupted;
                engine.sleep(self.rank, asleep);
            }
            if interrupted { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.clock = self.clock.max(self.engine.borrow().now());
        Ok(())
    }

    async fn wait_flag_or_interrupt(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, Misfit> {
        self.watch(line, &reached, true).await
    }
}
