//! The cost of a processor's pause and of a look at a word on this machine, so that every wait can be given as a time.
//!
//! A pause takes 140 cycles on one processor and ten on another. The same number of turns of a loop is therefore as
//! long as a message's way on the latter, and as long as a wake-up on the former. The constants are times. The number
//! of turns follows from a measurement that this process makes once, when it is needed for the first time. That takes
//! 10 to 20 µs. `docs/constants.md` has the table of all constants.

use std::time::Duration;

/// The number of turns that take about as long as [`WHILE`], for loops in which each turn is one such action. For
/// almost any wait it does not matter whether they are half or twice as many. So nothing is compared with a clock that
/// changes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Costs {
    pauses: u32,
    looks: u32,
    /// Ticks of the counter by which `UMWAIT` and `MWAITX` end.
    ticks: u32,
}

/// A time is converted to a number of turns by a multiplication and a shift.
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

/// Looks with `poll` up to `looks` times, without a pause, until it answers. Each look begins after the one before.
///
/// Without this order, a processor begins dozens of looks ahead of time. When another core writes the word, the
/// processor has to discard all of them and begin them again. On a channel, a round trip of 8 bytes took a quarter less
/// time with a fence after each look. `docs/constants.md` has the figures, including cases where a fence makes it
/// slower.
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

/// Waits for the loads of a look, so that no other look begins before: see [`look`].
#[inline(always)]
pub fn end_look() {
    // SAFETY: the instruction ends after all loads before it, and changes nothing. Every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    unsafe {
        std::arch::asm!("lfence", options(nostack, preserves_flags));
    }
}

/// Returns how far the processor's time counter advances in this time.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ticks(time: Duration) -> u32 {
    turns(time, measured().ticks)
}

/// Returns about how long it takes to copy this many bytes past the caches and to read them again. `None` if there is
/// no such copy.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
pub(crate) fn past_caches(bytes: usize) -> Option<Duration> {
    Some(clock::past_caches(bytes))
}

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
pub(crate) fn past_caches(_bytes: usize) -> Option<Duration> {
    None
}

#[inline]
fn turns(time: Duration, in_a_while: u32) -> u32 {
    let nanos = time.as_nanos().min(1 << 32) as u64;
    let turns = (nanos * u64::from(in_a_while)) >> SHIFT;
    u32::try_from(turns).unwrap_or(u32::MAX).max(1)
}

/// Returns costs by which every wait is one turn: in models there is no time, and interpreted code is not measured.
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

    /// Names the environment variable that says how much slower this machine is to seem than it is: 5 makes all loops a
    /// fifth as long. This is for experiments that show the value of the constants by making them wrong.
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

    /// Returns how many turns `run` takes in a [`WHILE`], where a reading of the clock takes `reading` nanoseconds. It
    /// is measured with `turns` turns, or with more if these take too little time for the clock.
    fn in_a_while(reading: u64, mut turns: u32, run: impl Fn(u32)) -> u32 {
        loop {
            let took = shortest(|| run(turns));
            // On a clock that stands still a turn takes a nanosecond.
            let is_last = turns >= 1 << 14;
            if is_last || took >= (8 * reading).max(150) {
                let nanos = took.saturating_sub(reading).max(1);
                let in_a_while = (u64::from(turns) * WHILE / nanos).clamp(1, 8 * WHILE);
                return in_a_while as u32;
            }
            turns *= 4;
        }
    }

    /// Returns the shortest of several runs, by the clock: during the others, something else may have used the
    /// processor.
    fn shortest(run: impl Fn()) -> u64 {
        let times = (0..5).map(|_| {
            let began = Instant::now();
            run();
            began.elapsed().as_nanos() as u64
        });
        times.min().unwrap_or_default()
    }

    /// See [`costs::past_caches`](super::past_caches). Measured when it is asked for the first time, in 50 µs.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn past_caches(bytes: usize) -> Duration {
        const LEN: usize = 32 << 10;
        static NANOS: OnceLock<u64> = OnceLock::new();
        let nanos = *NANOS.get_or_init(|| {
            let (from, mut to, mut back) = (vec![1_u8; LEN], vec![0_u8; LEN], vec![0_u8; LEN]);
            let from = NonNull::from(&from[..]).cast();
            let [to, back] = [&mut to, &mut back].map(|bytes| NonNull::from(&mut bytes[..]).cast());
            shortest(|| {
                // SAFETY: three vectors of this length.
                unsafe {
                    copy_past_caches(from, to, LEN);
                    copy_bytes(to, back, LEN);
                }
            })
        });
        Duration::from_nanos((nanos as u128 * bytes as u128 / LEN as u128) as u64)
    }

    fn counter() -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
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

        /// However busy the machine is, a pause takes some time, and no more than a few microseconds.
        #[test]
        fn what_is_measured_is_of_this_world() {
            let costs = measure();
            for turns in [costs.pauses, costs.looks] {
                assert!((1..=8 * WHILE as u32).contains(&turns), "{costs:?}");
            }
            if cfg!(target_arch = "x86_64") {
                // From 10 MHz to 100 GHz.
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

        /// A clock of whole milliseconds, or none.
        #[test]
        fn turns_too_short_for_the_clock_are_repeated_and_then_guessed() {
            let turns = in_a_while(0, 16, |_| ());
            assert!((1..=8 * WHILE as u32).contains(&turns), "{turns}");
        }
    }
}
