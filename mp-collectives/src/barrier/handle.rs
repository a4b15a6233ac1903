//! Barriers that use the algorithm that suits the machine.

use std::sync::Arc;

use mp_core::Wait;
use mp_core::mpb::{Mpbs, PAYLOAD_BYTES};
use mp_model::cla::Barrier;
use mp_model::cla::barrier::pushed_barrier;

use super::choice::choose;
use super::dissemination::rounds;
use super::{BarrierError, Central, Dissemination, proposal};
use crate::calls::{Board, CheckedMpb, Mark};
use crate::choice::{Choice, Machine, Origin, Reason};
use crate::errors::bad_settings;
use crate::events::Events;
use crate::explanation::{Collective, Explanation};
use crate::members::{Members, names};
use crate::near::{Near, Places};
use crate::nonblocking::{PolledMpb, Waits};
use crate::settings::Settings;
use mp_core::mpb::{MpbAccess, complete};

/// One rank's part in the barriers of its world, or of [some ranks](Members).
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use onchip::barrier::{Barriers, Settings};
/// use onchip::World;
///
/// let come = AtomicUsize::new(0);
/// World::threads(3).run(|rank| {
///     let mut barriers = Barriers::open(rank, "step", Settings::default())?;
///     come.fetch_add(1, Ordering::Relaxed);
///     barriers.wait()?;
///     assert_eq!(come.load(Ordering::Relaxed), 3);
///     // The rank computes while the others arrive.
///     let arrived = barriers.arrive()?;
///     let sum: u64 = (0..1_000).sum();
///     arrived.wait()?;
///     Ok(sum)
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Barriers<M = CheckedMpb> {
    mpb: M,
    machine: Machine,
    choice: Choice<(Barrier, Near)>,
    algorithm: Algorithm,
}

#[derive(Debug)]
enum Algorithm {
    Dissemination(Dissemination),
    Central(Central),
}

impl Algorithm {
    fn has_arrived(&self) -> bool {
        match self {
            Algorithm::Dissemination(barrier) => barrier.has_arrived(),
            Algorithm::Central(barrier) => barrier.has_arrived(),
        }
    }
}

