//! The protocol of a node under a model checker. The threads do what `Outgoing`, `ServedLane` and `Untyped` do, but
//! there is no channel behind them.

use std::{cell::Cell, ptr::NonNull, rc::Rc};

use loom::thread;

use super::{
    cargo::{Verbs, load, unload},
    node::{CANCEL, FREE, NodeAt, Pool, SENT, SUBMITTED, WAITING},
    shared::{GONE, PARKED},
};
use crate::{
    sync::{AtomicU32, Futex, Ordering, explore, yield_now},
    wait::{Asymmetry, Flag, parked as wait},
};

/// How often each cargo was dropped, by its number.
type Drops = Rc<[Cell<u32>; 4]>;

struct Cargo {
    number: usize,
    drops: Drops,
}

impl Drop for Cargo {
    fn drop(&mut self) {
        let drops = &self.drops[self.number];
        drops.set(drops.get() + 1);
    }
}

unsafe fn drop_cargo(at: NonNull<u8>) {
    // SAFETY: the caller passes the cargo of a node, which nobody has taken.
    drop(unsafe { unload::<Cargo>(at) });
}

static VERBS: Verbs = Verbs {
    fill: |_, _, _, _| unreachable!("there is no channel"),
    drop_sent: drop_cargo,
    drop_unsent: drop_cargo,
};

struct Lane {
    pool: Pool,
    for_feeder: AtomicU32,
    serving: AtomicU32,
    server: Futex,
    holder: Futex,
    drops: Drops,
}

/// A flag that is one bit of a word.
struct Bit<'a>(&'a AtomicU32, u32);

impl Flag for Bit<'_> {
    fn raise(&self) {
        self.0.fetch_or(self.1, Ordering::Relaxed);
    }

    fn lower(&self) {
        self.0.fetch_and(!self.1, Ordering::Relaxed);
    }
}

