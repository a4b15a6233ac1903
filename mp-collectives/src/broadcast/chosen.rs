//! Broadcasts of ranks, each by the algorithm that suits it.

use std::sync::Arc;

use mp_core::mpb::{Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};
use mp_model::mpb::{Mpb, complete};

use super::choice::{Algorithm, Explanation, Machine, choose};
use super::{
    Completion, Leaves, LineBcast, LineOptions, OcBcast, Options, binomial, scatter_allgather,
};
use crate::calls::{Board, Kind, Mark};
use crate::immediate::{PolledMpb, Waits};
use crate::members::{Members, names};
use crate::real::{RealError, RealMpb};
use crate::told::Told;
use crate::two_sided::TwoSided;

/// How broadcasts are to be done. All ranks must ask for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Lines of 64 bytes in a chunk of a long message.
    pub chunk_lines: usize,
    /// Chunks that a rank may have under way to its children.
    pub buffers: usize,
    /// So many lines that may be under way between two ranks, and not as many as suit the machine.
    pub slots: Option<usize>,
    /// Always this algorithm, and not the one that suits the message.
    pub algorithm: Option<Algorithm>,
    /// Always this degree of the tree, from 1 to P − 1, and not the one that suits the machine.
    pub degree: Option<usize>,
}

impl Settings {
    /// Those for some of the ranks: a tree of fewer has no greater degree than the most that it can have.
    pub(crate) fn of_part(mut self, before: usize, ranks: usize) -> Settings {
        if ranks != before {
            self.degree = self.degree.map(|degree| degree.min(ranks.saturating_sub(1).max(1)));
        }
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings { chunk_lines: 1024, buffers: 4, slots: None, algorithm: None, degree: None }
    }
}

/// One rank's part in the broadcasts of its world, or of [some ranks](Members).
///
/// ```
/// use mp_collectives::broadcast::{Broadcasts, Settings};
/// use mp_core::World;
///
/// let sums = World::threads(3).run(|rank| {
///     let mut broadcasts = Broadcasts::open(rank, "weights", Settings::default())?;
///     let mut weights = if rank.id() == 1 { vec![0.5; 10_000] } else { vec![0.0; 10_000] };
///     broadcasts.broadcast(&mut weights, 1)?;
///     Ok(weights.iter().sum::<f64>())
/// })?;
/// assert_eq!(sums, [5_000.0; 3]);
/// # Ok::<(), mp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Broadcasts<M = RealMpb> {
    mpb: M,
    machine: Machine,
    forced: Option<Algorithm>,
    told: Told,
    lines: LineBcast,
    oc_bcast: OcBcast,
    two_sided: TwoSided,
}

