//! Collective operations as methods of communicators.

mod kept;
mod settings;

use std::cell::RefMut;
use std::ops::Range;

use mp_comm::{Call, Communicator, Result};
use mp_core::Plain;

use self::kept::{Fronts, call, failed};
pub use self::settings::{CHECK_VARIABLE, Check, Settings};
use crate::barrier::Barriers;
use crate::broadcast::Broadcasts;
use crate::exchange::Exchanges;
use crate::reduce::{Operation, Reductions};
use crate::said;

/// What all ranks of a communicator call together. Each must make the same calls, in the same order.
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
/// Each kind of operation opens [message passing buffers](mp_core::mpb) of the communicator's ranks when
/// it is called first; they are closed with the communicator. What they need of memory, and which
/// algorithms they take, the [`Settings`] say; whoever wants to know of the choices
/// [listens](crate::CHOICE_TARGET).
///
/// # Errors
/// Of all methods: [`PeerLost`](mp_comm::ErrorKind::PeerLost) when a rank of the communicator was lost that the
/// others could have waited for, and [`World`](mp_comm::ErrorKind::World) with
/// [`Disconnected`](mp_core::ErrorKind::Disconnected) when one has ended that does, with
/// [`Timeout`](mp_core::ErrorKind::Timeout) where a [limit](Settings::wait) was set.
/// [`Unsent`](mp_comm::ErrorKind::Unsent) when a message of this rank could not be sent and no other call has said
/// so. After these this rank is out of step with the others, and the communicator good for tagged messages alone:
/// those that are left go on in a [smaller one](mp_comm::Communicator::shrink).
/// [`Revoked`](mp_comm::ErrorKind::Revoked) when any rank has revoked it. [`Misuse`](mp_comm::ErrorKind::Misuse)
/// inside of an operation's closure, or between [`arrive`](Self::arrive) and [`wait`](Arrived::wait), for the same
/// kind of operation. With [checks](Check) also [`CallsDiffer`](mp_comm::ErrorKind::CallsDiffer) and
/// [`NotCome`](mp_comm::ErrorKind::NotCome).
pub trait Collectives {
    /// Waits until all ranks have come.
    ///
    /// # Errors
    /// See [above](Self#errors).
    fn barrier(&self) -> Result<()>;

    /// Says that this rank has come to a barrier, and waits for nobody: the others need not wait for it
    /// while it does something else ("fuzzy barrier").
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

    /// The root's message goes to all: all ranks call this with the same root and length, and have the
    /// message when it returns. The root's own is only read, and may be changed as soon as its call
    /// returns, which need not be after the others'.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank).
    fn broadcast<T: Plain>(&self, message: &mut [T], root: usize) -> Result<()>;

    /// Combines the vectors of all ranks for one: all call this with the same length, operation and
    /// root, which has the result in its vector when the call returns. What is in the others' then is
    /// not determined; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); vectors too long for a forced
    /// algorithm.
    fn reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()>;

    /// Combines the vectors of all ranks: all call this with the same length and operation, and have
    /// the result in their vectors when it returns, the same bits.
    ///
    /// # Errors
    /// See [above](Self#errors); vectors too long for a forced algorithm.
    fn all_reduce<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()>;

    /// Combines, for each rank, the vectors of the ranks below it and its own: all call this with the
    /// same length and operation. A rank's call does not wait for those above it.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    fn scan<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()>;

    /// Combines, for each rank, the vectors of the ranks below it, without its own, as
    /// [`scan`](Self::scan) does. Rank 0's vector stays as it was.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    fn exclusive_scan<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// Gathers the blocks of all ranks at the root: all call this with as many elements of their own. The
    /// root's `all` has those of all when its call returns, in the order of ranks; the others' is not looked
    /// at, and may be empty. Their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn gather<T: Plain>(&self, own: &[T], all: &mut [T], root: usize) -> Result<()>;

    /// [`gather`](Self::gather) of blocks that need not be equally long. The root says where they are to be in
    /// its `all`, as ranges of elements ([`packed`](crate::exchange::packed) makes those of counts); at other ranks
    /// neither is looked at.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn gather_varying<T: Plain>(
        &self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()>;

    /// [`gather`](Self::gather) with one buffer: the root's is for the blocks of all, and has its own in its
    /// place; that of another rank is its own block, which is only read.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn gather_in_place<T: Plain>(&self, buffer: &mut [T], root: usize) -> Result<()>;

    /// [`gather_in_place`](Self::gather_in_place) of blocks that need not be equally long. The root says where
    /// they are in its buffer.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn gather_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()>;

    /// Scatters the root's blocks, in the order of ranks: all call this with room for as many elements of
    /// their own. The others' `all` is not looked at, and may be empty. The root's call may return before the
    /// others'.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn scatter<T: Plain>(&self, all: &[T], own: &mut [T], root: usize) -> Result<()>;

