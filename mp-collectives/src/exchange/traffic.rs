//! What goes from whom to whom in each of the operations.

use mp_core::Plain;
use mp_model::mpb::Mpb;
use thiserror::Error;

use crate::layout::{Blocks, Extremes, Layout, LayoutError};

/// What a rank has for each other one, and where what comes from each goes.
///
/// An algorithm reads a block before what comes from that rank is written, so that both may be the
/// same memory. Blocks of no bytes are not sent.
pub trait Traffic {
    /// The block for this other rank.
    fn outgoing(&self, rank: usize) -> &[u8];

    /// Where the block from this other rank goes, which sends as many bytes.
    fn incoming(&mut self, rank: usize) -> &mut [u8];

    /// Copies the rank's block for itself.
    fn keep(&mut self);

    /// Bounds of the lengths of the blocks above that are not empty, in bytes.
    fn extremes(&self) -> Extremes;
}

/// Why blocks can't be exchanged: found before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExchangeError {
    /// No such root.
    #[error("the root of an exchange: rank {root} of {ranks}")]
    Root {
        /// The root asked for.
        root: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The blocks do not fit the buffers.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

#[inline]
fn check_root(root: usize, ranks: usize) -> Result<(), ExchangeError> {
    if root < ranks { Ok(()) } else { Err(ExchangeError::Root { root, ranks }) }
}

/// One rank gets a block of each.
#[derive(Debug)]
pub struct Gather<'a>(Gathering<'a>);

