//! The cost of a processor's pause and of a look at a word on this machine, so that constants of waits can be times.
//!
//! A pause takes 140 cycles on one processor and ten on another. So the same number of turns of a loop may take as long
//! as a message on the latter, and as long as a wake-up on the former. Therefore the constants are times. The number of
//! turns follows from a measurement, which this process makes once, when a number is first needed. The measurement
//! takes 10 to 20 µs. `docs/constants.md` has the table of all constants.

use std::time::Duration;

/// The numbers of turns that take about as long as [`WHILE`], for loops in which each turn is one pause or one look.
/// For almost any wait it does not matter whether there are half or twice as many turns. So a change of the processor's
/// clock rate after the measurement does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Costs {
    pauses: u32,
    looks: u32,
    /// Ticks of the counter that limits `UMWAIT` and `MWAITX`.
    ticks: u32,
}

/// The time, in nanoseconds, to which [`Costs`] refer. A power of two, so that the conversion is a multiplication and a
/// shift.
const WHILE: u64 = 1 << SHIFT;
const SHIFT: u32 = 10;

/// Returns how many of the processor's pauses ([`spin_loop`](std::hint::spin_loop)) take about this time: at least 1.
#[inline]
pub fn pauses(time: Duration) -> u32 {
    turns(time, measured().pauses)
}

/// Returns how many looks at a word that no thread writes take about this time: at least 1. See [`look`].
#[inline]
pub fn looks(time: Duration) -> u32 {
    turns(time, measured().looks)
}

/// Calls `poll` up to `looks` times, without a pause, until it answers. Each look begins after the end of the previous
/// one.
///
/// Without this order, a processor begins dozens of looks ahead of time. When another core writes the word, the
/// processor has to discard all of them and begin them again. With a fence after each look, a round trip of 8 bytes
/// through channels took a quarter less time. `docs/constants.md` has the figures, including cases that become slower.
#[inline(always)]
pub fn look<T>(looks: u32, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..looks {
        if let Some(answer) = poll() {
            return Some(answer);
        }
        end_look();
    }
    None
}

/// Looks as [`look`] does until `is_there` is true, and returns whether it was.
#[inline(always)]
pub fn look_until(looks: u32, mut is_there: impl FnMut() -> bool) -> bool {
    look(looks, || is_there().then_some(())).is_some()
}

/// Waits for the loads of a look, so that no other look begins before their end: see [`look`].
#[inline(always)]
pub fn end_look() {
    // SAFETY: the instruction only waits for all loads before it. Every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    unsafe {
        std::arch::asm!("lfence", options(nostack, preserves_flags));
    }
}

/// Returns by how much the processor's time counter advances in this time.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ticks(time: Duration) -> u32 {
    turns(time, measured().ticks)
}

