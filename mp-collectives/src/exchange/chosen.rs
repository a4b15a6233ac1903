//! Exchanges of ranks, each block by the way that suits it.

use std::ops::Range;
use std::sync::Arc;

use mp_core::mpb::{Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};
use mp_model::mpb::{Mpb, complete};

use super::traffic::{AllGather, AllToAll, Gather, Scatter, Traffic};
use super::ways::Rings;
use super::{Blocks, Explanation, Machine, Settings, Way, WayToAll, Ways};
use crate::calls::{Board, Kind, Mark};
use crate::immediate::{PolledMpb, Waits};
use crate::members::{Members, names};
use crate::pairs::Pairs;
use crate::real::RealMpb;
use crate::told::Told;

/// One rank's part in the exchanges of its world, or of [some ranks](Members).
///
/// Blocks lie one after the other in the buffers for all ranks; in the `_varying` forms, wherever the
/// call says, for each rank as a range of elements ([`packed`](super::packed) makes those of counts).
///
/// ```
/// use onchip::exchange::{Exchanges, Settings, packed};
/// use onchip::World;
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
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// # Errors
/// Of each exchange: [`PeerLost`](mp_core::ErrorKind::PeerLost),
/// [`Disconnected`](mp_core::ErrorKind::Disconnected) and [`Timeout`](mp_core::ErrorKind::Timeout), after which
/// this rank is out of step with the others; a root that does not exist, and blocks that do not fit the
/// buffers, before anything is sent. Two ranks that do not agree on the length of a block wait for each
/// other, or take one block for another, as with MPI.
///
/// # Memory
/// Each rank has, for each other one, three lines of 64 bytes. As soon as any two ranks have sent more than 64 lines
/// to each other, or a block of more than a line, all have more: 64 lines for each other one (16, with more than 16
/// ranks) and a ring of chunks, and one ring whose chunks go to all others. Chunks of the latter have 32 KiB. Chunks for a
/// single rank have 32 KiB with two or three ranks, and less with more, but at least 1 KiB. A ring is twice as large as a
/// core's second-level cache. There are two limits: the rings between two ranks take 8 MiB together, and so do the rings
/// for all. But each ring has four chunks at least.
#[derive(Debug)]
pub struct Exchanges<M = RealMpb> {
    mpb: M,
    ways: Ways,
    told: Told,
}

