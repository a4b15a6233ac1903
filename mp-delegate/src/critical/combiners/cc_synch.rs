//! CC-Synch of Fatourou and Kallimanis (PPoPP 2012), and H-Synch on top of it: the combiners of shared memory that
//! HYBCOMB is compared with.
//!
//! Requests form a list that grows at its tail, by a swap. A seat that finds that no combiner works on the requests
//! before its own executes its own request and those behind it, up to a number, and hands over to the next. Nodes
//! change owners: a seat that leaves its node at the tail takes the one that was there, as soon as the request in it is
//! answered.
//!
//! H-Synch has a list for each group of ranks that are near each other, and a lock, which a group's combiner takes for
//! all of its operations.

use std::cell::Cell;

use mp_core::Plain;

use super::Combiner;
use crate::critical::{
    fate::{Fate, Outcome},
    heal::CLOSED,
    locks::{Lock, NODES, held, mcs::Mcs, node_in, taken_over},
    object::{get, put, words_of},
    site::{AnyWord, BLOCK, Mortal, Seat, Site, someone, who},
    stop::Stop,
};

/// Index in a node: not 0 as long as its owner has to wait.
const WAIT: usize = 0;
/// Index in a node: 1 + the fate of the operation, if it was executed.
const COMPLETED: usize = 1;
/// Index in a node: 1 + the next node. If it is set, the request is in this node.
const NEXT: usize = 2;
/// Index in a node: the seat whose request it is, or will be.
const OWNER: usize = 3;
/// Index in a node: the operation, followed by its result. The operation stays there as long as it may have to be
/// executed again.
const OP: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct CcSynch {
    /// The lists of all groups, followed by this seat's own list.
    lists: List,
    groups: usize,
    list: List,
    me: Seat,
    max_ops: usize,
    /// The lock between groups.
    lock: Option<Mcs>,
    /// 1 + the node with this seat's request, as the tail named it, from when the request is in the list until its
    /// result is known; otherwise 0.
    asked: Cell<u64>,
}

/// Where a list lies. It has a tail, nodes, and a word for each seat.
#[derive(Clone, Copy, Debug)]
struct List {
    tail: usize,
    seats: usize,
    /// The number of words of a node.
    node: usize,
}

const fn ret_at<Op>() -> usize {
    OP + words_of::<Op>()
}

const fn node_words<Op, Ret>() -> usize {
    (ret_at::<Op>() + words_of::<Ret>()).next_multiple_of(BLOCK)
}

impl List {
    fn words(self) -> usize {
        BLOCK + (1 + self.seats) * self.node + self.seats * BLOCK
    }

    fn nodes(self) -> usize {
        self.tail + BLOCK
    }

    fn node(self, node: usize) -> usize {
        self.nodes().wrapping_add(node.wrapping_mul(self.node))
    }

    /// Returns the word that names a seat's node. It stays when another handle takes the seat. 0 stands for the first
    /// node.
    fn own(self, seat: Seat) -> usize {
        self.nodes() + (1 + self.seats) * self.node + seat * BLOCK
    }

    /// Resets a closed list, to one node. All seats that live keep their nodes, which they may have read already.
    fn reopen<S: Mortal>(self, site: &S) -> Result<bool, Stop> {
        let nodes = (0..self.seats).filter(|&seat| !site.is_dead(seat)).map(|seat| {
            let own = site.word(self.own(seat))?.load();
            Ok(if own == 0 { seat + 1 } else { node_in(own) })
        });
        let taken = nodes.collect::<Result<Vec<_>, Stop>>()?;
        let free = (0..=self.seats).find(|node| !taken.contains(node)).ok_or(Stop::Corrupt)?;
        let node = site.words(self.node(free), OP)?;
        [WAIT, COMPLETED, NEXT, OWNER].into_iter().for_each(|word| node[word].store_relaxed(0));
        Ok(site.word(self.tail)?.compare_exchange(CLOSED, free as u64).is_ok())
    }
}

impl CcSynch {
    fn list<Op, Ret>(first: usize, seats: usize) -> List {
        List { tail: first + Mcs::words(seats), seats, node: node_words::<Op, Ret>() }
    }

    /// Returns how many words are needed: the lock of groups, and a list for each.
    pub fn words<Op, Ret>(seats: usize, groups: usize) -> usize {
        Mcs::words(seats) + groups * Self::list::<Op, Ret>(0, seats).words()
    }

