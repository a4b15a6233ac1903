//! Collective operations as methods of communicators.

mod kept;
mod settings;

use std::cell::RefMut;
use std::ops::Range;

use crate::communicator::{Call, Communicator, Result};
use mp_core::Plain;

use self::kept::{Fronts, call, failed};
pub use self::settings::{CHECK_VARIABLE, Check, Settings};
use crate::barrier::Barriers;
use crate::broadcast::Broadcasts;
use crate::exchange::Exchanges;
use crate::reduce::{Operation, Reductions};
use crate::said;

/// The collective operations of a communicator. All ranks must make the same calls, in the same order.
///
/// ```
/// use onchip::collectives::Collectives;
/// use onchip::reduce::{Max, Sum};
/// use onchip::Communicator;
///
/// onchip::World::threads(4).run(|rank| {
///     let world = Communicator::world(rank);
///     let mut weights = if world.rank() == 0 { vec![0.5; 1_000] } else { vec![0.0; 1_000] };
///     world.broadcast(&mut weights, 0)?;
///     let mut sum = [weights.iter().sum::<f64>()];
///     world.all_reduce(&mut sum, Sum)?;
///     assert_eq!(sum, [2_000.0]);
///
///     // The odd and the even ranks by themselves.
///     let half = world.split(Some(rank.id() as u64 % 2), 0)?.expect("a color was named");
///     let mut greatest = [rank.id()];
///     half.reduce(&mut greatest, Max, 0)?;
///     assert!(half.rank() > 0 || greatest == [2 + rank.id()]);
///     world.barrier()?;
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// | MPI | here |
/// |---|---|
/// | `MPI_Barrier` | [`barrier`](Self::barrier) |
/// | `MPI_Ibarrier`, `MPI_Wait` | [`arrive`](Self::arrive), [`Arrived::wait`] |
/// | `MPI_Bcast` | [`broadcast`](Self::broadcast) |
/// | `MPI_Reduce`, `MPI_Allreduce` with `MPI_IN_PLACE` | [`reduce`](Self::reduce), [`all_reduce`](Self::all_reduce) |
/// | `MPI_Scan`, `MPI_Exscan` with `MPI_IN_PLACE` | [`scan`](Self::scan), [`exclusive_scan`](Self::exclusive_scan) |
/// | `MPI_Reduce_scatter_block`, `MPI_Reduce_scatter` | [`reduce_scatter`](Self::reduce_scatter), [`_varying`](Self::reduce_scatter_varying), [`_in_place`](Self::reduce_scatter_in_place) |
/// | `MPI_Gather`, `MPI_Gatherv` | [`gather`](Self::gather), [`_varying`](Self::gather_varying), [`_in_place`](Self::gather_in_place) |
/// | `MPI_Scatter`, `MPI_Scatterv` | [`scatter`](Self::scatter), [`_varying`](Self::scatter_varying), [`_in_place`](Self::scatter_in_place) |
/// | `MPI_Allgather`, `MPI_Allgatherv` | [`all_gather`](Self::all_gather), [`_varying`](Self::all_gather_varying), [`_in_place`](Self::all_gather_in_place) |
/// | `MPI_Alltoall`, `MPI_Alltoallv` | [`all_to_all`](Self::all_to_all), [`_varying`](Self::all_to_all_varying), [`_in_place`](Self::all_to_all_in_place) |
/// | `MPI_SUM`, `MPI_MAXLOC`, `MPI_Op_create` | [`Sum`](crate::reduce::Sum), [`MaxLocation`](crate::reduce::MaxLocation), any closure: [`Operation`] |
/// | `MPI_Comm_set_info` | [`set_collectives`](Self::set_collectives) |
///
/// Each kind of operation opens [message passing buffers](mp_core::mpb) of the communicator's ranks at its first call;
/// they are closed with the communicator. The [`Settings`] determine how much memory they need and which algorithms
/// they use. A program can [listen](crate::CHOICE_TARGET) to learn which algorithms were chosen.
///
/// # Errors
/// All methods can return the following. [`PeerLost`](crate::communicator::ErrorKind::PeerLost) when a rank of the communicator was
/// lost that the others could have waited for. [`World`](crate::communicator::ErrorKind::World) with
/// [`Disconnected`](mp_core::ErrorKind::Disconnected) when such a rank has ended, or with
/// [`Timeout`](mp_core::ErrorKind::Timeout) where a [limit](Settings::wait) was set.
/// [`Unsent`](crate::communicator::ErrorKind::Unsent) when a message of this rank could not be sent and no other call has reported
/// it. After these errors this rank is out of step with the others, and the communicator can be used for tagged
/// messages only; the remaining ranks can continue in a [smaller one](crate::communicator::Communicator::shrink).
/// [`Revoked`](crate::communicator::ErrorKind::Revoked) when any rank has revoked the communicator.
/// [`Misuse`](crate::communicator::ErrorKind::Misuse) when called inside an operation's closure, or between
/// [`arrive`](Self::arrive) and [`wait`](Arrived::wait), for the same kind of operation. With [checks](Check), also
/// [`CallsDiffer`](crate::communicator::ErrorKind::CallsDiffer) and [`NotCome`](crate::communicator::ErrorKind::NotCome).
pub trait Collectives {
    /// Waits until all ranks have arrived.
    ///
    /// # Errors
    /// See [above](Self#errors).
    fn barrier(&self) -> Result<()>;

