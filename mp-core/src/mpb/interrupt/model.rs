//! Interrupts and answers of three ranks under a model checker: no rank sleeps while there is something to look at, and
//! a rank that takes an interrupt sees what the sender had put before.

use std::rc::Rc;

use loom::thread;

use super::status::Status;
use crate::{
    context::SEATS,
    line::Line,
    sync::{AtomicU32, Futex, Ordering, RaceMarker, explore},
};

const RANKS: usize = 3;

struct World {
    statuses: [Status; RANKS],
    words: [Futex; SEATS],
    /// The data that each rank puts before it interrupts others.
    puts: [RaceMarker; RANKS],
    flags: [[Line; RANKS]; RANKS],
    /// Not 0 when the world has ended, as `ends` of the descriptor.
    ends: AtomicU32,
}

/// One of a rank's attendants.
struct Attendant<'a> {
    world: &'a World,
    rank: usize,
    seat: usize,
    attending: bool,
}

impl World {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            statuses: std::array::from_fn(|_| Status::new()),
            words: std::array::from_fn(|_| Futex::new()),
            puts: std::array::from_fn(|_| RaceMarker::new()),
            flags: std::array::from_fn(|_| std::array::from_fn(|_| Line::new())),
            ends: AtomicU32::new(0),
        })
    }

    fn wake(&self, seat: Option<usize>) {
        if let Some(seat) = seat {
            self.words[seat].advance_and_wake_bits(1);
        }
    }

    /// Interrupts a rank as `Mpb::interrupt` does.
    fn interrupt(&self, from: usize, to: usize) {
        self.statuses[to].send(from);
        self.wake(self.statuses[to].ring());
    }

    /// Answers a rank as `Mpb::answer` does.
    fn answer(&self, from: usize, to: usize) {
        self.flags[to][from].set_flag(1);
        self.wake(self.statuses[to].answered(from));
    }

    fn attendant(&self, rank: usize, seat: usize) -> Attendant<'_> {
        Attendant { world: self, rank, seat, attending: self.statuses[rank].begin() }
    }

    /// Wakes all attendants, as the descriptor's `tell` and `Mpb::look_again` do.
    fn end(&self) {
        self.ends.store(1, Ordering::Release);
        self.words.iter().for_each(|word| word.advance_and_wake_bits(u32::MAX));
    }
}

impl Attendant<'_> {
    /// Waits as the real attendant does. Returns false when the world has ended.
    fn wait(&mut self) -> bool {
        let status = &self.world.statuses[self.rank];
        if !status.rest(self.seat, self.attending) {
            self.attending = true;
            return true;
        }
        self.attending = false;
        let word = &self.world.words[self.seat];
        let over = || (self.world.ends.load(Ordering::Acquire) != 0).then_some(());
        self.attending =
            status.sleep(self.seat, word, over, |heard| word.sleep_bits(heard, 1)).is_none();
        self.attending
    }

    fn take(&self) -> Vec<usize> {
        let mut sources = Vec::new();
        self.world.statuses[self.rank].take(&mut sources);
        for &source in &sources {
            self.world.puts[source].reading();
        }
        sources
    }

    fn hand_over(&mut self) {
        self.attending = false;
        self.world.wake(self.world.statuses[self.rank].hand_over());
    }
}

/// Starts the thread of a rank that puts something and then interrupts rank 0.
fn interrupting(world: &Rc<World>, rank: usize) -> thread::JoinHandle<()> {
    let world = Rc::clone(world);
    thread::spawn(move || {
        world.puts[rank].writing();
        world.interrupt(rank, 0);
    })
}

#[test]
fn two_parents_interrupt_one_child_at_the_same_time() {
    explore(3, || {
        let world = World::new();
        let parents = [1, 2].map(|rank| interrupting(&world, rank));
        let mut child = world.attendant(0, 0);
        let mut sources = Vec::new();
        while sources.len() < 2 {
            assert!(child.wait());
            sources.extend(child.take());
        }
        sources.sort_unstable();
        assert_eq!(sources, [1, 2]);
        parents.into_iter().for_each(|parent| parent.join().unwrap());
    });
}

#[test]
fn the_other_attends_while_one_handles() {
    explore(2, || {
        let world = World::new();
        let taken = Rc::new(AtomicU32::new(0));
        let serve = |seat: usize| {
            let (world, taken) = (Rc::clone(&world), Rc::clone(&taken));
            move || {
                let mut attendant = world.attendant(0, seat);
                loop {
                    if attendant.attending {
                        let more = attendant.take().len() as u32;
                        let all = taken.fetch_add(more, Ordering::Relaxed) + more;
                        if (all, more) == (1, 1) {
                            // Run a handler that returns only at the end, so that only the other attendant can take the
                            // second interrupt.
                            attendant.hand_over();
                            while world.ends.load(Ordering::Acquire) == 0 {
                                let heard = world.words[seat].value();
                                if world.ends.load(Ordering::Acquire) == 0 {
                                    world.words[seat].sleep_bits(heard, 1);
                                }
                            }
                        } else if all == 2 {
                            world.end();
                        }
                    }
                    if world.ends.load(Ordering::Acquire) != 0 || !attendant.wait() {
                        break;
                    }
                }
            }
        };
        let other = thread::spawn(serve(1));
        let first = thread::spawn(serve(0));
        // Ranks 1 and 2 send an interrupt each, one after the other.
        for rank in [1, 2] {
            world.puts[rank].writing();
            world.interrupt(rank, 0);
        }
        first.join().unwrap();
        other.join().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_parent_is_woken_by_the_answers_that_it_expects() {
    explore(2, || {
        let world = World::new();
        let child = |rank: usize| {
            let world = Rc::clone(&world);
            thread::spawn(move || {
                let mut child = world.attendant(rank, 0);
                while child.take().is_empty() {
                    assert!(child.wait());
                }
                world.answer(rank, 0);
            })
        };
        let mut parent = world.attendant(0, 0);
        world.puts[0].writing();
        let children = [1, 2].map(child);
        world.interrupt(0, 1);
        world.interrupt(0, 2);
        for rank in [1, 2] {
            while world.flags[0][rank].flag() == 0 {
                if !world.statuses[0].expect_answer(rank) {
                    assert!(parent.wait());
                }
            }
        }
        children.into_iter().for_each(|child| child.join().unwrap());
    });
}

#[test]
fn nobody_sleeps_after_the_end_and_what_came_before_is_seen() {
    explore(3, || {
        let world = World::new();
        let other = {
            let world = Rc::clone(&world);
            thread::spawn(move || {
                world.puts[1].writing();
                world.interrupt(1, 0);
                world.end();
            })
        };
        let mut attendant = world.attendant(0, 0);
        let mut sources = Vec::new();
        while attendant.wait() {
            sources.extend(attendant.take());
        }
        assert_eq!(sources, [1]);
        other.join().unwrap();
    });
}
