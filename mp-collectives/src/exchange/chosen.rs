//! Exchanges of ranks, each block by the way that suits it.

use std::ops::Range;
use std::sync::Arc;

use mp_core::mpb::{Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};
use mp_model::mpb::{Mpb, complete};

use super::choice::{Explanation, Way, WayToAll, choose, choose_to_all, short};
use super::traffic::{AllGather, AllToAll, Gather, Only, Scatter, Traffic};
use super::{
    Blocks, ChunkExchange, ChunkOptions, Extremes, LineExchange, Machine, SharedAllGather,
};
use crate::immediate::{PolledMpb, Waits};
use crate::members::Members;
use crate::real::{RealError, RealMpb};

/// How exchanges are to be done. All ranks must ask for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// So many lines of 64 bytes in a chunk of a long block, and not as many as suit the number of
    /// ranks.
    pub chunk_lines: Option<usize>,
    /// So many lines that may be under way between two ranks, and not as many as suit the machine.
    pub slots: Option<usize>,
    /// Always this way where a block is for one rank.
    pub way: Option<Way>,
    /// Always this way where a block is for all: in all-gathers.
    pub way_to_all: Option<WayToAll>,
}

/// Chunks that a rank may have under way to another one, or to all.
const BUFFERS: usize = 4;

/// Lines of the chunks that all others get.
const SHARED: usize = 512;

/// Lines in a chunk for one rank: with the buffers for all others a rank's chunks stay in a cache of
/// the second level, as long as they do not become so short that each is mostly waited for.
fn chunk_lines(ranks: usize) -> usize {
    (1024 / ranks.saturating_sub(1).max(1)).clamp(16, SHARED)
}

/// One rank's part in the exchanges of its world, or of [some ranks](Members).
///
/// Blocks lie one after the other in the buffers for all ranks; in the `_varying` forms, wherever the
/// call says, for each rank as a range of elements ([`packed`](super::packed) makes those of counts).
///
/// ```
/// use mp_collectives::exchange::{Exchanges, Settings, packed};
/// use mp_core::World;
///
/// let got = World::threads(3).run(|rank| {
///     let (me, ranks) = (rank.id(), rank.size());
///     let mut exchanges = Exchanges::open(rank, "results", Settings::default())?;
///     // Two numbers of each rank, at all.
///     let mut all = [0; 6];
///     exchanges.all_gather(&[me, me * me], &mut all)?;
///     // As many letters as the rank has above it, at rank 2.
///     let letters = vec![b'a' + me as u8; ranks - 1 - me];
///     let mut text = [b'.'; 3];
///     exchanges.gather_varying(&letters, &mut text, &packed([2, 1, 0]), 2)?;
///     // What rank i gets from here is in block i, and then what came from rank i.
///     let mut blocks = [10 * me, 10 * me + 1, 10 * me + 2];
///     exchanges.all_to_all_in_place(&mut blocks)?;
///     Ok((all, String::from_utf8_lossy(&text).into_owned(), blocks))
/// })?;
/// assert_eq!(got[0], ([0, 0, 1, 1, 2, 4], "...".into(), [0, 10, 20]));
/// assert_eq!(got[2], ([0, 0, 1, 1, 2, 4], "aab".into(), [2, 12, 22]));
/// # Ok::<(), mp_core::Error>(())
/// ```
///
/// # Errors
/// Of each exchange: [`PeerLost`](mp_core::Error::PeerLost),
/// [`Disconnected`](mp_core::Error::Disconnected) and [`Timeout`](mp_core::Error::Timeout), after which
/// this rank is out of step with the others; a root that does not exist, and blocks that do not fit the
/// buffers, before anything is sent. Two ranks that do not agree on the length of a block wait for each
/// other, or take one block for another, as with MPI.
///
/// # Memory
/// Each rank has, for each other one, 65 lines of 64 bytes (17, with more than 16 ranks) and four
/// chunks, and four chunks of 32 KiB for all others. With two ranks a chunk has 32 KiB, and with more so
/// many that those for all others are 256 KiB together, but not less than 1 KiB: 264 KiB of each rank
/// with two ranks, 420 KiB with eight.
#[derive(Debug)]
pub struct Exchanges<M = RealMpb> {
    mpb: M,
    machine: Machine,
    settings: Settings,
    lines: LineExchange,
    chunks: ChunkExchange,
    shared: SharedAllGather,
}