    /// Announces that this rank has arrived at a barrier and returns without waiting: the other ranks need not wait for
    /// this rank while it does something else ("fuzzy barrier").
    ///
    /// ```
    /// use onchip::collectives::Collectives;
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
    /// See [above](Self#errors).
    fn arrive(&self) -> Result<Arrived<'_>>;

    /// Sends the root's message to all ranks. All ranks call this with the same root and length, and have the message
    /// when the call returns. The root's own buffer is only read. The root may change it as soon as its call returns,
    /// which may be before the other calls return.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root.
    fn broadcast<T: Plain>(&self, message: &mut [T], root: usize) -> Result<()>;

    /// Combines the vectors of all ranks at the root. All ranks call this with the same length, operation and root. The
    /// root has the result in its vector when its call returns. The contents of the other ranks' vectors are then
    /// unspecified; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the vector is too long for a forced algorithm.
    fn reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()>;

    /// Combines the vectors of all ranks. All ranks call this with the same length and operation, and have the result
    /// in their vectors when it returns, with the same bits on every rank.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the vector is too long for a forced algorithm.
    fn all_reduce<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()>;

    /// Combines, for each rank, its own vector with those of the ranks below it. All ranks call this with the same
    /// length and operation. A rank's call does not wait for the ranks above it.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Self::all_reduce).
    fn scan<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()>;

    /// Combines, for each rank, the vectors of the ranks below it without its own, as [`scan`](Self::scan) does. Rank
    /// 0's vector stays as it was.
    ///
    /// # Errors
    /// The same as for [`all_reduce`](Self::all_reduce).
    fn exclusive_scan<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// Gathers the blocks of all ranks at the root. All ranks call this with the same number of elements of their own.
    /// When the root's call returns, its `all` holds the blocks of all ranks, in rank order. At the other ranks, `all`
    /// is ignored and may be empty; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn gather<T: Plain>(&self, own: &[T], all: &mut [T], root: usize) -> Result<()>;

    /// Does what [`gather`](Self::gather) does, for blocks that may differ in length. The root gives the places of the
    /// blocks in its `all` as ranges of elements ([`packed`](crate::exchange::packed) makes ranges from counts). `all`
    /// and `blocks` are ignored at the other ranks.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn gather_varying<T: Plain>(
        &self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()>;

    /// Does what [`gather`](Self::gather) does, with one buffer. The root's buffer has room for the blocks of all ranks
    /// and already holds the root's own block in its place. The buffer of any other rank is its own block, which is
    /// only read.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn gather_in_place<T: Plain>(&self, buffer: &mut [T], root: usize) -> Result<()>;

    /// Does what [`gather_in_place`](Self::gather_in_place) does, for blocks that may differ in length. The root gives
    /// their places in its buffer.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn gather_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()>;

