//! Combiners: one of the ranks that have requests at the same time executes the operations of all of them.
//!
//! A seat that executes a request of another seat notes the request before, and writes down its result afterwards,
//! before the place of the request can be used for another one. So the successor of a killed combiner knows which
//! request was being executed; there is one at most. The successor repairs the value, and answers that request: with
//! [`Fate::Unknown`], or with its result if it is harmless to execute it again. Requests that have an answer keep it.
//! The others were not begun, and their owners begin again: see `heal.rs`.

pub(super) mod cc_synch;
pub(super) mod hyb_comb;
#[cfg(all(test, loom))]
mod model;

use std::marker::PhantomData;

use mp_core::Plain;

use super::{
    fate::{Fate, Outcome},
    heal::{Ward, heal},
    site::{Limit, Mortal, Seat, Site},
    stop::Stop,
};

/// One seat's access to a combiner: only words are shared.
pub trait Combiner {
    /// Has an operation executed, or executes it and others. [`Stop::Void`] means that a rank died in the queue, and
    /// either the operation was not begun, or the seat [has asked](Self::has_asked) for it.
    fn attempt<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Outcome<Ret>, Stop>;

    /// Executes an operation, and others that arrive meanwhile, if no other seat combines or waits for that. After
    /// `Void` it was not begun, and the seat has not asked for it.
    fn try_attempt<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        op: &Op,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<Option<Outcome<Ret>>, Stop>;

    /// Returns whether the operation of the last attempt is in a queue that the seat has not left, where it may have
    /// been executed.
    fn has_asked(&self) -> bool;

    /// Leaves a queue in which nothing changes any more. Returns the answer if there is one.
    fn look<S: Site, Op: Plain, Ret: Plain>(&self, site: &S) -> Result<Option<Outcome<Ret>>, Stop>;

    /// Returns a request that was [noted](Site::begin), and its seat. Returns `None` if it was answered.
    fn unanswered<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        request: u64,
    ) -> Result<Option<(Seat, Op)>, Stop>;

    /// Answers such a request.
    fn answer<S: Site, Op: Plain, Ret: Plain>(
        &self,
        site: &S,
        request: u64,
        outcome: Outcome<Ret>,
    ) -> Result<(), Stop>;

    /// See `Ward::close`.
    fn close<S: Mortal>(&self, site: &S) -> Result<bool, Stop>;

    /// See `Ward::reopen`.
    fn reopen<S: Mortal>(&self, site: &S) -> Result<bool, Stop>;
}

/// The recovery of the value and of the operation after a rank was killed in the middle of it.
pub trait Rescue<Op> {
    /// Repairs the value. Returns whether it is good.
    fn repair(&mut self) -> bool;

    /// Returns whether it is harmless to execute the operation again on a good value.
    fn is_idempotent(&mut self, op: &Op) -> bool;
}

/// Has an operation executed in spite of dead ranks, after an [attempt](Combiner::attempt) that stopped, for which the
/// seat was marked as arriving. The seat may leave after that.
#[cold]
#[inline(never)]
pub(super) fn combine_again<S: Mortal, C: Combiner, Op: Plain, Ret: Plain>(
    combiner: &C,
    (site, me): (&S, Seat),
    op: &Op,
    mut stop: Stop,
    run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    rescue: &mut impl Rescue<Op>,
) -> Result<Outcome<Ret>, Stop> {
    while let Stop::Void = stop {
        let asked = combiner.has_asked();
        let mut queue = Queue { combiner, me, run, rescue, outcome: None, of: PhantomData };
        let healed = heal(&mut queue, site, me, asked, None);
        let outcome = queue.outcome;
        // Another seat may yet execute the operation.
        healed.map_err(|stop| if asked { stop.unsure() } else { stop })?;
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        site.approach(me);
        match combiner.attempt(site, op, run) {
            Ok(outcome) => return Ok(outcome),
            Err(another) => stop = another,
        }
    }
    Err(stop)
}

/// Executes an operation if no other seat combines or waits for that, now or before the limit is over. Skips dead seats
/// as long as no other seat is in the way. Returns `None` if it was not executed.
#[inline(never)]
pub(super) fn combine_within<S: Mortal, C: Combiner, Op: Plain, Ret: Plain>(
    combiner: &C,
    (site, me): (&S, Seat),
    op: &Op,
    limit: Option<&Limit>,
    run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    rescue: &mut impl Rescue<Op>,
) -> Result<Option<Outcome<Ret>>, Stop> {
    loop {
        site.approach(me);
        match site.attempt(me, limit, || combiner.try_attempt(site, op, run)) {
            Err(Stop::Void) => {
                let of = PhantomData;
                let mut queue = Queue { combiner, me, run, rescue, outcome: None, of };
                let limit = *limit.unwrap_or(&Limit::at_once());
                if !heal(&mut queue, site, me, false, Some(&limit))? {
                    return Ok(None);
                }
            }
            Err(stop) => return Err(stop),
            done => {
                site.leave(me);
                return done;
            }
        }
    }
}

/// The queue of a combiner, and the value behind it.
struct Queue<'a, C, Op, Ret, F, R> {
    combiner: &'a C,
    me: Seat,
    run: &'a mut F,
    rescue: &'a mut R,
    /// The outcome of this seat's operation.
    outcome: Option<Outcome<Ret>>,
    of: PhantomData<Op>,
}

impl<S, C, Op, Ret, F, R> Ward<S> for Queue<'_, C, Op, Ret, F, R>
where
    S: Mortal,
    C: Combiner,
    Op: Plain,
    Ret: Plain,
    F: FnMut(Seat, Op) -> Outcome<Ret>,
    R: Rescue<Op>,
{
    fn close(&mut self, site: &S) -> Result<bool, Stop> {
        self.combiner.close(site)
    }

    fn repair(&mut self, site: &S, request: u64) -> Result<(), Stop> {
        if request == 0 {
            // The dead seat was executing its own operation, so no other seat waits for an answer.
            self.rescue.repair();
            return Ok(());
        }
        let Some((owner, op)) = self.combiner.unanswered::<_, Op, Ret>(site, request)? else {
            return Ok(());
        };
        if owner >= site.seats() {
            return Err(Stop::Corrupt);
        }
        let is_good = self.rescue.repair();
        let outcome = if is_good && !site.is_dead(owner) && self.rescue.is_idempotent(&op) {
            // The request is noted, because this seat may be killed in the middle of it, too.
            site.begin(self.me, request);
            match (self.run)(owner, op) {
                // `Poisoned` would tell the owner that the operation was not begun.
                Outcome { fate: Fate::Poisoned, .. } => Outcome::without(Fate::Unknown),
                outcome => outcome,
            }
        } else {
            Outcome::without(Fate::Unknown)
        };
        self.combiner.answer::<_, Op, Ret>(site, request, outcome)?;
        site.approach(self.me);
        Ok(())
    }

    fn look(&mut self, site: &S) -> Result<(), Stop> {
        self.outcome = self.combiner.look::<_, Op, Ret>(site)?;
        Ok(())
    }

    fn reopen(&mut self, site: &S) -> Result<bool, Stop> {
        self.combiner.reopen(site)
    }
}
