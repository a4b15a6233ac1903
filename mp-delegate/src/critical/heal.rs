//! What becomes of a lock or a combiner when a rank is killed in its code: while it has the value, waits,
//! comes, or gives the value up. A queue may end with the dead, or lead through it; and half a value
//! may be left.
//!
//! So the queue is given up as a whole, and everybody begins again. Whoever finds that somebody died
//! stops waiting, and says so; one of those who stopped is the *healer*. He
//!
//! 1. says that the queue is void, and *closes* it: who comes from now on finds that it is closed, or
//!    comes behind one who did, and stops as well;
//! 2. waits until every seat that lives is *still*: out of the code, or parked with a request that
//!    nobody has answered yet. Whoever has the value comes out in his time, and waits for no successor;
//! 3. *repairs* the value if a rank was killed that had it: nobody else has it now. Where that rank was
//!    executing the request of another one, that request gets its answer;
//! 4. says that the queue is frozen. Those who are parked look what became of their requests, and leave;
//! 5. makes the words new, forgets the dead, and *reopens* the queue, unless somebody came since it was
//!    closed: then all over again.
//!
//! Whoever stopped waits until the healer is done. So at step 5 nobody has in mind what the words were, but
//! those who have written to their own node only; and nobody leaves a queue that is not void. A healer
//! that dies is in the code, and another one begins at the beginning: also with the repair, unless that
//! was done to the end.
//!
//! Who begins again has lost his place to others, and nothing else: what he asked for was not begun.

use super::{
    error::Stop,
    locks::{someone, who},
    site::{AnyWord, Mortal, Seat, seat},
};

/// In a queue's tail: nobody queues up.
pub(super) const CLOSED: u64 = u64::MAX;

/// In the word that says whether the queue is void: that it is, and that nothing changes there any more.
const VOID: u64 = 1;
const FROZEN: u64 = 2;

/// What is healed, by a seat that has stopped waiting in it.
pub(super) trait Ward<S: Mortal> {
    /// Whether those who wait have places, which the dead may leave empty.
    const QUEUES: bool = true;

    /// Whoever comes finds it closed. False if somebody may have come since it was closed before, so
    /// that it is to be closed again when all are still.
    fn close(&mut self, site: &S) -> Result<bool, Stop>;

    /// Repairs the value, which a rank had that was killed; `request` is what it has
    /// [noted](super::site::Site::begin). Nobody else has the value.
    fn repair(&mut self, site: &S, request: u64) -> Result<(), Stop>;

    /// Looks what became of the own request: in the last moment in which it can be known.
    fn look(&mut self, _site: &S) -> Result<(), Stop> {
        Ok(())
    }

    /// Makes everything new; false if somebody came since it was closed.
    fn reopen(&mut self, site: &S) -> Result<bool, Stop>;
}

/// Waits until the queue can be used again, or makes it so. The seat has stopped waiting in it; what it
/// has `asked` for may be answered until the queue is frozen.
#[cold]
pub(super) fn heal<S: Mortal>(
    ward: &mut impl Ward<S>,
    site: &S,
    me: Seat,
    mut asked: bool,
) -> Result<(), Stop> {
    let rest = |asked: bool| if asked { site.park(me) } else { site.leave(me) };
    loop {
        rest(asked);
        let turn = site.linger(|| {
            if let Some(lost) = site.lost() {
                return Some(Err(lost));
            }
            // In this order: a healer is there before those who are stuck are forgotten.
            let is_stuck = site.is_stuck() || site.void().load() != 0;
            Some(Ok(match site.healer().load() {
                0 if is_stuck => Turn::Heal(0),
                // The healer waits for all who have asked.
                0 if asked => return Some(Err(Stop::Corrupt)),
                0 => Turn::Over,
                healer if who(healer) >= site.seats() => return Some(Err(Stop::Corrupt)),
                healer if site.is_dead(who(healer)) => Turn::Heal(healer),
                _ if asked && site.void().load() == FROZEN => Turn::Look,
                _ => return None,
            }))
        })?;
        match turn {
            Turn::Over => return Ok(()),
            Turn::Look => {
                ward.look(site)?;
                asked = false;
            }
            Turn::Heal(before) => {
                // First, so that there is always somebody to look for.
                site.approach(me);
                if site.healer().exchange(before, someone(me)).is_ok() {
                    // Another one may have healed it since the look. Nobody but the healer forgets.
                    if site.is_stuck() || site.void().load() != 0 {
                        renew(ward, site, me, &mut asked)?;
                    }
                    site.healer().store(0);
                    if !asked {
                        site.leave(me);
                        return Ok(());
                    }
                }
            }
        }
    }
}

enum Turn {
    Over,
    Look,
    /// Instead of the healer that there was.
    Heal(u64),
}

fn renew<S: Mortal, W: Ward<S>>(
    ward: &mut W,
    site: &S,
    me: Seat,
    asked: &mut bool,
) -> Result<(), Stop> {
    let others = || (0..site.seats()).filter(|&seat| seat != me);
    loop {
        if W::QUEUES {
            site.void().store(VOID);
            loop {
                let is_closed = ward.close(site)?;
                site.wake_all();
                others().try_for_each(|seat| until(site, seat, &[seat::PARKED]))?;
                if is_closed {
                    break;
                }
            }
        }
        for dead in others().filter(|&seat| site.is_dead(seat)) {
            let mark = site.mark(dead);
            let said = mark.load();
            if seat::kind(said) == seat::ENTERED {
                ward.repair(site, seat::request(said))?;
                // Not before: else who follows next would not know.
                mark.store(seat::APPROACHES);
            }
        }
        if W::QUEUES {
            site.void().store(FROZEN);
            if std::mem::take(asked) {
                ward.look(site)?;
            }
            others().try_for_each(|seat| until(site, seat, &[]))?;
        }
        // Before the words are made new: who dies after that is not forgotten.
        forget_the_dead(site, me);
        if W::QUEUES {
            site.void().store(0);
        }
        if ward.reopen(site)? {
            return Ok(());
        }
    }
}

/// Waits until the seat is out of the code, or one of these, or dead.
fn until(site: &impl Mortal, seat: Seat, or: &[u64]) -> Result<(), Stop> {
    site.linger(|| {
        if let Some(lost) = site.lost() {
            return Some(Err(lost));
        }
        // In this order: what the dead has said last.
        let is_dead = site.is_dead(seat);
        let mark = site.mark(seat).load();
        (mark == 0 || is_dead || or.contains(&mark)).then_some(Ok(()))
    })
}

fn forget_the_dead(site: &impl Mortal, me: Seat) {
    let is_left = |&seat: &Seat| {
        let mark = || seat::kind(site.mark(seat).load());
        seat != me && site.is_dead(seat) && !matches!(mark(), 0 | seat::ENTERED)
    };
    (0..site.seats()).filter(is_left).for_each(|seat| site.mark(seat).store(0));
}