impl Exchanges {
    /// All these ranks, or all of the world, open the exchanges of this name; none waits for the others to do so.
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
    ) -> mp_core::Result<Exchanges> {
        let members = members.into();
        let (ranks, cores) = (members.count(), members.cores());
        let machine = Machine { ranks, cores, payload: PAYLOAD_BYTES };
        let rings = Rings::of(members, settings)?;
        let lines = Ways::lines_with(machine, settings, rings).ok_or_else(|| {
            mp_core::Error::other("exchanges that take more lines than there can be")
        })?;
        let mpbs = Mpbs::lines(lines).growing_from(Pairs::near_lines(ranks));
        let mpb = RealMpb::checked(members.private_mpb(names::EXCHANGES, name, mpbs)?);
        let ways = Ways::with_rings(&mpb, cores, settings, rings).map_err(mp_core::Error::other)?;
        Ok(Exchanges { mpb, ways, told: Told::new() })
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
        self.mpb.begin(Mark::new::<T>(Kind::Gather, Some(own.len()), Some(root)));
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
        self.mpb.begin(Mark::new::<T>(Kind::GatherVarying, None, Some(root)));
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
        let count = self.at_root(buffer, root);
        self.mpb.begin(Mark::new::<T>(Kind::Gather, Some(count), Some(root)));
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
        self.mpb.begin(Mark::new::<T>(Kind::GatherVarying, None, Some(root)));
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
        self.mpb.begin(Mark::new::<T>(Kind::Scatter, Some(own.len()), Some(root)));
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
        self.mpb.begin(Mark::new::<T>(Kind::ScatterVarying, None, Some(root)));
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
        let count = self.at_root(buffer, root);
        self.mpb.begin(Mark::new::<T>(Kind::Scatter, Some(count), Some(root)));
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
        self.mpb.begin(Mark::new::<T>(Kind::ScatterVarying, None, Some(root)));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllGather, Some(own.len()), None));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllGatherVarying, None, None));
        let traffic = AllGather::new(&self.mpb, own, all, Blocks::At(blocks))?;
        self.exchange_to_all(traffic)
    }

    /// [`all_gather`](Exchanges::all_gather) with each rank's own block in its place already.
    ///
    /// # Errors
    /// As [above](Exchanges#errors).
    #[inline]
    pub fn all_gather_in_place<T: Plain>(&mut self, all: &mut [T]) -> mp_core::Result<()> {
        let count = all.len() / self.mpb.ranks();
        self.mpb.begin(Mark::new::<T>(Kind::AllGather, Some(count), None));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllGatherVarying, None, None));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllToAll, Some(send.len()), None));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllToAllVarying, None, None));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllToAll, Some(buffer.len()), None));
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
        self.mpb.begin(Mark::new::<T>(Kind::AllToAllVarying, None, None));
        let mut traffic = AllToAll::in_place(&self.mpb, buffer, Blocks::At(blocks))?;
        self.exchange(&mut traffic)
    }

    /// By which way a block of so many bytes for one rank goes, and why.
    pub fn explain(&self, bytes: usize) -> Explanation<Way> {
        self.ways.explain(bytes)
    }

    /// The same for a block that is for all: in all-gathers.
    pub fn explain_to_all(&self, bytes: usize) -> Explanation<WayToAll> {
        self.ways.explain_to_all(bytes)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }

    /// Elements of a block where the root's buffer is for those of all.
    fn at_root<T>(&self, buffer: &[T], root: usize) -> usize {
        if self.mpb.rank() == root { buffer.len() / self.mpb.ranks() } else { buffer.len() }
    }

    #[inline]
    fn exchange<T: Traffic>(&mut self, traffic: &mut T) -> mp_core::Result<()> {
        let Exchanges { mpb, ways, told } = self;
        told.tell("exchange", || {
            let choice = ways.explain(traffic.extremes().most);
            (choice.bytes, choice.way, choice)
        });
        // The shortest ones without a future around theirs.
        Ok(match ways.way(traffic.extremes()) {
            Some(Way::Lines) => complete(ways.lines.exchange(mpb, traffic)),
            _ => complete(ways.exchange(mpb, traffic)),
        }?)
    }

    #[inline]
    fn exchange_to_all(&mut self, mut traffic: AllGather<'_>) -> mp_core::Result<()> {
        let (Exchanges { mpb, ways, told }, traffic) = (self, &mut traffic);
        told.tell("all_gather", || {
            let choice = ways.explain_to_all(traffic.extremes().most);
            (choice.bytes, choice.way, choice)
        });
        Ok(match ways.way_to_all(traffic.extremes()) {
            Some(WayToAll::Lines) => complete(ways.lines.exchange(mpb, traffic)),
            _ => complete(ways.all_gather(mpb, traffic)),
        }?)
    }

    /// For a thread that must not be blocked.
    pub(crate) fn polled(self, waits: &Arc<Waits>) -> Exchanges<PolledMpb> {
        let Exchanges { mpb, ways, told } = self;
        Exchanges { mpb: PolledMpb::among_real(mpb, waits), ways, told }
    }
}

/// What the blocking forms do, which spare the shortest ones a future.
impl Exchanges<PolledMpb> {
    pub(crate) fn mpb(&self) -> &PolledMpb {
        &self.mpb
    }

    /// Begins a call, before the [traffic](Self::run) of which is known to be right.
    pub(crate) fn begin(&mut self, mark: Mark) {
        self.mpb.begin(mark);
    }

    pub(crate) async fn run<T: Traffic>(&mut self, traffic: &mut T) -> mp_core::Result<()> {
        let Exchanges { mpb, ways, told } = self;
        told.tell("exchange", || {
            let choice = ways.explain(traffic.extremes().most);
            (choice.bytes, choice.way, choice)
        });
        Ok(ways.exchange(mpb, traffic).await?)
    }

    pub(crate) async fn run_to_all(&mut self, mut traffic: AllGather<'_>) -> mp_core::Result<()> {
        let Exchanges { mpb, ways, told } = self;
        told.tell("all_gather", || {
            let choice = ways.explain_to_all(traffic.extremes().most);
            (choice.bytes, choice.way, choice)
        });
        Ok(ways.all_gather(mpb, &mut traffic).await?)
    }
}
