//! The one place in the library that blocks.
//!
//! A wait goes through up to three phases. Each costs the waiter less and the waker more than the previous one:
//!
//! 1. **spin**: look again and again, with the processor's pause between two looks, for about as long as a wake-up
//!    would cost (ski rental: never more than twice the best choice);
//! 2. **yield**: if the world has more working threads than cores, the awaited thread may need this core, so the waiter
//!    lets others run between two looks;
//! 3. **park**: record what the rank waits for, raise a flag where the waker looks, look once more after a full
//!    barrier, and sleep on the rank's doorbell, a futex that any process of the world can ring.
//!
//! [`WaitPolicy`] says how far a wait goes. A thread that makes an awaited condition true looks at the flag afterwards
//! ([`Asymmetry`]), and rings the doorbell only if the flag is raised.

mod apart;
mod backoff;
mod barrier;
mod caller;
mod carrier;
mod cpu;
mod listen;
mod news;
pub(crate) mod progress;
mod record;

use std::time::{Duration, Instant};

pub(crate) use apart::{Apart, Cpus, Seen};
pub use backoff::Backoff;
pub(crate) use barrier::{ARRIVED, Asymmetry};
pub use caller::Caller;
pub(crate) use caller::{Call, Called};
pub use carrier::Carrier;
pub(crate) use cpu::LineWait;
pub use listen::{Listener, listen, tell_messages};
pub use news::News;
pub use record::Operation;
pub(crate) use record::{Doing, NOBODY, WaitRecord, Waited, beside, beside_parts};

use crate::{
    costs,
    sync::{AtomicU32, Futex, Ordering, yield_now},
};

/// How far a blocked call goes before it gives up its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// Never sleeps. This has the lowest latency, for ranks that have a core each. If the world has more threads than
    /// cores, a waiting rank still lets others run between two looks.
    Spin,
    /// Spins for about as long as a wake-up costs, lets others run where cores are scarce, then sleeps. Idle ranks use
    /// no processor time.
    #[default]
    Adaptive,
    /// Sleeps at once. This uses the least processor time, for messages that are rare.
    Park,
}

/// The error for a policy name that is none of `spin`, `adaptive`, `park`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown wait policy {0:?}: expected spin, adaptive or park")]
pub struct UnknownWaitPolicy(String);

impl std::str::FromStr for WaitPolicy {
    type Err = UnknownWaitPolicy;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "spin" => Ok(Self::Spin),
            "adaptive" => Ok(Self::Adaptive),
            "park" => Ok(Self::Park),
            _ => Err(UnknownWaitPolicy(s.to_owned())),
        }
    }
}

impl std::fmt::Display for WaitPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
            Self::Park => "park",
        })
    }
}

/// How one call waits: with which policy, and how long at most.
///
/// Made from a [`Duration`] (a limit), a [`WaitPolicy`], or both.
///
/// ```
/// use std::time::Duration;
/// use onchip::{Wait, WaitPolicy};
///
/// let at_most = Wait::from(Duration::from_millis(5));
/// let asleep = Wait::from(WaitPolicy::Park).limit(Duration::from_secs(1));
/// assert_ne!(at_most, asleep);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    pub(crate) policy: Option<WaitPolicy>,
    pub(crate) limit: Option<Duration>,
    /// If news end the wait: the number of the [news](crate::waits::News) that the caller already knows.
    pub(crate) news: Option<u32>,
    /// Whether the [failure](progress::Part::failure) of a part ends the wait. `None` if that was not specified.
    pub(crate) failing: Option<bool>,
}

impl Wait {
    /// Waits as long as it takes, with the world's policy.
    pub const fn forever() -> Self {
        Self { policy: None, limit: None, news: None, failing: None }
    }

