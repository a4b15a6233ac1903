//! Broadcasts that use the algorithm that suits each message.

use std::sync::Arc;

use mp_core::mpb::{AsMpb, Mpb, Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};

use super::choice::{Broadcast, choose};
use super::trees::{CHUNK_LINES, Trees};
use super::{Completion, Leaves, LineBcast, LineOptions, OcBcast, Options};
use crate::calls::{Board, CheckedMpb, Kind, Mark};
use crate::choice::{Machine, Origin, Reason};
use crate::errors::bad_settings;
use crate::events::Events;
use crate::explanation::{Collective, Explanation};
use crate::members::{Members, names};
use crate::near::Places;
use crate::pairs::Pairs;
use crate::rings;
use crate::settings::Settings;
use mp_core::mpb::{MpbAccess, complete};

const NO_CHILDREN: &str =
    "a tree whose ranks have no children: set degrees or λs of at least 1, or no tree";

/// One rank's part in the broadcasts of its world, or of [some ranks](Members).
///
/// ```
/// use onchip::broadcast::{Broadcasts, Settings};
/// use onchip::World;
///
/// let sums = World::threads(3).run(|rank| {
///     let mut broadcasts = Broadcasts::open(rank, "weights", Settings::default())?;
///     let mut weights = if rank.id() == 1 { vec![0.5; 10_000] } else { vec![0.0; 10_000] };
///     broadcasts.broadcast(&mut weights, 1)?;
///     Ok(weights.iter().sum::<f64>())
/// })?;
/// assert_eq!(sums, [5_000.0; 3]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Broadcasts<M = CheckedMpb> {
    mpb: M,
    machine: Machine,
    /// The trees that the ranks have agreed on.
    trees: Trees,
    forced: Option<Broadcast>,
    events: Events,
    lines: LineBcast,
    oc_bcast: OcBcast,
}

impl Broadcasts {
    /// Opens the broadcasts of this name for the given ranks, or for all ranks of the world. No rank waits for the
    /// others to do so.
    ///
    /// Four or more ranks, each with a core, use the trees that suit this machine's calibration, if one is
    /// [kept](crate::calibration::kept), and the CPUs to which the world has bound the ranks. The calibration that
    /// counts is the one seen by the first rank to open the broadcasts.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::ErrorKind::MpbMismatch) when another rank has opened them with other settings that
    /// change the memory needed; [`MpbRanksMismatch`](mp_core::ErrorKind::MpbRanksMismatch) when it has opened them
    /// with other members. Also fails for invalid settings or for lack of memory.
    pub fn open<'a>(
        members: impl Into<Members<'a>>,
        name: &str,
        settings: Settings,
    ) -> mp_core::Result<Broadcasts> {
        let members = members.into();
        let (ranks, places) = (members.count(), Places::of(members));
        let machine = Machine { ranks, cores: members.cores(), payload: PAYLOAD_BYTES };
        let trees = match settings.tree {
            Some(shape) if !shape.reaches_all() => return Err(bad_settings(NO_CHILDREN)),
            Some(shape) => Trees::both(shape, Reason::Forced),
            None => {
                let chunk_lines = settings.chunk_lines.unwrap_or(CHUNK_LINES);
                let parameters = Origin::kept(machine.suits_trees());
                Trees::best(machine, &places, chunk_lines, parameters)
            }
        };
        Broadcasts::open_proposing(members, name, settings, machine, (&places, trees))
    }

    fn open_proposing(
        members: Members<'_>,
        name: &str,
        settings: Settings,
        machine: Machine,
        (places, trees): (&Places, Trees),
    ) -> mp_core::Result<Broadcasts> {
        let Settings { chunk_lines, buffers, slots, broadcast, wait, direct, .. } = settings;
        let chunk_lines = chunk_lines.unwrap_or(CHUNK_LINES);
        let ranks = machine.ranks;
        // There is room for any tree, because all ranks must open the same memory before they know which tree is used.
        let degree = ranks.saturating_sub(1).max(1);
        let slots = slots.unwrap_or(machine.slots());
        let buffers = match buffers {
            Some(buffers) => buffers,
            None => rings::buffers(members, ranks, chunk_lines)?,
        };
        let lines = LineOptions { degree, slots, first_line: 0 };
        let too_much = || bad_settings("broadcasts that take more lines than there can be");
        let first = lines.lines(ranks).ok_or_else(too_much)?;
        let chunks = Options {
            degree,
            chunk_lines,
            buffers,
            leaves: Leaves::Direct,
            completion: Completion::Buffered,
            first_line: first,
        };
        let all = chunks.lines(ranks).and_then(|lines| first.checked_add(lines));
        let mpbs = Mpbs::lines(all.ok_or_else(too_much)?)
            .growing_from(Pairs::near_lines(ranks), usize::MAX)
            .growing_from(first, chunks.flag_lines(ranks))
            .proposing(trees.word());
        let mut mpb = CheckedMpb::new(members.private_mpb(names::BROADCASTS, name, mpbs)?);
        mpb.set_lends(direct);
        let trees = Trees::read(mpb.get_ref().agreed()).unwrap_or(trees);
        let [by_lines, by_chunks] = [trees.lines, trees.chunks].map(|tree| tree.outward(places));
        let by_lines = LineBcast::along(&mpb, lines, by_lines).map_err(bad_settings)?;
        let mut broadcasts = Broadcasts {
            machine,
            trees,
            forced: broadcast,
            events: Events::new(),
            lines: by_lines,
            oc_bcast: OcBcast::along(&mpb, chunks, by_chunks)?,
            mpb,
        };
        broadcasts.set_wait(wait);
        Ok(broadcasts)
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

    /// Broadcasts the root's message. All ranks call this with the same root and length, and have the message when the
    /// call returns. The root's own buffer is only read. The root may change it as soon as its call returns, which may
    /// be before the other calls return.
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost), [`Disconnected`](mp_core::ErrorKind::Disconnected) and
    /// [`Timeout`](mp_core::ErrorKind::Timeout); after one of these, this rank is out of step with the others. Also
    /// fails when there is no such root.
    #[inline]
    pub fn broadcast<T: Plain>(&mut self, message: &mut [T], root: usize) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::Broadcast, Some(message.len()), Some(root)));
        let message = bytemuck::cast_slice_mut(message);
        let chosen = self.choose(message.len());
        let mpb = &mut self.mpb;
        match chosen {
            Broadcast::Lines => complete(self.lines.broadcast(mpb, message, root))?,
            Broadcast::OcBcast => complete(self.oc_bcast.broadcast(mpb, message, root))?,
        }
        Ok(())
    }

    /// Converts the MPBs.
    pub(crate) fn map<N>(self, convert: impl FnOnce(Mpb) -> N) -> Broadcasts<CheckedMpb<N>> {
        let Broadcasts { mpb, machine, trees, forced, events, lines, oc_bcast } = self;
        let mpb = mpb.map(convert);
        Broadcasts { mpb, machine, trees, forced, events, lines, oc_bcast }
    }
}

