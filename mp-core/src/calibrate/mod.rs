//! Measurement of what moving cache lines costs on this machine.
//!
//! These are the benchmarks of S. Ramos and T. Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent
//! Architectures*, section 2.2, on threads that are pinned to separate cores. [`measure`] reports what was seen, and
//! why something was not measured. It fits nothing and judges nothing.
//!
//! | file | measures |
//! |---|---|
//! | `chains.rs` | R_L, R_R, R_Q, R_I, R_QI: one line after the other, each found in the one before |
//! | `copies.rs` | several lines at once, and several copies over one link |
//! | `flags.rs` | a flag that a core looks for while another sets it |
//! | `crowds.rs` | readers of one line; a write to a line that others have copies of |
//! | `team.rs` | threads that go through rounds in step |
//! | `seats.rs` | which CPUs |
//! | `outcome.rs` | a measurement, or why there is none |
//! | `sample.rs` | medians and quartiles |
//!
//! Threads spin here, and do not use the waits of `wait/`: what they measure takes less time than waking a thread. No
//! thread waits for anything but the others of its team, which ends within its time.

mod chains;
mod copies;
mod crowds;
mod flags;
mod outcome;
mod sample;
mod seats;
mod team;

use serde::{Deserialize, Serialize};

use self::team::Limits;
pub use self::{
    copies::CONGESTED_LINES,
    outcome::{Outcome, Unmeasured},
    sample::{Point, Sample},
    seats::Seats,
};
use crate::topology::Topology;

/// The measurements, each value in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// The CPUs on which the measurements were made.
    pub seats: Seats,
    /// R_L: a line that the core has in its own first-level cache.
    pub local: Outcome<Sample>,
    /// R_I: a line from the nearest memory.
    pub memory: Outcome<Sample>,
    /// R_QI: a line from the memory of another NUMA node.
    pub far_memory: Outcome<Sample>,
    /// R_R: a line that another core of the group has written.
    pub near: Outcome<Sample>,
    /// R_Q: a line that a core of another group has written.
    pub far: Outcome<Sample>,
    /// T_m within a group: a copy of a number of lines that another core has written.
    pub near_copies: Outcome<Vec<Point>>,
    /// The same from another group.
    pub far_copies: Outcome<Vec<Point>>,
    /// T_C: a line that a number of cores of the group read at the same time, until the slowest has it.
    pub readers: Outcome<Vec<Point>>,
    /// A number of copies at the same time of [`CONGESTED_LINES`] lines each, all from one group to another, until the
    /// slowest is done.
    pub congestion: Outcome<Vec<Point>>,
    /// A write to a line of which a number of other cores of the group have copies.
    pub sharers: Outcome<Vec<Point>>,
    /// The time from the write of a flag until the nearest other core, which polls the flag, has seen it.
    pub seen: Outcome<Sample>,
}

/// Measures on the CPUs that this process may use. This takes well under a second, mostly with all of these CPUs busy.
/// With one core, only the cost of the core's own caches and memory is measured.
pub fn measure(topology: &Topology) -> Measurements {
    measure_on(&Seats::of(topology))
}

