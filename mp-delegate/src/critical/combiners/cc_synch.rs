//! CC-Synch of Fatourou and Kallimanis (PPoPP 2012), and on it H-Synch: the combiners of shared
//! memory that HYBCOMB is compared with.
//!
//! Requests are a list that grows at its tail, by a swap. Who finds that nobody works on those
//! before him executes his own and those behind him, up to a number, and hands over to the next.
//! Nodes change hands: who leaves one at the tail takes the one that was there.
//!
//! With H-Synch there is a list for each group of ranks that are near each other, and a lock, which
//! a group's combiner takes for all of its operations.

use mp_core::Plain;

use crate::critical::{
    error::Stop,
    locks::{Lock, mcs::Mcs, someone, who},
    object::{Fate, Outcome, get, put, words_of},
    site::{AnyWord, BLOCK, Seat, Site},
};

/// In a node: not 0 as long as its owner has to wait.
const WAIT: usize = 0;
/// 1 + the fate of the operation, if it was executed.
const COMPLETED: usize = 1;
/// 1 + the next node: then the request is in this one.
const NEXT: usize = 2;
/// Whose request it is, or will be.
const OWNER: usize = 3;
/// The operation, then its result.
const CONTENT: usize = 4;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::critical) struct CcSynch {
    tail: usize,
    nodes: usize,
    /// The word with the seat's node, also when another handle takes the seat: 0 for its first one.
    own: usize,
    me: Seat,
    max_ops: usize,
    /// Between groups.
    lock: Option<Mcs>,
}

const fn node_words<Op, Ret>() -> usize {
    let (op, ret) = (words_of::<Op>(), words_of::<Ret>());
    (CONTENT + if op > ret { op } else { ret }).next_multiple_of(BLOCK)
}

fn list_words<Op, Ret>(seats: usize) -> usize {
    BLOCK + (1 + seats) * node_words::<Op, Ret>() + seats * BLOCK
}

impl CcSynch {
    /// The lock of groups, and a list for each: its tail, its nodes, a word for each seat.
    pub(in crate::critical) fn words<Op, Ret>(seats: usize, groups: usize) -> usize {
        Mcs::words(seats) + groups * list_words::<Op, Ret>(seats)
    }

    pub(in crate::critical) fn new<Op, Ret>(
        first: usize,
        seats: usize,
        me: Seat,
        max_ops: usize,
        group: Option<usize>,
    ) -> Self {
        let lock = group.map(|_| Mcs::new(first, me));
        let list = first + Mcs::words(seats) + group.unwrap_or(0) * list_words::<Op, Ret>(seats);
        let nodes = list + BLOCK;
        let own = nodes + (1 + seats) * node_words::<Op, Ret>() + me * BLOCK;
        Self { tail: list, nodes, own, me, max_ops, lock }
    }

    /// Of operations and results that are always the same: their length is known to the compiler.
    #[inline(always)]
    fn node<'a, S: Site, Op, Ret>(&self, site: &'a S, node: usize) -> Result<&'a [S::Word], Stop> {
        let words = const { node_words::<Op, Ret>() };
        site.words(self.nodes.wrapping_add(node.wrapping_mul(words)), words)
    }

    /// Has an operation executed, or executes it and others.
    #[inline(always)]
    pub(in crate::critical) fn apply<S: Site, Op: Plain, Ret: Plain>(
        &mut self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Outcome<Ret>, Stop> {
        let own = site.word(self.own)?;
        let spare = if own.peek() == 0 { self.me + 1 } else { who(own.peek()) };
        let next = self.node::<_, Op, Ret>(site, spare)?;
        next[NEXT].set(0);
        next[OWNER].set(0);
        next[COMPLETED].set(0);
        next[WAIT].set(1);
        let current = site.word(self.tail)?.swap(spare as u64) as usize;
        own.set(someone(current));
        let mine = self.node::<_, Op, Ret>(site, current)?;
        put(op, &mine[CONTENT..]);
        mine[OWNER].set(someone(self.me));
        mine[NEXT].store(someone(spare));

        let wait = &mine[WAIT];
        let turn = site.wait(self.me, None, wait, || (wait.load() == 0).then_some(()));
        // Who is before may live, and come to it.
        turn.map_err(Stop::unsure)?;
        if let Some(fate) = mine[COMPLETED].peek().checked_sub(1) {
            return Ok(Outcome { fate: Fate::from_bits(fate), ret: get(&mine[CONTENT..]) });
        }
        if let Some(lock) = &mut self.lock {
            lock.acquire(site)?;
        }
        let combined = self.combine(site, current, run);
        if let Some(lock) = &mut self.lock {
            // As after every operation with a lock: it was executed.
            let _ = lock.release(site);
        }
        let (outcome, last) = combined?;
        // Not before the lock is free: another group's turn comes first.
        let last = self.node::<_, Op, Ret>(site, last)?;
        last[WAIT].store(0);
        site.fence();
        let owner = last[OWNER].peek();
        if owner != 0 {
            site.wake(who(owner));
        }
        Ok(outcome)
    }

    /// Executes what is in the list from `first` on, which is the own request. The outcome of that,
    /// and the node whose owner comes next.
    #[inline(always)]
    fn combine<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        first: usize,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<(Outcome<Ret>, usize), Stop> {
        let mine = self.node::<_, Op, Ret>(site, first)?;
        let outcome = run(self.me, get(&mine[CONTENT..]));
        let mut last = who(mine[NEXT].peek());
        for _ in 0..self.max_ops {
            let node = self.node::<_, Op, Ret>(site, last)?;
            let Some(next) = node[NEXT].load().checked_sub(1) else { break };
            let owner = node[OWNER].peek();
            if owner == 0 {
                return Err(Stop::Corrupt);
            }
            let Outcome { fate, ret } = run(who(owner), get(&node[CONTENT..]));
            put(&ret, &node[CONTENT..]);
            node[COMPLETED].set(1 + fate as u64);
            node[WAIT].store(0);
            site.wake(who(owner));
            last = next as usize;
        }
        Ok((outcome, last))
    }
}