impl<M: AsMpb> Broadcasts<CheckedMpb<M>> {
    /// Does what [`broadcast`](Broadcasts::broadcast) does. The blocking form does not call this, because one more
    /// future around an algorithm has a noticeable cost for a short message.
    pub(crate) async fn run<T: Plain>(
        &mut self,
        message: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::Broadcast, Some(message.len()), Some(root)));
        let message = bytemuck::cast_slice_mut(message);
        let chosen = self.choose(message.len());
        let mpb = &mut self.mpb;
        match chosen {
            Broadcast::Lines => self.lines.broadcast(mpb, message, root).await?,
            // Boxed, so that the future of a short broadcast is small.
            Broadcast::OcBcast => Box::pin(self.oc_bcast.broadcast(mpb, message, root)).await?,
        }
        Ok(())
    }
}

impl<M: MpbAccess> Broadcasts<M> {
    /// Returns which algorithm a message of `bytes` bytes takes, and why.
    pub fn explain(&self, bytes: usize) -> Explanation {
        Explanation::of_broadcast(self.machine, self.trees, bytes, self.forced)
    }

    /// Chooses the algorithm for a message of `bytes` bytes, and reports the choice.
    #[inline(always)]
    fn choose(&mut self, bytes: usize) -> Broadcast {
        let (machine, trees) = (self.machine, self.trees);
        let choice = choose(machine, bytes, self.forced);
        self.events.report(|| {
            let with_trees = choice.map(|by| (by, trees));
            Explanation::new(Collective::Broadcast, bytes, machine, with_trees)
        });
        choice.algorithm
    }

    /// Returns this rank's number.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }
}

#[cfg(test)]
mod tests {
    use mp_core::World;
    use mp_core::topology::Seat;
    use mp_model::cla::Parameters;

    use super::*;

    /// This holds whatever each rank knows about the machine.
    #[test]
    fn all_take_the_trees_that_the_first_one_proposes() {
        const CHUNK: usize = 4;
        for (ranks, each) in [(4, 2), (7, 3), (12, 12)] {
            let seat = |rank: usize| Some(Seat { cache: rank / each, package: 0 });
            let places = Places::of_seats(&(0..ranks).map(seat).collect::<Vec<_>>());
            let machine = Machine { ranks, cores: ranks, payload: PAYLOAD_BYTES };
            let settings = Settings { chunk_lines: Some(CHUNK), ..Settings::default() };
            let events = World::threads(ranks).run(|rank| {
                let known = match rank.id() % 3 {
                    0 => None,
                    1 => Some(Parameters::XEON_PHI),
                    // These are the parameters of a machine on which all ranks are equally far from each other.
                    _ => Some(Parameters {
                        far: Parameters::SANDY_BRIDGE.near,
                        ..Parameters::SANDY_BRIDGE
                    }),
                };
                let trees = Trees::best(machine, &places, CHUNK, known);
                let proposed = (&places, trees);
                let mut broadcasts = Broadcasts::open_proposing(
                    rank.into(),
                    "proposed",
                    settings.clone(),
                    machine,
                    proposed,
                )?;
                for root in 0..ranks {
                    for bytes in [1, PAYLOAD_BYTES + 1, 64 * CHUNK * 9 + 5] {
                        let sent = vec![root as u8 + 1; bytes];
                        let mut got = if rank.id() == root { sent.clone() } else { vec![0; bytes] };
                        broadcasts.broadcast(&mut got, root)?;
                        assert_eq!(got, sent, "{ranks} ranks, root {root}, {bytes} bytes");
                    }
                }
                Ok(format!("{} {}", broadcasts.explain(1), broadcasts.explain(1 << 20)))
            });
            let events = events.expect("broadcasts");
            assert!(events.iter().all(|one| *one == events[0]), "{events:?}");
        }
    }
}
