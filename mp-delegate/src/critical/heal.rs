//! Recovery of a lock or a combiner after a rank is killed in its code: while it has the value, waits, arrives, or
//! gives the value up. The queue may end with the dead rank, or lead through it; and a half-written value may be left.
//!
//! So the queue is given up as a whole, and all ranks begin again. A seat that finds that a rank died stops waiting,
//! and says so; one of the seats that stopped is the *healer*. The healer
//!
//! 1. says that the queue is void, and *closes* it: a seat that comes from now on finds that it is closed, or comes
//!    behind one that did, and stops as well;
//! 2. waits until every seat that lives is *still*: out of the code, or parked with a request that has not been
//!    answered yet. The seat that has the value comes out in its time, and waits for no successor;
//! 3. *repairs* the value if a rank was killed that had it: no other rank has it now. If that rank was executing the
//!    request of another one, that request gets its answer;
//! 4. says that the queue is frozen. Parked seats look up the outcome of their requests, and leave;
//! 5. resets the words, forgets the dead seats, and *reopens* the queue, unless a seat came since the queue was closed.
//!    In that case everything starts again.
//!
//! A seat that stopped waits until the healer is done. So at step 5 no seat remembers what the words were, except seats
//! that have written only to their own node; and no seat leaves a queue that is not void. A healer that dies is in the
//! code, and another one starts from the beginning. It repairs the value again as well, unless the repair was finished.
//!
//! A healer with a limit may give up while it waits, as long as it has not begun with step 5. The queue stays void and
//! closed, so that the next seat that comes, or waits, starts from the beginning, as behind a healer that died. From
//! step 5 on it waits only for seats that have found the queue closed and are about to leave.
//!
//! A seat that begins again has lost its place to others, and nothing else: what it asked for was not begun.
//!
//! The seat that has the value at that time may keep it for long, and wait for a message of a rank that heals or waits
//! for the healer. So these waits make progress on their ranks' pending requests, as those in the queue do.
//!
//! Ranks that are threads do not die alone. When such a rank is gone with a guard that it has leaked, the waits of all
//! others end. A thread of that rank may still come out of the section, and ranks that heard of the loss have left gaps
//! in the queue. So the loss is first written into the region's descriptor (`Region::give_up`), which changes the word
//! that all waiting ranks look at.
//!
//! When no rank dies, all this costs a few stores to the seat's mark, and one for each operation that is executed for
//! another seat.

use super::{
    site::{AnyWord, Limit, Mortal, Seat, seat, someone, who},
    stop::Stop,
};

/// The value of a queue's tail when the queue is closed: no seat queues up.
pub(super) const CLOSED: u64 = u64::MAX;

/// In the word that says whether the queue is void: it is void, and it is frozen.
const VOID: u64 = 1;
const FROZEN: u64 = 2;

/// The thing to heal, on behalf of a seat that has stopped waiting in it.
pub(super) trait Ward<S: Mortal> {
    /// Whether waiting seats have places, which dead seats may leave empty.
    const QUEUES: bool = true;

    /// Closes the queue: seats that come find it closed. Returns false if a seat may have come since it was closed
    /// before, so that it is to be closed again when all are still.
    fn close(&mut self, site: &S) -> Result<bool, Stop>;

    /// Repairs the value, which a killed rank had; `request` is what that rank has [noted](super::site::Site::begin).
    /// No other rank has the value.
    fn repair(&mut self, site: &S, request: u64) -> Result<(), Stop>;

    /// Looks up the outcome of this seat's request, at the last moment at which it can be known.
    fn look(&mut self, _site: &S) -> Result<(), Stop> {
        Ok(())
    }

    /// Resets everything. Returns false if a seat came since the queue was closed.
    fn reopen(&mut self, site: &S) -> Result<bool, Stop>;
}

