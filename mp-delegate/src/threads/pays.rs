//! A small model of when a communication thread (KT) pays, and the rule that follows from it.
//!
//! A rank repeatedly computes for a *grain* of time and then sends a message. All values are in nanoseconds and bytes.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | `Tc` | grain: time the rank computes between two sends | given |
//! | `σ` | size of the message | given |
//! | `L(σ)` | time of an inline send: a fixed part, and a part for each byte, which is larger past 256 KiB | [`Costs::inline`] |
//! | `K(σ)` | time until a delegated message is there if the KT is awake, with the same parts | [`Costs::delegated`] |
//! | `D` | the rank's time to delegate and to take the request back | [`Costs::delegating`] |
//! | `W` | the rank's time to wake a sleeping KT | [`Costs::waking`] |
//! | `V` | time until a sleeping KT comes | [`Costs::coming`] |
//! | `s` | part of its time that the computation loses while the KT copies | [`Costs::slowed`] |
//! | `X` | time lost if the KT has no hardware thread of its own: context switches, and the time that each of the two spins before it lets the other run | [`Costs::switching`] |
//!
//! ```text
//! inline                  T = Tc + L(σ)
//! KT on a spare thread    T = D + max(Tc + s·min(Tc, K(σ)), K(σ))
//!   that sleeps           T = D + W + max(Tc + s·min(Tc, K(σ)), V + K(σ))
//! KT on no spare thread   T = D + X + Tc + K(σ)
//! gain                    1 − T/(Tc + L(σ))
//! ```
//!
//! Source: Buono et al., figure 1. With `Tc ≥ K(σ)` the copy is fully masked, otherwise partially. `s` is larger on a
//! hardware thread of the rank's own core than on another core.
//!
//! **The rule.** After a long grain, delegating pays from the size at which `L(σ) = D + s·K(σ)`, the
//! [break-even](Costs::break_even). A sleeping KT adds `W`. Without a spare hardware thread, delegating never pays.
//! [`Choice::Auto`](super::Choice::Auto) follows this rule. The program [says](super::Builder::spare) what the KTs have
//! to run on. Otherwise this is counted: the KT that is to copy needs a core that neither a rank nor another working KT
//! has.

use mp_core::topology::{KtPlan, Topology};

/// The hardware that communication threads have to run on, as seen from the ranks they serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spare {
    /// Cores that no rank has.
    Core,
    /// Other hardware threads of the ranks' cores.
    Sibling,
    /// Only the hardware threads that the ranks run on.
    None,
}

impl Spare {
    /// Returns what a plan gives to its KTs: the worst case among them, or [`None`](Self::None) if it has no KTs. If
    /// the plan does not bind threads, they are counted. With more ranks and KTs than cores, some of them run on
    /// siblings. With more than hardware threads, some of them have none to spare.
    pub fn of(plan: &KtPlan, topology: &Topology) -> Self {
        if plan.kts().is_empty() {
            return Self::None;
        }
        if plan.kts().iter().any(|kt| kt.cpu.is_none()) {
            let threads = plan.ranks() + plan.kts().len();
            let quota = topology.allowance().quota.as_ref();
            return if threads > topology.usable_cpus().len()
                || quota.is_some_and(|quota| !quota.covers(threads))
            {
                Self::None
            } else if threads > topology.usable_cores() {
                Self::Sibling
            } else {
                Self::Core
            };
        }
        let mut spare = Self::Core;
        let core = |cpu: Option<usize>| cpu.and_then(|cpu| topology.core_of(cpu));
        for kt in plan.kts() {
            if kt.crowded {
                return Self::None;
            }
            let here = core(kt.cpu);
            if here.is_some() && plan.cpus().iter().any(|&cpu| core(cpu) == here) {
                spare = Self::Sibling;
            }
        }
        spare
    }
}

/// A time that grows with a message's size: a fixed part, and a part for each KiB, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copying {
    /// Nanoseconds for an empty message.
    pub fixed: f64,
    /// Nanoseconds for each 1024 bytes up to [`KNEE`](Self::KNEE).
    pub per_kib: f64,
    /// Nanoseconds for each 1024 bytes past [`KNEE`](Self::KNEE).
    pub per_kib_beyond: f64,
}

impl Copying {
    /// The size in bytes past which a copy no longer stays within the caches of a core.
    pub const KNEE: usize = 256 << 10;

    /// Returns the nanoseconds for a message of `bytes` bytes.
    pub fn at(self, bytes: usize) -> f64 {
        let (near, beyond) = (bytes.min(Self::KNEE), bytes.saturating_sub(Self::KNEE));
        self.fixed + (self.per_kib * near as f64 + self.per_kib_beyond * beyond as f64) / 1024.0
    }
}