    /// [`scatter`](Self::scatter) of blocks that need not be equally long. The root says where they are in its
    /// `all`; at other ranks neither is looked at.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn scatter_varying<T: Plain>(
        &self,
        all: &[T],
        blocks: &[Range<usize>],
        own: &mut [T],
        root: usize,
    ) -> Result<()>;

    /// [`scatter`](Self::scatter) with one buffer: the root's has the blocks of all, is only read, and keeps
    /// its own; that of another rank is for its own block.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn scatter_in_place<T: Plain>(&self, buffer: &mut [T], root: usize) -> Result<()>;

    /// [`scatter_in_place`](Self::scatter_in_place) of blocks that need not be equally long. The root says
    /// where they are in its buffer.
    ///
    /// # Errors
    /// See [above](Self#errors); [`NoSuchRank`](mp_comm::ErrorKind::NoSuchRank); blocks that do not fit the buffers.
    fn scatter_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
        root: usize,
    ) -> Result<()>;

    /// Gathers the blocks of all ranks at all: each calls this with as many elements of its own, and has
    /// those of all in `all` when the call returns, in the order of ranks.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_gather<T: Plain>(&self, own: &[T], all: &mut [T]) -> Result<()>;

    /// [`all_gather`](Self::all_gather) of blocks that need not be equally long. Each rank says where they are
    /// to be in its `all`; how long each is, all know.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_gather_varying<T: Plain>(
        &self,
        own: &[T],
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()>;

    /// [`all_gather`](Self::all_gather) with each rank's own block in its place already.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_gather_in_place<T: Plain>(&self, all: &mut [T]) -> Result<()>;

    /// [`all_gather_varying`](Self::all_gather_varying) with each rank's own block in its place already.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_gather_in_place_varying<T: Plain>(
        &self,
        all: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()>;

    /// Exchanges blocks between all ranks: block i of `send` goes to rank i, and block i of `receive` comes
    /// from there. All call this with as many elements.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_to_all<T: Plain>(&self, send: &[T], receive: &mut [T]) -> Result<()>;

    /// [`all_to_all`](Self::all_to_all) of blocks that need not be equally long. Each rank says where they are
    /// in its buffers; a block for a rank is as long as the one that it expects.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_to_all_varying<T: Plain>(
        &self,
        send: &[T],
        send_blocks: &[Range<usize>],
        receive: &mut [T],
        receive_blocks: &[Range<usize>],
    ) -> Result<()>;

    /// [`all_to_all`](Self::all_to_all) with one buffer: block i goes to rank i, and what comes from there
    /// takes its place.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_to_all_in_place<T: Plain>(&self, buffer: &mut [T]) -> Result<()>;

    /// [`all_to_all_in_place`](Self::all_to_all_in_place) of blocks that need not be equally long: of any two
    /// ranks, each has as many elements for the other.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn all_to_all_in_place_varying<T: Plain>(
        &self,
        buffer: &mut [T],
        blocks: &[Range<usize>],
    ) -> Result<()>;

    /// Combines the vectors of all ranks, a block for each: all call this with the same length and operation,
    /// and have the result of their block in `result` when it returns. The blocks lie one after the other in
    /// the vector, equally long. The order is that of ranks.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn reduce_scatter<T: Plain>(
        &self,
        vector: &[T],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// [`reduce_scatter`](Self::reduce_scatter) of blocks that need not be equally long: each is a range of
    /// the vector, the same at all ranks.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn reduce_scatter_varying<T: Plain>(
        &self,
        vector: &[T],
        blocks: &[Range<usize>],
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// [`reduce_scatter`](Self::reduce_scatter) with one buffer: the result takes the place of the rank's
    /// block (MPI moves it to the front), and all else stays as it is.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn reduce_scatter_in_place<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// [`reduce_scatter_in_place`](Self::reduce_scatter_in_place) of blocks that need not be equally long.
    ///
    /// # Errors
    /// See [above](Self#errors); blocks that do not fit the buffers.
    fn reduce_scatter_in_place_varying<T: Plain>(
        &self,
        vector: &mut [T],
        blocks: &[Range<usize>],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// How all this is to be done from the next call on. All ranks must call it with the same settings,
    /// between the same operations.
    ///
    /// Communicators that are made of this one afterwards, and of those, have the same settings until they
    /// are told otherwise; those that there are already keep theirs. What is for a number of ranks goes no
    /// further than to communicators of as many: a barrier's rounds and placement; a broadcast's degree is
    /// at most the greatest possible.
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
    /// [`Misuse`](mp_comm::ErrorKind::Misuse) inside of an operation.
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

/// Elements of a block where the root's buffer is for those of all.
fn at_root<T>(of: &Communicator, buffer: &[T], root: usize) -> usize {
    if of.rank() == root { buffer.len() / of.size() } else { buffer.len() }
}

/// What is told of an exchange.
#[inline(always)]
fn exchange_told<T: Plain>(
    name: &'static str,
    count: Option<usize>,
    root: Option<usize>,
) -> impl FnOnce(&Settings) -> Call {
    move |settings| said::exchange::<T>(name, count, root, &settings.exchange)
}

/// What is told of an exchange of which each rank says how much it sends and expects.
fn all_to_all_told<T: Plain>(settings: &Settings) -> Call {
    said::exchange::<T>("all_to_all_varying", None, None, &settings.exchange)
}

/// What is told of a reduction.
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

/// What is told of a reduction to blocks that need not be equally long.
#[inline(always)]
fn varying_told<'a, T: Plain, O>(
    vector: &[T],
    _: &O,
    blocks: &'a [Range<usize>],
) -> impl FnOnce(&Settings) -> Call + use<'a, T, O> {
    let (name, count) = ("reduce_scatter_varying", vector.len());
    move |settings| said::reduction::<T, O>(name, count, None, Some(blocks), &settings.reduce)
}

/// A rank has come to a barrier of its communicator, and will wait. If it does not, its next barrier
/// waits for this one.
#[must_use = "nobody has waited yet"]
pub struct Arrived<'a> {
    communicator: &'a Communicator,
    barriers: RefMut<'a, Option<Barriers>>,
}

impl Arrived<'_> {
    /// Waits until all ranks have come.
    ///
    /// # Errors
    /// As [`Collectives::barrier`].
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
