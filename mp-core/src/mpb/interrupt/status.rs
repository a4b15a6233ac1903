//! The status of a rank's interrupts: which ranks have sent an interrupt, and which of the rank's threads must be
//! woken. The SCC has this in its interrupt controller.
//!
//! A rank has up to [`SEATS`] threads for its interrupts. At any time, at most one of them **attends**: it looks at
//! what has come, or will do so before it does anything else. The others sleep, or do something that takes long. A rank
//! that has sent something **rings**. While a thread attends, ringing sets one bit. Otherwise, the ring makes one of
//! the sleeping threads the attendant, and only that thread is woken.
//!
//! | bits of the state | |
//! |---|---|
//! | 0 | rung: something has come since the attendant last asked |
//! | 1 | attended |
//! | 2.. | the thread in this seat sleeps, or is about to |
//! | 32.. | 1 + the rank whose answer is to ring |
//!
//! All changes are read-modify-write operations. Therefore, if one rank rings while a thread goes to sleep, either the
//! rank sees the sleeper or the thread sees the ring.

use crate::{
    context::{MAX_RANKS, SEATS},
    sync::{AtomicU64, Futex, Mutex, Ordering},
};

const RUNG: u64 = 1;
const ATTENDED: u64 = 2;
const SLEEPS: u64 = 4;
const EXPECTED: u32 = 32;

const WORDS: usize = if cfg!(loom) { 1 } else { MAX_RANKS / 64 };

/// The seats of a rank that are taken.
#[derive(Debug, Default)]
pub(in crate::mpb) struct Seats(Mutex<[bool; SEATS]>);

impl Seats {
    pub(super) fn change(&self, taken: bool, which: impl Fn(usize) -> bool) -> Option<usize> {
        // A thread that panicked with the lock has left a complete table.
        let mut seats = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let seat = (0..SEATS).find(|&seat| seats[seat] != taken && which(seat))?;
        seats[seat] = taken;
        Some(seat)
    }
}

/// See the [module](self). In small worlds, everything that an interrupt changes is in one line.
#[derive(Debug)]
#[repr(C, align(128))]
pub(in crate::mpb) struct Status {
    state: AtomicU64,
    /// For each seat, the thread that is woken by a signal, as [`super::signal::Thread`] encodes it; 0 for a seat
    /// without one.
    pub(super) threads: [AtomicU64; SEATS],
    /// The ranks that have sent an interrupt that was not taken.
    sent: [AtomicU64; WORDS],
}

impl Status {
    #[cfg(test)]
    pub(super) fn new() -> Self {
        let words = || AtomicU64::new(0);
        Self {
            state: words(),
            threads: std::array::from_fn(|_| words()),
            sent: std::array::from_fn(|_| words()),
        }
    }

