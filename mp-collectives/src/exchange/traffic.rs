//! The blocks that each operation sends from rank to rank.
//!
//! What an operation does is kept apart from how its blocks travel: any way carries any traffic. The way of a block
//! follows from its length alone, so that a rank need know no more than MPI asks of it, and short and long blocks mix
//! in one call. A block is read, chunk by chunk, before what comes from the same rank is written, so that an all-to-all
//! in place needs no other memory.

use mp_core::mpb::MpbAccess;
use mp_core::{ErrorKind, Plain};
use thiserror::Error;

use crate::arguments::Cut;
use crate::layout::{Blocks, Extremes, Layout, LayoutError};

/// The blocks that a rank has for each other rank, and the places for the blocks that come from them.
///
/// An algorithm reads a block before it writes what comes from that rank, so both may be the same memory. Empty blocks
/// are not sent.
pub trait Traffic {
    /// Returns the block for this other rank.
    fn outgoing(&self, rank: usize) -> &[u8];

    /// Returns the place for the block from this other rank, which sends as many bytes.
    fn incoming(&mut self, rank: usize) -> &mut [u8];

    /// Returns whether the blocks for others are in memory of their own, so that they are the same when all have come.
    fn stays(&self) -> bool {
        true
    }

    /// Copies the rank's block for itself.
    fn keep(&mut self);

    /// Returns bounds of the lengths, in bytes, of the blocks above that are not empty.
    fn extremes(&self) -> Extremes;
}

/// The reason why blocks can't be exchanged, found before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExchangeError {
    /// There is no such root.
    #[error(
        "there is no rank {root} that could be the root of an exchange: there are {ranks}, numbered from 0"
    )]
    Root {
        /// The requested root.
        root: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The blocks do not fit the buffers.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Allows rank code to return it with `?`.
impl From<ExchangeError> for mp_core::Error {
    #[cold]
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Root { root: rank, ranks: size } => {
                ErrorKind::NoSuchRank { rank, size }.into()
            }
            ExchangeError::Layout(error) => error.into(),
        }
    }
}

#[inline]
fn check_root(root: usize, ranks: usize) -> Result<(), ExchangeError> {
    if root < ranks { Ok(()) } else { Err(ExchangeError::Root { root, ranks }) }
}

/// A gather: one rank gets a block from each rank.
#[derive(Debug)]
pub struct Gather<'a>(Gathering<'a>);

#[derive(Debug)]
enum Gathering<'a> {
    Root { me: usize, own: Option<&'a [u8]>, all: &'a mut [u8], layout: Layout<'a> },
    Other { root: usize, own: &'a [u8] },
}

impl<'a> Gather<'a> {
    /// Creates a gather in which each rank's own block goes to the root's `all`. At other ranks, `all` and `blocks` are
    /// ignored.
    ///
    /// Without a buffer for the own block, the gather is in place: the root's `all` already holds the root's own block,
    /// and the `all` of any other rank is the block that it sends.
    ///
    /// # Errors
    /// [`ExchangeError`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl MpbAccess,
        own: Option<&'a [T]>,
        all: &'a mut [T],
        blocks: Blocks<'a>,
        root: usize,
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        check_root(root, ranks)?;
        if me != root {
            let own = own.unwrap_or(all);
            return Ok(Gather(Gathering::Other { root, own: bytemuck::cast_slice(own) }));
        }
        let lengths = (own.map(<[T]>::len), all.len());
        let layout = Layout::new(blocks, (me, ranks), lengths, size_of::<T>())?;
        let (own, all) = (own.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(all));
        Ok(Gather(Gathering::Root { me, own, all, layout }))
    }
}

impl Traffic for Gather<'_> {
    #[inline]
    fn outgoing(&self, rank: usize) -> &[u8] {
        match self.0 {
            Gathering::Other { root, own } if rank == root => own,
            _ => &[],
        }
    }

    #[inline]
    fn incoming(&mut self, rank: usize) -> &mut [u8] {
        match &mut self.0 {
            Gathering::Root { all, layout, .. } => &mut all[layout.block(rank)],
            Gathering::Other { .. } => &mut [],
        }
    }

    #[inline]
    fn keep(&mut self) {
        if let Gathering::Root { me, own: Some(own), all, layout } = &mut self.0 {
            all[layout.block(*me)].copy_from_slice(own);
        }
    }

    #[inline]
    fn extremes(&self) -> Extremes {
        match &self.0 {
            Gathering::Root { layout, .. } => layout.extremes(),
            Gathering::Other { own, .. } => Extremes::one(own.len()),
        }
    }
}

