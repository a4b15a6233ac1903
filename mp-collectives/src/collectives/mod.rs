//! Collective operations as methods of communicators. All ranks must make the same calls, in the same order.
//!
//! ```
//! use onchip::reduce::{Max, Sum};
//! use onchip::Communicator;
//!
//! onchip::World::threads(4).run(|rank| {
//!     let world = Communicator::world(rank);
//!     let mut weights = if world.rank() == 0 { vec![0.5; 1_000] } else { vec![0.0; 1_000] };
//!     world.broadcast(&mut weights, 0)?;
//!     let mut sum = [weights.iter().sum::<f64>()];
//!     world.all_reduce(&mut sum, Sum)?;
//!     assert_eq!(sum, [2_000.0]);
//!
//!     // The odd and the even ranks have communicators of their own.
//!     let half = world.split(Some(rank.id() as u64 % 2), 0)?.expect("every rank names a color");
//!     let mut greatest = [rank.id()];
//!     half.reduce(&mut greatest, Max, 0)?;
//!     assert!(half.rank() > 0 || greatest == [2 + rank.id()]);
//!     world.barrier()?;
//!     Ok(())
//! })?;
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_Barrier` | [`barrier`](Communicator::barrier) |
//! | `MPI_Ibarrier`, `MPI_Wait` | [`arrive`](Communicator::arrive), [`Arrived::wait`] |
//! | `MPI_Bcast` | [`broadcast`](Communicator::broadcast) |
//! | `MPI_Reduce`, `MPI_Allreduce` with `MPI_IN_PLACE` | [`reduce`](Communicator::reduce), [`all_reduce`](Communicator::all_reduce) |
//! | `MPI_Scan`, `MPI_Exscan` with `MPI_IN_PLACE` | [`scan`](Communicator::scan), [`exclusive_scan`](Communicator::exclusive_scan) |
//! | `MPI_Reduce_scatter_block`, `MPI_Reduce_scatter` | [`reduce_scatter`](Communicator::reduce_scatter) |
//! | `MPI_Gather`, `MPI_Gatherv` | [`gather`](Communicator::gather) |
//! | `MPI_Scatter`, `MPI_Scatterv` | [`scatter`](Communicator::scatter) |
//! | `MPI_Allgather`, `MPI_Allgatherv` | [`all_gather`](Communicator::all_gather) |
//! | `MPI_Alltoall`, `MPI_Alltoallv` | [`all_to_all`](Communicator::all_to_all) |
//! | `MPI_SUM`, `MPI_MAXLOC`, `MPI_Op_create` | [`Sum`](crate::reduce::Sum), [`MaxLocation`](crate::reduce::MaxLocation), any closure: [`Operation`] |
//! | `MPI_Comm_set_info` | [`set_collectives`](Communicator::set_collectives) |
//!
//! Each kind of operation opens [message passing buffers](mp_core::mpb) of the communicator's ranks at its first call.
//! They are closed with the communicator. The [`Settings`] determine how much memory they need and which algorithms
//! they use. [`explain`](Communicator::explain) says which algorithms are chosen, and why; a program can also
//! [listen](crate::CHOICE_TARGET) to learn of each choice.
//!
//! # Several nodes
//! In a communicator whose ranks are on [several nodes](mp_core::Rank::nodes), each node's ranks combine and spread in
//! their memory, and one rank of each node exchanges the rest with those of the others. [`Settings`] that force an algorithm
//! then have no effect, [`explain`](Communicator::explain) tells what the ranks would do on one node, and calls are not
//! [compared](Check). A scan may wait until the node above has received, if it is four pieces of 64 KiB ahead.
//! [Nonblocking operations](Communicator::nonblocking) take the same steps as blocking ones, and [`arrive`](Communicator::arrive)
//! begins a nonblocking barrier of its own. Operations that are opened by a name work on one node only
//! ([`OnAnotherNode`](mp_core::ErrorKind::OnAnotherNode)).
//!
//! # Errors
//! All methods can return the following. [`PeerLost`](mp_core::ErrorKind::PeerLost) when a rank of the communicator was
//! lost that the others could have waited for. [`Disconnected`](mp_core::ErrorKind::Disconnected), or
//! [`PeerEnded`](mp_core::ErrorKind::PeerEnded) with the rank, when such a rank has ended. [`Timeout`](mp_core::ErrorKind::Timeout) where a [limit](Settings::wait) was set.
//! [`NotSent`](mp_core::ErrorKind::NotSent) when a message of this rank could not be sent and no other call has
//! reported it. After these errors this rank is out of step with the others, and the communicator can be used for
//! tagged messages only; the remaining ranks can continue in a [smaller
//! one](crate::communicator::Communicator::shrink). [`Revoked`](mp_core::ErrorKind::Revoked) when any rank has revoked
//! the communicator. [`BadCall`](mp_core::ErrorKind::BadCall) when called inside an operation's closure, or between
//! [`arrive`](Communicator::arrive) and [`wait`](Arrived::wait), for the same kind of operation. With [checks](Check),
//! also [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer) and [`RankMissing`](mp_core::ErrorKind::RankMissing).

mod cache;

use std::cell::RefMut;

use crate::communicator::Communicator;
use mp_core::{Call, Plain, Result};

use self::cache::{Fronts, between, call, failed};
pub use crate::arguments::{AllBlocks, AllBlocksMut, At, InPlace, OwnBlock, OwnPlace, SentBlocks};
use crate::arguments::{Cut, at_root};
use crate::barrier::Barriers;
use crate::broadcast::Broadcasts;
use crate::calls::Kind;
pub use crate::choice::{Machine, Origin, Reason};
pub use crate::communicator::{CHECK_VARIABLE, Check};
use crate::exchange::{Exchanges, all_to_all_blocks};
pub use crate::explanation::{Algorithm, Candidate, Collective, Explanation};
use crate::layout::Blocks;
pub use crate::layout::packed;
use crate::nodes::Nodes;
use crate::nonblocking::{self, CollectiveRequest};
use crate::reduce::{Operation, Prefix, Reductions};
pub use crate::settings::Settings;
use crate::signature;

/// Collective operations: see [`collectives`](crate::collectives).
impl Communicator {
    /// Waits until all ranks have arrived.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors).
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        let signature = |settings: &Settings| signature::barrier("barrier", settings);
        if self.spans_nodes() {
            return between(self, signature, Nodes::barrier);
        }
        call(self, signature, None, Barriers::wait)?;
        Ok(())
    }

    /// Announces that this rank has arrived at a barrier and returns without waiting: the other ranks need not wait for
    /// this rank while it does something else ("fuzzy barrier"). On several nodes, this is a nonblocking operation. If this
    /// rank advances its operations in its calls only, others may have to wait until it makes one.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let arrived = world.arrive()?;
    ///     let sum: u64 = (0..1_000).sum();
    ///     arrived.wait()?;
    ///     Ok(sum)
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [above](crate::collectives#errors).
    #[inline]
    pub fn arrive(&self) -> Result<Arrived<'_>> {
        let signature = |settings: &Settings| signature::barrier("arrive", settings);
        let how = match self.spans_nodes() {
            true => How::Request(nonblocking::arrive(self)?),
            false => How::Barriers(call(self, signature, None, |front: &mut Barriers| {
                front.arrive().map(drop)
            })?),
        };
        Ok(Arrived { communicator: self, how })
    }

    /// Sends the root's message to all ranks. All ranks call this with the same root and length, and have the message
    /// when the call returns. The root's own buffer is only read. The root may change it as soon as its call returns,
    /// which may be before the other calls return.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank) when there is no such
    /// root.
    #[inline]
    pub fn broadcast<T: Plain>(&self, message: &mut [T], root: usize) -> Result<()> {
        let count = message.len();
        let signature =
            |settings: &Settings| signature::broadcast::<T>("broadcast", count, root, settings);
        if self.spans_nodes() {
            return between(self, signature, async |nodes| nodes.broadcast(message, root).await);
        }
        call(self, signature, Some(root), |front: &mut Broadcasts| front.broadcast(message, root))?;
        Ok(())
    }

    /// Combines the vectors of all ranks at the root. All ranks call this with the same length, operation and root. The
    /// root has the result in its vector when its call returns. The contents of the other ranks' vectors are then
    /// unspecified; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank) when there is no such
    /// root. Also fails when the vector is too long for a forced algorithm.
    #[inline]
    pub fn reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        let signature = reduction_signature(vector, &operation, "reduce", Some(root));
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.reduce(vector, &operation, root).await
            });
        }
        call(self, signature, Some(root), |front: &mut Reductions| {
            front.reduce(vector, operation, root)
        })?;
        Ok(())
    }

    /// Does what [`reduce`](Self::reduce) does with the rank's elements in `own`, which are only read. The result is in
    /// the root's `result`, which is as long, when its call returns. At the other ranks, `result` is ignored and may be
    /// empty. This saves them a copy of their elements.
    ///
    /// ```
    /// use onchip::reduce::Sum;
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let (own, mut sums) = ([rank.id(), 1], [0; 2]);
    ///     let room = if rank.id() == 0 { &mut sums[..] } else { &mut [] };
    ///     world.reduce_from(&own, room, Sum, 0)?;
    ///     assert!(rank.id() > 0 || sums == [1, 2]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`reduce`](Self::reduce). Also fails when the root's lengths differ.
    #[inline]
    pub fn reduce_from<T: Plain>(
        &self,
        own: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        let signature = reduction_signature(own, &operation, "reduce", Some(root));
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.reduce_from(own, result, &operation, root).await
            });
        }
        call(self, signature, Some(root), |front: &mut Reductions| {
            front.reduce_from(own, result, operation, root)
        })?;
        Ok(())
    }

    /// Combines the vectors of all ranks. All ranks call this with the same length and operation, and have the result
    /// in their vectors when it returns, with the same bits on every rank.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). Also fails when the vector is too long for a forced algorithm.
    #[inline]
    pub fn all_reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let signature = reduction_signature(vector, &operation, "all_reduce", None);
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.all_reduce(vector, &operation).await
            });
        }
        call(self, signature, None, |front: &mut Reductions| front.all_reduce(vector, operation))?;
        Ok(())
    }

    /// Does what [`all_reduce`](Self::all_reduce) does with the rank's elements in `own`, which are only read. The result
    /// is in `result`, which is as long, when this returns. That takes less time than to copy the elements there first.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Self::all_reduce). Also fails when the lengths differ.
    #[inline]
    pub fn all_reduce_from<T: Plain>(
        &self,
        own: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let signature = reduction_signature(own, &operation, "all_reduce", None);
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.all_reduce_from(own, result, &operation).await
            });
        }
        call(self, signature, None, |front: &mut Reductions| {
            front.all_reduce_from(own, result, operation)
        })?;
        Ok(())
    }

    /// Combines, for each rank, its own vector with those of the ranks below it. All ranks call this with the same
    /// length and operation. A rank's call does not wait for the ranks above it.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Self::all_reduce).
    #[inline]
    pub fn scan<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let signature = reduction_signature(vector, &operation, "scan", None);
        if self.spans_nodes() {
            let prefix = Prefix::Inclusive;
            return between(self, signature, async |nodes| {
                nodes.scan(vector, &operation, prefix).await
            });
        }
        call(self, signature, None, |front: &mut Reductions| front.scan(vector, operation))?;
        Ok(())
    }

    /// Combines, for each rank, the vectors of the ranks below it without its own, as [`scan`](Self::scan) does. Rank
    /// 0's vector stays as it was.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Self::all_reduce).
    #[inline]
    pub fn exclusive_scan<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let signature = reduction_signature(vector, &operation, "exclusive_scan", None);
        if self.spans_nodes() {
            let prefix = Prefix::Exclusive;
            return between(self, signature, async |nodes| {
                nodes.scan(vector, &operation, prefix).await
            });
        }
        call(self, signature, None, |front: &mut Reductions| {
            front.exclusive_scan(vector, operation)
        })?;
        Ok(())
    }

    /// Gathers the blocks of all ranks at the root. All ranks call this with the same number of elements of their own,
    /// unless the root's blocks lie [`At`] ranges of its buffer. When the root's call returns, its `all` holds the
    /// blocks of all ranks, in rank order. At the other ranks, `all` is ignored and may be empty; their calls may
    /// return before the root's. With [`InPlace`], the root's own block is in `all` already, and the buffer of any
    /// other rank is its own block.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank) when there is
    /// no such root. Also fails when the blocks do not fit the buffers.
    #[inline]
    pub fn gather<T: Plain>(
        &self,
        own: impl OwnBlock<T>,
        mut all: impl AllBlocksMut<T>,
        root: usize,
    ) -> Result<()> {
        let (own, (all, blocks)) = (own.own_block(), all.all_blocks_mut());
        let at_root = || at_root(all.len(), (self.rank(), self.size()), root);
        let count = own.map_or_else(at_root, <[T]>::len);
        let signature =
            exchange_signature::<T>(Kind::Gather, blocks.may_differ(), count, Some(root));
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.gather(own, all, blocks, root).await
            });
        }
        call(self, signature, Some(root), |front: &mut Exchanges| {
            front.gather_of(own, all, blocks, root)
        })?;
        Ok(())
    }

    /// Scatters the root's blocks to the ranks, in rank order. All ranks call this with room for the same number of
    /// elements, unless the root's blocks lie [`At`] ranges of its buffer. At the other ranks, `all` is ignored and may
    /// be empty. The root's call may return before the others'. With [`InPlace`], the root's own block stays in `all`,
    /// and the buffer of any other rank receives its own block.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). [`NoSuchRank`](mp_core::ErrorKind::NoSuchRank) when there is
    /// no such root. Also fails when the blocks do not fit the buffers.
    #[inline]
    pub fn scatter<T: Plain, A>(
        &self,
        mut all: A,
        mut own: impl OwnPlace<T, A>,
        root: usize,
    ) -> Result<()> {
        let (cut, blocks) = own.cut(&mut all);
        let count = match &cut {
            Cut::Apart { own, .. } => own.len(),
            Cut::InPlace(all) => at_root(all.len(), (self.rank(), self.size()), root),
        };
        let signature =
            exchange_signature::<T>(Kind::Scatter, blocks.may_differ(), count, Some(root));
        if self.spans_nodes() {
            return between(self, signature, async |nodes| nodes.scatter(cut, blocks, root).await);
        }
        call(self, signature, Some(root), |front: &mut Exchanges| {
            front.scatter_of(cut, blocks, root)
        })?;
        Ok(())
    }

    /// Gathers the blocks of all ranks at every rank. All ranks call this with the same number of elements of their
    /// own, unless the blocks lie [`At`] ranges, of which all ranks know the lengths. When the call returns, `all`
    /// holds the blocks of all ranks, in rank order. With [`InPlace`], each rank's own block is in its place already.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). Also fails when the blocks do not fit the buffers.
    #[inline]
    pub fn all_gather<T: Plain>(
        &self,
        own: impl OwnBlock<T>,
        mut all: impl AllBlocksMut<T>,
    ) -> Result<()> {
        let (own, (all, blocks)) = (own.own_block(), all.all_blocks_mut());
        let count = own.map_or_else(|| all.len() / self.size(), <[T]>::len);
        let signature = exchange_signature::<T>(Kind::AllGather, blocks.may_differ(), count, None);
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.all_gather(own, all, blocks).await
            });
        }
        call(self, signature, None, |front: &mut Exchanges| front.all_gather_of(own, all, blocks))?;
        Ok(())
    }

    /// Exchanges blocks between all ranks: block i of `send` goes to rank i, and block i of `receive` comes from rank
    /// i. All ranks call this with the same number of elements, unless the blocks lie [`At`] ranges. A block sent to a
    /// rank must be as long as the block that the rank expects. With [`InPlace`], the block that comes from rank i
    /// takes the place of the one that goes to rank i.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). Also fails when the blocks do not fit the buffers.
    #[inline]
    pub fn all_to_all<T: Plain>(
        &self,
        send: impl SentBlocks<T>,
        mut receive: impl AllBlocksMut<T>,
    ) -> Result<()> {
        let (sent, received) = (send.sent_blocks(), receive.all_blocks_mut());
        let (count, differ) = all_to_all_blocks(&sent, &received);
        let signature = exchange_signature::<T>(Kind::AllToAll, differ, count, None);
        if differ && self.joint().checks() && !self.spans_nodes() {
            let expected = received.1.ranges(received.0.len(), self.size());
            let sent = sent.as_ref().map(|(all, blocks)| blocks.ranges(all.len(), self.size()));
            Fronts::check_counts(self, signature, sent.as_deref().unwrap_or(&expected), &expected)?;
        }
        if self.spans_nodes() {
            return between(self, signature, async |nodes| nodes.all_to_all(sent, received).await);
        }
        call(self, signature, None, |front: &mut Exchanges| front.all_to_all_of(sent, received))?;
        Ok(())
    }

    /// Combines the vectors of all ranks and leaves one block of the result at each rank. All ranks call this with the
    /// same length and operation, and have the result of their block in `result` when it returns. The blocks lie one
    /// after the other in the vector and are equally long. Elements are combined in rank order.
    ///
    /// The blocks of the vector are equally long, unless they lie [`At`] ranges, the same at all ranks. With
    /// [`InPlace`], the result takes the place of the rank's block (MPI moves it to the front), and everything else
    /// stays as it is.
    ///
    /// # Errors
    /// See [above](crate::collectives#errors). Also fails when the blocks do not fit the buffers.
    #[inline]
    pub fn reduce_scatter<T: Plain, A, O: Operation<T>>(
        &self,
        mut vector: A,
        mut result: impl OwnPlace<T, A>,
        operation: O,
    ) -> Result<()> {
        let (cut, blocks) = result.cut(&mut vector);
        let count = cut.all();
        let signature = move |settings: &Settings| {
            let (kind, ranges) = match blocks {
                Blocks::Equal => (Kind::ReduceScatter, None),
                Blocks::At(ranges) => (Kind::ReduceScatter.varcount(), Some(ranges)),
            };
            signature::reduction::<T, O>(kind.name(), count, None, ranges, settings)
        };
        if self.spans_nodes() {
            return between(self, signature, async |nodes| {
                nodes.reduce_scatter(cut, blocks, &operation).await
            });
        }
        call(self, signature, None, |front: &mut Reductions| {
            front.reduce_scatter_of(cut, blocks, &operation)
        })?;
        Ok(())
    }

    /// Sets how collective operations are done, blocking and nonblocking, from the next call on. All ranks must call
    /// this with the same settings, between the same operations. Waits for the nonblocking operations that were called
    /// before.
    ///
    /// Communicators that are made from this one afterwards, and their own descendants, inherit the settings until
    /// other settings are set for them; existing communicators keep theirs. Settings that depend on the number of ranks
    /// (a barrier's rounds and placement) are inherited only by communicators with the same number of ranks.
    ///
    /// ```
    /// use onchip::collectives::{Check, Settings};
    /// use onchip::reduce::{Order, Sum};
    /// use onchip::{Communicator, ErrorKind};
    ///
    /// onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     // Elements are combined in the order of ranks, whatever their number and the vector's length.
    ///     let order = Order::Ranks;
    ///     world.set_collectives(Settings { order, check: Check::On, ..Default::default() })?;
    ///     let mut sum = vec![0.1; 5 + rank.id() / 2];
    ///     match world.all_reduce(&mut sum, Sum).unwrap_err().kind() {
    ///         ErrorKind::CallsDiffer(calls) => assert_eq!(
    ///             calls.to_string(),
    ///             "rank 2 called all_reduce of 6 f64 with Sum; \
    ///              the others called all_reduce of 5 f64 with Sum"
    ///         ),
    ///         other => panic!("{other:?}"),
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when called inside an operation, or while the value that
    /// [`nonblocking`](Communicator::nonblocking) returned is still kept.
    pub fn set_collectives(&self, settings: Settings) -> Result<()> {
        Fronts::of(self)?.set(self, settings)
    }

    /// Returns how an operation of `bytes` bytes runs, and why: which algorithm is chosen, which others there are, and
    /// what the cache-line-aware model predicts for each. For an operation with a block for each rank, this is the
    /// length of the longest block.
    ///
    /// Before the first call of an operation of this kind, this is what the rank itself would choose. From then on it
    /// is what the ranks have agreed on. The model uses the [calibration](crate::calibration) of this machine, if one
    /// is kept.
    ///
    /// ```
    /// use onchip::Communicator;
    /// use onchip::collectives::{Algorithm, Collective};
    /// use onchip::exchange::Way;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let gather = world.explain(Collective::Gather, 8)?;
    ///     assert_eq!(gather.algorithm, Algorithm::Exchange(Way::Lines));
    ///     if rank.id() == 0 {
    ///         println!("{gather}");
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when called inside an operation of this kind.
    pub fn explain(&self, collective: Collective, bytes: usize) -> Result<Explanation> {
        Fronts::of(self)?.explain(self, collective, bytes)
    }
}