impl Exchanges {
    /// All these ranks, or all of the world, open the exchanges of this name; none waits for the others
    /// to do so.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::Error::MpbMismatch) when another rank has opened them with other
    /// settings, as far as these change the room that they take; settings that make no sense; lack
    /// of memory.
    pub fn open<'a>(
        members: impl Into<Members<'a>>,
        name: &str,
        settings: Settings,
    ) -> mp_core::Result<Exchanges> {
        let members = members.into();
        let ranks = members.count();
        let machine = Machine { ranks, cores: members.cores(), payload: PAYLOAD_BYTES };
        let slots = settings.slots.unwrap_or(machine.slots());
        let too_much = || mp_core::Error::other("exchanges that take more lines than there can be");
        let add = |first: usize, lines: Option<usize>| {
            lines.and_then(|lines| first.checked_add(lines)).ok_or_else(too_much)
        };
        let first_line = add(0, LineExchange::lines(slots, ranks))?;
        let chunk_lines = settings.chunk_lines.unwrap_or(chunk_lines(ranks));
        let chunks = ChunkOptions { chunk_lines, buffers: BUFFERS, first_line };
        let first_line = add(first_line, chunks.lines(ranks))?;
        let chunk_lines = settings.chunk_lines.unwrap_or(SHARED);
        let shared = ChunkOptions { chunk_lines, buffers: BUFFERS, first_line };
        let all = add(first_line, SharedAllGather::lines(shared, ranks))?;
        let mpb = RealMpb::new(members.mpb(name, Mpbs::lines(all))?);
        Ok(Exchanges {
            machine,
            settings,
            lines: LineExchange::new(&mpb, slots, 0).map_err(mp_core::Error::other)?,
            chunks: ChunkExchange::new(&mpb, chunks).map_err(mp_core::Error::other)?,
            shared: SharedAllGather::new(&mpb, shared).map_err(mp_core::Error::other)?,
            mpb,
        })
    }

    /// How calls wait from now on: with which policy, how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.mpb.get_mut().set_wait(wait);
    }

    /// Gathers the blocks of all ranks at the root: all call this with as many elements of their own.
    /// The root's `all` has those of all when its call returns, in the order of ranks; the others' is
    /// not looked at, and may be empty. Their calls may return before the root's.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn gather<T: Plain>(
        &mut self,
        own: &[T],
        all: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Gather::new(&self.mpb, own, all, Blocks::Equal, root)?;
        self.exchange(&mut traffic)
    }

    /// [`gather`](Exchanges::gather) of blocks that need not be equally long. The root says where they
    /// are to be in its `all`; at other ranks neither is looked at.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn gather_varying<T: Plain>(
        &mut self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Gather::new(&self.mpb, own, all, Blocks::At(blocks), root)?;
        self.exchange(&mut traffic)
    }

    /// [`gather`](Exchanges::gather) with one buffer: the root's is for the blocks of all, and has its
    /// own in its place; that of another rank is its own block, which is only read.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn gather_in_place<T: Plain>(
        &mut self,
        buffer: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Gather::in_place(&self.mpb, buffer, Blocks::Equal, root)?;
        self.exchange(&mut traffic)
    }

    /// [`gather_in_place`](Exchanges::gather_in_place) of blocks that need not be equally long. The
    /// root says where they are in its buffer; at other ranks `blocks` is not looked at.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn gather_in_place_varying<T: Plain>(
        &mut self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Gather::in_place(&self.mpb, buffer, Blocks::At(blocks), root)?;
        self.exchange(&mut traffic)
    }

    /// Scatters the root's blocks, in the order of ranks: all call this with room for as many elements
    /// of their own. The others' `all` is not looked at, and may be empty. The root's call may return
    /// before the others'.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn scatter<T: Plain>(
        &mut self,
        all: &[T],
        own: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Scatter::new(&self.mpb, all, own, Blocks::Equal, root)?;
        self.exchange(&mut traffic)
    }

    /// [`scatter`](Exchanges::scatter) of blocks that need not be equally long. The root says where
    /// they are in its `all`; at other ranks neither is looked at.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn scatter_varying<T: Plain>(
        &mut self,
        all: &[T],
        blocks: &[Range<usize>],
        own: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Scatter::new(&self.mpb, all, own, Blocks::At(blocks), root)?;
        self.exchange(&mut traffic)
    }

    /// [`scatter`](Exchanges::scatter) with one buffer: the root's has the blocks of all, is only read,
    /// and keeps its own; that of another rank is for its own block.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn scatter_in_place<T: Plain>(
        &mut self,
        buffer: &mut [T],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Scatter::in_place(&self.mpb, buffer, Blocks::Equal, root)?;
        self.exchange(&mut traffic)
    }

    /// [`scatter_in_place`](Exchanges::scatter_in_place) of blocks that need not be equally long. The
    /// root says where they are in its buffer; at other ranks `blocks` is not looked at.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn scatter_in_place_varying<T: Plain>(
        &mut self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> mp_core::Result<()> {
        let mut traffic = Scatter::in_place(&self.mpb, buffer, Blocks::At(blocks), root)?;
        self.exchange(&mut traffic)
    }

    /// Gathers the blocks of all ranks at all: each calls this with as many elements of its own, and
    /// has those of all in `all` when the call returns, in the order of ranks.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_gather<T: Plain>(&mut self, own: &[T], all: &mut [T]) -> mp_core::Result<()> {
        let traffic = AllGather::new(&self.mpb, own, all, Blocks::Equal)?;
        self.exchange_to_all(traffic)
    }

    /// [`all_gather`](Exchanges::all_gather) of blocks that need not be equally long. Each rank says
    /// where they are to be in its `all`; how long each is, all know.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_gather_varying<T: Plain>(
        &mut self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> mp_core::Result<()> {
        let traffic = AllGather::new(&self.mpb, own, all, Blocks::At(blocks))?;
        self.exchange_to_all(traffic)
    }

    /// [`all_gather`](Exchanges::all_gather) with each rank's own block in its place already.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_gather_in_place<T: Plain>(&mut self, all: &mut [T]) -> mp_core::Result<()> {
        let traffic = AllGather::in_place(&self.mpb, all, Blocks::Equal)?;
        self.exchange_to_all(traffic)
    }

    /// [`all_gather_varying`](Exchanges::all_gather_varying) with each rank's own block in its place
    /// already.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_gather_in_place_varying<T: Plain>(
        &mut self,
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> mp_core::Result<()> {
        let traffic = AllGather::in_place(&self.mpb, all, Blocks::At(blocks))?;
        self.exchange_to_all(traffic)
    }

    /// Exchanges blocks between all ranks: block i of `send` goes to rank i, and block i of `receive`
    /// comes from there. All call this with as many elements.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all<T: Plain>(&mut self, send: &[T], receive: &mut [T]) -> mp_core::Result<()> {
        let (send, receive) = ((send, Blocks::Equal), (receive, Blocks::Equal));
        let mut traffic = AllToAll::new(&self.mpb, send, receive)?;
        self.exchange(&mut traffic)
    }

    /// [`all_to_all`](Exchanges::all_to_all) of blocks that need not be equally long. Each rank says
    /// where they are in its buffers; a block for a rank is as long as the one that it expects.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all_varying<T: Plain>(
        &mut self,
        send: &[T],
        send_blocks: &[Range<usize>],
        receive: &mut [T],
        receive_blocks: &[Range<usize>],
    ) -> mp_core::Result<()> {
        let (send, receive) =
            ((send, Blocks::At(send_blocks)), (receive, Blocks::At(receive_blocks)));
        let mut traffic = AllToAll::new(&self.mpb, send, receive)?;
        self.exchange(&mut traffic)
    }

    /// [`all_to_all`](Exchanges::all_to_all) with one buffer: block i goes to rank i, and what comes
    /// from there takes its place.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all_in_place<T: Plain>(&mut self, buffer: &mut [T]) -> mp_core::Result<()> {
        let mut traffic = AllToAll::in_place(&self.mpb, buffer, Blocks::Equal)?;
        self.exchange(&mut traffic)
    }

    /// [`all_to_all_in_place`](Exchanges::all_to_all_in_place) of blocks that need not be equally long:
    /// of any two ranks, each has as many elements for the other.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all_in_place_varying<T: Plain>(
        &mut self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
    ) -> mp_core::Result<()> {
        let mut traffic = AllToAll::in_place(&self.mpb, buffer, Blocks::At(blocks))?;
        self.exchange(&mut traffic)
    }

    #[inline]
    fn exchange<T: Traffic>(&mut self, traffic: &mut T) -> mp_core::Result<()> {
        let Exchanges { mpb, lines, chunks, settings, .. } = self;
        let Extremes { least, most } = traffic.extremes();
        let short = short(self.machine, lines.round_bytes());
        let way = match settings.way {
            Some(way) => Some(way),
            None if most <= short => Some(Way::Lines),
            None if least > short => Some(Way::Chunks),
            None => None,
        };
        match way {
            Some(Way::Lines) => complete(lines.exchange(mpb, traffic))?,
            Some(Way::Chunks) => complete(chunks.exchange(mpb, traffic))?,
            None => complete(mixed(lines, chunks, mpb, traffic, short))?,
        }
        Ok(())
    }

    #[inline]
    fn exchange_to_all(&mut self, mut traffic: AllGather<'_>) -> mp_core::Result<()> {
        let Exchanges { mpb, lines, chunks, shared, settings, .. } = self;
        let Extremes { least, most } = traffic.extremes();
        let (traffic, short) = (&mut traffic, short(self.machine, lines.round_bytes()));
        let way = match settings.way_to_all {
            Some(way) => Some(way),
            None if most <= short => Some(WayToAll::Lines),
            None if least > short => Some(WayToAll::Shared),
            None => None,
        };
        match way {
            Some(WayToAll::Lines) => complete(lines.exchange(mpb, traffic))?,
            Some(WayToAll::Chunks) => complete(chunks.exchange(mpb, traffic))?,
            Some(WayToAll::Shared) => complete(shared.all_gather(mpb, traffic))?,
            None => complete(mixed_to_all(lines, shared, mpb, traffic, short))?,
        }
        Ok(())
    }

    /// For a thread that must not be blocked.
    pub(crate) fn polled(self, waits: &Arc<Waits>) -> Exchanges<PolledMpb> {
        let Exchanges { mpb, machine, settings, lines, chunks, shared } = self;
        let mpb = PolledMpb::among(mpb.into_inner(), waits);
        Exchanges { mpb, machine, settings, lines, chunks, shared }
    }
}