    /// Changes the state to the result of `new`, unless that is `None`. Returns the old state.
    fn change(&self, new: impl Fn(u64) -> Option<u64>) -> u64 {
        let mut old = self.state.load(Ordering::Relaxed);
        // The exchange is needed even if `new` returns the old state, because only an exchange reads the newest state.
        // Release and Acquire pair with those of the other changes: a thread that takes a ring sees what was sent
        // before it.
        while let Some(new) = new(old) {
            match self.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(newer) => old = newer,
            }
        }
        old
    }

    /// Sends an interrupt by this rank. Must be followed by [`ring`](Self::ring).
    pub(super) fn send(&self, from: usize) {
        // Release: pairs with the Acquire in `take`, which may take this interrupt before the sender has rung.
        self.sent[from / 64].fetch_or(1 << (from % 64), Ordering::Release);
    }

    /// Rings because there is something to look at. Returns the seat of the thread that must be woken, if any.
    #[must_use]
    pub(super) fn ring(&self) -> Option<usize> {
        seat_woken(self.change(|old| Some(rung(old))))
    }

    /// Notes that rank `by` has set a flag here. If the answer of `by` is expected, rings and returns what
    /// [`ring`](Self::ring) returns.
    #[must_use]
    pub(super) fn answered(&self, by: usize) -> Option<usize> {
        let expected = |old: u64| old >> EXPECTED == 1 + by as u64;
        let without = |old: u64| old & ((1 << EXPECTED) - 1);
        let old = self.change(|old| Some(if expected(old) { rung(without(old)) } else { old }));
        if expected(old) { seat_woken(old) } else { None }
    }

    /// Makes the rank's next answer ring. Returns false if its answer is expected already.
    pub(super) fn expect_answer(&self, rank: usize) -> bool {
        let of = (1 + rank as u64) << EXPECTED;
        let old = self.change(|old| {
            (old >> EXPECTED << EXPECTED != of).then_some(of | old & ((1 << EXPECTED) - 1))
        });
        old >> EXPECTED << EXPECTED != of
    }

    /// Takes the interrupts that were sent. Only the attendant may call this, after it has taken the ring.
    pub(super) fn take(&self, sources: &mut Vec<usize>) {
        for (index, word) in self.sent.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire: pairs with the Release in `send`.
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                sources.push(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Makes the calling thread attend, if no thread does. Returns whether the calling thread attends now.
    pub(super) fn begin(&self) -> bool {
        let old = self.change(|old| (old & ATTENDED == 0).then_some(old | ATTENDED));
        old & ATTENDED == 0
    }

    /// Marks the thread in this seat as asleep. If there is something to look at and no other thread attends, makes it
    /// the attendant instead, and returns false.
    pub(super) fn rest(&self, seat: usize, attending: bool) -> bool {
        let old = self.change(|old| {
            if !attending && old & ATTENDED != 0 {
                Some(old | SLEEPS << seat)
            } else if old & RUNG != 0 {
                Some(old & !RUNG | ATTENDED)
            } else {
                Some(old & !ATTENDED | SLEEPS << seat)
            }
        });
        !attending && old & ATTENDED != 0 || old & RUNG == 0
    }

    /// Ends the attendant's turn because it will do something else. If there is something to look at, returns the seat
    /// of the thread that must be woken in its place.
    pub(super) fn hand_over(&self) -> Option<usize> {
        let next = |old: u64| if old & RUNG != 0 { rung(old & !ATTENDED) } else { old & !ATTENDED };
        let old = self.change(|old| Some(next(old)));
        if old & RUNG != 0 { seat_woken(old & !ATTENDED) } else { None }
    }

    /// Returns whether there is something to look at.
    pub(super) fn is_rung(&self) -> bool {
        self.state.load(Ordering::Relaxed) & RUNG != 0
    }

    /// Returns whether the thread in this seat is marked as asleep.
    fn sleeps(&self, seat: usize) -> bool {
        // Acquire: pairs with the Release in `ring`.
        self.state.load(Ordering::Acquire) & SLEEPS << seat != 0
    }

    /// Withdraws the mark that the thread in this seat sleeps. Returns false if the thread has been made the attendant.
    fn withdraw(&self, seat: usize) -> bool {
        let bit = SLEEPS << seat;
        self.change(|old| (old & bit != 0).then_some(old & !bit)) & bit != 0
    }

    /// Sleeps until this thread, which is marked as asleep, is made the attendant (then returns `None`), or until
    /// `over` returns something. `word` advances whenever either may be the case.
    pub(super) fn sleep<T>(
        &self,
        seat: usize,
        word: &Futex,
        mut over: impl FnMut() -> Option<T>,
        mut sleep: impl FnMut(u32),
    ) -> Option<T> {
        loop {
            let heard = word.value();
            if !self.sleeps(seat) {
                self.take_ring();
                return None;
            }
            if let Some(over) = over() {
                // A rank that rang and then left may have made this thread the attendant. The ring takes precedence.
                if self.withdraw(seat) {
                    return Some(over);
                }
                self.take_ring();
                return None;
            }
            sleep(heard);
        }
    }

    /// Takes the ring: the attendant will look at everything that has come so far.
    pub(super) fn take_ring(&self) {
        self.change(|old| (old & RUNG != 0).then_some(old & !RUNG));
    }
}

/// Returns the state after a ring.
fn rung(old: u64) -> u64 {
    match seat_woken(old) {
        Some(seat) => (old | RUNG | ATTENDED) & !(SLEEPS << seat),
        None => old | RUNG,
    }
}

/// Returns the seat that a ring in this state wakes.
fn seat_woken(old: u64) -> Option<usize> {
    let sleeps = |&seat: &usize| old & SLEEPS << seat != 0;
    if old & ATTENDED != 0 { None } else { (0..SEATS).find(sleeps) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn taken(status: &Status) -> Vec<usize> {
        let mut sources = Vec::new();
        status.take(&mut sources);
        sources
    }

    #[test]
    fn one_attends_and_one_is_woken() {
        let status = Status::new();
        assert!(status.begin() && !status.begin());
        // A thread attends, so the ring wakes none.
        status.send(3);
        assert_eq!(status.ring(), None);
        assert!(!status.rest(0, true), "rung");
        assert_eq!(taken(&status), [3]);
        assert!(status.rest(1, false) && status.rest(0, true));
        // The first ring wakes the first of two sleepers, and the second ring wakes no thread.
        status.send(1);
        assert_eq!(status.ring(), Some(0));
        status.send(1023);
        status.send(1);
        assert_eq!(status.ring(), None);
        status.take_ring();
        assert_eq!(taken(&status), [1, 1023]);
        // While the first thread does something else, a ring wakes the other thread.
        assert_eq!(status.hand_over(), None);
        assert_eq!(status.ring(), Some(1));
        assert!(status.rest(0, false), "the other attends");
        status.take_ring();
        assert!(status.rest(1, true));
    }

    #[test]
    fn who_hands_over_leaves_nothing_unseen() {
        let status = Status::new();
        assert!(status.begin() && status.rest(1, false));
        assert_eq!(status.ring(), None);
        assert_eq!(status.hand_over(), Some(1));
        // If no thread sleeps to take over, the ring stays until a thread rests.
        assert_eq!(status.ring(), None);
        assert_eq!(status.hand_over(), None);
        assert!(!status.rest(1, false));
    }

    #[test]
    fn only_the_expected_answer_rings() {
        let status = Status::new();
        assert!(status.rest(0, false));
        assert_eq!(status.answered(7), None);
        assert!(status.expect_answer(7) && !status.expect_answer(7));
        assert_eq!(status.answered(6), None);
        assert_eq!(status.answered(7), Some(0));
        assert_eq!(status.answered(7), None);
        assert!(status.expect_answer(0) && status.expect_answer(1023));
    }
}