#[derive(Debug)]
enum Gathering<'a> {
    Root { me: usize, own: Option<&'a [u8]>, all: &'a mut [u8], layout: Layout<'a> },
    Other { root: usize, own: &'a [u8] },
}

impl<'a> Gather<'a> {
    /// Each rank's own block goes to the root's `all`. At other ranks neither that nor where the
    /// blocks lie is looked at.
    ///
    /// # Errors
    /// [`ExchangeError`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl Mpb,
        own: &'a [T],
        all: &'a mut [T],
        blocks: Blocks<'a>,
        root: usize,
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        check_root(root, ranks)?;
        if me != root {
            return Ok(Gather(Gathering::Other { root, own: bytemuck::cast_slice(own) }));
        }
        let lengths = (own.len(), all.len());
        let layout = Layout::with_own(blocks, (me, ranks), lengths, size_of::<T>())?;
        let (own, all) = (Some(bytemuck::cast_slice(own)), bytemuck::cast_slice_mut(all));
        Ok(Gather(Gathering::Root { me, own, all, layout }))
    }

    /// The root's buffer has room for all blocks, and its own in its place; that of another rank is
    /// the block that it sends.
    ///
    /// # Errors
    /// [`ExchangeError`].
    #[inline]
    pub fn in_place<T: Plain>(
        mpb: &impl Mpb,
        buffer: &'a mut [T],
        blocks: Blocks<'a>,
        root: usize,
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        check_root(root, ranks)?;
        if me != root {
            return Ok(Gather(Gathering::Other { root, own: bytemuck::cast_slice(buffer) }));
        }
        let layout = Layout::of_buffer(blocks, ranks, buffer.len(), size_of::<T>())?;
        let all = bytemuck::cast_slice_mut(buffer);
        Ok(Gather(Gathering::Root { me, own: None, all, layout }))
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

/// Each rank gets a block of one.
#[derive(Debug)]
pub struct Scatter<'a>(Scattering<'a>);

#[derive(Debug)]
enum Scattering<'a> {
    Root { me: usize, all: &'a [u8], own: Option<&'a mut [u8]>, layout: Layout<'a> },
    Other { root: usize, own: &'a mut [u8] },
}

impl<'a> Scatter<'a> {
    /// The blocks of the root's `all` go to each rank's own. At other ranks neither that nor where
    /// the blocks lie is looked at.
    ///
    /// # Errors
    /// [`ExchangeError`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl Mpb,
        all: &'a [T],
        own: &'a mut [T],
        blocks: Blocks<'a>,
        root: usize,
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        check_root(root, ranks)?;
        if me != root {
            return Ok(Scatter(Scattering::Other { root, own: bytemuck::cast_slice_mut(own) }));
        }
        let lengths = (own.len(), all.len());
        let layout = Layout::with_own(blocks, (me, ranks), lengths, size_of::<T>())?;
        let (all, own) = (bytemuck::cast_slice(all), Some(bytemuck::cast_slice_mut(own)));
        Ok(Scatter(Scattering::Root { me, all, own, layout }))
    }

    /// The root's buffer has the blocks of all, and keeps its own; that of another rank is the block
    /// that it gets.
    ///
    /// # Errors
    /// [`ExchangeError`].
    #[inline]
    pub fn in_place<T: Plain>(
        mpb: &impl Mpb,
        buffer: &'a mut [T],
        blocks: Blocks<'a>,
        root: usize,
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        check_root(root, ranks)?;
        if me != root {
            return Ok(Scatter(Scattering::Other { root, own: bytemuck::cast_slice_mut(buffer) }));
        }
        let layout = Layout::of_buffer(blocks, ranks, buffer.len(), size_of::<T>())?;
        let all = bytemuck::cast_slice(buffer);
        Ok(Scatter(Scattering::Root { me, all, own: None, layout }))
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

/// Each rank gets a block of each, which is the same for all.
#[derive(Debug)]
pub struct AllGather<'a> {
    me: usize,
    own: Option<&'a [u8]>,
    all: &'a mut [u8],
    layout: Layout<'a>,
}

impl<'a> AllGather<'a> {
    /// Each rank's own block goes to `all` of all.
    ///
    /// # Errors
    /// [`ExchangeError::Layout`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl Mpb,
        own: &'a [T],
        all: &'a mut [T],
        blocks: Blocks<'a>,
    ) -> Result<Self, ExchangeError> {
        let (me, lengths) = (mpb.rank(), (own.len(), all.len()));
        let layout = Layout::with_own(blocks, (me, mpb.ranks()), lengths, size_of::<T>())?;
        let (own, all) = (Some(bytemuck::cast_slice(own)), bytemuck::cast_slice_mut(all));
        Ok(AllGather { me, own, all, layout })
    }

    /// Each rank's own block is in its place already.
    ///
    /// # Errors
    /// [`ExchangeError::Layout`].
    #[inline]
    pub fn in_place<T: Plain>(
        mpb: &impl Mpb,
        all: &'a mut [T],
        blocks: Blocks<'a>,
    ) -> Result<Self, ExchangeError> {
        let layout = Layout::of_buffer(blocks, mpb.ranks(), all.len(), size_of::<T>())?;
        let all = bytemuck::cast_slice_mut(all);
        Ok(AllGather { me: mpb.rank(), own: None, all, layout })
    }

    /// The block that goes to all others.
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

/// Each rank gets a block of each, which is for that rank alone.
#[derive(Debug)]
pub struct AllToAll<'a> {
    me: usize,
    /// In place, what is received lies where it was.
    send: Option<(&'a [u8], Layout<'a>)>,
    receive: &'a mut [u8],
    layout: Layout<'a>,
}

impl<'a> AllToAll<'a> {
    /// Block i of `send` goes to rank i's `receive`, as its block of this rank. Where the blocks of
    /// one buffer are equal, those of the other are.
    ///
    /// # Errors
    /// [`ExchangeError::Layout`].
    #[inline]
    pub fn new<T: Plain>(
        mpb: &impl Mpb,
        (send, send_blocks): (&'a [T], Blocks<'a>),
        (receive, receive_blocks): (&'a mut [T], Blocks<'a>),
    ) -> Result<Self, ExchangeError> {
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        let (length, needed) = (receive.len(), send.len());
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

    /// Block i of the buffer goes to rank i, and what comes from there takes its place: of any two
    /// ranks, each has as many bytes for the other.
    ///
    /// # Errors
    /// [`ExchangeError::Layout`].
    #[inline]
    pub fn in_place<T: Plain>(
        mpb: &impl Mpb,
        buffer: &'a mut [T],
        blocks: Blocks<'a>,
    ) -> Result<Self, ExchangeError> {
        let layout = Layout::of_buffer(blocks, mpb.ranks(), buffer.len(), size_of::<T>())?;
        let receive = bytemuck::cast_slice_mut(buffer);
        Ok(AllToAll { me: mpb.rank(), send: None, receive, layout })
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

/// Those blocks of another traffic that have so many bytes; its own one is kept.
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

    fn keep(&mut self) {
        self.traffic.keep();
    }

    fn extremes(&self) -> Extremes {
        let Extremes { least, most } = self.traffic.extremes();
        Extremes { least: least.max(self.lengths.least), most: most.min(self.lengths.most) }
    }
}