impl Lane {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            pool: Pool::new(),
            for_feeder: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            server: Futex::new(),
            holder: Futex::new(),
            drops: Drops::default(),
        })
    }

    fn dropped(&self) -> Vec<u32> {
        self.drops.iter().map(Cell::get).collect()
    }

    /// Does what `Outgoing::submit_cargo` does. Returns false if the server is gone and the cargo was taken back.
    fn submit(&self, node: NodeAt, next: u32, number: usize) -> bool {
        node.wish().store(0, Ordering::Relaxed);
        // SAFETY: the node is free, so it belongs to the submitter.
        unsafe {
            node.address(number as u64, next, &VERBS);
            load(node.cargo(), Cargo { number, drops: Rc::clone(&self.drops) });
        }
        node.submit();
        Asymmetry::Ordinary.light();
        let word = self.for_feeder.load(Ordering::Relaxed);
        if word & GONE != 0 && node.take(SUBMITTED) {
            // SAFETY: the submitter has taken the node back.
            drop(unsafe { unload::<Cargo>(node.cargo()) });
            node.free();
            return false;
        }
        self.wake_server();
        true
    }

    fn wake_server(&self) {
        if self.for_feeder.load(Ordering::Relaxed) & PARKED != 0
            && self.for_feeder.fetch_and(!PARKED, Ordering::Relaxed) & PARKED != 0
        {
            self.server.advance_and_wake();
        }
    }

    /// Does what `ServedLane` does with a node that may be withdrawn, until the node is sent or skipped. Returns
    /// whether it was sent.
    fn serve_or_pass(&self, index: u32) -> bool {
        let node = self.pool.node(index);
        let parked = Bit(&self.for_feeder, PARKED);
        wait(&self.server, &parked, || {
            if node.is_withdrawn() {
                // SAFETY: the node is withdrawn, so it belongs to the server.
                assert_eq!(unsafe { node.read() }.0, 0);
                node.free();
                return Some(false);
            }
            if !node.is_submitted() {
                return None;
            }
            self.serving.store(index + 1, Ordering::Relaxed);
            Asymmetry::Ordinary.light();
            let sends = node.wish().load(Ordering::Relaxed) & CANCEL == 0;
            if sends {
                // SAFETY: the node is submitted, so it belongs to the server. This read stands for the use of the
                // cargo.
                assert_eq!(unsafe { node.read() }.0, 0);
                if node.answer(SENT, Asymmetry::Ordinary) & WAITING != 0 {
                    self.holder.advance_and_wake();
                }
            }
            self.serving.store(0, Ordering::Release);
            sends.then_some(true)
        })
    }

    /// Does what `Untyped::withdraw` and `Pending::cancel` do. Returns whether the cargo came back unsent.
    fn cancel(&self, index: u32) -> bool {
        let node = self.pool.node(index);
        let wish = node.wish();
        wish.store(wish.load(Ordering::Relaxed) | CANCEL, Ordering::Relaxed);
        assert!(Asymmetry::Ordinary.heavy().is_none());
        loop {
            if self.serving.load(Ordering::Acquire) != index + 1 {
                if node.answered().is_some() {
                    return false;
                }
                if node.take(SUBMITTED) {
                    // SAFETY: the holder has taken the node from the server.
                    drop(unsafe { unload::<Cargo>(node.cargo()) });
                    node.withdraw();
                    Asymmetry::Ordinary.light();
                    self.wake_server();
                    return true;
                }
            }
            yield_now();
        }
    }

    /// Does what `ServedLane` does with one node, and returns the next node.
    fn serve(&self, index: u32, expected: u32) -> u32 {
        let node = self.pool.node(index);
        let parked = Bit(&self.for_feeder, PARKED);
        wait(&self.server, &parked, || node.is_submitted().then_some(()));
        // SAFETY: the node is submitted, so it belongs to the server.
        let (position, next, _) = unsafe { node.read() };
        assert_eq!(position, expected);
        if node.answer(SENT, Asymmetry::Ordinary) & WAITING != 0 {
            self.holder.advance_and_wake();
        }
        next
    }

    /// Does what `Pending` does.
    fn redeem(&self, node: NodeAt, number: usize) {
        let state = wait(&self.holder, &Bit(node.wish(), WAITING), || node.answered());
        assert_eq!(state, SENT);
        // SAFETY: the request is answered, so the node belongs to its holder.
        let cargo = unsafe { unload::<Cargo>(node.cargo()) };
        assert_eq!(cargo.number, number);
        node.free();
    }

    /// Does what `Pending` does for a holder that looks again and again, so that no fence of a sleeper helps.
    fn redeem_spinning(&self, node: NodeAt, number: usize) {
        while node.answered().is_none() {
            yield_now();
        }
        // SAFETY: the request is answered, so the node belongs to its holder.
        assert_eq!(unsafe { unload::<Cargo>(node.cargo()) }.number, number);
        node.free();
    }

    /// Does what the destructor of `Untyped` does.
    fn let_go(&self, node: NodeAt) {
        match node.answered() {
            Some(state) => {
                // SAFETY: the request is answered, so the node belongs to its holder.
                unsafe { node.drop_cargo(state) };
                node.free();
            }
            None => node.detach(),
        }
    }
}

#[test]
fn every_cargo_comes_back_in_its_turn() {
    explore(3, || {
        let lane = Lane::new();
        let serving = thread::spawn({
            let lane = Rc::clone(&lane);
            move || (0..3).fold(0, |at, position| lane.serve(at, position))
        });
        for number in 0..3 {
            // There are two nodes. Each is the spare one while the other is submitted.
            let (at, next) = ((number % 2) as u32, ((number + 1) % 2) as u32);
            let node = lane.pool.node(at);
            assert!(node.is_free());
            assert!(lane.submit(node, next, number));
            lane.redeem(node, number);
        }
        serving.join().unwrap();
        assert_eq!(lane.dropped(), [1, 1, 1, 0]);
    });
}