    /// Ends the wait with [`Timeout`](crate::ErrorKind::Timeout) after `limit`.
    pub const fn limit(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Returns how long the wait lasts at most.
    pub const fn time_limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Returns the rest of a wait that began at `began` and consists of several calls.
    pub fn since(self, began: Instant) -> Self {
        Self { limit: self.limit.map(|limit| limit.saturating_sub(began.elapsed())), ..self }
    }

    /// Returns whether no time is left.
    pub(crate) fn is_over(self) -> bool {
        self.limit.is_some_and(|limit| limit.is_zero())
    }

    /// Also ends the wait with [`Timeout`](crate::ErrorKind::Timeout) when the [news](crate::waits::News) differ from
    /// `heard`.
    pub const fn until_news(self, heard: u32) -> Self {
        Self { news: Some(heard), ..self }
    }

    /// Also ends the wait with the [error](crate::progress::Part::failure) of another pending operation of the rank,
    /// when that operation has failed and no call has returned its error. The wait may be for the answer to the failed
    /// operation, which will never come. Waits for messages, flags and requests do this by default.
    pub const fn or_failure(self) -> Self {
        match self.failing {
            None => Self { failing: Some(true), ..self },
            Some(_) => self,
        }
    }

    /// Continues the wait when another operation has failed, and leaves its error to a later wait. Use this for a call
    /// that would otherwise lose its own result.
    pub const fn despite_failure(self) -> Self {
        Self { failing: Some(false), ..self }
    }

    /// Uses `policy` instead of the world's.
    pub const fn policy(self, policy: WaitPolicy) -> Self {
        Self { policy: Some(policy), ..self }
    }
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        Self::forever().limit(limit)
    }
}

impl From<WaitPolicy> for Wait {
    fn from(policy: WaitPolicy) -> Self {
        Self::forever().policy(policy)
    }
}

/// A flag that a sleeper raises, and at which its waker looks.
pub(crate) trait Flag {
    fn raise(&self);
    fn lower(&self);

    /// Returns the flag to which this one adds something. That flag answers what this one does not answer itself.
    fn inner(&self) -> Option<&dyn Flag> {
        None
    }

    /// Returns another futex on which the sleeper sleeps, together with other sleepers.
    fn bell(&self) -> Option<&Futex> {
        self.inner()?.bell()
    }

    /// Returns the time after which the sleeper looks again even if it was not woken.
    fn tick(&self) -> Option<Duration> {
        self.inner()?.tick()
    }

    /// Returns the places of the descriptors of further channels, in addition to the one that [`Doing`] names, or other
    /// words that the [`WaitRecord`] contains for the operation.
    fn further(&self) -> Vec<u64> {
        self.inner().map_or_else(Vec::new, |flag| flag.further())
    }

    /// Returns what the rank's other pending operations wait for.
    fn beside(&self) -> Vec<u64> {
        self.inner().map_or_else(Vec::new, |flag| flag.beside())
    }

    /// Returns whether only threads of this node can end the wait, so that nothing has to be [carried](Carrier) for it.
    fn ends_here(&self) -> bool {
        self.inner().is_some_and(|flag| flag.ends_here())
    }

    /// Returns whether another node may end the wait, which takes longer.
    fn is_far(&self) -> bool {
        self.inner().is_some_and(|flag| flag.is_far())
    }

    /// Returns whether a look takes as long as many pauses.
    fn looks_slowly(&self) -> bool {
        self.inner().is_some_and(|flag| flag.looks_slowly())
    }

    /// Returns the call that waits, in the program's words, where that is known: see [`Caller`].
    fn call(&self) -> Option<String> {
        self.inner()?.call()
    }
}

/// The settings of a rank's waits that do not change from call to call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) policy: WaitPolicy,
    pub(crate) asymmetry: Asymmetry,
    pub(crate) line_wait: LineWait,
    /// The number of cores that the world's ranks leave free. It is negative if there are too few cores for the ranks.
    pub(crate) spare: i64,
}

/// What a rank needs to sleep, and to be seen asleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleeper<'a> {
    /// The futex on which the rank sleeps.
    pub(crate) doorbell: &'a Futex,
    pub(crate) record: &'a WaitRecord,
    /// As in [`Waiting::crowded`].
    pub(crate) helpers: &'a AtomicU32,
    /// `None` if the rank need not keep to a CPU of its own.
    pub(crate) apart: Option<Apart<'a>>,
}

/// How long a wait spins: about the time that it takes to wake a thread that sleeps on an idle core. This takes 4 to 60
/// µs, depending on the machine and on how deep the core sleeps. If the spin lasts as long as the wake-up, no wait
/// costs more than twice what it had to. If it lasts half or twice as long, no wait costs more than three times that.
///
/// In a crowded world, a rank yields for this time instead, which is enough for some switches between ranks that have
/// little to do. To the system, a rank that yields looks busy. If ranks yielded for longer, the system would not move
/// ranks that have work to their cores.
pub(crate) const SPIN: Duration = Duration::from_micros(20);
/// The same of a wait that another node may end. A sleep costs two wake-ups, that of the thread that carries messages between
/// nodes and that of the sleeper. While one of the two is late, the thread that waits at the other node must not go to sleep
/// for that.
const FAR: Duration = Duration::from_micros(100);
/// How long a wait uses plain pauses between two looks, before it is worth arming the processor's line wait: the time
/// of some far line transfers.
const PAUSING: Duration = Duration::from_nanos(1800);
/// The time from one reading of the clock to the next. A reading takes a tenth of that or less.
pub(crate) const PER_CLOCK: Duration = Duration::from_nanos(450);
/// How long to look without a pause at something that another rank is just about to write: the time that a message or a
/// flag takes to arrive, and its sender's work in between.
pub(crate) const UNDER_WAY: Duration = Duration::from_nanos(1400);