/// Returns about how long it takes to copy this many bytes past the caches and to read them again. Returns `None` if
/// this machine has no such copy.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
pub(crate) fn past_caches(bytes: usize) -> Option<Duration> {
    Some(clock::past_caches(bytes))
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
pub(crate) fn past_caches(_bytes: usize) -> Option<Duration> {
    None
}

/// Returns about how long it takes to copy this many bytes within a core's own caches. Returns `None` if that was not
/// measured.
#[cfg(not(any(loom, miri)))]
pub(crate) fn in_caches(bytes: usize) -> Option<Duration> {
    Some(clock::in_caches(bytes))
}

#[cfg(any(loom, miri))]
pub(crate) fn in_caches(_bytes: usize) -> Option<Duration> {
    None
}

#[inline]
fn turns(time: Duration, in_a_while: u32) -> u32 {
    let nanos = time.as_nanos().min(1 << 32) as u64;
    let turns = (nanos * u64::from(in_a_while)) >> SHIFT;
    u32::try_from(turns).unwrap_or(u32::MAX).max(1)
}

/// Returns costs with which every wait is one turn, because there is no time in models, and interpreted code is too
/// slow to be measured.
#[cfg(any(loom, miri))]
fn measured() -> Costs {
    Costs { pauses: 0, looks: 0, ticks: 0 }
}

#[cfg(not(any(loom, miri)))]
#[inline]
fn measured() -> Costs {
    *clock::COSTS.get_or_init(|| clock::measure().scaled(clock::scale()))
}

#[cfg(not(any(loom, miri)))]
mod clock {
    use std::{
        hint::{black_box, spin_loop},
        ptr::NonNull,
        sync::OnceLock,
        time::{Duration, Instant},
    };

    use super::{Costs, WHILE, look};
    use crate::{
        copy::{copy_bytes, copy_past_caches},
        sync::{AtomicU32, Ordering},
    };

    pub(super) static COSTS: OnceLock<Costs> = OnceLock::new();

    /// The environment variable that makes all loops shorter: a value of 5 makes them a fifth as long. Experiments use
    /// it to show the value of the constants by making them wrong.
    const VARIABLE: &str = "ONCHIP_COSTS";

    pub(super) fn scale() -> f64 {
        let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<f64>().ok());
        given.filter(|scale| (0.001..=1000.0).contains(scale)).unwrap_or(1.0)
    }

    pub(super) fn measure() -> Costs {
        let began = (Instant::now(), counter());
        let reading = shortest(|| ());
        let pauses = in_a_while(reading, 16, |turns| (0..turns).for_each(|_| spin_loop()));
        let word = AtomicU32::new(0);
        let looks = in_a_while(reading, 64, |turns| {
            black_box(look(turns, || {
                (black_box(&word).load(Ordering::Relaxed) == 1).then_some(())
            }));
        });
        let nanos = (began.0.elapsed().as_nanos() as u64).max(1);
        let ticks = counter().saturating_sub(began.1).saturating_mul(WHILE) / nanos;
        Costs { pauses, looks, ticks: ticks.clamp(1, u64::from(u32::MAX)) as u32 }
    }

    impl Costs {
        pub(super) fn scaled(self, scale: f64) -> Self {
            let scaled = |turns| ((f64::from(turns) / scale) as u32).max(1);
            Self { pauses: scaled(self.pauses), looks: scaled(self.looks), ticks: self.ticks }
        }
    }

    /// Returns how many turns of `run` take a [`WHILE`]. A reading of the clock takes `reading` nanoseconds. Measures
    /// `turns` turns, or more if these take too little time for the clock.
    fn in_a_while(reading: u64, mut turns: u32, run: impl Fn(u32)) -> u32 {
        loop {
            let took = shortest(|| run(turns));
            // If the clock stands still even for this many turns, the result below is the largest possible one.
            let is_last = turns >= 1 << 14;
            if is_last || took >= (8 * reading).max(150) {
                let nanos = took.saturating_sub(reading).max(1);
                let in_a_while = (u64::from(turns) * WHILE / nanos).clamp(1, 8 * WHILE);
                return in_a_while as u32;
            }
            turns *= 4;
        }
    }

    /// Returns the time of the shortest of several runs, because something else may have used the processor during the
    /// others.
    fn shortest(run: impl Fn()) -> u64 {
        let times = (0..5).map(|_| {
            let began = Instant::now();
            run();
            began.elapsed().as_nanos() as u64
        });
        times.min().unwrap_or_default()
    }

    /// The length of the copies that are measured.
    const LEN: usize = 32 << 10;

    /// The length of short copies that are measured, of whose time the clock and the call are a good part.
    const SHORT: usize = 1 << 10;

    /// See [`costs::in_caches`](super::in_caches). The first call measures this, in 20 µs.
    pub(super) fn in_caches(bytes: usize) -> Duration {
        static NANOS: OnceLock<[u64; 2]> = OnceLock::new();
        let [short, long] = *NANOS.get_or_init(|| {
            let (from, mut to) = (vec![1_u8; LEN], vec![0_u8; LEN]);
            let (from, to) = (NonNull::from(&from[..]).cast(), NonNull::from(&mut to[..]).cast());
            // SAFETY: both vectors have at least this length, and do not overlap.
            [SHORT, LEN].map(|len| shortest(|| unsafe { copy_bytes(from, to, len) }))
        });
        let more = long.saturating_sub(short) as u128 * bytes.saturating_sub(SHORT) as u128;
        Duration::from_nanos(short + (more / (LEN - SHORT) as u128) as u64)
    }

    /// Returns the time that a copy of `bytes` bytes takes. `nanos` is the time for [`LEN`] bytes.
    fn scaled(nanos: u64, bytes: usize) -> Duration {
        Duration::from_nanos((nanos as u128 * bytes as u128 / LEN as u128) as u64)
    }

    /// See [`costs::past_caches`](super::past_caches). The first call measures this, in 50 µs.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn past_caches(bytes: usize) -> Duration {
        static NANOS: OnceLock<u64> = OnceLock::new();
        let nanos = *NANOS.get_or_init(|| {
            let (from, mut to, mut back) = (vec![1_u8; LEN], vec![0_u8; LEN], vec![0_u8; LEN]);
            let from = NonNull::from(&from[..]).cast();
            let [to, back] = [&mut to, &mut back].map(|bytes| NonNull::from(&mut bytes[..]).cast());
            shortest(|| {
                // SAFETY: the three vectors have this length, and do not overlap.
                unsafe {
                    copy_past_caches(from, to, LEN);
                    copy_bytes(to, back, LEN);
                }
            })
        });
        scaled(nanos, bytes)
    }

    fn counter() -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction, which accesses no memory.
        unsafe {
            std::arch::x86_64::_rdtsc()
        }
        #[cfg(not(target_arch = "x86_64"))]
        0
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::costs::{looks, pauses, turns};

        #[test]
        fn a_time_is_so_many_turns_and_at_least_one() {
            assert_eq!(turns(Duration::from_nanos(1024), 70), 70);
            assert_eq!(turns(Duration::from_nanos(2048), 70), 140);
            assert_eq!(turns(Duration::from_nanos(1), 70), 1);
            assert_eq!(turns(Duration::MAX, u32::MAX), u32::MAX);
        }

        /// Even on a busy machine, a pause takes some time, and no more than a few microseconds.
        #[test]
        fn what_is_measured_is_of_this_world() {
            let costs = measure();
            for turns in [costs.pauses, costs.looks] {
                assert!((1..=8 * WHILE as u32).contains(&turns), "{costs:?}");
            }
            if cfg!(target_arch = "x86_64") {
                // This range is that of counters from 10 MHz to 100 GHz.
                assert!((10..102_400).contains(&costs.ticks), "{costs:?}");
            }
            assert!(looks(Duration::from_micros(100)) >= looks(Duration::from_micros(1)));
            assert_eq!(pauses(Duration::ZERO), 1);
        }

        #[test]
        fn a_slower_machine_takes_fewer_turns() {
            let costs = Costs { pauses: 70, looks: 1000, ticks: 2800 };
            assert_eq!(costs.scaled(5.0), Costs { pauses: 14, looks: 200, ticks: 2800 });
            assert_eq!(costs.scaled(0.5), Costs { pauses: 140, looks: 2000, ticks: 2800 });
        }

        #[test]
        fn longer_copies_take_longer() {
            let [none, short, long] = [0, SHORT, 1 << 30].map(in_caches);
            assert!(none == short && short < long, "{short:?}, {long:?}");
        }

        /// The clock may have a resolution of milliseconds, or may stand still.
        #[test]
        fn turns_too_short_for_the_clock_are_repeated_and_then_guessed() {
            let turns = in_a_while(0, 16, |_| ());
            assert!((1..=8 * WHILE as u32).contains(&turns), "{turns}");
        }
    }
}