/// A scatter: each rank gets a block from one rank.
#[derive(Debug)]
pub struct Scatter<'a>(Scattering<'a>);

#[derive(Debug)]
enum Scattering<'a> {
    Root { me: usize, all: &'a [u8], own: Option<&'a mut [u8]>, layout: Layout<'a> },
    Other { root: usize, own: &'a mut [u8] },
}

impl<'a> Scatter<'a> {
    /// Creates a scatter in which the blocks of the root's buffer go to each rank's own. At other ranks, `blocks` and
    /// the buffer of all blocks are ignored. In place, the root's buffer keeps the root's own block, and the buffer of
    /// any other rank receives its block.
    ///
    /// # Errors
    /// [`ExchangeError`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl MpbAccess,
        cut: Cut<'a, T>,
        blocks: Blocks<'a>,
        root: usize,
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        check_root(root, ranks)?;
        if me != root {
            let (Cut::Apart { own, .. } | Cut::InPlace(own)) = cut;
            return Ok(Scatter(Scattering::Other { root, own: bytemuck::cast_slice_mut(own) }));
        }
        let (all, own) = match cut {
            Cut::Apart { all, own } => (all, Some(own)),
            Cut::InPlace(all) => (&*all, None),
        };
        let lengths = (own.as_ref().map(|own| own.len()), all.len());
        let layout = Layout::new(blocks, (me, ranks), lengths, size_of::<T>())?;
        let (all, own) = (bytemuck::cast_slice(all), own.map(bytemuck::cast_slice_mut));
        Ok(Scatter(Scattering::Root { me, all, own, layout }))
    }
}

impl Traffic for Scatter<'_> {
    #[inline]
    fn outgoing(&self, rank: usize) -> &[u8] {
        match &self.0 {
            Scattering::Root { all, layout, .. } => &all[layout.block(rank)],
            Scattering::Other { .. } => &[],
        }
    }

    #[inline]
    fn incoming(&mut self, rank: usize) -> &mut [u8] {
        match &mut self.0 {
            Scattering::Other { root, own } if rank == *root => own,
            _ => &mut [],
        }
    }

    #[inline]
    fn keep(&mut self) {
        if let Scattering::Root { me, all, own: Some(own), layout } = &mut self.0 {
            own.copy_from_slice(&all[layout.block(*me)]);
        }
    }

    #[inline]
    fn extremes(&self) -> Extremes {
        match &self.0 {
            Scattering::Root { layout, .. } => layout.extremes(),
            Scattering::Other { own, .. } => Extremes::one(own.len()),
        }
    }
}

/// An all-gather: each rank gets a block from each rank, the same for all.
#[derive(Debug)]
pub struct AllGather<'a> {
    me: usize,
    own: Option<&'a [u8]>,
    all: &'a mut [u8],
    layout: Layout<'a>,
}

impl<'a> AllGather<'a> {
    /// Creates an all-gather in which each rank's own block goes to the `all` of every rank. Without a buffer for it,
    /// it is already in its place there.
    ///
    /// # Errors
    /// [`ExchangeError::Layout`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl MpbAccess,
        own: Option<&'a [T]>,
        all: &'a mut [T],
        blocks: Blocks<'a>,
    ) -> Result<Self, ExchangeError> {
        let (me, lengths) = (mpb.rank(), (own.map(<[T]>::len), all.len()));
        let layout = Layout::new(blocks, (me, mpb.ranks()), lengths, size_of::<T>())?;
        let (own, all) = (own.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(all));
        Ok(AllGather { me, own, all, layout })
    }

    /// Returns the block that goes to all others.
    #[inline]
    pub(super) fn own(&self) -> &[u8] {
        self.own.unwrap_or(&self.all[self.layout.block(self.me)])
    }
}

impl Traffic for AllGather<'_> {
    #[inline]
    fn outgoing(&self, _: usize) -> &[u8] {
        self.own()
    }

    #[inline]
    fn incoming(&mut self, rank: usize) -> &mut [u8] {
        &mut self.all[self.layout.block(rank)]
    }

    #[inline]
    fn keep(&mut self) {
        if let Some(own) = self.own {
            self.all[self.layout.block(self.me)].copy_from_slice(own);
        }
    }

    #[inline]
    fn extremes(&self) -> Extremes {
        self.layout.extremes()
    }
}