/// Returns CLOCK_MONOTONIC in nanoseconds. All processes of a machine share it.
pub(crate) fn monotonic_ns() -> u64 {
    #[cfg(not(any(loom, miri)))]
    {
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
            .map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
    }
    #[cfg(any(loom, miri))]
    {
        0
    }
}

/// Sleeps for about `time`. Nothing ends the sleep earlier. In models, which have no time, this only yields.
pub(crate) fn nap(time: Duration) {
    if cfg!(loom) {
        yield_now();
    } else {
        std::thread::sleep(time);
    }
}

impl Waiting {
    /// Returns how many cores `ranks` ranks leave free.
    pub(crate) fn spare(cores: usize, ranks: usize) -> i64 {
        cores as i64 - ranks as i64
    }

    /// Returns how many cores a world of `ranks` ranks may use.
    pub(crate) fn cores(&self, ranks: usize) -> usize {
        usize::try_from(self.spare + ranks as i64).unwrap_or(0).max(1)
    }

    /// Returns whether the world has more working threads than cores. `helpers` counts the working threads that are not
    /// ranks. They come and go, so each long wait checks this again.
    pub(crate) fn crowded(&self, helpers: &AtomicU32) -> bool {
        i64::from(helpers.load(Ordering::Relaxed)) > self.spare
    }

    /// Looks once, and then continues as [`wait_slowly`](Self::wait_slowly).
    #[cfg(all(test, loom))]
    pub(crate) fn wait<T>(
        &self,
        wait: Wait,
        sleeper: Sleeper<'_>,
        doing: Doing,
        line: *const (),
        flags: &dyn Flag,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(answer) = poll() {
            return Some(answer);
        }
        self.wait_slowly(wait, sleeper, doing, line, flags, &mut poll)
    }

    /// Calls `poll` until it answers, and returns the answer, or `None` when the limit of `wait` has expired. The
    /// caller has looked once already.
    ///
    /// `line` is the address that a waker is expected to write. `flags` are raised before the rank sleeps. `poll` must look at everything that can end the wait,
    /// with Acquire loads if the caller then reads data.
    #[cold]
    pub(crate) fn wait_slowly<T>(
        &self,
        wait: Wait,
        sleeper: Sleeper<'_>,
        doing: Doing,
        line: *const (),
        flags: &dyn Flag,
        poll: &mut dyn FnMut() -> Option<T>,
    ) -> Option<T> {
        let Sleeper { record, helpers, .. } = sleeper;
        let policy = wait.policy.unwrap_or(self.policy);
        if cfg!(loom) {
            return park(self.asymmetry, sleeper, flags, None, poll);
        }
        let pauses = match policy {
            WaitPolicy::Park => 0,
            // The limit counts only from the loop below on.
            _ if flags.looks_slowly() => 0,
            // The awaited thread may need this core.
            _ if self.crowded(helpers) => 0,
            _ => costs::pauses(PAUSING),
        };
        for _ in 0..pauses {
            std::hint::spin_loop();
            if let Some(answer) = poll() {
                return Some(answer);
            }
        }

        let _told = listen::Told::begin(doing.operation);
        let apart = sleeper.apart.filter(|_| !self.crowded(helpers));
        if let Some(apart) = apart {
            apart.arrive(monotonic_ns);
        }
        let sleeper = Sleeper { apart, ..sleeper };
        let started = Instant::now();
        let deadline = wait.limit.and_then(|limit| started.checked_add(limit));
        let over = |now: Instant| deadline.is_some_and(|deadline| now >= deadline);
        let budget = match policy {
            WaitPolicy::Park => Duration::ZERO,
            _ if flags.is_far() => FAR,
            _ => SPIN,
        };
        // A sleep on the line takes longer than the time between two readings of the clock.
        let is_slow = self.line_wait.sleeps_on(line) || flags.looks_slowly();
        let pauses = if is_slow { 1 } else { costs::pauses(PER_CLOCK) };
        let mut told = false;
        let mut answer = None;
        'looking: loop {
            if self.crowded(helpers) {
                yield_now();
                answer = poll();
                if answer.is_some() {
                    break;
                }
            } else {
                for _ in 0..pauses {
                    self.line_wait.sleep_on_line(line, || {
                        answer = poll();
                        answer.is_some()
                    });
                    if answer.is_none() {
                        answer = poll();
                    }
                    if answer.is_some() {
                        break 'looking;
                    }
                }
            }
            let now = Instant::now();
            if over(now) {
                break;
            }
            if now - started >= budget {
                if !told {
                    told = true;
                    let now_ns = monotonic_ns();
                    let until_ns = deadline.map(|deadline| {
                        let left = deadline.saturating_duration_since(now).as_nanos();
                        now_ns.saturating_add(left.min(u128::from(u64::MAX)) as u64)
                    });
                    let call = flags.call().unwrap_or_default();
                    let (further, beside) = (flags.further(), flags.beside());
                    record.begin(doing, &further, &beside, &call, now_ns, until_ns);
                }
                if policy != WaitPolicy::Spin {
                    answer = park(self.asymmetry, sleeper, flags, deadline, poll);
                    break;
                }
            }
        }
        if told {
            record.end();
        }
        answer
    }
}

