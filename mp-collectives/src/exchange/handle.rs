//! Exchanges that send each block by the way that suits it.

use std::sync::Arc;

use mp_core::mpb::{AsMpb, Mpb, PAYLOAD_BYTES};
use mp_core::{Plain, Wait};

use super::traffic::{AllGather, AllToAll, Gather, Scatter, Traffic};
use super::ways::Rings;
use super::{Blocks, Way, WayToAll, Ways};
use crate::arguments::{AllBlocksMut, Cut, OwnBlock, OwnPlace, SentBlocks, at_root};
use crate::calls::{Board, CheckedMpb, Kind, Mark};
use crate::choice::Machine;
use crate::errors::bad_settings;
use crate::events::Events;
use crate::explanation::{Collective, Explanation};
use crate::members::{Members, names};
use crate::settings::Settings;
use mp_core::mpb::{MpbAccess, complete};

/// One rank's part in the exchanges of its world, or of [some ranks](Members).
///
/// In buffers for all ranks, the blocks lie one after the other, or [`At`](super::At) ranges of elements.
///
/// ```
/// use onchip::exchange::{At, Exchanges, InPlace, Settings, packed};
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
///     exchanges.gather(&letters, At(&mut text, packed([2, 1, 0])), 2)?;
///     // What rank i gets from here is in block i, and then what came from rank i.
///     let mut blocks = [10 * me, 10 * me + 1, 10 * me + 2];
///     exchanges.all_to_all(InPlace, &mut blocks)?;
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
/// the blocks do not fit the buffers. A rank that gets a longer block than it has room for gets
/// [`BlockTooLong`](mp_core::ErrorKind::BlockTooLong), unless it expects no block from there or one that goes another way,
/// or the sender is three calls ahead with long blocks. Otherwise two ranks that do not agree on the length of a block wait
/// for each other, or take one block for another, as with MPI.
///
/// # Memory
/// Each rank has three lines of 64 bytes for each other rank. As soon as any two ranks have sent more than 64 lines to
/// each other, or a block of more than a line, all ranks have 64 lines for each other rank (16, with more than 16 ranks).
///
/// As soon as a block is too long for these lines, or ranks do not know how long the blocks of others are, all ranks also have
/// a ring of chunks for each other rank. As soon as such a block goes to all others, all ranks have one ring whose chunks go
/// to all others. Chunks of the latter have 32 KiB. Chunks for a single rank have 32 KiB with two or three ranks, and less
/// with more ranks, but at least 1 KiB. A ring is twice as large as a core's second-level cache. There are two limits: the
/// rings between two ranks take 8 MiB together, and so do the rings for all. But each ring has at least four chunks.
#[derive(Debug)]
pub struct Exchanges<M = CheckedMpb> {
    mpb: M,
    ways: Ways,
    events: Events,
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
        let rings = Rings::of(members, &settings)?;
        let mpbs = Ways::mpbs(machine, &settings, rings)
            .ok_or_else(|| bad_settings("exchanges that take more lines than there can be"))?;
        let mut mpb = CheckedMpb::new(members.private_mpb(names::EXCHANGES, name, mpbs)?);
        mpb.set_lends(settings.direct);
        let ways = Ways::with_rings(&mpb, cores, &settings, rings).map_err(bad_settings)?;
        let mut exchanges = Exchanges { mpb, ways, events: Events::new() };
        exchanges.set_wait(settings.wait);
        Ok(exchanges)
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