impl Barriers {
    /// Opens the barriers of this name for the given ranks, or for all ranks of the world. No rank waits for the others
    /// to do so.
    ///
    /// Three or more ranks, each with a core, use the groups and rounds that suit this machine's calibration, if one is
    /// [kept](crate::calibration::kept). The calibration that counts is the one seen by the first rank to open the
    /// barriers. Nothing is measured here.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::ErrorKind::MpbMismatch) when another rank has opened them with other settings that
    /// change the memory needed; [`MpbRanksMismatch`](mp_core::ErrorKind::MpbRanksMismatch) when it has opened them
    /// with other members; a [`BarrierError`]. Also fails for lack of memory.
    pub fn open<'a>(
        members: impl Into<Members<'a>>,
        name: &str,
        settings: Settings,
    ) -> mp_core::Result<Barriers> {
        let members = members.into();
        let Settings { barrier, placement, wait, .. } = settings;
        let ranks = members.count();
        let places = placement.map_or_else(|| Places::of(members), Places::given);
        if places.ranks() != ranks {
            let given = places.ranks();
            return Err(bad_settings(BarrierError::Ranks { given, ranks }));
        }
        // Two ranks have no choice, so the calibration is not read for them.
        let asked = barrier.is_none() && (3..=members.cores()).contains(&ranks);
        let choice = choose(&places, members.cores(), Origin::kept(asked), barrier);
        let mut barriers = Barriers::open_chosen(members, name, choice, &places)?;
        barriers.set_wait(wait);
        Ok(barriers)
    }

    fn open_chosen(
        members: Members<'_>,
        name: &str,
        mut choice: Choice<(Barrier, Near)>,
        places: &Places,
    ) -> mp_core::Result<Barriers> {
        let ranks = places.ranks();
        let machine = Machine { ranks, cores: members.cores(), payload: PAYLOAD_BYTES };
        let open = |mpbs| members.private_mpb(names::BARRIERS, name, mpbs).map(CheckedMpb::new);
        let rounds = |(barrier, near): &(Barrier, Near)| {
            rounds(barrier, &places.groups(*near)).map_err(bad_settings)
        };
        let (mpb, algorithm) = match (&choice.algorithm, choice.reason) {
            ((Barrier::Central, _), _) => {
                let mpb = open(Mpbs::lines(Central::lines(ranks)))?;
                let central = Central::new(&mpb, 0).map_err(bad_settings)?;
                (mpb, Algorithm::Central(central))
            }
            (&(_, near), Reason::Modelled(origin)) => {
                // Whatever the rounds are, a rank needs no more flags than there are other ranks: each rank of its own
                // group notifies it at most once, and so does each other group.
                let mpbs = Mpbs::lines(ranks.max(2) - 1);
                let mpb = open(mpbs.proposing(proposal::word(near, origin)))?;
                if let Some((near, origin)) = proposal::read(mpb.get_ref().agreed()) {
                    let algorithm = (pushed_barrier(&places.groups(near)), near);
                    choice = Choice { algorithm, reason: Reason::Modelled(origin) };
                }
                let barrier = Dissemination::with_rounds(&mpb, &rounds(&choice.algorithm)?, 0);
                (mpb, Algorithm::Dissemination(barrier.map_err(bad_settings)?))
            }
            _ => {
                let rounds = rounds(&choice.algorithm)?;
                let mpb = open(Mpbs::lines(Dissemination::lines(&rounds).max(1)))?;
                let barrier = Dissemination::with_rounds(&mpb, &rounds, 0);
                (mpb, Algorithm::Dissemination(barrier.map_err(bad_settings)?))
            }
        };
        let barriers = Barriers { mpb, machine, choice, algorithm };
        Events::new().report(|| barriers.explain());
        Ok(barriers)
    }

    /// Numbers calls together with those of the other fronts of a communicator, and compares them with those of other
    /// ranks when they take long.
    pub(crate) fn watch(&mut self, board: &Arc<Board>) {
        self.mpb.watch(board);
    }

    /// Sets how calls wait from now on: with which policy and for how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.mpb.get_mut().set_wait(wait);
    }

    /// Waits until all ranks have arrived at this barrier.
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost), [`Disconnected`](mp_core::ErrorKind::Disconnected) and
    /// [`Timeout`](mp_core::ErrorKind::Timeout); after one of these, this rank is out of step with the others.
    #[inline]
    pub fn wait(&mut self) -> mp_core::Result<()> {
        match &mut self.algorithm {
            Algorithm::Dissemination(barrier) => {
                if !barrier.has_arrived() {
                    self.mpb.begin_again(Mark::barrier());
                }
                complete(barrier.wait(&mut self.mpb))?;
            }
            Algorithm::Central(barrier) => {
                if !barrier.has_arrived() {
                    self.mpb.begin(Mark::barrier());
                }
                complete(barrier.wait(&mut self.mpb))?;
            }
        }
        Ok(())
    }

    /// Announces that this rank has arrived and returns without waiting: the other ranks need not wait for this rank
    /// while it does something else ("fuzzy barrier"). Anything that takes more than one round of flags continues only
    /// in [`Arrived::wait`].
    ///
    /// If the returned value is dropped, this rank waits in its next call, whatever that call is.
    ///
    /// # Errors
    /// The same as for [`wait`](Barriers::wait).
    #[inline]
    pub fn arrive(&mut self) -> mp_core::Result<Arrived<'_>> {
        if self.algorithm.has_arrived() {
            self.wait()?;
        }
        self.mpb.begin(Mark::barrier());
        match &mut self.algorithm {
            Algorithm::Dissemination(barrier) => complete(barrier.arrive(&mut self.mpb))?,
            Algorithm::Central(barrier) => complete(barrier.arrive(&mut self.mpb))?,
        }
        Ok(Arrived(self))
    }

    /// Converts this for a thread that must not be blocked, and returns where it waits.
    pub(crate) fn polled(self) -> (Barriers<CheckedMpb<PolledMpb>>, Arc<Waits>) {
        let Barriers { mpb, machine, choice, algorithm } = self;
        let mpb = mpb.map(PolledMpb::new);
        let waits = Arc::clone(mpb.get_ref().waits());
        (Barriers { mpb, machine, choice, algorithm }, waits)
    }
}

