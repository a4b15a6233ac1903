//! Exchanges that send each block by the way that suits it.

use std::ops::Range;
use std::sync::Arc;

use mp_core::mpb::{Mpbs, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};
use mp_model::mpb::{Mpb, complete};

use super::traffic::{AllGather, AllToAll, Gather, Scatter, Traffic};
use super::ways::Rings;
use super::{Blocks, Explanation, Machine, Settings, Way, WayToAll, Ways};
use crate::calls::{Board, Kind, Mark};
use crate::members::{Members, names};
use crate::nonblocking::{PolledMpb, Waits};
use crate::pairs::Pairs;
use crate::real::RealMpb;
use crate::told::Told;

/// One rank's part in the exchanges of its world, or of [some ranks](Members).
///
/// In buffers for all ranks, the blocks lie one after the other. In the `_varying` forms, the call gives the place of
/// each rank's block as a range of elements ([`packed`](super::packed) makes ranges from counts).
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
/// Each exchange can return [`PeerLost`](mp_core::ErrorKind::PeerLost),
/// [`Disconnected`](mp_core::ErrorKind::Disconnected) and [`Timeout`](mp_core::ErrorKind::Timeout); after one of these,
/// this rank is out of step with the others. It also fails, before anything is sent, when there is no such root or when
/// the blocks do not fit the buffers. Two ranks that do not agree on the length of a block wait for each other, or take
/// one block for another, as with MPI.
///
/// # Memory
/// Each rank has three lines of 64 bytes for each other rank. As soon as any two ranks have sent more than 64 lines to
/// each other, or a block of more than a line, all ranks have more: 64 lines for each other rank (16, with more than 16
/// ranks), a ring of chunks, and one ring whose chunks go to all others. Chunks of the latter have 32 KiB. Chunks for a
/// single rank have 32 KiB with two or three ranks, and less with more ranks, but at least 1 KiB. A ring is twice as
/// large as a core's second-level cache. There are two limits: the rings between two ranks take 8 MiB together, and so
/// do the rings for all. But each ring has at least four chunks.
#[derive(Debug)]
pub struct Exchanges<M = RealMpb> {
    mpb: M,
    ways: Ways,
    told: Told,
}

impl Exchanges {
    /// Opens the exchanges of this name for the given ranks, or for all ranks of the world. No rank waits for the
    /// others to do so.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::ErrorKind::MpbMismatch) when another rank has opened them with other settings that
    /// change the memory needed; [`MpbRanksMismatch`](mp_core::ErrorKind::MpbRanksMismatch) when it has opened them
    /// with other members. Also fails for invalid settings or for lack of memory.
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

    /// Numbers calls together with those of the other fronts of a communicator, and compares them with those of other
    /// ranks when they take long.
    pub(crate) fn watch(&mut self, board: &Arc<Board>) {
        self.mpb.watch(board);
    }

    /// Sets how calls wait from now on: with which policy and for how long.
    pub fn set_wait(&mut self, wait: impl Into<Wait>) {
        self.mpb.get_mut().set_wait(wait);
    }