    /// Gathers the blocks of all ranks at the root. All ranks call this with the same number of elements of their own,
    /// unless the root's blocks lie [`At`](super::At) ranges. When the root's call returns, its `all` holds the blocks
    /// of all ranks. At the other ranks, `all` is ignored and may be empty; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn gather<T: Plain>(
        &mut self,
        own: impl OwnBlock<T>,
        mut all: impl AllBlocksMut<T>,
        root: usize,
    ) -> mp_core::Result<()> {
        let (all, blocks) = all.all_blocks_mut();
        self.gather_of(own.own_block(), all, blocks, root)
    }

    #[inline(always)]
    pub(crate) fn gather_of<T: Plain>(
        &mut self,
        own: Option<&[T]>,
        all: &mut [T],
        blocks: Blocks<'_>,
        root: usize,
    ) -> mp_core::Result<()> {
        let count = own.map_or_else(|| at_root(all.len(), self.place(), root), <[T]>::len);
        self.mpb.begin(Mark::of_blocks::<T>(Kind::Gather, blocks.may_differ(), count, Some(root)));
        let mut traffic = Gather::new(&self.mpb, own, all, blocks, root)?;
        self.exchange(Collective::Gather, &mut traffic)
    }

    /// Scatters the root's blocks to the ranks. All ranks call this with room for the same number of elements, unless
    /// the root's blocks lie [`At`](super::At) ranges. At the other ranks, `all` is ignored and may be empty. The
    /// root's call may return before the others'.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn scatter<T: Plain, A>(
        &mut self,
        mut all: A,
        mut own: impl OwnPlace<T, A>,
        root: usize,
    ) -> mp_core::Result<()> {
        let (cut, blocks) = own.cut(&mut all);
        self.scatter_of(cut, blocks, root)
    }

    #[inline(always)]
    pub(crate) fn scatter_of<T: Plain>(
        &mut self,
        cut: Cut<'_, T>,
        blocks: Blocks<'_>,
        root: usize,
    ) -> mp_core::Result<()> {
        let count = match &cut {
            Cut::Apart { own, .. } => own.len(),
            Cut::InPlace(buffer) => at_root(buffer.len(), self.place(), root),
        };
        self.mpb.begin(Mark::of_blocks::<T>(Kind::Scatter, blocks.may_differ(), count, Some(root)));
        let mut traffic = Scatter::new(&self.mpb, cut, blocks, root)?;
        self.exchange(Collective::Scatter, &mut traffic)
    }

    /// Gathers the blocks of all ranks at every rank. All ranks call this with the same number of elements of their
    /// own, unless the blocks lie [`At`](super::At) ranges, of which all ranks know the lengths. When the call returns,
    /// `all` holds the blocks of all ranks.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn all_gather<T: Plain>(
        &mut self,
        own: impl OwnBlock<T>,
        mut all: impl AllBlocksMut<T>,
    ) -> mp_core::Result<()> {
        let (all, blocks) = all.all_blocks_mut();
        self.all_gather_of(own.own_block(), all, blocks)
    }

    #[inline(always)]
    pub(crate) fn all_gather_of<T: Plain>(
        &mut self,
        own: Option<&[T]>,
        all: &mut [T],
        blocks: Blocks<'_>,
    ) -> mp_core::Result<()> {
        let count = own.map_or_else(|| all.len() / self.mpb.ranks(), <[T]>::len);
        self.mpb.begin(Mark::of_blocks::<T>(Kind::AllGather, blocks.may_differ(), count, None));
        let traffic = AllGather::new(&self.mpb, own, all, blocks)?;
        self.exchange_to_all(traffic)
    }

    /// Exchanges blocks between all ranks: block i of `send` goes to rank i, and block i of `receive` comes from rank
    /// i. All ranks call this with the same number of elements, unless the blocks lie [`At`](super::At) ranges. A block
    /// sent to a rank must be as long as the block that the rank expects.
    ///
    /// # Errors
    /// See [above](Exchanges#errors).
    #[inline]
    pub fn all_to_all<T: Plain>(
        &mut self,
        send: impl SentBlocks<T>,
        mut receive: impl AllBlocksMut<T>,
    ) -> mp_core::Result<()> {
        self.all_to_all_of(send.sent_blocks(), receive.all_blocks_mut())
    }

    #[inline(always)]
    pub(crate) fn all_to_all_of<T: Plain>(
        &mut self,
        sent: Option<(&[T], Blocks<'_>)>,
        received: (&mut [T], Blocks<'_>),
    ) -> mp_core::Result<()> {
        let (count, differ) = all_to_all_blocks(&sent, &received);
        self.mpb.begin(Mark::of_blocks::<T>(Kind::AllToAll, differ, count, None));
        let mut traffic = AllToAll::new(&self.mpb, sent, received)?;
        self.exchange(Collective::AllToAll, &mut traffic)
    }

    /// Returns the way of a block of `bytes` bytes in a gather, scatter, all-gather or all-to-all, and the reason.
    pub fn explain(&self, collective: Collective, bytes: usize) -> Explanation {
        self.ways.explain(collective, bytes)
    }

    /// Returns this rank's number.
    pub fn rank(&self) -> usize {
        self.mpb.rank()
    }

    /// Returns this rank's number, and the number of ranks.
    fn place(&self) -> (usize, usize) {
        (self.mpb.rank(), self.mpb.ranks())
    }

    #[inline]
    fn exchange<T: Traffic>(
        &mut self,
        collective: Collective,
        traffic: &mut T,
    ) -> mp_core::Result<()> {
        let Exchanges { mpb, ways, events } = self;
        events.report(|| ways.choice(collective, traffic.extremes().most));
        // The shortest exchanges are called without another future around their own.
        match ways.way(traffic.extremes()) {
            Some(Way::Lines) => complete(ways.lines.exchange(mpb, traffic)),
            _ => complete(ways.exchange(mpb, traffic)),
        }
    }

    #[inline]
    fn exchange_to_all(&mut self, mut traffic: AllGather<'_>) -> mp_core::Result<()> {
        let (Exchanges { mpb, ways, events }, traffic) = (self, &mut traffic);
        events.report(|| ways.choice(Collective::AllGather, traffic.extremes().most));
        match ways.way_to_all(traffic.extremes()) {
            Some(WayToAll::Lines) => complete(ways.lines.exchange(mpb, traffic)),
            _ => complete(ways.all_gather(mpb, traffic)),
        }
    }

    /// Converts the MPBs.
    pub(crate) fn map<N>(self, convert: impl FnOnce(Mpb) -> N) -> Exchanges<CheckedMpb<N>> {
        let Exchanges { mpb, ways, events } = self;
        Exchanges { mpb: mpb.map(convert), ways, events }
    }
}

/// The asynchronous counterparts of the blocking methods. The blocking methods avoid one more future for the shortest
/// exchanges. The futures of long exchanges are boxed, so that the others are small.
impl<M: AsMpb> Exchanges<CheckedMpb<M>> {
    pub(crate) fn mpb(&self) -> &CheckedMpb<M> {
        &self.mpb
    }

    /// Begins a call before its [traffic](Self::run) is checked.
    pub(crate) fn note(&mut self, mark: Mark) {
        self.mpb.begin(mark);
    }

    pub(crate) async fn run<T: Traffic>(
        &mut self,
        collective: Collective,
        traffic: &mut T,
    ) -> mp_core::Result<()> {
        let Exchanges { mpb, ways, events } = self;
        events.report(|| ways.choice(collective, traffic.extremes().most));
        match ways.way(traffic.extremes()) {
            Some(Way::Lines) => ways.lines.exchange(mpb, traffic).await,
            _ => Box::pin(ways.exchange(mpb, traffic)).await,
        }
    }

    pub(crate) async fn run_to_all(&mut self, traffic: &mut AllGather<'_>) -> mp_core::Result<()> {
        let Exchanges { mpb, ways, events } = self;
        events.report(|| ways.choice(Collective::AllGather, traffic.extremes().most));
        match ways.way_to_all(traffic.extremes()) {
            Some(WayToAll::Lines) => ways.lines.exchange(mpb, traffic).await,
            _ => Box::pin(ways.all_gather(mpb, traffic)).await,
        }
    }
}

/// Returns the number of elements that an all-to-all sends, and whether blocks may differ in length.
#[inline(always)]
pub(crate) fn all_to_all_blocks<T>(
    sent: &Option<(&[T], Blocks<'_>)>,
    (received, blocks): &(&mut [T], Blocks<'_>),
) -> (usize, bool) {
    match sent {
        Some((sent, outgoing)) => (sent.len(), outgoing.may_differ() || blocks.may_differ()),
        None => (received.len(), blocks.may_differ()),
    }
}