/// An all-to-all: each rank gets from each rank a block that is for that rank alone.
#[derive(Debug)]
pub struct AllToAll<'a> {
    me: usize,
    /// What is sent. `None` in place, where received blocks take the place of those sent.
    send: Option<(&'a [u8], Layout<'a>)>,
    receive: &'a mut [u8],
    layout: Layout<'a>,
}

impl<'a> AllToAll<'a> {
    /// Creates an all-to-all in which block i of `send` goes to rank i's `receive`, as its block of this rank. Where
    /// the blocks of one buffer are of equal length, those of the other are too.
    ///
    /// Without blocks to send, it is in place: block i of `receive` goes to rank i, and the block that comes from rank
    /// i takes its place. The blocks that two ranks have for each other are then equally long, in bytes.
    ///
    /// # Errors
    /// [`ExchangeError::Layout`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl MpbAccess,
        send: Option<(&'a [T], Blocks<'a>)>,
        (receive, receive_blocks): (&'a mut [T], Blocks<'a>),
    ) -> Result<Self, ExchangeError> {
        let (me, ranks, length) = (mpb.rank(), mpb.ranks(), receive.len());
        let Some((send, send_blocks)) = send else {
            let layout = Layout::of_buffer(receive_blocks, ranks, length, size_of::<T>())?;
            let receive = bytemuck::cast_slice_mut(receive);
            return Ok(AllToAll { me, send: None, receive, layout });
        };
        let needed = send.len();
        let outgoing = Layout::of_buffer(send_blocks, ranks, needed, size_of::<T>())?;
        let layout = match (send_blocks, receive_blocks) {
            (Blocks::Equal, Blocks::Equal) if length != needed => {
                return Err(LayoutError::Length { length, needed }.into());
            }
            (Blocks::Equal, Blocks::Equal) => outgoing,
            _ => Layout::of_buffer(receive_blocks, ranks, length, size_of::<T>())?,
        };
        let units = |bytes: usize| bytes.checked_div(size_of::<T>()).unwrap_or(0);
        let (length, needed) = (layout.block(me).len(), outgoing.block(me).len());
        if length != needed {
            let (length, needed) = (units(length), units(needed));
            return Err(LayoutError::Length { length, needed }.into());
        }
        let send = Some((bytemuck::cast_slice(send), outgoing));
        Ok(AllToAll { me, send, receive: bytemuck::cast_slice_mut(receive), layout })
    }
}

impl Traffic for AllToAll<'_> {
    #[inline]
    fn outgoing(&self, rank: usize) -> &[u8] {
        match &self.send {
            Some((send, layout)) => &send[layout.block(rank)],
            None => &self.receive[self.layout.block(rank)],
        }
    }

    #[inline]
    fn incoming(&mut self, rank: usize) -> &mut [u8] {
        &mut self.receive[self.layout.block(rank)]
    }

    #[inline]
    fn stays(&self) -> bool {
        self.send.is_some()
    }

    #[inline]
    fn keep(&mut self) {
        if let Some((send, layout)) = &self.send {
            let own = &mut self.receive[self.layout.block(self.me)];
            own.copy_from_slice(&send[layout.block(self.me)]);
        }
    }

    #[inline]
    fn extremes(&self) -> Extremes {
        let incoming = self.layout.extremes();
        self.send.map_or(incoming, |(_, layout)| incoming.and(layout.extremes()))
    }
}

/// The blocks of another traffic that have this many bytes; the rank's own block is kept.
#[derive(Debug)]
pub(super) struct Only<'a, T> {
    pub(super) traffic: &'a mut T,
    pub(super) lengths: Extremes,
}

impl<T> Only<'_, T> {
    fn takes(&self, length: usize) -> bool {
        (self.lengths.least..=self.lengths.most).contains(&length)
    }
}

impl<T: Traffic> Traffic for Only<'_, T> {
    fn outgoing(&self, rank: usize) -> &[u8] {
        let block = self.traffic.outgoing(rank);
        if self.takes(block.len()) { block } else { &[] }
    }

    fn incoming(&mut self, rank: usize) -> &mut [u8] {
        let length = self.traffic.incoming(rank).len();
        if self.takes(length) { self.traffic.incoming(rank) } else { &mut [] }
    }

    fn stays(&self) -> bool {
        self.traffic.stays()
    }

    fn keep(&mut self) {
        self.traffic.keep();
    }

    fn extremes(&self) -> Extremes {
        let Extremes { least, most } = self.traffic.extremes();
        Extremes { least: least.max(self.lengths.least), most: most.min(self.lengths.most) }
    }
}