    /// Gathers the blocks of all ranks at the root. All ranks call this with the same number of elements of their own.
    /// When the root's call returns, its `all` holds the blocks of all ranks, in rank order. At the other ranks, `all`
    /// is ignored and may be empty; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`gather`](Exchanges::gather) does, for blocks that may differ in length. The root gives their places
    /// in its `all`; `all` and `blocks` are ignored at the other ranks.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`gather`](Exchanges::gather) does, with one buffer. The root's buffer has room for the blocks of all
    /// ranks and already holds the root's own block in its place. The buffer of any other rank is its own block, which
    /// is only read.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`gather_in_place`](Exchanges::gather_in_place) does, for blocks that may differ in length. The root
    /// gives their places in its buffer; `blocks` is ignored at the other ranks.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Scatters the root's blocks to the ranks, in rank order. All ranks call this with room for the same number of
    /// elements. At the other ranks, `all` is ignored and may be empty. The root's call may return before the others'.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`scatter`](Exchanges::scatter) does, for blocks that may differ in length. The root gives their
    /// places in its `all`; `all` and `blocks` are ignored at the other ranks.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`scatter`](Exchanges::scatter) does, with one buffer. The root's buffer holds the blocks of all
    /// ranks; it is only read, and the root's own block stays in it. The buffer of any other rank receives its own
    /// block.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`scatter_in_place`](Exchanges::scatter_in_place) does, for blocks that may differ in length. The root
    /// gives their places in its buffer; `blocks` is ignored at the other ranks.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Gathers the blocks of all ranks at every rank. All ranks call this with the same number of elements of their
    /// own. When the call returns, `all` holds the blocks of all ranks, in rank order.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn all_gather<T: Plain>(&mut self, own: &[T], all: &mut [T]) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::AllGather, Some(own.len()), None));
        let traffic = AllGather::new(&self.mpb, own, all, Blocks::Equal)?;
        self.exchange_to_all(traffic)
    }

    /// Does what [`all_gather`](Exchanges::all_gather) does, for blocks that may differ in length. Each rank gives
    /// their places in its `all`; all ranks know the length of each block.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`all_gather`](Exchanges::all_gather) does, with each rank's own block already in its place.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn all_gather_in_place<T: Plain>(&mut self, all: &mut [T]) -> mp_core::Result<()> {
        let count = all.len() / self.mpb.ranks();
        self.mpb.begin(Mark::new::<T>(Kind::AllGather, Some(count), None));
        let traffic = AllGather::in_place(&self.mpb, all, Blocks::Equal)?;
        self.exchange_to_all(traffic)
    }

    /// Does what [`all_gather_varying`](Exchanges::all_gather_varying) does, with each rank's own block already in its
    /// place.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Exchanges blocks between all ranks: block i of `send` goes to rank i, and block i of `receive` comes from rank
    /// i. All ranks call this with the same number of elements.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all<T: Plain>(&mut self, send: &[T], receive: &mut [T]) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::AllToAll, Some(send.len()), None));
        let (send, receive) = ((send, Blocks::Equal), (receive, Blocks::Equal));
        let mut traffic = AllToAll::new(&self.mpb, send, receive)?;
        self.exchange(&mut traffic)
    }

    /// Does what [`all_to_all`](Exchanges::all_to_all) does, for blocks that may differ in length. Each rank gives
    /// their places in its buffers. A block sent to a rank must be as long as the block that the rank expects.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Does what [`all_to_all`](Exchanges::all_to_all) does, with one buffer: block i goes to rank i, and the block
    /// that comes from rank i takes its place.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all_in_place<T: Plain>(&mut self, buffer: &mut [T]) -> mp_core::Result<()> {
        self.mpb.begin(Mark::new::<T>(Kind::AllToAll, Some(buffer.len()), None));
        let mut traffic = AllToAll::in_place(&self.mpb, buffer, Blocks::Equal)?;
        self.exchange(&mut traffic)
    }

    /// Does what [`all_to_all_in_place`](Exchanges::all_to_all_in_place) does, for blocks that may differ in length.
    /// The blocks that two ranks have for each other are equally long.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
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

    /// Returns by which way a block of `bytes` bytes for one rank goes, and why.
    pub fn explain(&self, bytes: usize) -> Explanation<Way> {
        self.ways.explain(bytes)
    }

    /// Returns the same for a block that goes to all ranks, in all-gathers.
    pub fn explain_to_all(&self, bytes: usize) -> Explanation<WayToAll> {
        self.ways.explain_to_all(bytes)
    }

    /// Returns this rank's number.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }

    /// Returns the number of elements in a block, where only the root's buffer has room for the blocks of all ranks.
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

    /// Converts this for a thread that must not be blocked.
    pub(crate) fn polled(self, waits: &Arc<Waits>) -> Exchanges<PolledMpb> {
        let Exchanges { mpb, ways, told } = self;
        Exchanges { mpb: PolledMpb::among_real(mpb, waits), ways, told }
    }
}

/// The asynchronous counterparts of the blocking forms, which spare the shortest exchanges a future.
impl Exchanges<PolledMpb> {
    pub(crate) fn mpb(&self) -> &PolledMpb {
        &self.mpb
    }

    /// Begins a call, before its [traffic](Self::run) is known to be valid.
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