    /// Scatters the root's blocks to the ranks, in rank order. All ranks call this with room for the same number of
    /// elements. At the other ranks, `all` is ignored and may be empty. The root's call may return before the others'.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn scatter<T: Plain>(&self, all: &[T], own: &mut [T], root: usize) -> Result<()>;

    /// Does what [`scatter`](Self::scatter) does, for blocks that may differ in length. The root gives their places in
    /// its `all`; `all` and `blocks` are ignored at the other ranks.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn scatter_varying<T: Plain>(
        &self,
        all: &[T],
        blocks: &[Range<usize>],
        own: &mut [T],
        root: usize,
    ) -> Result<()>;

    /// Does what [`scatter`](Self::scatter) does, with one buffer. The root's buffer holds the blocks of all ranks; it
    /// is only read, and the root's own block stays in it. The buffer of any other rank receives its own block.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn scatter_in_place<T: Plain>(&self, buffer: &mut [T], root: usize) -> Result<()>;

    /// Does what [`scatter_in_place`](Self::scatter_in_place) does, for blocks that may differ in length. The root
    /// gives their places in its buffer.
    ///
    /// # Errors
    /// See [above](Self#errors). [`NoSuchRank`](crate::communicator::ErrorKind::NoSuchRank) when there is no such root. Also fails
    /// when the blocks do not fit the buffers.
    fn scatter_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()>;

    /// Gathers the blocks of all ranks at every rank. All ranks call this with the same number of elements of their
    /// own. When the call returns, `all` holds the blocks of all ranks, in rank order.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_gather<T: Plain>(&self, own: &[T], all: &mut [T]) -> Result<()>;

    /// Does what [`all_gather`](Self::all_gather) does, for blocks that may differ in length. Each rank gives their
    /// places in its `all`; all ranks know the length of each block.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_gather_varying<T: Plain>(
        &self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()>;

    /// Does what [`all_gather`](Self::all_gather) does, with each rank's own block already in its place.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_gather_in_place<T: Plain>(&self, all: &mut [T]) -> Result<()>;

    /// Does what [`all_gather_varying`](Self::all_gather_varying) does, with each rank's own block already in its
    /// place.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_gather_in_place_varying<T: Plain>(
        &self,
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()>;

    /// Exchanges blocks between all ranks: block i of `send` goes to rank i, and block i of `receive` comes from rank
    /// i. All ranks call this with the same number of elements.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_to_all<T: Plain>(&self, send: &[T], receive: &mut [T]) -> Result<()>;

    /// Does what [`all_to_all`](Self::all_to_all) does, for blocks that may differ in length. Each rank gives their
    /// places in its buffers. A block sent to a rank must be as long as the block that the rank expects.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_to_all_varying<T: Plain>(
        &self,
        send: &[T],
        send_blocks: &[Range<usize>],
        receive: &mut [T],
        receive_blocks: &[Range<usize>],
    ) -> Result<()>;

    /// Does what [`all_to_all`](Self::all_to_all) does, with one buffer: block i goes to rank i, and the block that
    /// comes from rank i takes its place.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_to_all_in_place<T: Plain>(&self, buffer: &mut [T]) -> Result<()>;

    /// Does what [`all_to_all_in_place`](Self::all_to_all_in_place) does, for blocks that may differ in length. The
    /// blocks that two ranks have for each other are equally long.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn all_to_all_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()>;

    /// Combines the vectors of all ranks and leaves one block of the result at each rank. All ranks call this with the
    /// same length and operation, and have the result of their block in `result` when it returns. The blocks lie one
    /// after the other in the vector and are equally long. Elements are combined in rank order.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn reduce_scatter<T: Plain>(
        &self,
        vector: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// Does what [`reduce_scatter`](Self::reduce_scatter) does, for blocks that may differ in length. Each block is a
    /// range of the vector, the same at all ranks.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn reduce_scatter_varying<T: Plain>(
        &self,
        vector: &[T],
        blocks: &[Range<usize>],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// Does what [`reduce_scatter`](Self::reduce_scatter) does, with one buffer: the result takes the place of the
    /// rank's block (MPI moves it to the front), and everything else stays as it is.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn reduce_scatter_in_place<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// Does what [`reduce_scatter_in_place`](Self::reduce_scatter_in_place) does, for blocks that may differ in length.
    ///
    /// # Errors
    /// See [above](Self#errors). Also fails when the blocks do not fit the buffers.
    fn reduce_scatter_in_place_varying<T: Plain>(
        &self,
        vector: &mut [T],
        blocks: &[Range<usize>],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// Sets how collective operations are done, from the next call on. All ranks must call this with the same settings,
    /// between the same operations.
    ///
    /// Communicators that are made from this one afterwards, and their own descendants, inherit the settings until
    /// other settings are set for them; existing communicators keep theirs. Settings that depend on the number of ranks
    /// (a barrier's rounds and placement) are inherited only by communicators with the same number of ranks. A
    /// broadcast's degree is limited to the greatest possible.
    ///
    /// ```
    /// use onchip::collectives::{Check, Collectives, Settings};
    /// use onchip::reduce::{self, AllReduce, Order, Sum};
    /// use onchip::communicator::{Communicator, ErrorKind};
    ///
    /// onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     // In the order of ranks, whatever their number and the vector's length.
    ///     let reduce = reduce::Settings { order: Order::Ranks, ..Default::default() };
    ///     world.set_collectives(Settings { reduce, check: Check::On, ..Default::default() })?;
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
    /// [`Misuse`](crate::communicator::ErrorKind::Misuse) when called inside an operation.
    fn set_collectives(&self, settings: Settings) -> Result<()>;
}

