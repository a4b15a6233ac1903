//! Chains of lines, which are read one after the other: section 2.2.1, table 1.
//!
//! Each line says which line is next, so that nothing can be fetched ahead: the core does not know the address, and for
//! its prefetchers the order is random and the lines are too far apart. The time includes the computation of an
//! address, which takes about a nanosecond.

use std::sync::OnceLock;
use std::time::Instant;

use super::{
    Outcome, Unmeasured,
    sample::Sample,
    team::{Limits, picos, play},
};
use crate::line::{Line, add, evict, evicted, write};

/// The distance between the lines that are used. It is more than 1 because prefetchers fetch neighbours.
const APART: usize = 4;
/// A length that fits into any first-level cache.
const LOCAL: usize = 64;
/// The number of lines at this distance that fit into a first-level cache of 8 ways of 4 KiB each.
pub(super) const SHARED: usize = 128;
/// A larger length, for which the lines lie in several rows and banks of memory. It does not take more pages than a
/// core keeps addresses for.
const MEMORY: usize = 1024;

/// A ring of lines in random order.
pub(super) struct Chain {
    lines: Vec<Line>,
    next: Vec<usize>,
}

impl Chain {
    /// Makes a chain of `length` lines, all in the caller's caches.
    pub(super) fn new(length: usize) -> Chain {
        // Sattolo's shuffle makes a single ring. The random number generator is Knuth's.
        let mut order: Vec<usize> = (0..length).collect();
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for last in (1..length).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (state >> 33) as usize % last);
        }
        let next = order.into_iter().map(|line| line * APART).collect();
        let chain = Chain { lines: (0..length * APART).map(|_| Line::new()).collect(), next };
        chain.write();
        chain
    }

    /// Writes all lines, which are then in the caller's caches and in no others.
    pub(super) fn write(&self) {
        for (number, &next) in self.next.iter().enumerate() {
            write(&self.lines[number * APART], next as u64);
        }
    }

    /// Reads all lines. Returns the picoseconds for each.
    pub(super) fn read(&self) -> u64 {
        self.walk(Line::flag)
    }

    /// Writes all lines without changing them. Returns the picoseconds for each.
    ///
    /// This uses locked instructions, so that it waits for each write.
    pub(super) fn rewrite(&self) -> u64 {
        self.walk(|line| add(line, 0))
    }

    #[inline]
    fn walk(&self, step: impl Fn(&Line) -> u64) -> u64 {
        let steps = self.next.len() as u64;
        let start = Instant::now();
        let mut at = 0;
        for _ in 0..steps {
            at = step(&self.lines[at]) as usize;
        }
        let took = start.elapsed();
        // Uses the result, so that the compiler does not remove the loop that is timed.
        std::hint::black_box(at);
        picos(took) / steps
    }

    fn evict(&self) -> bool {
        // If one line can't be evicted, no line can.
        let all = self.lines.iter().step_by(APART).all(evict);
        evicted();
        all
    }
}

/// Measures R_L: lines that the core has in its own cache.
pub(super) fn local(cpu: usize, limits: Limits) -> Outcome<Sample> {
    let said = play(&[cpu], limits, |member| {
        let chain = Chain::new(LOCAL);
        let mut values = Vec::new();
        while member.again() {
            chain.read();
            values.push(chain.read());
        }
        values
    })?;
    Ok(Sample::of(said.into_iter().flatten().collect()))
}

/// Measures R_R or R_Q: lines that another core has written. The first CPU reads what the second writes.
pub(super) fn transfer([reader, writer]: [usize; 2], limits: Limits) -> Outcome<Sample> {
    let chain = OnceLock::new();
    let said = play(&[reader, writer], limits, |member| {
        let mut values = Vec::new();
        while member.again() {
            if member.seat == 1 {
                chain.get_or_init(|| Chain::new(SHARED)).write();
            }
            member.pass();
            if let Some(chain) = chain.get().filter(|_| member.seat == 0) {
                values.push(chain.read());
            }
            member.pass();
        }
        values
    })?;
    Ok(Sample::of(said.into_iter().flatten().collect()))
}

/// Measures R_I or R_QI: lines from memory near the owner. The system gives memory to the CPU that touches it first.
pub(super) fn memory(reader: usize, owner: Option<usize>, limits: Limits) -> Outcome<Sample> {
    let cpus: Vec<usize> = [reader].into_iter().chain(owner).collect();
    let chain = OnceLock::new();
    let said = play(&cpus, limits, |member| {
        let mut values = Vec::new();
        let mut could = true;
        while member.again() {
            if member.seat + 1 == cpus.len() {
                could &= chain.get_or_init(|| Chain::new(MEMORY)).evict();
            }
            member.pass();
            if let Some(chain) = chain.get().filter(|_| member.seat == 0) {
                values.push(chain.read());
            }
            member.pass();
        }
        (could, values)
    })?;
    if said.iter().any(|(could, _)| !could) {
        return Err(Unmeasured::NoEviction);
    }
    Ok(Sample::of(said.into_iter().flat_map(|(_, values)| values).collect()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_one_ring() {
        for length in [1, 2, 3, 64, 128, 1000] {
            let chain = Chain::new(length);
            let mut seen = vec![false; length];
            let mut at = 0;
            for _ in 0..length {
                assert!(!std::mem::replace(&mut seen[at / APART], true), "{length}");
                at = chain.lines[at].flag() as usize;
            }
            assert_eq!(at, 0);
            chain.rewrite();
            assert_eq!(chain.lines[0].flag() as usize, chain.next[0]);
        }
    }
}