    /// Creates the combiner of a seat in group `group` of so many. A single group needs no lock against others.
    pub fn new<Op, Ret>(
        first: usize,
        seats: usize,
        me: Seat,
        max_ops: usize,
        (group, groups): (usize, usize),
    ) -> Self {
        let lock = (groups > 1).then(|| Mcs::new(first, me));
        let lists = Self::list::<Op, Ret>(first, seats);
        let list = List { tail: lists.tail + group * lists.words(), ..lists };
        Self { lists, groups, list, me, max_ops, lock, asked: Cell::new(0) }
    }

    /// Returns the words of a node. Their number follows from the types, so the compiler knows it.
    #[inline(always)]
    fn node<'a, S: Site, Op, Ret>(&self, site: &'a S, node: usize) -> Result<&'a [S::Word], Stop> {
        if node > self.list.seats {
            return Err(Stop::Corrupt);
        }
        let words = const { node_words::<Op, Ret>() };
        site.words(self.list.nodes().wrapping_add(node.wrapping_mul(words)), words)
    }

    /// Resets the node that is to be the last one of the list.
    #[inline(always)]
    fn renew<S: Site, Op, Ret>(&self, site: &S, held: u64) -> Result<(), Stop> {
        let next = self.node::<_, Op, Ret>(site, node_in(held))?;
        next[NEXT].store_relaxed(0);
        next[OWNER].store_relaxed(0);
        next[COMPLETED].store_relaxed(0);
        next[WAIT].store_relaxed(1);
        Ok(())
    }

    /// Writes a request into the node that was the last one.
    #[inline(always)]
    fn ask<Op: Plain>(&self, node: &[impl AnyWord], op: &Op, held: u64) {
        put(op, &node[OP..]);
        node[OWNER].store_relaxed(someone(self.me));
        node[NEXT].store(held & NODES);
    }

    /// Executes the list from this seat's node on, at its head and with the lock of groups; then gives up both.
    /// `current` names this seat's node, `held` the one behind it.
    #[inline(always)]
    fn lead<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        own: &S::Word,
        (current, held): (u64, u64),
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Outcome<Ret>, Stop> {
        let combined = self.combine(site, node_in(held), op, run);
        if let Some(lock) = &self.lock {
            // An error is ignored, as after every operation with a lock: the operations were executed.
            let _ = lock.release(site);
        }
        let (outcome, last) = combined?;
        own.store_relaxed(taken_over(current));
        // The next seat of this group is told after the lock is free, so that another group's turn comes first.
        let last = self.node::<_, Op, Ret>(site, last)?;
        last[WAIT].store(0);
        site.fence();
        let owner = last[OWNER].load_relaxed();
        if owner != 0 {
            site.wake(who(owner));
        }
        Ok(outcome)
    }

    /// Executes this seat's request, and the list from node `last` on, which is behind it. Returns the outcome of this
    /// seat's request, and the node whose owner comes next.
    #[inline(always)]
    fn combine<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        mut last: usize,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<(Outcome<Ret>, usize), Stop> {
        site.enter(self.me);
        let outcome = run(self.me, *op);
        for _ in 0..self.max_ops {
            let node = self.node::<_, Op, Ret>(site, last)?;
            let Some(next) = node[NEXT].load().checked_sub(1) else { break };
            let owner = node[OWNER].load_relaxed();
            if owner == 0 {
                return Err(Stop::Corrupt);
            }
            site.begin(self.me, self.list.node(last) as u64);
            let outcome = run(who(owner), get(&node[OP..]));
            tell::<_, Op, Ret>(site, self.me, node, outcome);
            last = next as usize;
        }
        Ok((outcome, last))
    }

    fn lists(&self) -> impl Iterator<Item = List> {
        let (first, words) = (self.lists, self.lists.words());
        (0..self.groups).map(move |group| List { tail: first.tail + group * words, ..first })
    }
}

/// Returns the node that the tail names.
#[inline(always)]
fn node_of(named: u64) -> usize {
    (named & NODES) as usize
}

/// Records the outcome of a request that the seat has executed.
#[inline(always)]
fn tell<S: Site, Op: Plain, Ret: Plain>(
    site: &S,
    me: Seat,
    node: &[S::Word],
    Outcome { fate, ret }: Outcome<Ret>,
) {
    let owner = who(node[OWNER].load_relaxed());
    put(&ret, &node[ret_at::<Op>()..]);
    // This comes after the result and all that the operation has written, for seats that find this rank dead.
    node[COMPLETED].store(1 + fate as u64);
    // The note is cleared before the owner goes on and reuses the node.
    site.approach(me);
    node[WAIT].store(0);
    site.wake(owner);
}

