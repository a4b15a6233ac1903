//! The flag protocol of three ranks under a model checker, which tries all interleavings and, for every load, all
//! values that the memory model allows.

use std::rc::Rc;

use loom::thread;

use super::mark::{Mark, Sleeper};
use crate::{
    line::{self, Line, PAYLOAD},
    sync::{AtomicU32, Futex, Ordering, explore},
    wait::{Asymmetry, Flag, parked},
};

const RANKS: usize = 3;
/// The number of flags of each MPB; one line of data follows them.
const FLAGS: usize = 2;

/// The MPBs of three ranks, and the bells that wake them.
struct Buffers {
    lines: [[Line; FLAGS + 1]; RANKS],
    marks: [Mark; RANKS],
    bells: [Futex; RANKS],
    /// Not 0 when a rank is gone, as `ends` of the descriptor.
    ends: AtomicU32,
    bell: Futex,
}

impl Buffers {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            lines: std::array::from_fn(|_| std::array::from_fn(|_| Line::new())),
            marks: std::array::from_fn(|_| Mark::new()),
            bells: std::array::from_fn(|_| Futex::new()),
            ends: AtomicU32::new(0),
            bell: Futex::new(),
        })
    }

    /// Sets a flag as `Mpb::set_flag_with` does.
    fn set(&self, rank: usize, flag: usize, value: u64, payload: &[u8]) {
        let line = &self.lines[rank][flag];
        line.set_payload(payload);
        line.set_flag(value);
        let ring = || self.bells[rank].advance_and_wake();
        self.marks[rank].attend(Asymmetry::Ordinary, flag, ring);
    }

    /// Sets the flags of ranks 1 and 2 as `Mpb::set_flags` does when rank 0 calls it.
    fn set_all(&self, flag: usize, value: u64) {
        for rank in 1..RANKS {
            self.lines[rank][flag].set_flag(value);
        }
        Asymmetry::Ordinary.light();
        let mut together = false;
        for rank in 1..RANKS {
            let ring = || self.bells[rank].advance_and_wake();
            together |= self.marks[rank].attend_together(flag, ring);
        }
        if together {
            self.bell.advance_and_wake();
        }
    }

    /// Waits as `Mpb::wait_slowly` does. `number` is the number of the wait.
    fn wait(&self, rank: usize, flag: usize, number: u32, value: u64) -> Result<(), Over> {
        self.sleep(rank, flag, value, Sleeper::new(&self.marks[rank], flag, number, None))
    }

    /// Waits as `Mpb::wait_flag_together` does. In the model, only the common bell wakes the rank.
    fn wait_together(&self, rank: usize, flag: usize, number: u32, value: u64) {
        let sleeper = Sleeper::new(&self.marks[rank], flag, number, None);
        self.sleep(rank, flag, value, sleeper.together(&self.bell)).unwrap();
    }

    fn sleep(
        &self,
        rank: usize,
        flag: usize,
        value: u64,
        sleeper: Sleeper<'_>,
    ) -> Result<(), Over> {
        let look = || (self.lines[rank][flag].flag() >= value).then_some(Ok(()));
        parked(&self.bells[rank], &sleeper, || {
            look().or_else(|| {
                let over = self.ends.load(Ordering::Acquire) != 0;
                over.then(|| look().unwrap_or(Err(Over)))
            })
        })
    }

    /// Tells all ranks that a rank is gone, as the descriptor's `tell` does.
    fn leave(&self) {
        self.ends.store(1, Ordering::Release);
        for bell in &self.bells {
            bell.advance_and_wake();
        }
    }

    fn put(&self, rank: usize, byte: u8) {
        line::put(&[byte; 9], &self.lines[rank][FLAGS..]);
    }

    fn got(&self, rank: usize) -> [u8; 9] {
        let mut bytes = [0xee; 9];
        line::get(&self.lines[rank][FLAGS..], &mut bytes);
        bytes
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Over;

fn rank(buffers: &Rc<Buffers>, code: impl FnOnce(&Buffers) + 'static) -> thread::JoinHandle<()> {
    let buffers = Rc::clone(buffers);
    thread::spawn(move || code(&buffers))
}

/// Rank 0 waits for one flag and then for the other. It must miss neither the awaited flag nor the flag that it does
/// not await yet.
#[test]
fn one_waits_for_the_flags_of_two() {
    explore(3, || {
        let buffers = Buffers::new();
        let setters = [1, 2].map(|me| {
            rank(&buffers, move |buffers| {
                buffers.put(me, me as u8);
                buffers.set(0, me - 1, 1, &[]);
            })
        });
        for from in [1, 2] {
            buffers.wait(0, from - 1, from as u32, 1).unwrap();
            assert_eq!(buffers.got(from), [from as u8; 9]);
        }
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

/// A chunk goes from rank 0 to rank 1 and on to rank 2, and its buffer is reused.
#[test]
fn a_chain_of_three() {
    const NOTIFY: usize = 0;
    const DONE: usize = 1;
    explore(2, || {
        let buffers = Buffers::new();
        let middle = rank(&buffers, |buffers| {
            buffers.wait(1, NOTIFY, 0, 1).unwrap();
            let chunk = buffers.got(0);
            assert_eq!(chunk, [1; 9]);
            buffers.set(0, DONE, 1, &[]);
            buffers.put(1, chunk[0]);
            buffers.set(2, NOTIFY, 1, &[]);
        });
        let last = rank(&buffers, |buffers| {
            buffers.wait(2, NOTIFY, 0, 1).unwrap();
            assert_eq!(buffers.got(1), [1; 9]);
        });
        buffers.put(0, 1);
        buffers.set(1, NOTIFY, 1, &[]);
        buffers.wait(0, DONE, 0, 1).unwrap();
        // Rank 1 has got the chunk, so rank 0 may overwrite it.
        buffers.put(0, 2);
        middle.join().unwrap();
        last.join().unwrap();
    });
}

/// One rank notifies two sleeping ranks, with a message beside each flag.
#[test]
fn one_wakes_two() {
    explore(2, || {
        let buffers = Buffers::new();
        let sleepers = [1, 2].map(|me| {
            rank(&buffers, move |buffers| {
                buffers.wait(me, 0, 0, 1).unwrap();
                let mut payload = [0; PAYLOAD];
                buffers.lines[me][0].payload(&mut payload);
                assert_eq!(payload, [me as u8; PAYLOAD]);
            })
        });
        for to in [1, 2] {
            buffers.set(to, 0, 1, &[to as u8; PAYLOAD]);
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

/// One rank releases two by one ring, whether either of them sleeps, is about to, or has woken for nothing. It releases
/// them once more while one of them may still be waking from the first sleep.
#[test]
fn one_lets_two_go_together() {
    explore(2, || {
        let buffers = Buffers::new();
        let sleepers = [1, 2].map(|me| {
            rank(&buffers, move |buffers| {
                buffers.wait_together(me, 0, 0, 1);
                assert_eq!(buffers.got(0), [1; 9]);
                buffers.wait_together(me, 1, 1, 1);
            })
        });
        buffers.put(0, 1);
        buffers.set_all(0, 1);
        buffers.set_all(1, 1);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

/// One rank releases two, of which only one listens to the common bell. The other listens only to its own doorbell.
#[test]
fn one_lets_go_who_sleeps_together_and_who_sleeps_alone() {
    explore(3, || {
        let buffers = Buffers::new();
        let together = rank(&buffers, |buffers| buffers.wait_together(1, 0, 0, 1));
        let alone = rank(&buffers, |buffers| buffers.wait(2, 0, 0, 1).unwrap());
        buffers.set_all(0, 1);
        together.join().unwrap();
        alone.join().unwrap();
    });
}

/// A central barrier: two ranks arrive, and the third counts and releases them.
#[test]
fn a_central_barrier() {
    explore(2, || {
        let buffers = Buffers::new();
        let others = [1, 2].map(|me| {
            rank(&buffers, move |buffers| {
                buffers.put(me, me as u8);
                buffers.set(0, me - 1, 1, &[]);
                buffers.wait_together(me, 0, 0, 1);
                assert_eq!(buffers.got(3 - me), [3 - me as u8; 9]);
            })
        });
        for from in [2, 1] {
            buffers.wait(0, from - 1, from as u32, 1).unwrap();
        }
        buffers.set_all(0, 1);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Two threads of a rank sleep on one flag each. A third thread sets both flags.
#[test]
fn two_threads_of_one_rank_sleep() {
    explore(3, || {
        let buffers = Buffers::new();
        let other = rank(&buffers, |buffers| buffers.wait(0, 1, 1, 1).unwrap());
        let setter = rank(&buffers, |buffers| (0..2).for_each(|flag| buffers.set(0, flag, 1, &[])));
        buffers.wait(0, 0, 0, 1).unwrap();
        other.join().unwrap();
        setter.join().unwrap();
    });
}

/// Two waits of one rank, as one.
struct Both<'a>([Sleeper<'a>; 2]);

impl Flag for Both<'_> {
    fn raise(&self) {
        self.0.iter().for_each(Flag::raise);
    }

    fn lower(&self) {
        self.0.iter().for_each(Flag::lower);
    }
}

/// A rank with a pending operation in each of two groups of MPBs sleeps until either can make progress.
#[test]
fn one_waits_for_flags_of_two_groups() {
    explore(3, || {
        // Both groups use the bells of the first group.
        let groups = [Buffers::new(), Buffers::new()];
        let setters = [0, 1].map(|group| {
            let groups = groups.clone();
            thread::spawn(move || {
                let line = &groups[group].lines[0][group];
                line.set_flag(1);
                let ring = || groups[0].bells[0].advance_and_wake();
                groups[group].marks[0].attend(Asymmetry::Ordinary, group, ring);
            })
        });
        let mut seen = [0, 0];
        while seen != [1, 1] {
            let sleepers = [0, 1]
                .map(|group| Sleeper::new(&groups[group].marks[0], group, group as u32, None));
            let flag = |group: usize| groups[group].lines[0][group].flag();
            parked(&groups[0].bells[0], &Both(sleepers), || {
                (0..2).any(|group| flag(group) != seen[group]).then_some(())
            });
            seen = [flag(0), flag(1)];
        }
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

/// A thread carries out an operation for a rank, and rings the rank's bell when it is done, whether the rank sleeps or
/// not. The flag that the thread waits for wakes it by the same bell.
#[test]
fn one_waits_for_what_another_thread_does() {
    explore(3, || {
        let buffers = Buffers::new();
        let done = Rc::new(AtomicU32::new(0));
        let setter = rank(&buffers, |buffers| buffers.set(0, 0, 1, &[]));
        let helper = rank(&buffers, {
            let done = Rc::clone(&done);
            move |buffers| {
                buffers.wait(0, 0, 0, 1).unwrap();
                done.store(1, Ordering::Release);
                buffers.bells[0].advance_and_wake();
            }
        });
        parked(&buffers.bells[0], &Nothing, || (done.load(Ordering::Acquire) == 1).then_some(()));
        setter.join().unwrap();
        helper.join().unwrap();
    });
}

struct Nothing;

impl Flag for Nothing {
    fn raise(&self) {}

    fn lower(&self) {}
}

/// A flag that was set before its rank left is seen; a flag that was not set ends the wait.
#[test]
fn whoever_goes_wakes_those_who_wait() {
    explore(3, || {
        let buffers = Buffers::new();
        let gone = rank(&buffers, |buffers| {
            buffers.set(0, 0, 1, &[]);
            buffers.leave();
        });
        let other = rank(&buffers, |buffers| assert_eq!(buffers.wait(2, 0, 0, 1), Err(Over)));
        buffers.wait(0, 0, 0, 1).unwrap();
        assert_eq!(buffers.wait(0, 1, 1, 1), Err(Over));
        gone.join().unwrap();
        other.join().unwrap();
    });
}