/// What the blocking forms do, which do not call these because one future more around an algorithm
/// costs what a short block feels.
impl Exchanges<PolledMpb> {
    pub(crate) fn mpb(&self) -> &PolledMpb {
        &self.mpb
    }

    pub(crate) async fn run<T: Traffic>(&mut self, traffic: &mut T) -> mp_core::Result<()> {
        let Exchanges { mpb, lines, chunks, settings, .. } = self;
        let Extremes { least, most } = traffic.extremes();
        let short = short(self.machine, lines.round_bytes());
        Ok(match settings.way {
            Some(Way::Lines) => lines.exchange(mpb, traffic).await?,
            Some(Way::Chunks) => chunks.exchange(mpb, traffic).await?,
            None if most <= short => lines.exchange(mpb, traffic).await?,
            None if least > short => chunks.exchange(mpb, traffic).await?,
            None => mixed(lines, chunks, mpb, traffic, short).await?,
        })
    }

    pub(crate) async fn run_to_all(&mut self, mut traffic: AllGather<'_>) -> mp_core::Result<()> {
        let Exchanges { mpb, lines, chunks, shared, settings, .. } = self;
        let Extremes { least, most } = traffic.extremes();
        let (traffic, short) = (&mut traffic, short(self.machine, lines.round_bytes()));
        Ok(match settings.way_to_all {
            Some(WayToAll::Lines) => lines.exchange(mpb, traffic).await?,
            Some(WayToAll::Chunks) => chunks.exchange(mpb, traffic).await?,
            Some(WayToAll::Shared) => shared.all_gather(mpb, traffic).await?,
            None if most <= short => lines.exchange(mpb, traffic).await?,
            None if least > short => shared.all_gather(mpb, traffic).await?,
            None => mixed_to_all(lines, shared, mpb, traffic, short).await?,
        })
    }
}