/// The constants of the [model](self), in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// `L`: an inline send.
    pub inline: Copying,
    /// `K`: a delegated send, until the message is there.
    pub delegated: Copying,
    /// `D`: delegating, and taking the request back.
    pub delegating: f64,
    /// `W`: waking a sleeping KT.
    pub waking: f64,
    /// `V`: the time until a sleeping KT comes.
    pub coming: f64,
    /// `s` for a KT on a core of its own, from 0 to 1.
    pub slowed: f64,
    /// `s` for a KT on another hardware thread of the rank's core, from 0 to 1.
    pub slowed_by_sibling: f64,
    /// `X`: the time lost without a hardware thread for the KT.
    pub switching: f64,
    /// How long a KT with nothing to do looks for work before it sleeps; infinite if it never sleeps.
    pub spinning: f64,
}

impl Default for Costs {
    /// Returns values that are typical of a virtual machine with two Zen 5 cores (`cargo bench --bench when_it_pays`).
    /// There, `delegating` and `delegated.fixed` differ by a factor of two to five from run to run. The larger values
    /// are taken, so that a message that hardly gains is sent inline. The bench does not measure two of the values:
    /// `coming` is the time of a futex wake on that machine, and `slowed_by_sibling` is an assumption, because that
    /// machine has no siblings.
    fn default() -> Self {
        Self {
            inline: Copying { fixed: 90.0, per_kib: 8.5, per_kib_beyond: 17.0 },
            delegated: Copying { fixed: 320.0, per_kib: 8.5, per_kib_beyond: 16.5 },
            delegating: 185.0,
            waking: 8_500.0,
            coming: 20_500.0,
            slowed: 0.02,
            slowed_by_sibling: 0.35,
            switching: 25_000.0,
            spinning: 20_000.0,
        }
    }
}

impl Costs {
    /// Returns `s`, or 1 if the rank can't compute at all meanwhile.
    fn slowing(&self, spare: Spare) -> f64 {
        match spare {
            Spare::Core => self.slowed,
            Spare::Sibling => self.slowed_by_sibling,
            Spare::None => 1.0,
        }
    }

    /// Returns the time of a grain of `grain` nanoseconds and an inline send.
    pub fn time_inline(&self, grain: f64, bytes: usize) -> f64 {
        grain + self.inline.at(bytes)
    }

    /// Returns the time of a grain of `grain` nanoseconds and a delegated send.
    pub fn time_delegated(&self, grain: f64, bytes: usize, spare: Spare) -> f64 {
        let copying = self.delegated.at(bytes);
        if spare == Spare::None {
            return self.delegating + self.switching + grain + copying;
        }
        // The KT sleeps if it had nothing to do for longer than it spins, since it sent the message before.
        let asleep = grain - copying > self.spinning;
        let (waking, coming) = if asleep { (self.waking, self.coming) } else { (0.0, 0.0) };
        let computing = grain + self.slowing(spare) * grain.min(copying);
        self.delegating + waking + computing.max(coming + copying)
    }

    /// Returns the part of the time that delegating saves. It is negative if delegating costs time.
    pub fn gain(&self, grain: f64, bytes: usize, spare: Spare) -> f64 {
        1.0 - self.time_delegated(grain, bytes, spare) / self.time_inline(grain, bytes)
    }

    /// Returns the sizes from which delegating pays after a long grain, or `None` if it never does.
    pub fn break_even(&self, spare: Spare) -> Option<BreakEven> {
        if spare == Spare::None {
            return None;
        }
        let slowing = self.slowing(spare);
        let each = self.inline.per_kib - slowing * self.delegated.per_kib;
        let each_beyond = self.inline.per_kib_beyond - slowing * self.delegated.per_kib_beyond;
        if each <= 0.0 || each_beyond <= 0.0 {
            return None;
        }
        let from = |delegating: f64| {
            let more = delegating + slowing * self.delegated.fixed - self.inline.fixed;
            let near = 1024.0 * more.max(0.0) / each;
            let knee = Copying::KNEE as f64;
            let bytes = if near <= knee { near } else { knee + (near - knee) * each / each_beyond };
            bytes.ceil() as usize
        };
        Some(BreakEven {
            awake: from(self.delegating),
            asleep: from(self.delegating + self.waking),
        })
    }
}

/// The sizes in bytes from which delegating pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakEven {
    /// The size if the thread is awake.
    pub awake: usize,
    /// The size if the thread has to be woken.
    pub asleep: usize,
}

