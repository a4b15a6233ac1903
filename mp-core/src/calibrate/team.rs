//! Threads on separate CPUs that go through rounds in step.

use std::time::{Duration, Instant};

use super::Unmeasured;
use crate::{
    line::{Line, add, wait, write},
    sync::Mutex,
    topology::pin_current_thread,
};

/// How often, and how long, a team measures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The number of rounds that suffices.
    rounds: u64,
    /// The number of rounds that are made even if they take longer than `time`.
    least: u64,
    /// The time after which no further round begins.
    time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { rounds: 200, least: 5, time: Duration::from_millis(30) }
    }
}

impl Limits {
    /// Returns limits for each of many points.
    pub(super) fn short() -> Self {
        Limits { rounds: 100, least: 5, time: Duration::from_millis(10) }
    }
}

/// A thread of a team.
pub(super) struct Member<'a> {
    /// The place of the member's CPU in the order of the CPUs.
    pub(super) seat: usize,
    shared: &'a Shared,
    limits: Limits,
    started: Instant,
    rounds: u64,
}

struct Shared {
    size: u64,
    /// The number of times that members have arrived at a [`pass`](Member::pass), all members together.
    passed: Line,
    /// Whether there is another round. The first member sets it.
    again: Line,
    /// Whether a member is missing.
    broken: Line,
    why: Mutex<Option<Unmeasured>>,
}

impl Shared {
    fn breaks(&self, why: impl std::fmt::Display) {
        // A poisoned lock does no harm, because the reason is only set once.
        let mut reason = self.why.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        reason.get_or_insert(Unmeasured::Failed { why: why.to_string() });
        drop(reason);
        write(&self.broken, 1);
    }

    fn is_broken(&self) -> bool {
        self.broken.flag() != 0
    }
}

/// A guard that breaks the team if its member panics, so that no other member waits for that one.
struct BreaksUnlessWhole<'a>(&'a Shared);

impl Drop for BreaksUnlessWhole<'_> {
    fn drop(&mut self) {
        self.0.breaks("a thread that measures has panicked");
    }
}

impl Member<'_> {
    /// Waits until all members have arrived.
    pub(super) fn pass(&self) {
        let Shared { size, passed, .. } = self.shared;
        let all = (add(passed, 1) / size + 1) * size;
        wait(passed, |value| value >= all, || self.shared.is_broken());
    }

    /// Polls a flag until another member has set it to `value` or more, or until a member is missing.
    pub(super) fn listen(&self, line: &Line, value: u64) {
        wait(line, |seen| seen >= value, || self.shared.is_broken());
    }

    /// Returns whether there is another round. In each round all members must call [`pass`](Self::pass) equally often,
    /// and at least once.
    pub(super) fn again(&mut self) -> bool {
        if self.seat == 0 {
            let Limits { rounds, least, time } = self.limits;
            let more =
                self.rounds < rounds && (self.rounds < least || self.started.elapsed() < time);
            write(&self.shared.again, more.into());
        }
        self.rounds += 1;
        self.pass();
        self.shared.again.flag() == 1 && !self.shared.is_broken()
    }
}

/// Runs `part` in a thread on each CPU. Returns the results of all threads in the order of the CPUs.
pub(super) fn play<T: Send>(
    cpus: &[usize],
    limits: Limits,
    part: impl Fn(&mut Member<'_>) -> T + Sync,
) -> Result<Vec<T>, Unmeasured> {
    let shared = Shared {
        size: cpus.len() as u64,
        passed: Line::new(),
        again: Line::new(),
        broken: Line::new(),
        why: Mutex::new(None),
    };
    let (shared, part) = (&shared, &part);
    let said: Vec<Option<T>> = std::thread::scope(|scope| {
        let start = |(seat, &cpu): (usize, &usize)| {
            let run = move || {
                if let Err(error) = pin_current_thread(cpu) {
                    shared.breaks(error);
                    return None;
                }
                let started = Instant::now();
                let mut member = Member { seat, shared, limits, started, rounds: 0 };
                // No member begins before all are pinned.
                member.pass();
                if shared.is_broken() {
                    return None;
                }
                let whole = BreaksUnlessWhole(shared);
                let said = part(&mut member);
                std::mem::forget(whole);
                Some(said)
            };
            let name = format!("calibrate {seat}");
            let started = std::thread::Builder::new().name(name).spawn_scoped(scope, run);
            started.map_err(|error| shared.breaks(error)).ok()
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread?.join().ok()?).collect()
    });
    let why = shared.why.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    let lost = || Unmeasured::Failed { why: "a thread that measures was lost".to_owned() };
    match why {
        Some(why) => Err(why),
        None => said.into_iter().collect::<Option<Vec<T>>>().ok_or_else(lost),
    }
}

pub(super) fn picos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::topology::current_affinity;

    #[test]
    fn members_go_through_rounds_in_step() {
        let cpus: Vec<usize> = current_affinity().unwrap().iter().collect();
        let seats = [cpus[0], cpus[cpus.len() - 1], cpus[0]];
        let count = Line::new();
        let limits = Limits { rounds: 50, least: 3, time: Duration::from_secs(60) };
        let said = play(&seats, limits, |member| {
            let mut rounds = 0;
            while member.again() {
                assert_eq!(count.flag(), 3 * rounds);
                member.pass();
                add(&count, 1);
                member.pass();
                rounds += 1;
            }
            (member.seat, rounds)
        });
        assert_eq!(said.unwrap(), [(0, 50), (1, 50), (2, 50)]);
    }

    #[test]
    fn a_part_that_panics_ends_those_of_all() {
        let cpu = current_affinity().unwrap().first().unwrap();
        let said = play(&[cpu, cpu], Limits::default(), |member| {
            while member.again() {
                assert!(member.seat == 0, "as it should");
                member.pass();
            }
        });
        let Err(Unmeasured::Failed { why }) = said else { panic!("{said:?}") };
        assert!(why.contains("panicked"), "{why}");
    }

    #[test]
    fn time_ends_it_but_not_before_the_least_was_done() {
        let cpu = current_affinity().unwrap().first().unwrap();
        let limits = Limits { rounds: 1000, least: 3, time: Duration::ZERO };
        let said = play(&[cpu, cpu], limits, |member| {
            let round = |member: &mut Member<'_>| member.again().then(|| member.pass());
            (0..).take_while(|_| round(member).is_some()).count()
        });
        assert_eq!(said.unwrap(), [3, 3]);
    }
}
