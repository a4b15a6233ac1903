//! The flag protocol of three ranks under a model checker that tries all interleavings, and for
//! every load all values that the memory model allows.

use std::rc::Rc;

use loom::thread;

use super::mark::{Mark, Sleeper};
use crate::{
    line::{self, Line, PAYLOAD},
    sync::{AtomicU32, Futex, Ordering, explore},
    wait::{Asymmetry, parked},
};

const RANKS: usize = 3;
/// Flags of each MPB; one line of data follows them.
const FLAGS: usize = 2;

/// The MPBs of three ranks, and what a rank is woken with.
struct Buffers {
    lines: [[Line; FLAGS + 1]; RANKS],
    marks: [Mark; RANKS],
    bells: [Futex; RANKS],
    /// As in the descriptor.
    ends: AtomicU32,
}

impl Buffers {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            lines: std::array::from_fn(|_| std::array::from_fn(|_| Line::new())),
            marks: std::array::from_fn(|_| Mark::new()),
            bells: std::array::from_fn(|_| Futex::new()),
            ends: AtomicU32::new(0),
        })
    }

    /// As `Mpb::set_flag_with` does.
    fn set(&self, rank: usize, flag: usize, value: u64, payload: &[u8]) {
        let line = &self.lines[rank][flag];
        line.set_payload(payload);
        line.set_flag(value);
        let ring = || self.bells[rank].advance_and_wake();
        self.marks[rank].attend(Asymmetry::ORDINARY, flag, ring);
    }

    /// As `Mpb::wait_slowly` does, in wait number `number` of the rank.
    fn wait(&self, rank: usize, flag: usize, number: u32, value: u64) -> Result<(), Over> {
        let sleeper = Sleeper::new(&self.marks[rank], flag, number, None);
        let look = || (self.lines[rank][flag].flag() >= value).then_some(Ok(()));
        parked(&self.bells[rank], &sleeper, || {
            look().or_else(|| {
                let over = self.ends.load(Ordering::Acquire) != 0;
                over.then(|| look().unwrap_or(Err(Over)))
            })
        })
    }

    /// A rank is gone, as in the directory's `leave`.
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

/// Rank 0 waits for one and then for the other: neither the flag that it does not wait for yet nor
/// the one that it does may be slept through.
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

/// A chunk goes from rank 0 to rank 1 and on to rank 2, and its buffer is used again.
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
        // Not before the middle one has got it.
        buffers.put(0, 2);
        middle.join().unwrap();
        last.join().unwrap();
    });
}

/// One notifies two that sleep, with the message beside the flag.
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

/// Two threads of a rank sleep on flags of theirs, which the third sets.
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

/// A flag that was set before its rank went is seen; one that was not ends the wait.
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