/// Returns whether a message is to be delegated: the rule of [`Choice::Auto`](super::Choice::Auto).
///
/// `spared` returns whether there is a core for the thread; its argument says whether the thread sleeps. If the channel
/// has no room, a message of any size is delegated, so that the caller need not wait. It is not delegated if threads
/// could only ever run in the caller's place.
#[inline]
pub(super) fn delegates(
    break_even: Option<BreakEven>,
    bytes: usize,
    asleep: impl FnOnce() -> bool,
    spared: impl FnOnce(bool) -> bool,
    room: impl FnOnce() -> bool,
) -> bool {
    let Some(BreakEven { awake, asleep: sleeping }) = break_even else { return false };
    let pays = || {
        let asleep = asleep();
        (bytes >= sleeping || !asleep) && spared(asleep)
    };
    bytes >= awake && pays() || !room()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: Option<BreakEven> = Some(BreakEven { awake: 1000, asleep: 5000 });

    fn decision(bytes: usize, asleep: bool, room: bool) -> bool {
        delegates(BOTH, bytes, || asleep, |_| true, || room)
    }

    #[test]
    fn from_the_break_even_on() {
        assert_eq!(
            [0, 1, 999, 1000, 1001].map(|n| decision(n, false, true)),
            [false, false, false, true, true]
        );
        assert_eq!(
            [999, 1000, 4999, 5000, 5001].map(|n| decision(n, true, true)),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn a_full_channel_holds_nobody_up() {
        assert!(decision(0, false, false));
        assert!(decision(4999, true, false));
    }

    #[test]
    fn never_without_a_spare_thread() {
        for (asleep, room) in [(false, false), (false, true), (true, false), (true, true)] {
            assert!(!delegates(None, usize::MAX, || asleep, |_| true, || room));
        }
        assert_eq!(Costs::default().break_even(Spare::None), None);
    }

    #[test]
    fn not_where_others_have_the_spare_cores_but_into_full_channels() {
        for asleep in [false, true] {
            assert!(!delegates(BOTH, usize::MAX, || asleep, |_| false, || true));
            assert!(delegates(BOTH, 0, || asleep, |_| false, || false));
            // A thread that is awake already has its core.
            let spared = |asleep: bool| !asleep;
            assert_eq!(delegates(BOTH, usize::MAX, || asleep, spared, || true), !asleep);
        }
    }

    #[test]
    fn the_worse_the_place_the_larger_the_message() {
        let at = |spare| Costs::default().break_even(spare).expect("pays somewhere");
        let (core, sibling) = (at(Spare::Core), at(Spare::Sibling));
        assert!(core.awake < sibling.awake && core.asleep < sibling.asleep);
        assert!(core.awake < core.asleep);
        // Not a cache line, and not a megabyte.
        assert!((1 << 10..64 << 10).contains(&core.awake), "{core:?}");
        assert!((64 << 10..1 << 20).contains(&core.asleep), "{core:?}");
    }

    #[test]
    fn a_sibling_that_takes_all_the_copy_costs_never_pays() {
        let costs = Costs { slowed_by_sibling: 1.0, ..Costs::default() };
        assert_eq!(costs.break_even(Spare::Sibling), None);
    }

    #[test]
    fn free_delegation_pays_from_the_first_byte() {
        let costs = Costs { delegating: 0.0, waking: 0.0, slowed: 0.0, ..Costs::default() };
        assert_eq!(costs.break_even(Spare::Core), Some(BreakEven { awake: 0, asleep: 0 }));
    }

    proptest! {
        /// The rule agrees with the model: what it delegates after a long grain gains, and the rest does not.
        #[test]
        fn the_break_even_is_where_the_gain_begins(
            bytes in 0usize..4 << 20,
            slowed in 0.0..0.5f64,
            delegating in 10.0..1000.0f64,
            sleeps in any::<bool>(),
        ) {
            let spinning = if sleeps { 20_000.0 } else { f64::INFINITY };
            let costs = Costs { slowed, delegating, spinning, ..Costs::default() };
            let grain = 10.0 * costs.delegated.at(bytes) + 100_000.0;
            let from = costs.break_even(Spare::Core).expect("pays somewhere");
            let from = if sleeps { from.asleep } else { from.awake };
            // The break-even is rounded up to whole bytes.
            prop_assume!(bytes.abs_diff(from) > 1);
            prop_assert_eq!(costs.gain(grain, bytes, Spare::Core) > 0.0, bytes > from);
        }

        #[test]
        fn no_spare_thread_no_gain(bytes in 0usize..4 << 20, grain in 0.0..1e7f64) {
            prop_assert!(Costs::default().gain(grain, bytes, Spare::None) < 0.0);
        }

        /// Delegating saves at most the copy.
        #[test]
        fn at_most_the_copy_is_hidden(bytes in 0usize..4 << 20, grain in 0.0..1e7f64) {
            let costs = Costs::default();
            for spare in [Spare::Core, Spare::Sibling] {
                let saved = costs.time_inline(grain, bytes) - costs.time_delegated(grain, bytes, spare);
                prop_assert!(saved <= costs.inline.at(bytes));
            }
        }
    }
}
