//! Immediate exchanges of blocks: to one, from one, between all.

use std::ops::Range;

use super::collectives::{Buffer, Element, Immediate};
use super::request::CollectiveRequest;
use crate::exchange::{AllGather, AllToAll, Gather, Scatter};
use crate::layout::Blocks;
use crate::reduce::{Operation, Parts};

/// Blocks of a buffer, as one of several forms of a call gives them.
enum Layout {
    Equal,
    At(Vec<Range<usize>>),
}

impl Layout {
    fn blocks(&self) -> Blocks<'_> {
        match self {
            Layout::Equal => Blocks::Equal,
            Layout::At(ranges) => Blocks::At(ranges),
        }
    }
}

/// Operations on blocks for each rank. Each gives back all buffers that it was given.
impl Immediate {
    /// Begins a [gather](crate::exchange::Exchanges::gather) (`MPI_Igather`).
    pub fn gather<T, S, R>(&mut self, own: S, all: R, root: usize) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.gather_of(own, all, Layout::Equal, root)
    }

    /// Begins a [gather of any blocks](crate::exchange::Exchanges::gather_varying) (`MPI_Igatherv`).
    pub fn gather_varying<T, S, R>(
        &mut self,
        own: S,
        all: R,
        blocks: Vec<Range<usize>>,
        root: usize,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.gather_of(own, all, Layout::At(blocks), root)
    }

    fn gather_of<T, S, R>(
        &mut self,
        own: S,
        all: R,
        layout: Layout,
        root: usize,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.front.submit((own, all), move |algorithms, (own, all)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (own, all, blocks) = (own.as_ref(), all.as_mut(), layout.blocks());
                let mut traffic = Gather::new(exchanges.mpb(), own, all, blocks, root)?;
                exchanges.run(&mut traffic).await
            })
        })
    }

    /// Begins a [gather in place](crate::exchange::Exchanges::gather_in_place).
    pub fn gather_in_place<T, B>(&mut self, buffer: B, root: usize) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.gather_in_place_of(buffer, Layout::Equal, root)
    }

    /// Begins a [gather in place of any blocks](crate::exchange::Exchanges::gather_in_place_varying).
    pub fn gather_in_place_varying<T, B>(
        &mut self,
        buffer: B,
        blocks: Vec<Range<usize>>,
        root: usize,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.gather_in_place_of(buffer, Layout::At(blocks), root)
    }

    fn gather_in_place_of<T, B>(
        &mut self,
        buffer: B,
        layout: Layout,
        root: usize,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.front.submit(buffer, move |algorithms, buffer| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (buffer, blocks) = (buffer.as_mut(), layout.blocks());
                let mut traffic = Gather::in_place(exchanges.mpb(), buffer, blocks, root)?;
                exchanges.run(&mut traffic).await
            })
        })
    }

    /// Begins a [scatter](crate::exchange::Exchanges::scatter) (`MPI_Iscatter`).
    pub fn scatter<T, S, R>(&mut self, all: S, own: R, root: usize) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.scatter_of(all, own, Layout::Equal, root)
    }

    /// Begins a [scatter of any blocks](crate::exchange::Exchanges::scatter_varying) (`MPI_Iscatterv`).
    pub fn scatter_varying<T, S, R>(
        &mut self,
        all: S,
        own: R,
        blocks: Vec<Range<usize>>,
        root: usize,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.scatter_of(all, own, Layout::At(blocks), root)
    }

    fn scatter_of<T, S, R>(
        &mut self,
        all: S,
        own: R,
        layout: Layout,
        root: usize,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.front.submit((all, own), move |algorithms, (all, own)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (all, own, blocks) = (all.as_ref(), own.as_mut(), layout.blocks());
                let mut traffic = Scatter::new(exchanges.mpb(), all, own, blocks, root)?;
                exchanges.run(&mut traffic).await
            })
        })
    }

    /// Begins a [scatter in place](crate::exchange::Exchanges::scatter_in_place).
    pub fn scatter_in_place<T, B>(&mut self, buffer: B, root: usize) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.scatter_in_place_of(buffer, Layout::Equal, root)
    }

    /// Begins a [scatter in place of any blocks](crate::exchange::Exchanges::scatter_in_place_varying).
    pub fn scatter_in_place_varying<T, B>(
        &mut self,
        buffer: B,
        blocks: Vec<Range<usize>>,
        root: usize,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.scatter_in_place_of(buffer, Layout::At(blocks), root)
    }

    fn scatter_in_place_of<T, B>(
        &mut self,
        buffer: B,
        layout: Layout,
        root: usize,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.front.submit(buffer, move |algorithms, buffer| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (buffer, blocks) = (buffer.as_mut(), layout.blocks());
                let mut traffic = Scatter::in_place(exchanges.mpb(), buffer, blocks, root)?;
                exchanges.run(&mut traffic).await
            })
        })
    }

    /// Begins an [all-gather](crate::exchange::Exchanges::all_gather) (`MPI_Iallgather`).
    pub fn all_gather<T, S, R>(&mut self, own: S, all: R) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.all_gather_of(own, all, Layout::Equal)
    }

    /// Begins an [all-gather of any blocks](crate::exchange::Exchanges::all_gather_varying)
    /// (`MPI_Iallgatherv`).
    pub fn all_gather_varying<T, S, R>(
        &mut self,
        own: S,
        all: R,
        blocks: Vec<Range<usize>>,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.all_gather_of(own, all, Layout::At(blocks))
    }

    fn all_gather_of<T, S, R>(
        &mut self,
        own: S,
        all: R,
        layout: Layout,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.front.submit((own, all), move |algorithms, (own, all)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (own, all, blocks) = (own.as_ref(), all.as_mut(), layout.blocks());
                let traffic = AllGather::new(exchanges.mpb(), own, all, blocks)?;
                exchanges.run_to_all(traffic).await
            })
        })
    }

    /// Begins an [all-gather in place](crate::exchange::Exchanges::all_gather_in_place).
    pub fn all_gather_in_place<T, B>(&mut self, all: B) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.all_gather_in_place_of(all, Layout::Equal)
    }

    /// Begins an [all-gather in place of any
    /// blocks](crate::exchange::Exchanges::all_gather_in_place_varying).
    pub fn all_gather_in_place_varying<T, B>(
        &mut self,
        all: B,
        blocks: Vec<Range<usize>>,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.all_gather_in_place_of(all, Layout::At(blocks))
    }

    fn all_gather_in_place_of<T, B>(&mut self, all: B, layout: Layout) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.front.submit(all, move |algorithms, all| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let traffic = AllGather::in_place(exchanges.mpb(), all.as_mut(), layout.blocks())?;
                exchanges.run_to_all(traffic).await
            })
        })
    }

    /// Begins an [all-to-all](crate::exchange::Exchanges::all_to_all) (`MPI_Ialltoall`).
    pub fn all_to_all<T, S, R>(&mut self, send: S, receive: R) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.all_to_all_of(send, Layout::Equal, receive, Layout::Equal)
    }

    /// Begins an [all-to-all of any blocks](crate::exchange::Exchanges::all_to_all_varying)
    /// (`MPI_Ialltoallv`).
    pub fn all_to_all_varying<T, S, R>(
        &mut self,
        send: S,
        send_blocks: Vec<Range<usize>>,
        receive: R,
        receive_blocks: Vec<Range<usize>>,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.all_to_all_of(send, Layout::At(send_blocks), receive, Layout::At(receive_blocks))
    }

    fn all_to_all_of<T, S, R>(
        &mut self,
        send: S,
        outgoing: Layout,
        receive: R,
        incoming: Layout,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
    {
        self.front.submit((send, receive), move |algorithms, (send, receive)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let send = (send.as_ref(), outgoing.blocks());
                let receive = (receive.as_mut(), incoming.blocks());
                let mut traffic = AllToAll::new(exchanges.mpb(), send, receive)?;
                exchanges.run(&mut traffic).await
            })
        })
    }

    /// Begins an [all-to-all in place](crate::exchange::Exchanges::all_to_all_in_place).
    pub fn all_to_all_in_place<T, B>(&mut self, buffer: B) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.all_to_all_in_place_of(buffer, Layout::Equal)
    }

    /// Begins an [all-to-all in place of any
    /// blocks](crate::exchange::Exchanges::all_to_all_in_place_varying).
    pub fn all_to_all_in_place_varying<T, B>(
        &mut self,
        buffer: B,
        blocks: Vec<Range<usize>>,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.all_to_all_in_place_of(buffer, Layout::At(blocks))
    }

    fn all_to_all_in_place_of<T, B>(&mut self, buffer: B, layout: Layout) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        self.front.submit(buffer, move |algorithms, buffer| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let mut traffic =
                    AllToAll::in_place(exchanges.mpb(), buffer.as_mut(), layout.blocks())?;
                exchanges.run(&mut traffic).await
            })
        })
    }

    /// Begins a [reduce-scatter](crate::reduce::Reductions::reduce_scatter)
    /// (`MPI_Ireduce_scatter_block`).
    pub fn reduce_scatter<T, S, R, O>(
        &mut self,
        vector: S,
        result: R,
        operation: O,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.reduce_scatter_of(vector, Layout::Equal, result, operation)
    }

    /// Begins a [reduce-scatter of any
    /// blocks](crate::reduce::Reductions::reduce_scatter_varying) (`MPI_Ireduce_scatter`).
    pub fn reduce_scatter_varying<T, S, R, O>(
        &mut self,
        vector: S,
        blocks: Vec<Range<usize>>,
        result: R,
        operation: O,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.reduce_scatter_of(vector, Layout::At(blocks), result, operation)
    }

    fn reduce_scatter_of<T, S, R, O>(
        &mut self,
        vector: S,
        layout: Layout,
        result: R,
        operation: O,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Buffer<T>,
        R: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.front.submit((vector, result), move |algorithms, (vector, result)| {
            Box::pin(async move {
                let reductions = algorithms.reductions()?;
                let (vector, result, blocks) = (vector.as_ref(), result.as_mut(), layout.blocks());
                let mut parts = Parts::new(reductions.mpb(), vector, result, blocks)?;
                reductions.run_reduce_scatter(&mut parts, &operation).await
            })
        })
    }

    /// Begins a [reduce-scatter in
    /// place](crate::reduce::Reductions::reduce_scatter_in_place).
    pub fn reduce_scatter_in_place<T, B, O>(
        &mut self,
        vector: B,
        operation: O,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.reduce_scatter_in_place_of(vector, Layout::Equal, operation)
    }

    /// Begins a [reduce-scatter in place of any
    /// blocks](crate::reduce::Reductions::reduce_scatter_in_place_varying).
    pub fn reduce_scatter_in_place_varying<T, B, O>(
        &mut self,
        vector: B,
        blocks: Vec<Range<usize>>,
        operation: O,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.reduce_scatter_in_place_of(vector, Layout::At(blocks), operation)
    }

    fn reduce_scatter_in_place_of<T, B, O>(
        &mut self,
        vector: B,
        layout: Layout,
        operation: O,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.front.submit(vector, move |algorithms, vector| {
            Box::pin(async move {
                let reductions = algorithms.reductions()?;
                let mut parts =
                    Parts::in_place(reductions.mpb(), vector.as_mut(), layout.blocks())?;
                reductions.run_reduce_scatter(&mut parts, &operation).await
            })
        })
    }
}