/// Waits until the queue can be used again, or makes it usable. Returns false if the limit was over before that. The
/// seat has stopped waiting in the queue. What it has `asked` for may be answered until the queue is frozen, so a seat
/// that has asked has no limit.
#[cold]
pub(super) fn heal<S: Mortal>(
    ward: &mut impl Ward<S>,
    site: &S,
    me: Seat,
    mut asked: bool,
    limit: Option<&Limit>,
) -> Result<bool, Stop> {
    let rest = |asked: bool| if asked { site.park(me) } else { site.leave(me) };
    loop {
        rest(asked);
        let turn = site.linger(me, limit, || {
            if let Some(lost) = site.lost() {
                return Some(Err(lost));
            }
            // The order matters: a healer registers before it forgets the seats that are stuck.
            let is_stuck = site.is_stuck() || site.void().load() != 0;
            Some(Ok(match site.healer().load() {
                0 if is_stuck => Turn::Heal(0),
                // A healer waits for all seats that have asked, so there is one as long as this seat has not looked.
                0 if asked => return Some(Err(Stop::Corrupt)),
                0 => Turn::Over,
                healer if who(healer) >= site.seats() => return Some(Err(Stop::Corrupt)),
                healer if site.is_dead(who(healer)) => Turn::Heal(healer),
                _ if asked && site.void().load() == FROZEN => Turn::Look,
                _ => return None,
            }))
        });
        let Some(turn) = turn?.transpose()? else { return Ok(false) };
        match turn {
            Turn::Over => return Ok(true),
            Turn::Look => {
                ward.look(site)?;
                asked = false;
            }
            Turn::Heal(before) => {
                // The seat is marked first, so that others find out if it dies as the healer.
                site.approach(me);
                if site.healer().compare_exchange(before, someone(me)).is_ok() {
                    // Another seat may have healed the queue since the look. Only a healer forgets dead seats, so this
                    // look is reliable.
                    let is_ill = site.is_stuck() || site.void().load() != 0;
                    let healed = !is_ill || renew(ward, site, me, &mut asked, limit)?;
                    site.healer().store(0);
                    if !asked {
                        site.leave(me);
                        return Ok(healed);
                    }
                }
            }
        }
    }
}

enum Turn {
    Over,
    Look,
    /// Becomes the healer, in place of the previous one.
    Heal(u64),
}

/// Heals the queue. Returns false if the limit was over before; the queue is then left to others as it is.
fn renew<S: Mortal, W: Ward<S>>(
    ward: &mut W,
    site: &S,
    me: Seat,
    asked: &mut bool,
    mut limit: Option<&Limit>,
) -> Result<bool, Stop> {
    loop {
        if W::QUEUES {
            site.void().store(VOID);
            loop {
                let is_closed = ward.close(site)?;
                site.wake_all();
                if !all_are(site, me, &[seat::PARKED], limit)? {
                    return Ok(false);
                }
                if is_closed {
                    break;
                }
            }
        }
        for dead in others(site, me).filter(|&seat| site.is_dead(seat)) {
            let mark = site.mark(dead);
            let said = mark.load();
            if seat::kind(said) == seat::ENTERED {
                ward.repair(site, seat::request(said))?;
                // The mark changes after the repair: otherwise the next healer would not know that the value is to be
                // repaired.
                mark.store(seat::APPROACHES);
            }
        }
        if W::QUEUES {
            site.void().store(FROZEN);
            if std::mem::take(asked) {
                ward.look(site)?;
            }
            if !all_are(site, me, &[], limit)? {
                return Ok(false);
            }
        }
        // The dead are forgotten before the words are reset, so that a seat that dies after that is not forgotten.
        forget_the_dead(site, me);
        if W::QUEUES {
            site.void().store(0);
        }
        if ward.reopen(site)? {
            return Ok(true);
        }
        // A seat that has looked since the dead were forgotten may have found nothing wrong, and would not look again
        // if the queue were left void now. So the limit does not apply any more.
        limit = None;
    }
}

fn others(site: &impl Mortal, me: Seat) -> impl Iterator<Item = Seat> {
    (0..site.seats()).filter(move |&seat| seat != me)
}

/// Waits until each of the other seats is out of the code, or one of these, or dead. Returns false if the limit was
/// over before.
fn all_are(site: &impl Mortal, me: Seat, or: &[u64], limit: Option<&Limit>) -> Result<bool, Stop> {
    others(site, me).try_fold(true, |all, seat| Ok(all && until(site, (me, seat), or, limit)?))
}

fn until(
    site: &impl Mortal,
    (me, seat): (Seat, Seat),
    or: &[u64],
    limit: Option<&Limit>,
) -> Result<bool, Stop> {
    let is_so = site.linger(me, limit, || {
        if let Some(lost) = site.lost() {
            return Some(Err(lost));
        }
        // The order matters: after its death, a seat's mark does not change.
        let is_dead = site.is_dead(seat);
        let mark = site.mark(seat).load();
        (mark == 0 || is_dead || or.contains(&mark)).then_some(Ok(()))
    });
    Ok(is_so?.transpose()?.is_some())
}

fn forget_the_dead(site: &impl Mortal, me: Seat) {
    let is_left = |&seat: &Seat| {
        let mark = || seat::kind(site.mark(seat).load());
        seat != me && site.is_dead(seat) && !matches!(mark(), 0 | seat::ENTERED)
    };
    (0..site.seats()).filter(is_left).for_each(|seat| site.mark(seat).store(0));
}