/// Measures as [`measure`] does, on given CPUs.
///
/// If a CPU is named twice, its threads take turns. That is slow and the results mean nothing, but it ends.
pub fn measure_on(seats: &Seats) -> Measurements {
    let seats = seats.clone();
    let pair = seats.near_pair();
    let far = seats.far_pair().ok_or(Unmeasured::OneGroup);
    let nearest = pair.clone().or_else(|few| seats.far_pair().ok_or(few));
    let first = seats.first();
    Measurements {
        local: chains::local(first, Limits::default()),
        memory: chains::memory(first, None, Limits::default()),
        far_memory: match seats.far_memory {
            Some(cpu) => chains::memory(first, Some(cpu), Limits::default()),
            None => Err(Unmeasured::OneNode),
        },
        near: pair.clone().and_then(|cpus| chains::transfer(cpus, Limits::default())),
        far: far.clone().and_then(|cpus| chains::transfer(cpus, Limits::default())),
        seen: nearest.and_then(|cpus| flags::seen(cpus, Limits::short())),
        near_copies: pair.and_then(|cpus| copies::by_length(cpus, Limits::default())),
        far_copies: far.and_then(|cpus| copies::by_length(cpus, Limits::default())),
        readers: crowds::readers(seats.group(), Limits::short()),
        congestion: copies::congestion(&seats, Limits::short()),
        sharers: crowds::sharers(seats.group(), Limits::short()),
        seats,
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// Checks that no transfer takes less than a tenth of a nanosecond. The threads share the CPUs with other tests, so
    /// little more can be checked.
    fn sane(sample: &Sample) {
        ordered(sample);
        assert!(sample.high > 100, "{sample:?}");
    }

    fn ordered(sample: &Sample) {
        assert!(sample.low <= sample.median && sample.median <= sample.high, "{sample:?}");
        assert!(sample.rounds > 0, "{sample:?}");
    }

    #[test]
    fn whatever_this_machine_has_is_measured() {
        let topology = Topology::read().unwrap();
        let measured = measure(&topology);
        sane(measured.local.as_ref().unwrap());
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            sane(measured.memory.as_ref().unwrap());
        }
        if measured.seats.group().len() >= 2 {
            sane(measured.near.as_ref().unwrap());
            sane(measured.seen.as_ref().unwrap());
            let copies = measured.near_copies.as_ref().unwrap();
            assert!(copies.len() >= 4 && copies.is_sorted_by_key(|point| point.n), "{copies:?}");
            // A short copy may take no longer than a reading of the clock. A long one does.
            copies.iter().for_each(|point| ordered(&point.sample));
            sane(&copies[copies.len() - 1].sample);
        }
    }

    #[test]
    fn one_core_is_measured_by_itself() {
        let topology = Topology::read().unwrap();
        let one = topology.usable_cpus().iter().take(1).collect();
        let measured = measure(&topology.confined_to(&one).unwrap());
        sane(measured.local.as_ref().unwrap());
        let few = |needed| Unmeasured::FewCores { needed, cores: 1 };
        assert_eq!(measured.near, Err(few(2)));
        assert_eq!(measured.near_copies, Err(few(2)));
        assert_eq!(measured.seen, Err(few(2)));
        assert_eq!(measured.readers, Err(few(3)));
        assert_eq!(measured.sharers, Err(few(2)));
        assert_eq!(measured.far, Err(Unmeasured::OneGroup));
        assert_eq!(measured.congestion, Err(Unmeasured::OneGroup));
        assert_eq!(measured.far_memory, Err(Unmeasured::OneNode));
    }

    /// All benchmarks run as on a machine with two groups and more cores than this machine may have.
    #[test]
    fn cpus_that_are_named_twice_take_turns() {
        let cpus: Vec<usize> = Topology::read().unwrap().usable_cpus().iter().collect();
        let cpu = |seat: usize| cpus[seat % cpus.len()];
        let groups = vec![vec![cpu(0), cpu(1), cpu(0)], vec![cpu(1), cpu(0)]];
        let seats = Seats { groups, far: Some(1), far_memory: Some(cpu(1)) };
        let measured = measure_on(&seats);
        sane(measured.far.as_ref().unwrap());
        sane(measured.far_memory.as_ref().unwrap());
        let numbers =
            |points: &Outcome<Vec<Point>>| points.as_ref().unwrap().iter().map(|p| p.n).collect();
        let (readers, sharers): (Vec<u64>, Vec<u64>) =
            (numbers(&measured.readers), numbers(&measured.sharers));
        assert_eq!((readers, sharers), (vec![1, 2], vec![1, 2]));
        let congestion: Vec<u64> = numbers(&measured.congestion);
        assert_eq!(congestion, [1, 2]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let here = Topology::read().unwrap().usable_cpus().first().unwrap();
        let seats = Seats { groups: vec![vec![here, 1000]], far: None, far_memory: None };
        let measured = measure_on(&seats);
        sane(measured.local.as_ref().unwrap());
        let Err(Unmeasured::Failed { why }) = measured.near else { panic!("{measured:?}") };
        assert!(why.contains("1000"), "{why}");
    }
}
