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
//! A healer with a limit may give up while he waits, as long as he has not begun with step 5. The queue stays void and
//! closed, so that the next one who comes, or waits, begins at the beginning, as behind a healer that died. From step 5
//! on he waits only for those who have found the queue closed and are about to leave.
//!
//! Who begins again has lost his place to others, and nothing else: what he asked for was not begun.
//!
//! Whoever has the value at that time may keep it for long, and wait for a message of a rank that heals or waits for the
//! healer. So these waits bring on what their ranks have under way, as those in the queue do.

use super::{
    error::Stop,
    locks::{someone, who},
    site::{AnyWord, Limit, Mortal, Seat, seat},
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

/// Waits until the queue can be used again, or makes it so; false if the limit was over before that. The seat has
/// stopped waiting in it; what it has `asked` for may be answered until the queue is frozen, so who has asked has no
/// limit.
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
        });
        let Some(turn) = turn?.transpose()? else { return Ok(false) };
        match turn {
            Turn::Over => return Ok(true),
            Turn::Look => {
                ward.look(site)?;
                asked = false;
            }
            Turn::Heal(before) => {
                // First, so that there is always somebody to look for.
                site.approach(me);
                if site.healer().exchange(before, someone(me)).is_ok() {
                    // Another one may have healed it since the look. Nobody but the healer forgets.
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
    /// Instead of the healer that there was.
    Heal(u64),
}

/// Heals the queue; false if the limit was over before, and it is left to others as it is.
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
                // Not before: else who follows next would not know.
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
        // Before the words are made new: who dies after that is not forgotten.
        forget_the_dead(site, me);
        if W::QUEUES {
            site.void().store(0);
        }
        if ward.reopen(site)? {
            return Ok(true);
        }
        // Whoever has looked since the dead were forgotten may have found nothing wrong, and would not look again if
        // the queue were left void now.
        limit = None;
    }
}

fn others(site: &impl Mortal, me: Seat) -> impl Iterator<Item = Seat> {
    (0..site.seats()).filter(move |&seat| seat != me)
}

/// Waits until each of the other seats is out of the code, or one of these, or dead; false if the limit was over before.
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
        // In this order: what the dead has said last.
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