#[test]
fn a_node_is_used_again_without_a_sleeper() {
    explore(4, || {
        let lane = Lane::new();
        let node = lane.pool.node(0);
        assert!(lane.submit(node, 0, 0));
        let serving = thread::spawn(move || {
            // The node was submitted before this thread started, so the thread does not sleep.
            assert!(node.is_submitted());
            // SAFETY: the node is submitted, so it belongs to the server.
            assert_eq!(unsafe { node.read() }.0, 0);
            node.answer(SENT, Asymmetry::Ordinary);
        });
        lane.redeem_spinning(node, 0);
        // This overwrites the contents that the server has read.
        assert!(lane.submit(node, 0, 1));
        serving.join().unwrap();
        let drops = Rc::clone(&lane.drops);
        assert!(node.take(SUBMITTED));
        // SAFETY: the submitter has taken the node back.
        drop(unsafe { unload::<Cargo>(node.cargo()) });
        node.free();
        assert_eq!([drops[0].get(), drops[1].get()], [1, 1]);
    });
}

#[test]
fn a_cargo_that_nobody_wants_is_dropped_once() {
    explore(4, || {
        let lane = Lane::new();
        let serving = thread::spawn({
            let lane = Rc::clone(&lane);
            move || (0..2).fold(0, |at, position| lane.serve(at, position))
        });
        let (first, second) = (lane.pool.node(0), lane.pool.node(1));
        assert!(lane.submit(first, 1, 0));
        lane.let_go(first);
        // A node whose request has no holder can be used again as soon as the search for a free node sees the answer.
        let again = first.is_free();
        assert!(lane.submit(second, 0, 1));
        lane.let_go(second);
        if again {
            assert_eq!(first.state().load(Ordering::Relaxed), FREE);
            assert_eq!(lane.drops[0].get(), 1);
        }
        serving.join().unwrap();
        let drops = Rc::clone(&lane.drops);
        // Cargo that neither of the threads has dropped is dropped with the pool.
        drop(lane);
        let dropped: Vec<_> = drops.iter().map(Cell::get).collect();
        assert_eq!(dropped, [1, 1, 0, 0]);
    });
}

#[test]
fn a_request_that_is_held_by_another_thread() {
    explore(3, || {
        let lane = Lane::new();
        let node = lane.pool.node(0);
        assert!(lane.submit(node, 1, 0));
        let holding = thread::spawn({
            let lane = Rc::clone(&lane);
            move || lane.let_go(lane.pool.node(0))
        });
        let serving = thread::spawn({
            let lane = Rc::clone(&lane);
            move || lane.serve(0, 0)
        });
        let again = node.is_free();
        if again {
            // The node may be used again at once, even while the other threads are still in their last step.
            assert_eq!(lane.drops[0].get(), 1);
        }
        holding.join().unwrap();
        serving.join().unwrap();
        let drops = Rc::clone(&lane.drops);
        drop(lane);
        assert_eq!(drops[0].get(), 1);
    });
}

#[test]
fn a_request_is_cancelled_or_sent() {
    explore(4, || {
        let lane = Lane::new();
        let node = lane.pool.node(0);
        assert!(lane.submit(node, 1, 0));
        let serving = thread::spawn({
            let lane = Rc::clone(&lane);
            move || lane.serve_or_pass(0)
        });
        let cancelled = lane.cancel(0);
        if !cancelled {
            lane.redeem_spinning(node, 0);
        }
        assert_eq!(serving.join().unwrap(), !cancelled);
        assert_eq!(node.state().load(Ordering::Relaxed), FREE);
        assert_eq!(lane.dropped(), [1, 0, 0, 0]);
    });
}

/// The server ends while something is submitted: one of the two sees the other.
#[test]
fn nothing_is_submitted_to_nobody() {
    explore(6, || {
        let lane = Lane::new();
        let ending = thread::spawn({
            let lane = Rc::clone(&lane);
            move || {
                // This does what `ServedLane::end` does.
                lane.for_feeder.fetch_or(GONE, Ordering::Relaxed);
                assert!(Asymmetry::Ordinary.heavy().is_none());
                let node = lane.pool.node(0);
                let took = node.take(SUBMITTED);
                if took {
                    node.answer(SENT, Asymmetry::Ordinary);
                }
                took
            }
        });
        let node = lane.pool.node(0);
        let submitted = lane.submit(node, 1, 0);
        let took = ending.join().unwrap();
        assert_eq!(submitted, took, "somebody has it, and only one");
        if submitted {
            lane.redeem(node, 0);
        }
        assert_eq!(lane.dropped(), [1, 0, 0, 0]);
    });
}