impl Collectives for Communicator {
    #[inline]
    fn barrier(&self) -> Result<()> {
        let told = |settings: &Settings| said::barrier("barrier", &settings.barrier);
        call(self, told, None, Barriers::wait)?;
        Ok(())
    }

    #[inline]
    fn arrive(&self) -> Result<Arrived<'_>> {
        let told = |settings: &Settings| said::barrier("arrive", &settings.barrier);
        let barriers = call(self, told, None, |front: &mut Barriers| front.arrive().map(drop))?;
        Ok(Arrived { communicator: self, barriers })
    }

    #[inline]
    fn broadcast<T: Plain>(&self, message: &mut [T], root: usize) -> Result<()> {
        let count = message.len();
        let told = |settings: &Settings| {
            said::broadcast::<T>("broadcast", count, root, &settings.broadcast)
        };
        call(self, told, Some(root), |front: &mut Broadcasts| front.broadcast(message, root))?;
        Ok(())
    }

    #[inline]
    fn reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        let told = told_of(vector, &operation, "reduce", Some(root));
        call(self, told, Some(root), |front: &mut Reductions| {
            front.reduce(vector, operation, root)
        })?;
        Ok(())
    }

    #[inline]
    fn all_reduce<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let told = told_of(vector, &operation, "all_reduce", None);
        call(self, told, None, |front: &mut Reductions| front.all_reduce(vector, operation))?;
        Ok(())
    }

    #[inline]
    fn scan<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let told = told_of(vector, &operation, "scan", None);
        call(self, told, None, |front: &mut Reductions| front.scan(vector, operation))?;
        Ok(())
    }

    #[inline]
    fn exclusive_scan<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let told = told_of(vector, &operation, "exclusive_scan", None);
        call(self, told, None, |front: &mut Reductions| front.exclusive_scan(vector, operation))?;
        Ok(())
    }

    #[inline]
    fn gather<T: Plain>(&self, own: &[T], all: &mut [T], root: usize) -> Result<()> {
        let told = exchange_told::<T>("gather", Some(own.len()), Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| front.gather(own, all, root))?;
        Ok(())
    }

    #[inline]
    fn gather_varying<T: Plain>(
        &self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()> {
        let told = exchange_told::<T>("gather_varying", None, Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| {
            front.gather_varying(own, all, blocks, root)
        })?;
        Ok(())
    }

    #[inline]
    fn gather_in_place<T: Plain>(&self, buffer: &mut [T], root: usize) -> Result<()> {
        let told = exchange_told::<T>("gather", Some(at_root(self, buffer, root)), Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| front.gather_in_place(buffer, root))?;
        Ok(())
    }

    #[inline]
    fn gather_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()> {
        let told = exchange_told::<T>("gather_varying", None, Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| {
            front.gather_in_place_varying(buffer, blocks, root)
        })?;
        Ok(())
    }

    #[inline]
    fn scatter<T: Plain>(&self, all: &[T], own: &mut [T], root: usize) -> Result<()> {
        let told = exchange_told::<T>("scatter", Some(own.len()), Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| front.scatter(all, own, root))?;
        Ok(())
    }

    #[inline]
    fn scatter_varying<T: Plain>(
        &self,
        all: &[T],
        blocks: &[Range<usize>],
        own: &mut [T],
        root: usize,
    ) -> Result<()> {
        let told = exchange_told::<T>("scatter_varying", None, Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| {
            front.scatter_varying(all, blocks, own, root)
        })?;
        Ok(())
    }

    #[inline]
    fn scatter_in_place<T: Plain>(&self, buffer: &mut [T], root: usize) -> Result<()> {
        let told = exchange_told::<T>("scatter", Some(at_root(self, buffer, root)), Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| front.scatter_in_place(buffer, root))?;
        Ok(())
    }

    #[inline]
    fn scatter_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()> {
        let told = exchange_told::<T>("scatter_varying", None, Some(root));
        call(self, told, Some(root), |front: &mut Exchanges| {
            front.scatter_in_place_varying(buffer, blocks, root)
        })?;
        Ok(())
    }

    #[inline]
    fn all_gather<T: Plain>(&self, own: &[T], all: &mut [T]) -> Result<()> {
        let told = exchange_told::<T>("all_gather", Some(own.len()), None);
        call(self, told, None, |front: &mut Exchanges| front.all_gather(own, all))?;
        Ok(())
    }

    #[inline]
    fn all_gather_varying<T: Plain>(
        &self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        let told = exchange_told::<T>("all_gather_varying", None, None);
        call(self, told, None, |front: &mut Exchanges| front.all_gather_varying(own, all, blocks))?;
        Ok(())
    }

    #[inline]
    fn all_gather_in_place<T: Plain>(&self, all: &mut [T]) -> Result<()> {
        let told = exchange_told::<T>("all_gather", Some(all.len() / self.size()), None);
        call(self, told, None, |front: &mut Exchanges| front.all_gather_in_place(all))?;
        Ok(())
    }

    #[inline]
    fn all_gather_in_place_varying<T: Plain>(
        &self,
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        let told = exchange_told::<T>("all_gather_varying", None, None);
        call(self, told, None, |front: &mut Exchanges| {
            front.all_gather_in_place_varying(all, blocks)
        })?;
        Ok(())
    }

    #[inline]
    fn all_to_all<T: Plain>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        let told = exchange_told::<T>("all_to_all", Some(send.len()), None);
        call(self, told, None, |front: &mut Exchanges| front.all_to_all(send, receive))?;
        Ok(())
    }

    #[inline]
    fn all_to_all_varying<T: Plain>(
        &self,
        send: &[T],
        send_blocks: &[Range<usize>],
        receive: &mut [T],
        receive_blocks: &[Range<usize>],
    ) -> Result<()> {
        if self.joint().checks() {
            let told = all_to_all_told::<T>;
            Fronts::check_counts(self, told, send_blocks, receive_blocks)?;
        }
        call(self, all_to_all_told::<T>, None, |front: &mut Exchanges| {
            front.all_to_all_varying(send, send_blocks, receive, receive_blocks)
        })?;
        Ok(())
    }

    #[inline]
    fn all_to_all_in_place<T: Plain>(&self, buffer: &mut [T]) -> Result<()> {
        let told = exchange_told::<T>("all_to_all", Some(buffer.len()), None);
        call(self, told, None, |front: &mut Exchanges| front.all_to_all_in_place(buffer))?;
        Ok(())
    }

    #[inline]
    fn all_to_all_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        if self.joint().checks() {
            Fronts::check_counts(self, all_to_all_told::<T>, blocks, blocks)?;
        }
        call(self, all_to_all_told::<T>, None, |front: &mut Exchanges| {
            front.all_to_all_in_place_varying(buffer, blocks)
        })?;
        Ok(())
    }

    #[inline]
    fn reduce_scatter<T: Plain>(
        &self,
        vector: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let told = told_of(vector, &operation, "reduce_scatter", None);
        call(self, told, None, |front: &mut Reductions| {
            front.reduce_scatter(vector, result, operation)
        })?;
        Ok(())
    }

    #[inline]
    fn reduce_scatter_varying<T: Plain>(
        &self,
        vector: &[T],
        blocks: &[Range<usize>],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let told = varying_told(vector, &operation, blocks);
        call(self, told, None, |front: &mut Reductions| {
            front.reduce_scatter_varying(vector, blocks, result, operation)
        })?;
        Ok(())
    }

    #[inline]
    fn reduce_scatter_in_place<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let told = told_of(vector, &operation, "reduce_scatter", None);
        call(self, told, None, |front: &mut Reductions| {
            front.reduce_scatter_in_place(vector, operation)
        })?;
        Ok(())
    }

    #[inline]
    fn reduce_scatter_in_place_varying<T: Plain>(
        &self,
        vector: &mut [T],
        blocks: &[Range<usize>],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let told = varying_told(vector, &operation, blocks);
        call(self, told, None, |front: &mut Reductions| {
            front.reduce_scatter_in_place_varying(vector, blocks, operation)
        })?;
        Ok(())
    }

    fn set_collectives(&self, settings: Settings) -> Result<()> {
        Fronts::of(self)?.set(self, settings)
    }
}