/// Describes an exchange for the comparison of calls.
#[inline(always)]
fn exchange_signature<T: Plain>(
    kind: Kind,
    blocks_differ: bool,
    count: usize,
    root: Option<usize>,
) -> impl Fn(&Settings) -> Call + Copy {
    move |settings| {
        let (kind, count) = match blocks_differ {
            false => (kind, Some(count)),
            true => (kind.varcount(), None),
        };
        signature::exchange::<T>(kind.name(), count, root, settings)
    }
}

/// Describes a reduction for the comparison of calls.
#[inline(always)]
fn reduction_signature<T: Plain, O>(
    vector: &[T],
    _: &O,
    name: &'static str,
    root: Option<usize>,
) -> impl FnOnce(&Settings) -> Call + use<T, O> {
    let count = vector.len();
    move |settings| signature::reduction::<T, O>(name, count, root, None, settings)
}

/// A barrier at which this rank has arrived and for which it has yet to wait. If the value is dropped, the rank's next
/// barrier waits for this one first; on several nodes, the end of the communicator does.
#[must_use = "nobody has waited yet"]
pub struct Arrived<'a> {
    communicator: &'a Communicator,
    how: How<'a>,
}

/// What waits for the other ranks.
enum How<'a> {
    Barriers(RefMut<'a, Option<Barriers>>),
    /// Of ranks on several nodes.
    Request(CollectiveRequest<()>),
}

impl Arrived<'_> {
    /// Waits until all ranks have arrived.
    ///
    /// # Errors
    /// The same as for [`Communicator::barrier`].
    #[inline]
    pub fn wait(self) -> Result<()> {
        let waited = match self.how {
            How::Barriers(mut barriers) => barriers.as_mut().map_or(Ok(()), Barriers::wait),
            How::Request(request) => {
                let fronts = Fronts::of(self.communicator)?;
                let waited = request.wait().map_err(|failed| failed.error);
                return waited.inspect_err(|error| fronts.leave_after(error));
            }
        };
        waited.map_err(|error| failed(self.communicator, error))
    }
}

impl std::fmt::Debug for Arrived<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrived").field("communicator", self.communicator).finish_non_exhaustive()
    }
}