impl Broadcasts {
    /// All these ranks, or all of the world, open the broadcasts of this name; none waits for the others to do so.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::ErrorKind::MpbMismatch) when another rank has opened them with other
    /// settings, as far as these change the room that they take,
    /// [`MpbRanksMismatch`](mp_core::ErrorKind::MpbRanksMismatch) with other members; settings that make no
    /// sense; lack of memory.
    pub fn open<'a>(
        members: impl Into<Members<'a>>,
        name: &str,
        settings: Settings,
    ) -> mp_core::Result<Broadcasts> {
        let members = members.into();
        let Settings { chunk_lines, buffers, slots, algorithm, degree } = settings;
        let ranks = members.count();
        let machine = Machine { ranks, cores: members.cores(), payload: PAYLOAD_BYTES };
        let degree = degree.unwrap_or(machine.degree());
        let slots = slots.unwrap_or(machine.slots());
        let lines = LineOptions { degree, slots, first_line: 0 };
        let too_much =
            || mp_core::Error::other("broadcasts that take more lines than there can be");
        let first = lines.lines(ranks).ok_or_else(too_much)?;
        let chunks = Options {
            degree,
            chunk_lines,
            buffers,
            leaves: Leaves::Direct,
            completion: Completion::Buffered,
            first_line: first,
        };
        let second = chunks.lines(ranks).and_then(|lines| first.checked_add(lines));
        let second = second.ok_or_else(too_much)?;
        let flags = ranks.checked_mul(2).ok_or_else(too_much)?;
        let all = second.checked_add(flags).and_then(|lines| lines.checked_add(chunk_lines));
        let mpbs = Mpbs::lines(all.ok_or_else(too_much)?);
        let mpb = RealMpb::checked(members.private_mpb(names::BROADCASTS, name, mpbs)?);
        Ok(Broadcasts {
            machine,
            forced: algorithm,
            told: Told::new(),
            lines: LineBcast::new(&mpb, lines).map_err(mp_core::Error::other)?,
            oc_bcast: OcBcast::new(&mpb, chunks)?,
            two_sided: TwoSided::new(&mpb, second, chunk_lines)?,
            mpb,
        })
    }

    /// Has calls numbered together with those of the other fronts of a communicator, and compared with
    /// those of other ranks when they take long.
    pub(crate) fn watch(&mut self, board: &Arc<Board>) {
        self.mpb.watch(board);
    }

    /// How calls wait from now on: with which policy, how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.mpb.get_mut().set_wait(wait);
    }

    /// Broadcasts the root's message: all ranks call this with the same root and length, and have
    /// the message when it returns. The root's own is only read, and may be changed as soon as its
    /// call returns, which need not be after the others'.
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost), [`Disconnected`](mp_core::ErrorKind::Disconnected) and
    /// [`Timeout`](mp_core::ErrorKind::Timeout), after which this rank is out of step with the others; a
    /// root that does not exist.
    #[inline]
    pub fn broadcast<T: Plain>(&mut self, message: &mut [T], root: usize) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::Broadcast, Some(message.len()), Some(root)));
        let message = bytemuck::cast_slice_mut(message);
        let (machine, bytes, forced) = (self.machine, message.len(), self.forced);
        self.told.tell("broadcast", || {
            let choice = choose(machine, bytes, forced);
            (bytes, choice.algorithm, choice)
        });
        let mpb = &mut self.mpb;
        match choose(self.machine, message.len(), self.forced).algorithm {
            Algorithm::Lines => complete(self.lines.broadcast(mpb, message, root))?,
            Algorithm::OcBcast => complete(self.oc_bcast.broadcast(mpb, message, root))?,
            Algorithm::Binomial => complete(binomial(&mut self.two_sided, mpb, message, root))?,
            Algorithm::ScatterAllgather => {
                complete(scatter_allgather(&mut self.two_sided, mpb, message, root))?;
            }
        }
        Ok(())
    }

    /// For a thread that must not be blocked.
    pub(crate) fn polled(self, waits: &Arc<Waits>) -> Broadcasts<PolledMpb> {
        let Broadcasts { mpb, machine, forced, told, lines, oc_bcast, two_sided } = self;
        let mpb = PolledMpb::among_real(mpb, waits);
        Broadcasts { mpb, machine, forced, told, lines, oc_bcast, two_sided }
    }
}

impl Broadcasts<PolledMpb> {
    /// [`broadcast`](Broadcasts::broadcast), which the blocking one does not call because one future
    /// more around an algorithm costs what a short message feels.
    pub(crate) async fn run<T: Plain>(
        &mut self,
        message: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::Broadcast, Some(message.len()), Some(root)));
        let message = bytemuck::cast_slice_mut(message);
        let choice = self.explain(message.len());
        self.told.tell("broadcast", || (choice.bytes, choice.algorithm, choice));
        let mpb = &mut self.mpb;
        match choice.algorithm {
            Algorithm::Lines => self.lines.broadcast(mpb, message, root).await?,
            Algorithm::OcBcast => self.oc_bcast.broadcast(mpb, message, root).await?,
            Algorithm::Binomial => binomial(&mut self.two_sided, mpb, message, root).await?,
            Algorithm::ScatterAllgather => {
                scatter_allgather(&mut self.two_sided, mpb, message, root).await?;
            }
        }
        Ok(())
    }
}

impl<M: Mpb<Error = RealError>> Broadcasts<M> {
    /// Which algorithm a message of so many bytes takes, and why.
    pub fn explain(&self, bytes: usize) -> Explanation {
        choose(self.machine, bytes, self.forced)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }
}
