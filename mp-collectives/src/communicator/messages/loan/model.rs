//! A rank that lends, a communication thread that looks after it, and a peer that sends, in all interleavings. The
//! channel and the doorbell stand for those of mp-core, which have models of their own.

use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use mp_core::memory::interleavings;

use super::*;

/// A number of rings, which a thread sleeps on.
#[derive(Default)]
struct Bell {
    rings: Mutex<usize>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_all();
    }

    fn rings(&self) -> usize {
        *self.rings.lock().unwrap()
    }

    fn sleep(&self, heard: usize) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == heard {
            rings = self.rung.wait(rings).unwrap();
        }
    }
}

/// Messages on their way to the rank, and the flag that the receiver raises.
#[derive(Default)]
struct Channel {
    state: Mutex<(usize, bool)>,
    bell: Bell,
}

impl Channel {
    fn send(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        let raised = state.1;
        drop(state);
        if raised {
            self.bell.ring();
        }
    }

    fn raise(&self, raised: bool) {
        self.state.lock().unwrap().1 = raised;
    }
}

/// What is lent: it receives messages, and does the work that the rank has begun.
struct Engine {
    channel: Arc<Channel>,
    /// Work that no channel announces.
    begun: usize,
    finished: usize,
    /// Where others look up how much is finished.
    done: Arc<Bell>,
}

impl Lendable for Engine {
    fn bring_on(&mut self) -> bool {
        let received = mem::take(&mut self.channel.state.lock().unwrap().0);
        // The engine does one piece of the rank's own work in each call.
        let done = received + self.begun.min(1);
        self.begun -= self.begun.min(1);
        self.finished += done;
        (0..done).for_each(|_| self.done.ring());
        done > 0
    }

    fn is_ready(&self) -> bool {
        self.channel.state.lock().unwrap().0 > 0
    }

    fn raise(&self) {
        self.channel.raise(true);
    }

    fn lower(&self) {
        self.channel.raise(false);
    }
}

#[derive(Clone)]
struct World {
    channel: Arc<Channel>,
    loan: Arc<Loan<Engine>>,
    done: Arc<Bell>,
}

impl World {
    fn new(begun: usize) -> (Self, Box<Engine>) {
        let (channel, done) = (Arc::new(Channel::default()), Arc::new(Bell::default()));
        let engine =
            Engine { channel: Arc::clone(&channel), begun, finished: 0, done: Arc::clone(&done) };
        (Self { channel, loan: Arc::new(Loan::new()), done }, Box::new(engine))
    }

    /// As a communication thread does, until it is over.
    fn serve(&self) {
        let mut advanced = self.loan.advance();
        while advanced != Advanced::Over {
            let heard = self.channel.bell.rings();
            if !self.loan.is_ready() {
                self.loan.raise();
                if !self.loan.is_ready() {
                    self.channel.bell.sleep(heard);
                }
                self.loan.lower();
            }
            if self.loan.is_ready() {
                advanced = self.loan.advance();
            }
        }
    }

    /// Waits until this much is finished, without a call that takes the engine back.
    fn compute_until(&self, finished: usize) {
        loop {
            let done = self.done.rings();
            if done >= finished {
                return;
            }
            self.done.sleep(done);
        }
    }

    /// Lends the engine to the thread that looks after the loan already, or else to a new thread.
    fn lend(&self, engine: Box<Engine>) -> Option<thread::JoinHandle<()>> {
        if self.loan.give(engine) {
            self.channel.bell.ring();
            return None;
        }
        let world = self.clone();
        Some(thread::spawn(move || world.serve()))
    }

    /// Takes the engine back permanently, and tells the thread.
    fn end(&self) -> Box<Engine> {
        let engine = self.loan.take().expect("it is lent");
        self.channel.bell.ring();
        assert!(!self.channel.state.lock().unwrap().1, "its flag is raised while the rank has it");
        engine
    }
}

fn joined(threads: impl IntoIterator<Item = Option<thread::JoinHandle<()>>>) {
    threads.into_iter().flatten().for_each(|thread| thread.join().unwrap());
}

#[test]
fn all_that_is_lent_goes_on_while_the_rank_calls_nothing() {
    interleavings(3).check(|| {
        let (world, engine) = World::new(2);
        let served = world.lend(engine);
        let channel = Arc::clone(&world.channel);
        let peer = thread::spawn(move || channel.send());
        world.compute_until(3);
        assert_eq!(world.end().finished, 3);
        joined([served, Some(peer)]);
    });
}

/// The rank takes it back in the middle, goes on with it, begins something, and lends it again.
#[test]
fn what_is_taken_back_is_lent_again() {
    interleavings(3).check(|| {
        let (world, engine) = World::new(0);
        let first = world.lend(engine);
        world.channel.send();
        let mut engine = world.loan.take().expect("it is lent");
        engine.bring_on();
        assert_eq!(engine.finished, 1, "the rank does not see what the thread did");
        engine.begun += 1;
        let second = world.lend(engine);
        world.compute_until(2);
        assert_eq!(world.end().finished, 2);
        joined([first, second]);
    });
}

/// The rank begins something while the engine is lent, and makes the thread look again.
#[test]
fn the_thread_looks_at_what_the_rank_has_changed() {
    interleavings(3).check(|| {
        let (world, engine) = World::new(0);
        let served = world.lend(engine);
        world.loan.glance(|engine| engine.begun += 1).expect("it is lent");
        world.loan.refresh();
        world.channel.bell.ring();
        world.compute_until(1);
        assert_eq!(world.end().finished, 1);
        joined([served]);
    });
}

/// When a thread leaves, what is lent stays in the loan, for the rank and for the next thread.
#[test]
fn a_thread_that_leaves_is_followed() {
    interleavings(3).check(|| {
        let (world, engine) = World::new(0);
        assert!(!world.loan.give(engine));
        let loan = Arc::clone(&world.loan);
        let leaver = thread::spawn(move || {
            loan.advance();
            loan.raise();
            loan.lower();
            loan.leave();
        });
        world.channel.send();
        let engine = world.loan.take().expect("it is lent");
        leaver.join().unwrap();
        let next = world.lend(engine);
        assert!(next.is_some(), "nobody looks after the loan");
        world.compute_until(1);
        assert_eq!(world.end().finished, 1);
        joined([next]);
    });
}
