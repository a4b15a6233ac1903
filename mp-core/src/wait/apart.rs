//! Ranks that wait keep to CPUs of their own, if there are enough.
//!
//! The system chooses the CPU of a thread that is woken. In a virtual machine it may take an idle CPU for one that is in
//! use, and put the woken rank beside the rank that woke it, though another CPU is free. From then on, each of the two
//! waits until the other sleeps: two ranks with 64 messages of 64 KiB under way in both directions moved 3 to 13 GB/s so,
//! and 25 GB/s on CPUs of their own.
//!
//! So a rank that was woken, or has waited for a while, notes its CPU in the world's memory. If another rank that is
//! awake is there, it moves to a CPU that no rank has noted. It is not bound to that CPU: afterwards it may run where it
//! could run before.

use std::time::Duration;

use crate::{
    sync::{AtomicU32, AtomicU64, Ordering},
    topology::{CpuSet, confine_current_thread, current_affinity},
};

/// The number of CPUs that can be noted: as many as the system's set of CPUs for a thread has. Ranks on others do not
/// move.
const CPUS: usize = 1024;

/// The shortest time between two moves of a rank. A move takes 20 to 50 µs.
const REST: Duration = Duration::from_millis(2);

/// Which rank is awake on each CPU, as 1 + its number; 0 for none. Ranks that compute, and those that have not waited
/// yet, may not be noted.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cpus {
    ranks: [AtomicU32; CPUS],
}

/// Where one rank was last seen. Only the rank itself writes this.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Seen {
    /// When the rank has moved, in CLOCK_MONOTONIC.
    moved_ns: AtomicU64,
    /// 1 + the CPU at which the rank is noted; 0 for none.
    cpu: AtomicU32,
}

/// A rank's view of the world's CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Apart<'a> {
    pub(crate) cpus: &'a Cpus,
    pub(crate) seen: &'a Seen,
    pub(crate) rank: u32,
}

impl Apart<'_> {
    /// Notes the CPU of the calling thread as the rank's, or moves the thread to a CPU that no rank has noted if another
    /// rank is noted there. `now_ns` tells the time in CLOCK_MONOTONIC, which is asked for only before a move.
    pub(super) fn arrive(&self, now_ns: impl FnOnce() -> u64) {
        let Some(cpu) = current_cpu() else { return };
        if self.note(cpu) {
            return;
        }
        let (now_ns, moved_ns) = (now_ns(), &self.seen.moved_ns);
        if now_ns.saturating_sub(moved_ns.load(Ordering::Relaxed)) < REST.as_nanos() as u64 {
            return;
        }
        moved_ns.store(now_ns, Ordering::Relaxed);
        let Some(all) = current_affinity() else { return };
        let free: CpuSet =
            all.iter().filter(|&other| other != cpu && self.is_free(other)).collect();
        // If the system refuses, the rank stays.
        if !free.is_empty() && confine_current_thread(&free).is_ok() {
            current_cpu().map(|cpu| self.note(cpu));
            let _ = confine_current_thread(&all);
        }
    }

    /// Deletes the note before the rank sleeps or ends.
    pub(crate) fn leave(&self) {
        let before = self.seen.cpu.swap(0, Ordering::Relaxed);
        if let Some(noted) = before.checked_sub(1).and_then(|cpu| self.cpus.ranks.get(cpu as usize))
        {
            let _ = noted.compare_exchange(self.me(), 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Notes this CPU as the rank's. Returns false if another rank is noted there.
    fn note(&self, cpu: usize) -> bool {
        let Some(noted) = self.cpus.ranks.get(cpu) else { return true };
        if self.seen.cpu.load(Ordering::Relaxed) as usize != cpu + 1 {
            self.leave();
        }
        let me = self.me();
        // Relaxed, as everywhere here: the notes only influence where ranks run.
        match noted.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed) {
            Err(other) if other != me => false,
            _ => {
                self.seen.cpu.store(cpu as u32 + 1, Ordering::Relaxed);
                true
            }
        }
    }

    fn is_free(&self, cpu: usize) -> bool {
        self.cpus.ranks.get(cpu).is_some_and(|noted| noted.load(Ordering::Relaxed) == 0)
    }

    fn me(&self) -> u32 {
        self.rank + 1
    }
}

/// Returns the CPU of the calling thread, if the system tells it.
fn current_cpu() -> Option<usize> {
    if cfg!(any(miri, loom)) { None } else { nix::sched::sched_getcpu().ok() }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn cpus() -> Cpus {
        Cpus { ranks: [const { AtomicU32::new(0) }; CPUS] }
    }

    fn seen() -> Seen {
        Seen { moved_ns: AtomicU64::new(0), cpu: AtomicU32::new(0) }
    }

    fn noted(cpus: &Cpus, rank: u32) -> Vec<usize> {
        let is = |&cpu: &usize| cpus.ranks[cpu].load(Ordering::Relaxed) == rank + 1;
        (0..CPUS).filter(is).collect()
    }

    #[test]
    fn a_rank_is_noted_at_one_cpu_until_it_sleeps() {
        let (cpus, first, second) = (cpus(), seen(), seen());
        let [first, second] =
            [(&first, 7), (&second, 8)].map(|(seen, rank)| Apart { cpus: &cpus, seen, rank });
        assert!(first.note(3));
        assert!(first.note(3));
        assert!(!second.note(3));
        assert!(first.note(5));
        assert_eq!(noted(&cpus, 7), [5]);
        assert!(second.note(3));
        first.leave();
        first.leave();
        assert_eq!(noted(&cpus, 7), []);
        assert!(second.note(5));
        assert_eq!(noted(&cpus, 8), [5]);
        // A CPU without a place is like one of the rank's own.
        assert!(second.note(CPUS));
    }

    #[test]
    fn a_rank_moves_away_from_another_if_there_is_a_free_cpu() {
        let Some(all) = current_affinity().filter(|all| all.len() > 1) else { return };
        let (cpus, mine) = (cpus(), seen());
        let apart = Apart { cpus: &cpus, seen: &mine, rank: 0 };
        let mut time = 2 * REST.as_nanos() as u64;
        let last = all.iter().last().unwrap();
        for other in all.iter() {
            // Another rank is at all CPUs but one.
            for cpu in all.iter() {
                cpus.ranks[cpu].store(if cpu == other { 0 } else { 2 }, Ordering::Relaxed);
            }
            apart.seen.cpu.store(0, Ordering::Relaxed);
            apart.arrive(|| time);
            assert_eq!(noted(&cpus, 0), [other]);
            assert_eq!(current_affinity(), Some(all.clone()));
            time += REST.as_nanos() as u64;
        }
        // It does not move again so soon, and not at all if no CPU is free.
        let elsewhere: CpuSet = all.iter().filter(|&cpu| cpu != last).collect();
        confine_current_thread(&elsewhere).unwrap();
        for (free, at) in [(0, time - REST.as_nanos() as u64), (2, time)] {
            all.iter().for_each(|cpu| cpus.ranks[cpu].store(2, Ordering::Relaxed));
            cpus.ranks[last].store(free, Ordering::Relaxed);
            apart.arrive(|| at);
            assert_eq!(noted(&cpus, 0), []);
        }
        confine_current_thread(&all).unwrap();
    }
}