impl Barriers<CheckedMpb<PolledMpb>> {
    /// Does what [`wait`](Barriers::wait) does. The blocking form does not call this, because one more future around an
    /// algorithm has a noticeable cost for a barrier.
    pub(crate) async fn run(&mut self) -> mp_core::Result<()> {
        self.mpb.begin(Mark::barrier());
        match &mut self.algorithm {
            Algorithm::Dissemination(barrier) => barrier.wait(&mut self.mpb).await?,
            Algorithm::Central(barrier) => barrier.wait(&mut self.mpb).await?,
        }
        Ok(())
    }
}

impl<M: MpbAccess> Barriers<M> {
    /// Returns which barrier is used, and why.
    pub fn explain(&self) -> Explanation {
        Explanation::new(Collective::Barrier, 0, self.machine, self.choice.clone())
    }

    /// Returns this rank's number.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }
}

/// A barrier at which this rank has arrived and for which it has yet to wait.
#[must_use = "nobody has waited yet"]
#[derive(Debug)]
pub struct Arrived<'a>(&'a mut Barriers);

impl Arrived<'_> {
    /// Waits until all ranks have arrived.
    ///
    /// # Errors
    /// The same as for [`Barriers::wait`].
    #[inline]
    pub fn wait(self) -> mp_core::Result<()> {
        self.0.wait()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mp_core::World;
    use mp_core::topology::Seat;
    use mp_model::cla::Parameters;

    use super::*;

    /// This holds whatever each rank knows about the machine.
    #[test]
    fn all_take_what_the_first_one_proposes() {
        for (ranks, each) in [(3, 2), (7, 3), (8, 2), (12, 4)] {
            let seat = |rank: usize| Some(Seat { cache: rank / each, package: rank / each });
            let places = Places::of_seats(&(0..ranks).map(seat).collect::<Vec<_>>());
            // This is a machine on which all ranks are equally far from each other.
            let even =
                Parameters { far: Parameters::SANDY_BRIDGE.near, ..Parameters::SANDY_BRIDGE };
            let come = AtomicUsize::new(0);
            let events = World::threads(ranks).run(|rank| {
                let mine = if rank.id() % 2 == 0 { None } else { Some(even) };
                let choice = choose(&places, ranks, mine, None);
                let mut barriers = Barriers::open_chosen(rank.into(), "proposed", choice, &places)?;
                for number in 1..=100 {
                    come.fetch_add(1, Ordering::Relaxed);
                    barriers.wait()?;
                    assert!(come.load(Ordering::Relaxed) >= number * ranks);
                    barriers.wait()?;
                }
                Ok(barriers.explain().to_string())
            });
            let events = events.expect("barriers");
            assert!(events.iter().all(|one| *one == events[0]), "{events:?}");
        }
    }

    /// A rank that does not know the groups that another rank has proposed takes them as one group.
    #[test]
    fn what_is_not_known_is_one_group() {
        let waited = World::threads(1).run(|rank| {
            let seats = [Some(Seat { cache: 0, package: 0 })];
            let mut choice = choose(&Places::of_seats(&seats), 1, None, None);
            choice.algorithm.1 = Near::Packages;
            Barriers::open_chosen(rank.into(), "unknown", choice, &Places::unknown(1))?.wait()
        });
        assert_eq!(waited.expect("a barrier"), [()]);
    }
}