/// Sleeps until `poll` answers or the deadline has passed.
///
/// No wake-up is lost, because of the order: this first reads the value of the doorbell, and of the [bell](Flag::bell)
/// if there is one; then raises the flag; then looks at the condition, after the heavy barrier. A waker whose store
/// this look misses comes after the barrier, and so sees the flag. It advances the doorbell, and a sleep on the old
/// value then returns at once.
///
/// If the barrier may have missed a waker, the first sleep is short. If it lasts, it is followed by a second look and a
/// second sleep on the same values: by then, what a waker that has missed the flag has stored is visible. If it ends early,
/// by a signal for example, all begins anew.
fn park<T>(
    asymmetry: Asymmetry,
    sleeper: Sleeper<'_>,
    flags: &dyn Flag,
    deadline: Option<Instant>,
    poll: &mut dyn FnMut() -> Option<T>,
) -> Option<T> {
    let Sleeper { doorbell, apart, .. } = sleeper;
    loop {
        let heard = doorbell.value();
        let bell = flags.bell().map(|bell| (bell, bell.value()));
        flags.raise();
        let mut unsure = asymmetry.heavy().map(|limit| (limit, Instant::now()));
        loop {
            let answer = poll();
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if answer.is_some() || left.is_some_and(|left| left.is_zero()) {
                flags.lower();
                return answer;
            }
            if let Some(apart) = apart {
                apart.leave();
            }
            let most = unsure.map(|(limit, _)| limit);
            let limit = [left, flags.tick(), most].into_iter().flatten().min();
            match bell {
                Some(bell) => Futex::sleep_on_any(&[bell, (doorbell, heard)], ARRIVED, limit),
                None => doorbell.sleep(heard, limit),
            }
            if let Some(apart) = apart {
                apart.arrive(monotonic_ns);
            }
            match unsure.take() {
                Some((_, fenced)) if fenced.elapsed() >= ARRIVED => {}
                _ => break,
            }
        }
        // Mostly the condition is true after a wake-up. This look saves the barrier above, which costs as much as half
        // a wake-up.
        if let Some(answer) = poll() {
            flags.lower();
            return Some(answer);
        }
    }
}

/// Parks like a real wait until `poll` answers, for models.
#[cfg(all(test, loom))]
pub(crate) fn parked<T>(bell: &Futex, flag: &dyn Flag, poll: impl FnMut() -> Option<T>) -> T {
    let waiting = Waiting {
        policy: WaitPolicy::Park,
        asymmetry: Asymmetry::Ordinary,
        line_wait: LineWait::Pause,
        spare: 0,
    };
    let doing = Doing { operation: Operation::Receive, channel: 0 };
    let (record, helpers) = (WaitRecord::new(), AtomicU32::new(0));
    let sleeper = Sleeper { doorbell: bell, record: &record, helpers: &helpers, apart: None };
    waiting
        .wait(Wait::forever(), sleeper, doing, std::ptr::null(), flag, poll)
        .expect("a wait without a limit ends with an answer")
}