/// Returns the number of elements in a block, where only the root's buffer has room for the blocks of all ranks.
fn at_root<T>(of: &Communicator, buffer: &[T], root: usize) -> usize {
    if of.rank() == root { buffer.len() / of.size() } else { buffer.len() }
}

/// Describes an exchange for the comparison of calls.
#[inline(always)]
fn exchange_told<T: Plain>(
    name: &'static str,
    count: Option<usize>,
    root: Option<usize>,
) -> impl FnOnce(&Settings) -> Call {
    move |settings| said::exchange::<T>(name, count, root, &settings.exchange)
}

/// Describes an exchange in which each rank specifies how much it sends and expects.
fn all_to_all_told<T: Plain>(settings: &Settings) -> Call {
    said::exchange::<T>("all_to_all_varying", None, None, &settings.exchange)
}

/// Describes a reduction for the comparison of calls.
#[inline(always)]
fn told_of<T: Plain, O>(
    vector: &[T],
    _: &O,
    name: &'static str,
    root: Option<usize>,
) -> impl FnOnce(&Settings) -> Call + use<T, O> {
    let count = vector.len();
    move |settings| said::reduction::<T, O>(name, count, root, None, &settings.reduce)
}

/// Describes a reduction to blocks of different lengths.
#[inline(always)]
fn varying_told<'a, T: Plain, O>(
    vector: &[T],
    _: &O,
    blocks: &'a [Range<usize>],
) -> impl FnOnce(&Settings) -> Call + use<'a, T, O> {
    let (name, count) = ("reduce_scatter_varying", vector.len());
    move |settings| said::reduction::<T, O>(name, count, None, Some(blocks), &settings.reduce)
}

/// A barrier at which this rank has arrived and for which it has yet to wait. If it does not wait, its next barrier
/// waits for this one.
#[must_use = "nobody has waited yet"]
pub struct Arrived<'a> {
    communicator: &'a Communicator,
    barriers: RefMut<'a, Option<Barriers>>,
}

impl Arrived<'_> {
    /// Waits until all ranks have arrived.
    ///
    /// # Errors
    /// The same as for [`Collectives::barrier`].
    #[inline]
    pub fn wait(mut self) -> Result<()> {
        match &mut *self.barriers {
            Some(barriers) => {
                let waited = barriers.wait();
                drop(self.barriers);
                waited.map_err(|error| failed(self.communicator, error))
            }
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Arrived<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrived").field("communicator", self.communicator).finish_non_exhaustive()
    }
}