/// Returns the outcome, if it was recorded.
#[inline(always)]
fn told<S: Site, Op: Plain, Ret: Plain>(node: &[S::Word]) -> Option<Outcome<Ret>> {
    let fate = node[COMPLETED].load().checked_sub(1)?;
    Some(Outcome { fate: Fate::from_bits(fate), ret: get(&node[ret_at::<Op>()..]) })
}

impl Combiner for CcSynch {
    #[inline(always)]
    fn attempt<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Outcome<Ret>, Stop> {
        self.asked.set(0);
        let own = site.word(self.list.own(self.me))?;
        let held = held(own, self.me);
        self.renew::<_, Op, Ret>(site, held)?;
        let current = site.word(self.list.tail)?.swap(held - 1);
        if current == CLOSED {
            return Err(Stop::Void);
        }
        let mine = self.node::<_, Op, Ret>(site, node_of(current))?;
        self.ask(mine, op, held);
        self.asked.set(1 + current);

        let wait = &mine[WAIT];
        let turn = site.wait(self.me, None, wait, || (wait.load() == 0).then_some(()));
        // The seat before may live, and still execute the request.
        turn.map_err(Stop::unsure)?;
        if let Some(outcome) = told::<S, Op, Ret>(mine) {
            own.store_relaxed(taken_over(current));
            return Ok(outcome);
        }
        if let Some(lock) = &self.lock {
            lock.acquire(site)?;
        }
        self.lead(site, own, (current, held), op, run)
    }

    fn try_attempt<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Option<Outcome<Ret>>, Stop> {
        self.asked.set(0);
        let tail = site.word(self.list.tail)?;
        let seen = tail.load();
        if seen == CLOSED {
            return Err(Stop::Void);
        }
        let mine = self.node::<_, Op, Ret>(site, node_of(seen))?;
        if mine[WAIT].load() != 0 {
            return Ok(None);
        }
        // The lock is taken before the seat enters the list, so that no seat in the list has to wait for it.
        if let Some(lock) = &self.lock
            && !lock.try_acquire(site)?
        {
            return Ok(None);
        }
        let own = site.word(self.list.own(self.me))?;
        let held = held(own, self.me);
        self.renew::<_, Op, Ret>(site, held)?;
        // If the tail is unchanged, no seat has used that node since the look.
        if tail.compare_exchange(seen, held - 1).is_err() {
            if let Some(lock) = &self.lock {
                lock.release(site)?;
            }
            return Ok(None);
        }
        self.ask(mine, op, held);
        self.lead(site, own, (seen, held), op, run).map(Some)
    }

    fn has_asked(&self) -> bool {
        self.asked.get() != 0
    }

    fn look<S: Site, Op: Plain, Ret: Plain>(&self, site: &S) -> Result<Option<Outcome<Ret>>, Stop> {
        let Some(current) = self.asked.take().checked_sub(1) else {
            return Ok(None);
        };
        let outcome = told::<S, Op, Ret>(self.node::<_, Op, Ret>(site, node_of(current))?);
        if outcome.is_some() {
            site.word(self.list.own(self.me))?.store_relaxed(taken_over(current));
        }
        Ok(outcome)
    }

    fn unanswered<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        request: u64,
    ) -> Result<Option<(Seat, Op)>, Stop> {
        let node = site.words(request as usize, self.list.node)?;
        let owner = who(node[OWNER].load());
        Ok(if told::<S, Op, Ret>(node).is_some() { None } else { Some((owner, get(&node[OP..]))) })
    }

    fn answer<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        request: u64,
        outcome: Outcome<Ret>,
    ) -> Result<(), Stop> {
        let node = site.words(request as usize, self.list.node)?;
        tell::<_, Op, Ret>(site, self.me, node, outcome);
        Ok(())
    }

    fn close<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        for list in self.lists() {
            site.word(list.tail)?.swap(CLOSED);
        }
        if let Some(lock) = &self.lock {
            lock.close(site)?;
        }
        Ok(true)
    }

    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop> {
        if let Some(lock) = &self.lock
            && !lock.reopen(site)?
        {
            return Ok(false);
        }
        for list in self.lists() {
            if !list.reopen(site)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
