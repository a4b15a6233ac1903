//! Nonblocking exchanges of blocks: to one rank, from one rank, between all ranks.

use std::ops::Range;

use crate::communicator::Call;
use mp_core::Plain;

use super::collectives::{Buffer, Element, Nonblocking, Settings, Told};
use super::request::CollectiveRequest;
use crate::calls::{Kind, Mark};
use crate::exchange::{AllGather, AllToAll, Gather, Scatter};
use crate::layout::Blocks;
use crate::reduce::{Operation, Parts};
use crate::said;

/// The blocks of a buffer, as the different forms of a call give them.
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

    /// Returns what is sent along to compare an exchange's calls: for blocks of equal length, that length.
    fn mark<T>(&self, kind: Kind, count: usize, root: Option<usize>) -> Mark {
        match self {
            Layout::Equal => Mark::new::<T>(kind, Some(count), root),
            Layout::At(_) => Mark::new::<T>(kind.varying(), None, root),
        }
    }

    /// Describes an exchange for the comparison of calls, with the length of a block where all are equally long.
    fn told<T: Plain>(
        &self,
        [equal, varying]: [&'static str; 2],
        count: usize,
        root: Option<usize>,
    ) -> Told<impl FnOnce(&'static str, &Settings) -> Call + use<T>> {
        let (name, alike) = match self {
            Layout::Equal => (equal, Some(count)),
            Layout::At(_) => (varying, None),
        };
        Told::new::<T>(name, count, move |name, settings| {
            said::exchange::<T>(name, alike, root, &settings.exchanges)
        })
    }

    /// Describes a reduction for the comparison of calls.
    fn told_reduction<T: Plain, O>(
        &self,
        count: usize,
    ) -> Told<impl FnOnce(&'static str, &Settings) -> Call + use<T, O>> {
        let (name, blocks) = match self {
            Layout::Equal => ("nonblocking reduce_scatter", None),
            Layout::At(ranges) => ("nonblocking reduce_scatter_varying", Some(ranges.clone())),
        };
        Told::new::<T>(name, count, move |name, settings| {
            let (blocks, settings) = (blocks.as_deref(), &settings.reductions);
            said::reduction::<T, O>(name, count, None, blocks, settings)
        })
    }
}

// Operations' names for blocks that are equally long, and for those that need not be.
const GATHER: [&str; 2] = ["nonblocking gather", "nonblocking gather_varying"];
const SCATTER: [&str; 2] = ["nonblocking scatter", "nonblocking scatter_varying"];
const ALL_GATHER: [&str; 2] = ["nonblocking all_gather", "nonblocking all_gather_varying"];
const ALL_TO_ALL: [&str; 2] = ["nonblocking all_to_all", "nonblocking all_to_all_varying"];

/// Operations with a block for each rank. Each returns all buffers that it was given.
impl Nonblocking {
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
        let told = layout.told::<T>(GATHER, own.as_ref().len(), Some(root));
        self.submit(told, (own, all), move |algorithms, (own, all)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (own, all, blocks) = (own.as_ref(), all.as_mut(), layout.blocks());
                exchanges.begin(layout.mark::<T>(Kind::Gather, own.len(), Some(root)));
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
        let count = self.at_root(buffer.as_ref().len(), root);
        let told = layout.told::<T>(GATHER, count, Some(root));
        self.submit(told, buffer, move |algorithms, buffer| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (buffer, blocks) = (buffer.as_mut(), layout.blocks());
                exchanges.begin(layout.mark::<T>(Kind::Gather, count, Some(root)));
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
        let told = layout.told::<T>(SCATTER, own.as_ref().len(), Some(root));
        self.submit(told, (all, own), move |algorithms, (all, own)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (all, own, blocks) = (all.as_ref(), own.as_mut(), layout.blocks());
                exchanges.begin(layout.mark::<T>(Kind::Scatter, own.len(), Some(root)));
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
        let count = self.at_root(buffer.as_ref().len(), root);
        let told = layout.told::<T>(SCATTER, count, Some(root));
        self.submit(told, buffer, move |algorithms, buffer| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (buffer, blocks) = (buffer.as_mut(), layout.blocks());
                exchanges.begin(layout.mark::<T>(Kind::Scatter, count, Some(root)));
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
        let told = layout.told::<T>(ALL_GATHER, own.as_ref().len(), None);
        self.submit(told, (own, all), move |algorithms, (own, all)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let (own, all, blocks) = (own.as_ref(), all.as_mut(), layout.blocks());
                exchanges.begin(layout.mark::<T>(Kind::AllGather, own.len(), None));
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
        let count = self.of_all(all.as_ref().len());
        let told = layout.told::<T>(ALL_GATHER, count, None);
        self.submit(told, all, move |algorithms, all| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                exchanges.begin(layout.mark::<T>(Kind::AllGather, count, None));
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
        let told = outgoing.told::<T>(ALL_TO_ALL, send.as_ref().len(), None);
        self.submit(told, (send, receive), move |algorithms, (send, receive)| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let count = send.as_ref().len();
                exchanges.begin(outgoing.mark::<T>(Kind::AllToAll, count, None));
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
        let told = layout.told::<T>(ALL_TO_ALL, buffer.as_ref().len(), None);
        self.submit(told, buffer, move |algorithms, buffer| {
            Box::pin(async move {
                let exchanges = algorithms.exchanges()?;
                let count = buffer.as_ref().len();
                exchanges.begin(layout.mark::<T>(Kind::AllToAll, count, None));
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
        let told = layout.told_reduction::<T, O>(vector.as_ref().len());
        self.submit(told, (vector, result), move |algorithms, (vector, result)| {
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
        let told = layout.told_reduction::<T, O>(vector.as_ref().len());
        self.submit(told, vector, move |algorithms, vector| {
            Box::pin(async move {
                let reductions = algorithms.reductions()?;
                let mut parts =
                    Parts::in_place(reductions.mpb(), vector.as_mut(), layout.blocks())?;
                reductions.run_reduce_scatter(&mut parts, &operation).await
            })
        })
    }
}
