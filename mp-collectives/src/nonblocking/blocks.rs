//! Nonblocking operations with a block for each rank: to one rank, from one rank, between all ranks.

use std::marker::PhantomData;

use mp_core::{Call, Plain, Result};

use super::collectives::{Algorithms, Element, Nonblocking, Signature};
use super::front::Work;
use super::request::CollectiveRequest;
use crate::arguments::{AllBlocksMut, Cut, OwnBlock, OwnPlace, SentBlocks, at_root};
use crate::calls::{Kind, Mark};
use crate::exchange::{AllGather, AllToAll, Gather, Scatter, all_to_all_blocks};
use crate::explanation::Collective;
use crate::layout::Blocks;
use crate::reduce::{Operation, Parts};
use crate::settings::Settings;
use crate::signature;

/// An operation's name for blocks that are equally long, and for those that may differ.
type Names = [&'static str; 2];

const GATHER: Names = ["nonblocking gather", "nonblocking gather_varcount"];
const SCATTER: Names = ["nonblocking scatter", "nonblocking scatter_varcount"];
const ALL_GATHER: Names = ["nonblocking all_gather", "nonblocking all_gather_varcount"];
const ALL_TO_ALL: Names = ["nonblocking all_to_all", "nonblocking all_to_all_varcount"];
const REDUCE_SCATTER: Names = ["nonblocking reduce_scatter", "nonblocking reduce_scatter_varcount"];

/// Describes an exchange of `count` elements, for the comparison of calls and for traces.
fn exchange_signature<T: Plain>(
    names: Names,
    blocks_differ: bool,
    count: usize,
    root: Option<usize>,
) -> Signature<impl FnOnce(&'static str, &Settings) -> Call + use<T>> {
    let alike = (!blocks_differ).then_some(count);
    Signature::new::<T>(names[usize::from(blocks_differ)], count, move |name, settings| {
        signature::exchange::<T>(name, alike, root, settings)
    })
}

/// Operations with a block for each rank. Each takes its buffers, and returns them when it is done.
impl Nonblocking {
    /// Begins a [gather](crate::communicator::Communicator::gather) (`MPI_Igather`, `MPI_Igatherv`).
    pub fn gather<T, S, R>(&mut self, own: S, mut all: R, root: usize) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: OwnBlock<T> + Send + 'static,
        R: AllBlocksMut<T> + Send + 'static,
    {
        let (length, differ) = length_and_kind(&mut all);
        let at_root = at_root(length, self.place(), root);
        let count = own.own_block().map_or(at_root, <[T]>::len);
        let signature = exchange_signature::<T>(GATHER, differ, count, Some(root));
        let mark = Mark::of_blocks::<T>(Kind::Gather, differ, count, Some(root));
        self.submit(signature, (own, all), Gathering { mark, root, of: PhantomData::<fn(T)> })
    }

    /// Begins a [scatter](crate::communicator::Communicator::scatter) (`MPI_Iscatter`, `MPI_Iscatterv`).
    pub fn scatter<T, S, R>(
        &mut self,
        mut all: S,
        mut own: R,
        root: usize,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Send + 'static,
        R: OwnPlace<T, S> + Send + 'static,
    {
        let (cut, blocks) = own.cut(&mut all);
        let count = match &cut {
            Cut::Apart { own, .. } => own.len(),
            Cut::InPlace(all) => at_root(all.len(), self.place(), root),
        };
        let differ = blocks.may_differ();
        let signature = exchange_signature::<T>(SCATTER, differ, count, Some(root));
        let mark = Mark::of_blocks::<T>(Kind::Scatter, differ, count, Some(root));
        self.submit(signature, (all, own), Scattering { mark, root, of: PhantomData::<fn(T)> })
    }

    /// Begins an [all-gather](crate::communicator::Communicator::all_gather) (`MPI_Iallgather`, `MPI_Iallgatherv`).
    pub fn all_gather<T, S, R>(&mut self, own: S, mut all: R) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: OwnBlock<T> + Send + 'static,
        R: AllBlocksMut<T> + Send + 'static,
    {
        let (length, differ) = length_and_kind(&mut all);
        let (_, ranks) = self.place();
        let count = own.own_block().map_or(length / ranks, <[T]>::len);
        let signature = exchange_signature::<T>(ALL_GATHER, differ, count, None);
        let mark = Mark::of_blocks::<T>(Kind::AllGather, differ, count, None);
        self.submit(signature, (own, all), GatheringToAll { mark, of: PhantomData::<fn(T)> })
    }

    /// Begins an [all-to-all](crate::communicator::Communicator::all_to_all) (`MPI_Ialltoall`, `MPI_Ialltoallv`).
    pub fn all_to_all<T, S, R>(&mut self, send: S, mut receive: R) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: SentBlocks<T> + Send + 'static,
        R: AllBlocksMut<T> + Send + 'static,
    {
        let (count, differ) = all_to_all_blocks(&send.sent_blocks(), &receive.all_blocks_mut());
        let signature = exchange_signature::<T>(ALL_TO_ALL, differ, count, None);
        let mark = Mark::of_blocks::<T>(Kind::AllToAll, differ, count, None);
        self.submit(signature, (send, receive), Exchanging { mark, of: PhantomData::<fn(T)> })
    }

    /// Begins a [reduce-scatter](crate::communicator::Communicator::reduce_scatter) (`MPI_Ireduce_scatter_block`,
    /// `MPI_Ireduce_scatter`).
    pub fn reduce_scatter<T, S, R, O>(
        &mut self,
        mut vector: S,
        mut result: R,
        operation: O,
    ) -> CollectiveRequest<(S, R)>
    where
        T: Element,
        S: Send + 'static,
        R: OwnPlace<T, S> + Send + 'static,
        O: Operation<T> + Send + Sync + 'static,
    {
        let (cut, blocks) = result.cut(&mut vector);
        let (count, differ) = (cut.all(), blocks.may_differ());
        let ranges = match blocks {
            Blocks::Equal => None,
            Blocks::At(ranges) => Some(ranges.to_vec()),
        };
        let name = REDUCE_SCATTER[usize::from(differ)];
        let signature = Signature::new::<T>(name, count, move |name, settings| {
            signature::reduction::<T, O>(name, count, None, ranges.as_deref(), settings)
        });
        let work = ReducingToBlocks { operation, of: PhantomData::<fn(T)> };
        self.submit(signature, (vector, result), work)
    }
}

struct Gathering<T> {
    mark: Mark,
    root: usize,
    of: PhantomData<fn(T)>,
}

impl<T, S, R> Work<Algorithms, (S, R)> for Gathering<T>
where
    T: Element,
    S: OwnBlock<T> + Send + 'static,
    R: AllBlocksMut<T> + Send + 'static,
{
    async fn run(self, algorithms: &mut Algorithms, (own, all): &mut (S, R)) -> Result<()> {
        let (own, (all, blocks)) = (own.own_block(), all.all_blocks_mut());
        let exchanges = match algorithms {
            Algorithms::Here(here) => here.exchanges()?,
            Algorithms::Between(nodes) => {
                return Box::pin(nodes.gather(own, all, blocks, self.root)).await;
            }
        };
        exchanges.note(self.mark);
        let mut traffic = Gather::new(exchanges.mpb(), own, all, blocks, self.root)?;
        exchanges.run(Collective::Gather, &mut traffic).await
    }
}

struct Scattering<T> {
    mark: Mark,
    root: usize,
    of: PhantomData<fn(T)>,
}

impl<T, S, R> Work<Algorithms, (S, R)> for Scattering<T>
where
    T: Element,
    S: Send + 'static,
    R: OwnPlace<T, S> + Send + 'static,
{
    async fn run(self, algorithms: &mut Algorithms, (all, own): &mut (S, R)) -> Result<()> {
        let (cut, blocks) = own.cut(all);
        let exchanges = match algorithms {
            Algorithms::Here(here) => here.exchanges()?,
            Algorithms::Between(nodes) => {
                return Box::pin(nodes.scatter(cut, blocks, self.root)).await;
            }
        };
        exchanges.note(self.mark);
        let mut traffic = Scatter::new(exchanges.mpb(), cut, blocks, self.root)?;
        exchanges.run(Collective::Scatter, &mut traffic).await
    }
}

struct GatheringToAll<T> {
    mark: Mark,
    of: PhantomData<fn(T)>,
}

impl<T, S, R> Work<Algorithms, (S, R)> for GatheringToAll<T>
where
    T: Element,
    S: OwnBlock<T> + Send + 'static,
    R: AllBlocksMut<T> + Send + 'static,
{
    async fn run(self, algorithms: &mut Algorithms, (own, all): &mut (S, R)) -> Result<()> {
        let (own, (all, blocks)) = (own.own_block(), all.all_blocks_mut());
        let exchanges = match algorithms {
            Algorithms::Here(here) => here.exchanges()?,
            Algorithms::Between(nodes) => {
                return Box::pin(nodes.all_gather(own, all, blocks)).await;
            }
        };
        exchanges.note(self.mark);
        let mut traffic = AllGather::new(exchanges.mpb(), own, all, blocks)?;
        exchanges.run_to_all(&mut traffic).await
    }
}

struct Exchanging<T> {
    mark: Mark,
    of: PhantomData<fn(T)>,
}

impl<T, S, R> Work<Algorithms, (S, R)> for Exchanging<T>
where
    T: Element,
    S: SentBlocks<T> + Send + 'static,
    R: AllBlocksMut<T> + Send + 'static,
{
    async fn run(self, algorithms: &mut Algorithms, (send, receive): &mut (S, R)) -> Result<()> {
        let (sent, received) = (send.sent_blocks(), receive.all_blocks_mut());
        let exchanges = match algorithms {
            Algorithms::Here(here) => here.exchanges()?,
            Algorithms::Between(nodes) => return Box::pin(nodes.all_to_all(sent, received)).await,
        };
        exchanges.note(self.mark);
        let mut traffic = AllToAll::new(exchanges.mpb(), sent, received)?;
        exchanges.run(Collective::AllToAll, &mut traffic).await
    }
}

struct ReducingToBlocks<T, O> {
    operation: O,
    of: PhantomData<fn(T)>,
}

impl<T, S, R, O> Work<Algorithms, (S, R)> for ReducingToBlocks<T, O>
where
    T: Element,
    S: Send + 'static,
    R: OwnPlace<T, S> + Send + 'static,
    O: Operation<T> + Send + Sync + 'static,
{
    async fn run(self, algorithms: &mut Algorithms, (vector, result): &mut (S, R)) -> Result<()> {
        let (cut, blocks) = result.cut(vector);
        let reductions = match algorithms {
            Algorithms::Here(here) => here.reductions()?,
            Algorithms::Between(nodes) => {
                return Box::pin(nodes.reduce_scatter(cut, blocks, &self.operation)).await;
            }
        };
        let mut parts = Parts::new(reductions.mpb(), cut, blocks)?;
        reductions.run_reduce_scatter(&mut parts, &self.operation).await
    }
}

/// Returns the number of elements in a buffer of blocks, and whether these may differ in length.
fn length_and_kind<T>(all: &mut impl AllBlocksMut<T>) -> (usize, bool) {
    let (all, blocks) = all.all_blocks_mut();
    (all.len(), blocks.may_differ())
}