impl<M: Mpb<Error = RealError>> Exchanges<M> {
    /// By which way a block of so many bytes for one rank goes, and why.
    pub fn explain(&self, bytes: usize) -> Explanation<Way> {
        choose(self.machine, bytes, self.lines.round_bytes(), self.settings.way)
    }

    /// The same for a block that is for all: in all-gathers.
    pub fn explain_to_all(&self, bytes: usize) -> Explanation<WayToAll> {
        choose_to_all(self.machine, bytes, self.lines.round_bytes(), self.settings.way_to_all)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }
}

/// Blocks of up to `short` bytes in lines, the others in chunks.
///
/// The lines are one round: nobody waits for what others do in this call before they are under way.
async fn mixed<M: Mpb, T: Traffic>(
    lines: &mut LineExchange,
    chunks: &mut ChunkExchange,
    mpb: &mut M,
    traffic: &mut T,
    short: usize,
) -> Result<(), M::Error> {
    let (short, long) =
        (Extremes { least: 1, most: short }, Extremes { least: short + 1, most: usize::MAX });
    lines.send(mpb, &Only { traffic, lengths: short }, 0).await?;
    chunks.exchange(mpb, &mut Only { traffic, lengths: long }).await?;
    lines.receive(mpb, &mut Only { traffic, lengths: short }, 0).await
}

/// The same where blocks are for all.
async fn mixed_to_all<M: Mpb>(
    lines: &mut LineExchange,
    shared: &mut SharedAllGather,
    mpb: &mut M,
    traffic: &mut AllGather<'_>,
    short: usize,
) -> Result<(), M::Error> {
    let lengths = Extremes { least: 1, most: short };
    lines.send(mpb, &Only { traffic, lengths }, 0).await?;
    shared.above(mpb, traffic, short).await?;
    lines.receive(mpb, &mut Only { traffic, lengths }, 0).await
}
